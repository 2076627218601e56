"""A job's loop in virtual time: whole updates, or the workers' parts of them one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from paceline.data.streams import Stream
from paceline.errors import ConfigError
from paceline.ops import Compute, Range
from paceline.running.loop import Fetch, Loop
from paceline.running.virtual.buffers import WorkersBuffers
from paceline.running.virtual.worker import VirtualWorker


class VirtualLoop(Loop):
    """One job's place in epochs and updates."""

    _worker: VirtualWorker

    def attach(self, models: Sequence[nn.Module]) -> None:
        super().attach(models)
        self._workers = self._worker.job.planned.workers
        self._buffers = WorkersBuffers(models, len(self._workers) if self._worker.by_parts else 0)
        self._owners: dict[int, int] = {}

    def check_resume(self) -> None:
        raise ConfigError(
            "run.load was called in virtual time, where a run begins at its start", remedy="Leave it out."
        )

    def streaming(self, stream: Stream) -> Iterator[Any]:
        raise ConfigError(
            "a dataset without a length, or a batch_sampler, in virtual time, where one process stands for many",
            remedy="Give run.loader a dataset with a length.",
        )

    evaluation_stream = streaming

    def _pieces(self, compute: Compute, sizes: Sequence[int] = ()) -> list[Range]:
        if not self._worker.by_parts:
            return [compute.part]
        pieces = []
        for number, (part, worker) in enumerate(zip(self._parts(compute), self._workers, strict=True)):
            for piece in part.chunks(worker.micro_batch or max(len(part), 1)):
                self._owners[piece.start] = number
                pieces.append(piece)
        return pieces

    def _parts(self, compute: Compute) -> list[Range]:
        return compute.part.cut(self._worker.executor.parts)

    def _update(self, compute: Compute, pieces: Sequence[Range], make: Fetch) -> Iterator[Any]:
        if not self._worker.by_parts:
            yield from super()._update(compute, pieces, make)
            return
        executor, buffers = self._worker.executor, self._buffers
        if executor.alike:
            executor.alike = False
            buffers.spread()

        def own(piece: Range) -> Any:
            buffers.change(self._owners[piece.start])
            return make(piece)

        yield from super()._update(compute, pieces, own)
        buffers.average(buffers.statistics, [len(part) for part in self._parts(compute)])

    def _end_epoch(self) -> None:
        if self._worker.by_parts and not self._place.layout.server:
            self._buffers.average(self._buffers.others, self._worker.executor.parts)
        super()._end_epoch()
