"""Between the user's loop and the strategy's program: each batch the loop asks for moves the program on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import Dataset

from paceline.data.batches import Collate, fetch, length, to_device
from paceline.data.randomness import seed
from paceline.data.sampler import evaluation_part, order
from paceline.data.streams import Stream
from paceline.errors import ConfigError
from paceline.ops import Compute, Range
from paceline.reduction.buffers import Kept, merge_buffers
from paceline.reduction.gradients import Gradients
from paceline.reduction.tally import Tally
from paceline.reduction.window import Window, schedule
from paceline.running.agreement import agree_on_streams, catch_up, check_alike
from paceline.running.timing import Stopwatch
from paceline.running.worker import Worker
from paceline.schema.checkpoint import State
from paceline.schema.settings import Settings
from paceline.server.ledger import Offers
from paceline.server.messages import Progress

Fetch = Callable[[Range], Any]
IDLE_SAMPLES = 2  # of a worker that has none: a plain BatchNorm refuses a single one


class Loop:
    """One worker's place in epochs, updates and micro-batches."""

    def __init__(self, worker: Worker, window: Window, gradients: Gradients, settings: Settings) -> None:
        self.epoch, self.epochs, self.first = 0, 1, 0
        self.watch = Stopwatch(worker.recorder, worker.place, lambda: gradients.sent)
        self._worker, self._executor, self._place = worker, worker.executor, worker.place
        self._window, self._gradients = window, gradients
        self._global_batch, self._seed = settings.global_batch, settings.seed
        self._size, self._finished = 0, -1
        self._left: Sequence[Range] | None = None  # of the epoch that a resumed run begins in
        self._measuring = False
        self._total = 0  # samples of the update that is not accounted for yet
        self._kept, self._offers = Kept([]), Offers(0)
        self.stop: Callable[[bool], None] = lambda together: None  # ends the process, once a signal asked for it
        self.stop_wanted: Callable[[], bool] = lambda: False

    def attach(self, models: Sequence[nn.Module]) -> None:
        """The models whose buffers a failed update must not leave its marks on."""
        self._kept = Kept(models)

    def check_resume(self) -> None:
        """Raises ConfigError if it is too late to go on from a checkpoint: a server has the weights from then on."""
        if self._executor.epoch >= 0 or (self._worker.started and self._place.layout.server):
            raise ConfigError("run.load was called after training began", remedy="Call it right after run.setup.")

    def resume(self, state: State) -> None:
        """Go on where a checkpoint was saved."""
        self._executor.resume(state.samples_seen)
        self.first = state.epoch + 1 if state.finished else state.epoch
        self._finished = self.first - 1
        self._left, self._size = None, 0
        if not state.finished and state.epoch_size:
            self._left = [Range(start, stop) for start, stop in state.left]
            self._size = state.epoch_size
            self._worker.progress = Progress(state.samples_seen, state.epoch, state.epoch_size, self._left)
        else:
            self._worker.progress = Progress(state.samples_seen, -1, 0, ())

    def progress(self) -> Progress:
        """Where the run stands: after the running update if it has made its step, else before it. An epoch whose loader
        was not asked yet has not begun."""
        if self._left is not None:
            return self._worker.progress
        done = self._total if self._window.stepped_now else 0
        left = list(self._executor.left)
        if done and left:
            left[0] = Range(left[0].start + done, left[0].stop)
        return Progress(
            self._executor.samples_seen + done, self._executor.epoch, self._size, tuple(part for part in left if part)
        )

    def finished(self, epoch: int) -> bool:
        """The loop has left that epoch."""
        return 0 <= epoch <= self._finished and not self._executor.stopping

    def undo_update(self) -> bool:
        """Make the state what it was before the running update; False if a step of it has begun."""
        if self._window.unfinished:
            if self._window.stepped_now:
                return False
            self._kept.put_back()
        return True

    def training(self, dataset: Dataset[Any], collate: Collate, shuffle: bool) -> Iterator[Any]:
        """This worker's micro-batches of one epoch. The strategy's program moves on between updates."""
        self._begin_epoch(length(dataset))
        positions = order(self._size, self.epoch, self._seed) if shuffle else torch.arange(self._size)
        if self._worker.reduces:
            dist.barrier()
        self._executor.begin_epoch(self.epoch, self._size, self._left)
        self._account_for_before()

        def batch(part: Range) -> Any:
            indices = positions[self._not_empty(part)].tolist()
            return fetch(dataset, indices, collate, (self._seed, self.epoch))

        try:
            while (compute := self._next_compute()) is not None:
                yield from self._update(compute, self._pieces(compute), batch)
                comparable = compute.total == self._global_batch and not self._worker.aligned
                self._gradients.slowness = self.watch.slowness(len(compute.part)) if comparable else 0.0
            self._end_epoch()
        finally:
            self._window.close()

    def streaming(self, stream: Stream) -> Iterator[Any]:
        """The same for a stream of this worker's own: an update is what the workers have ready."""
        self._begin_epoch(0)
        seed(self._seed, self.epoch, -1 - self._place.rank)
        stream.restart()
        self._offers = self._executor.begin_stream(self.epoch)
        self._offers.offer(agree_on_streams(self._worker, stream))
        try:
            while (compute := self._next_compute(stream)) is not None:
                pieces = self._pieces(compute, self._offers.counts)
                yield from self._update(compute, pieces, self._of_stream(stream, compute))
                self._offers.offer([int(count) for count in self._gradients.end().row("ahead")])
            self._end_epoch()
        finally:
            self._window.close()

    def _of_stream(self, stream: Stream, compute: Compute) -> Fetch:
        with self.watch.loading():
            items, start = stream.take(), compute.part.start
        self._gradients.ahead = len(stream.ahead)

        def batch(piece: Range) -> Any:
            own = items[piece.start - start : piece.stop - start] or stream.spare * IDLE_SAMPLES
            return stream.make(own, (self._seed, self.epoch))

        return batch

    def evaluation(self, dataset: Dataset[Any], collate: Collate) -> Iterator[Any]:
        """This worker's part of an evaluation set: over the cluster each sample once, faster devices take more."""
        weights = [worker.solo_samples_per_second or max(worker.share, 1) for worker in self._place.plan.workers]
        part = evaluation_part(length(dataset), weights, self._place.rank)
        self._worker.start()
        own = self._place.worker
        for piece in part.chunks(own.micro_batch or own.share or self._global_batch):
            self._stop_if_wanted()
            yield to_device(fetch(dataset, range(piece.start, piece.stop), collate), self._place.device)

    def evaluation_stream(self, stream: Stream) -> Iterator[Any]:
        """All of a stream of this worker's own."""
        self._worker.start()
        stream.restart()
        while items := stream.take():
            self._stop_if_wanted()
            yield to_device(stream.make(items, ()), self._place.device)

    def _begin_epoch(self, size: int) -> None:
        if self.epoch <= self._finished:
            raise ConfigError(
                f"run.loader was called again after the end of epoch {self.epoch}",
                remedy="Loop with `for epoch in run.epochs(n)`; use train=False to evaluate.",
            )
        if self._left is not None and size and size != self._size:
            raise ConfigError(
                f"the dataset has {size} samples", expected=f"{self._size}, as when the checkpoint was saved",
                remedy="Give run.loader the same dataset.",
            )  # fmt: skip
        self._gradients.guard.check_models()
        self._gradients.slowness = 0.0
        self._size = size
        self._worker.start()
        self._worker.recorder.mark("data", size=size, global_batch=self._global_batch)
        if self._place.probing and size and (counters := self._executor.counters):
            updates = -(-size * self.epochs // self._global_batch)
            self._worker.recorder.mark("schedule", points=schedule(counters, updates, self._global_batch))

    def _account_for_before(self) -> None:
        """What was trained of this epoch before the checkpoint counts in this run's account of samples too."""
        if self._left is None:
            return
        if self._place.is_main:
            starts, stops = [0, *(part.stop for part in self._left)], [*(part.start for part in self._left), self._size]
            for start, stop in zip(starts, stops, strict=True):
                self._worker.recorder.mark("before", epoch=self.epoch, start=start, stop=stop)
        self._left = None

    def _next_compute(self, stream: Stream | None = None) -> Compute | None:
        """The next update's part of this worker; None once the epoch is over."""
        self._window.end()
        compute = self._executor.next_compute()
        self._total = 0
        if compute is None and self._place.probing:
            compute = self._again(stream)  # a probe's epoch has no end, so that it measures training only
        self.watch.begin_update()
        if self._worker.is_main:
            self.watch.show(self._executor.samples_seen, self._size * self.epochs, self._worker.progress.samples)
        return compute

    def _again(self, stream: Stream | None) -> Compute | None:
        if stream is None:
            self._executor.begin_epoch(self._executor.epoch + 1, self._size)
        else:
            stream.restart()
            self._offers = self._executor.begin_stream(self._executor.epoch + 1)
            self._offers.offer([len(stream.ahead)])
        return self._executor.next_compute()

    def _update(self, compute: Compute, pieces: Sequence[Range], make: Fetch) -> Iterator[Any]:
        """Hand out one update's micro-batches. Afterwards all workers have been through its reduction."""
        self._gradients.stop = self.stop_wanted()
        for number, piece in enumerate(pieces):
            with self.watch.loading():
                batch, samples = make(piece), len(piece)
            seed(self._seed, self.epoch, piece.start, samples)
            if number == 0:
                self._kept.keep()
            self._window.begin(samples, first=number == 0, last=number == len(pieces) - 1)
            self._total = compute.total  # not before: until here the update before it is the one that has stepped
            self._gradients.begin(samples, compute.total)
            self.watch.computing(samples)
            yield to_device(batch, self._place.device)
            if self._window.last:
                self._close(self._gradients.end())
            self.watch.computed()
        self._look_at_probe()

    def _close(self, total: Tally) -> None:
        """What the workers have told one another in this update."""
        total = Tally(total.values.cpu())  # the device is waited for once
        check_alike(total, str(self._place))
        present = total.row("present")
        if min(present) < max(present):
            self._window.steps = catch_up(self._worker, present, self._window.steps)
        self._executor.slowness = total.row("slowness")
        if any(total.row("stop")):
            self._executor.stopping = True

    def _stop_if_wanted(self) -> None:
        if self.stop_wanted():
            self._executor.stopping = True
            self.stop(False)

    def _pieces(self, compute: Compute, sizes: Sequence[int] = ()) -> list[Range]:
        """The part in micro-batches the device can take, one at least, which may be empty.

        Under a BatchNorm over all workers, each has as many of them as the one with most.

        Args:
            sizes: of each peer's part; those of the present shares if not given.
        """
        part, own = compute.part, self._place.worker
        if not self._worker.aligned:
            pieces = part.chunks(own.micro_batch or max(len(part), 1))
        else:
            sizes = sizes or [len(piece) for piece in Range(0, compute.total).cut(self._executor.shares)]
            caps = [worker.micro_batch or size for worker, size in zip(self._place.job.workers, sizes, strict=True)]
            pieces = part.cut([1] * max(-(-size // cap) for size, cap in zip(sizes, caps, strict=True) if size))
        return pieces or [part]

    def _not_empty(self, piece: Range) -> slice:
        """Positions to fetch. A worker without samples gets some that weigh nothing, so that its loop body runs and
        meets its peers in every collective."""
        if piece:
            return slice(piece.start, piece.stop)
        stop = min(piece.start + IDLE_SAMPLES, self._size)
        return slice(max(stop - IDLE_SAMPLES, 0), stop)

    def _look_at_probe(self) -> None:
        seconds, since = self._place.plan.probe_seconds, self._executor.measured_since
        if seconds is None or since is None:
            return
        if not self._measuring:
            self._measuring = True
            self.watch.measure_memory()
        if self._worker.recorder.clock() - since > seconds:
            self.watch.note_memory()
            self._worker.probed = True
            sys.exit(0)  # the probe has seen enough; the recipe need not go on

    def _end_epoch(self) -> None:
        if self._executor.stopping:
            self._window.end()
            self.stop(True)
        if self._place.folder is not None:  # plain Python may just look at batches; nothing reports of it
            self._window.check_trained()
        self._finished, self._size = self.epoch, self._size or self._offers.reached
        if self._worker.reduces and not self._place.layout.server:
            member = self._place.member
            merge_buffers(self._worker.models, self._executor.shares[member.position] / member.batch)
        self.watch.epoch_done(self.epoch, self._size)
