"""Between the user's loop and the strategy's program: each batch the loop asks for moves the program on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import Dataset

from paceline.data.batches import Collate, fetch, length, to_device
from paceline.data.sampler import evaluation_part, order
from paceline.errors import ConfigError
from paceline.ops import Compute, Range
from paceline.reduction.buffers import merge_buffers
from paceline.reduction.gradients import Gradients
from paceline.reduction.window import Window
from paceline.running.timing import Stopwatch
from paceline.running.worker import Worker
from paceline.schema.settings import Settings


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
        try:
            while (compute := self._next_compute()) is not None:
                for part in self._micro_batches(compute):
                    batch = fetch(dataset, positions[part.start : part.stop].tolist(), collate)
                    self._begin_batch(part, compute)
                    yield to_device(batch, self._place.device)
                    self._end_batch()
            self._end_epoch()
        finally:
            self._window.end()  # also where the loop breaks off

    def evaluation(self, dataset: Dataset[Any], collate: Collate) -> Iterator[Any]:
        """This worker's part of an evaluation set: over the cluster each sample once, faster devices take more."""
        weights = [worker.solo_samples_per_second or max(worker.share, 1) for worker in self._place.plan.workers]
        part = evaluation_part(length(dataset), weights, self._place.rank)
        for piece in part.chunks(self._place.worker.micro_batch or self._global_batch):
            yield to_device(fetch(dataset, range(piece.start, piece.stop), collate), self._place.device)

    def _begin_epoch(self, size: int) -> None:
        if self.epoch <= self._finished:
            raise ConfigError(
                f"run.loader was called again after the end of epoch {self.epoch}",
                remedy="Loop with `for epoch in run.epochs(n)`; use train=False to evaluate.",
            )
        self._size = size
        self._worker.recorder.mark("data", size=size, global_batch=self._global_batch)
        if self._worker.reduces:
            dist.barrier()
        self._executor.begin_epoch(self.epoch, size)

    def _next_compute(self) -> Compute | None:
        """The next update's part of this worker; None once the epoch is over."""
        self._window.end()
        compute = self._executor.next_compute()
        if compute is None and self._place.plan.probe_seconds is not None:
            compute = self._executor.again()  # a probe's epoch has no end, so that it measures training only
        self.watch.in_epoch()
        self.watch.show(self._executor.samples_seen, self._size * self.epochs)
        return compute

    def _micro_batches(self, compute: Compute) -> list[Range]:
        """The part in pieces the device can take. A worker without samples gets one that weighs nothing, so that its
        loop body runs and meets its peers in every collective."""
        if not compute.part:
            start = min(compute.part.start, self._size - 1)
            return [Range(start, start + 1)]
        return compute.part.chunks(self._place.worker.micro_batch or len(compute.part))

    def _begin_batch(self, part: Range, compute: Compute) -> None:
        samples = len(part) if compute.part else 0
        first = part.start == compute.part.start or not compute.part
        last = part.stop == compute.part.stop or not compute.part
        self._window.begin(samples, first, last)
        self._gradients.begin(samples, compute.total)
        self.watch.computing(samples)

    def _end_batch(self) -> None:
        """The loop asks for the next batch."""
        if self._window.last:
            self._gradients.end()
        self.watch.computed()
        seconds, since = self._place.plan.probe_seconds, self._executor.measured_since
        if seconds is not None and since is not None and self._worker.recorder.clock() - since > seconds:
            sys.exit(0)  # the probe has seen enough; the recipe need not go on

    def _end_epoch(self) -> None:
        self._finished = self.epoch
        if self._worker.reduces and not self._place.layout.server:
            merge_buffers(self._worker.models, self._place.worker.share / self._place.member.batch)
        self.watch.epoch_done(self.epoch, self._size)
