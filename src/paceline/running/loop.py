"""Between the user's loop and the strategy's program: each batch the loop asks for moves the program on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import Dataset

from paceline.data.batches import Collate, fetch, length, to_device
from paceline.data.randomness import seed
from paceline.data.sampler import evaluation_part, order
from paceline.data.streams import Stream
from paceline.errors import ConfigError
from paceline.ops import Compute, Range
from paceline.reduction.buffers import merge_buffers
from paceline.reduction.gradients import Gradients
from paceline.reduction.window import Window
from paceline.running.agreement import agree_on_streams
from paceline.running.timing import Stopwatch
from paceline.running.worker import Worker
from paceline.schema.settings import Settings

Fetch = Callable[[Range], Any]


class Loop:
    """One worker's place in epochs, updates and micro-batches."""

    def __init__(self, worker: Worker, window: Window, gradients: Gradients, settings: Settings) -> None:
        self.epoch, self.epochs = 0, 1
        self.watch = Stopwatch(worker.recorder, worker.place)
        self._worker, self._executor, self._place = worker, worker.executor, worker.place
        self._window, self._gradients = window, gradients
        self._global_batch, self._seed = settings.global_batch, settings.seed
        self._size, self._finished = 0, -1

    def training(self, dataset: Dataset[Any], collate: Collate, shuffle: bool) -> Iterator[Any]:
        """This worker's micro-batches of one epoch. The strategy's program moves on between updates."""
        self._begin_epoch(length(dataset))
        positions = order(self._size, self.epoch, self._seed) if shuffle else torch.arange(self._size)
        if self._worker.reduces:
            dist.barrier()
        self._executor.begin_epoch(self.epoch, self._size)

        def batch(part: Range) -> Any:
            indices = positions[self._not_empty(part)].tolist()
            return fetch(dataset, indices, collate, (self._seed, self.epoch))

        try:
            while (compute := self._next_compute()) is not None:
                yield from self._update(compute, self._pieces(compute), batch)
            self._end_epoch()
        finally:
            self._window.end()  # also where the loop breaks off

    def streaming(self, stream: Stream) -> Iterator[Any]:
        """The same for a stream of this worker's own: an update is what the workers have ready."""
        self._begin_epoch(0)
        seed(self._seed, self.epoch, -1 - self._place.rank)
        stream.restart()
        offers = self._executor.begin_stream(self.epoch)
        offers.offer(agree_on_streams(self._worker, stream))
        try:
            while (compute := self._next_compute(stream)) is not None:
                yield from self._update(compute, self._pieces(compute, offers.counts), self._of_stream(stream, compute))
                offers.offer([int(count) for count in self._gradients.end().row("ahead")])
            self._size = offers.reached
            self._end_epoch()
        finally:
            self._window.end()

    def _of_stream(self, stream: Stream, compute: Compute) -> Fetch:
        items, start = stream.take(), compute.part.start
        self._gradients.ahead = len(stream.ahead)

        def batch(piece: Range) -> Any:
            own = items[piece.start - start : piece.stop - start] or stream.spare
            return stream.make(own, (self._seed, self.epoch))

        return batch

    def evaluation(self, dataset: Dataset[Any], collate: Collate) -> Iterator[Any]:
        """This worker's part of an evaluation set: over the cluster each sample once, faster devices take more."""
        weights = [worker.solo_samples_per_second or max(worker.share, 1) for worker in self._place.plan.workers]
        part = evaluation_part(length(dataset), weights, self._place.rank)
        for piece in part.chunks(self._place.worker.micro_batch or self._global_batch):
            yield to_device(fetch(dataset, range(piece.start, piece.stop), collate), self._place.device)

    def evaluation_stream(self, stream: Stream) -> Iterator[Any]:
        """All of a stream of this worker's own."""
        stream.restart()
        while items := stream.take():
            yield to_device(stream.make(items, ()), self._place.device)

    def _begin_epoch(self, size: int) -> None:
        if self.epoch <= self._finished:
            raise ConfigError(
                f"run.loader was called again after the end of epoch {self.epoch}",
                remedy="Loop with `for epoch in run.epochs(n)`; use train=False to evaluate.",
            )
        self._size = size
        self._worker.recorder.mark("data", size=size, global_batch=self._global_batch)

    def _next_compute(self, stream: Stream | None = None) -> Compute | None:
        """The next update's part of this worker; None once the epoch is over."""
        self._window.end()
        compute = self._executor.next_compute()
        if compute is None and self._place.plan.probe_seconds is not None:
            compute = self._again(stream)  # a probe's epoch has no end, so that it measures training only
        self.watch.in_epoch()
        self.watch.show(self._executor.samples_seen, self._size * self.epochs)
        return compute

    def _again(self, stream: Stream | None) -> Compute | None:
        if stream is None:
            self._executor.begin_epoch(self._executor.epoch + 1, self._size)
        else:
            stream.restart()
            self._executor.begin_stream(self._executor.epoch + 1).offer([len(stream.ahead)])
        return self._executor.next_compute()

    def _update(self, compute: Compute, pieces: Sequence[Range], make: Fetch) -> Iterator[Any]:
        """Hand out one update's micro-batches. Afterwards all workers have been through its reduction."""
        for number, piece in enumerate(pieces):
            batch, samples = make(piece), len(piece)
            seed(self._seed, self.epoch, piece.start, samples)
            self._window.begin(samples, first=number == 0, last=number == len(pieces) - 1)
            self._gradients.begin(samples, compute.total)
            self.watch.computing(samples)
            yield to_device(batch, self._place.device)
            if self._window.last:
                self._gradients.end()
            self.watch.computed()
        self._look_at_probe()

    def _pieces(self, compute: Compute, sizes: Sequence[int] = ()) -> list[Range]:
        """The part in micro-batches the device can take, one at least, which may be empty.

        Under a BatchNorm over all workers, each has as many of them as the one with most.

        Args:
            sizes: of each peer's part; those of the plan's shares if not given.
        """
        part, own = compute.part, self._place.worker
        if not self._worker.aligned:
            pieces = part.chunks(own.micro_batch or max(len(part), 1))
        else:
            sizes = sizes or [len(piece) for piece in Range(0, compute.total).cut(self._place.member.shares)]
            caps = [worker.micro_batch or size for worker, size in zip(self._place.job.workers, sizes, strict=True)]
            pieces = part.cut([1] * max(-(-size // cap) for size, cap in zip(sizes, caps, strict=True) if size))
        return pieces or [part]

    def _not_empty(self, piece: Range) -> slice:
        """Positions to fetch. A worker without samples gets some that weigh nothing, so that its loop body runs and
        meets its peers in every collective; two, for a plain BatchNorm refuses a single one."""
        if piece:
            return slice(piece.start, piece.stop)
        stop = min(piece.start + 2, self._size)
        return slice(max(stop - 2, 0), stop)

    def _look_at_probe(self) -> None:
        seconds, since = self._place.plan.probe_seconds, self._executor.measured_since
        if seconds is not None and since is not None and self._worker.recorder.clock() - since > seconds:
            sys.exit(0)  # the probe has seen enough; the recipe need not go on

    def _end_epoch(self) -> None:
        self._finished = self.epoch
        if self._worker.reduces and not self._place.layout.server:
            merge_buffers(self._worker.models, self._place.worker.share / self._place.member.batch)
        self.watch.epoch_done(self.epoch, self._size)
