"""The run as the user's loop sees it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import Dataset, default_collate

from paceline.data.batches import Collate
from paceline.errors import ConfigError
from paceline.launchers import bootstrap
from paceline.ops import Compute, Range
from paceline.running import checkpoint, loading
from paceline.running.flat import FlatState
from paceline.running.timing import Stopwatch
from paceline.running.window import UpdateCounter, Window, step_in
from paceline.running.worker import Worker
from paceline.running.wrapping import merge_buffers, sort_out, wrap


def init(*, global_batch: int, seed: int = 0) -> Run:
    """Join whatever launched this process: ``paceline run``, a bare torchrun, or nothing (then alone).

    Args:
        global_batch: samples per update of the whole cluster, whatever the number of workers.
        seed: of the order of samples.

    Raises:
        ConfigError: ``global_batch`` and the plan or the number of workers do not fit together.
        LaunchError: an emulated device could not be set up.
    """
    return Run(Worker(bootstrap.read(), global_batch), global_batch, seed)


class Run:
    """One training run, seen from one worker. Made by ``paceline.init``; every worker makes the same calls."""

    def __init__(self, worker: Worker, global_batch: int, seed: int) -> None:
        self.place, self.global_batch, self.seed = worker.place, global_batch, seed
        self.device = worker.place.device
        self.epoch, self.epoch_size = 0, 0
        self._epochs, self._finished = 1, -1
        self._worker, self._executor = worker, worker.executor
        self._window = Window()
        self._watch = Stopwatch(worker.recorder, worker.place)
        self._models: list[nn.Module] = []

    @property
    def is_main(self) -> bool:
        """True on one worker of the whole run: the one to print and write files."""
        return self.place.is_main

    @property
    def samples_seen(self) -> int:
        """Samples trained by the whole cluster so far; in asynchronous strategies, as of this group's last exchange."""
        return self._executor.samples_seen

    def setup(self, *things: Any) -> Any:
        """Make models, optimizers and schedulers ready; returns them in the order given (one alone, not in a tuple).

        Models move to the worker's device. An optimizer's ``step`` and ``zero_grad`` act on the last micro-batch of an
        update only. A scheduler given here counts global updates (samples seen over the global batch) by itself.

        Raises:
            ConfigError: called twice, without a model, or with something else.
            LinkError: the run's server is not there or refuses.
        """
        if self._models:
            raise ConfigError("run.setup was called twice", remedy="Hand everything over in one call.")
        self._models, optimizers, schedulers = sort_out(things)
        for model in self._models:
            model.to(self.device)
        for optimizer in optimizers:
            step_in(optimizer, self._window)
        counters = [UpdateCounter(scheduler, self.global_batch) for scheduler in schedulers]
        self._worker.attach(FlatState(self._models), counters)
        ready = tuple(self._wrapped(thing) for thing in things)
        return ready[0] if len(ready) == 1 else ready

    def epochs(self, count: int) -> Iterator[int]:
        """Epoch numbers from 0; ``loader`` shuffles by them."""
        self._epochs = count
        for self.epoch in range(count):
            yield self.epoch

    def loader(
        self, dataset: Dataset[Any], *, train: bool = True, shuffle: bool = True, collate_fn: Collate = default_collate
    ) -> Iterator[Any]:
        """This worker's batches of ``dataset``, on its device: over the cluster each sample once.

        Args:
            dataset: map-style, the same on every worker.
            train: the strategy deals out updates; False: a fixed part of the samples for evaluation, in order.
            shuffle: a new order each epoch, the same whatever the number of workers.
            collate_fn: a list of samples -> a batch.

        Raises:
            ConfigError: the dataset has no length or no samples; no ``setup``; a second pass in one epoch.
        """
        if not train:
            return loading.evaluation(self, dataset, collate_fn)
        if not self._models:
            raise ConfigError("run.loader was called before run.setup", remedy="Call run.setup(model, optimizer).")
        return loading.training(self, dataset, collate_fn, shuffle)

    def backward(self, loss: Tensor) -> None:
        """Gradients of ``loss``, a mean over the samples of the batch that the loader gave last.

        The loss is weighed by samples before backward, never the gradient after it, and summed over the workers that
        reduce together, so the update is that of one device on the whole batch.

        Raises:
            ConfigError: outside ``run.loader``.
        """
        if not self._window.open:
            raise ConfigError("run.backward was called outside run.loader", remedy="Call it once a batch, in the loop.")
        (loss * (self._window.samples / self._window.total)).backward()  # type: ignore[no-untyped-call]
        self._window.differentiated()
        if self._window.last:
            self._watch.communicated()

    def clip_grad_norm_(self, model: nn.Module, max_norm: float) -> Tensor:
        """Clip the norm of the reduced gradient, before ``optimizer.step()``. Returns the norm before clipping, or nan
        where the update is not complete yet."""
        if not self._window.last:
            return torch.tensor(float("nan"))
        return nn.utils.clip_grad_norm_(self.unwrap(model).parameters(), max_norm)

    def reduce(self, total: Tensor | float, count: Tensor | float) -> float:
        """``total / count``, both summed over the whole cluster; nan if the count is 0. Every worker must call it."""
        values = torch.tensor([float(total), float(count)], dtype=torch.float64)
        self._worker.sum_over_cluster(values)
        return float(values[0] / values[1]) if values[1] else float("nan")

    def log(self, **values: float) -> None:
        """Note figures (``accuracy=...``) at the present sample count; the last ``accuracy`` is the summary's."""
        figures = {name: float(value) for name, value in values.items()}
        self._worker.recorder.mark("log", samples=self.samples_seen, seconds=self._watch.training_seconds, **figures)

    def print(self, *things: Any) -> None:
        """``print`` on the main worker only."""
        if self.is_main:
            print(*things, flush=True)

    def unwrap(self, model: nn.Module) -> nn.Module:
        """The user's own model, without what ``setup`` put around it."""
        inner = getattr(model, "module", model)
        return inner if any(inner is known for known in self._models) else model

    def save(self, path: str | Path) -> None:
        """Write weights and the sample count into the folder ``path``, on the main worker; whole or not at all."""
        if self.is_main:
            checkpoint.save(Path(path), self._models, self.samples_seen, self.epoch)

    # What the loader tells the run, batch by batch.

    def begin_epoch(self, size: int) -> None:
        """An epoch of ``size`` samples starts, or goes on where the loop left it."""
        if self.epoch <= self._finished:
            raise ConfigError(
                f"run.loader was called again after the end of epoch {self.epoch}",
                remedy="Loop with `for epoch in run.epochs(n)`; use train=False to evaluate.",
            )
        self.epoch_size = size
        self._worker.recorder.mark("data", size=size, global_batch=self.global_batch)
        if self.place.layout.reduces and self._worker.distributed:
            dist.barrier()
        self._executor.begin_epoch(self.epoch, size)

    def next_compute(self) -> Compute | None:
        """The next update's part of this worker; None once the epoch is over."""
        self._window.end()
        compute = self._executor.next_compute()
        if compute is None and self.place.plan.probe_seconds is not None:
            compute = self._executor.again()  # a probe's epoch has no end, so that it measures training only
        self._watch.in_epoch()
        self._watch.show(self.samples_seen, self.epoch_size * self._epochs)
        return compute

    def begin_batch(self, part: Range, compute: Compute) -> None:
        """The loop gets the micro-batch ``part`` of ``compute``."""
        samples = len(part) if compute.part else 0
        first = part.start == compute.part.start or not compute.part
        last = part.stop == compute.part.stop or not compute.part
        self._window.begin(samples, compute.total, first, last)
        for model in self._worker.wrapped:
            model.require_backward_grad_sync = last
        self._watch.computing(samples)

    def end_batch(self) -> None:
        """The loop asks for the next batch."""
        self._watch.computed()
        seconds, since = self.place.plan.probe_seconds, self._executor.measured_since
        if seconds is not None and since is not None and self._worker.recorder.clock() - since > seconds:
            sys.exit(0)  # the probe has seen enough; the recipe need not go on

    def end_epoch(self, size: int) -> None:
        """All samples of the epoch are trained."""
        self._window.end()
        self._finished = self.epoch
        place = self.place
        if self._worker.distributed and place.layout.reduces and not place.layout.server:
            merge_buffers(self._models, place.worker.share / place.member.batch)
        self._watch.epoch_done(self.epoch, size)

    def _wrapped(self, thing: Any) -> Any:
        if isinstance(thing, nn.Module) and self._worker.reduces and any(p.requires_grad for p in thing.parameters()):
            wrapped = wrap(thing, self._watch.buckets)
            self._worker.wrapped.append(wrapped)
            return wrapped
        return thing
