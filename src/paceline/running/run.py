"""The run as the user's loop sees it."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import Dataset, default_collate

from paceline import __version__
from paceline.checkpoint import disk, snapshot
from paceline.data.batches import Collate
from paceline.errors import ConfigError
from paceline.launchers import bootstrap
from paceline.running.loop import Loop
from paceline.running.window import UpdateCounter, Window, keep_gradients, step_in
from paceline.running.worker import Worker
from paceline.running.wrapping import sort_out, wrap
from paceline.schema.checkpoint import State


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
        self._worker, self._window = worker, Window()
        self._loop = Loop(worker, self._window, global_batch, seed)
        self._trained: tuple[list[nn.Module], list[Optimizer], list[LRScheduler]] = ([], [], [])

    @property
    def is_main(self) -> bool:
        """True on one worker of the whole run: the one to print and write files."""
        return self.place.is_main

    @property
    def samples_seen(self) -> int:
        """Samples trained by the whole cluster so far; in asynchronous strategies, as of this group's last exchange."""
        return self._worker.executor.samples_seen

    def setup(self, *things: Any) -> Any:
        """Make models, optimizers and schedulers ready; returns them in the order given (one alone, not in a tuple).

        Models move to the worker's device. An optimizer's ``step`` and ``zero_grad`` act on the last micro-batch of an
        update only. A scheduler given here counts global updates (samples seen over the global batch) by itself.

        Raises:
            ConfigError: called twice, without a model, or with something else.
            LinkError: the run's server is not there or refuses.
        """
        if self._worker.models:
            raise ConfigError("run.setup was called twice", remedy="Hand everything over in one call.")
        models, optimizers, schedulers = self._trained = sort_out(things)
        for model in models:
            self._loop.watch.follow(model.to(self.device))
        self._worker.check(optimizers)
        for optimizer in optimizers:
            step_in(optimizer, self._window)
        counters = [UpdateCounter(scheduler, self.global_batch, self._window) for scheduler in schedulers]
        self._worker.attach(models, counters)
        ready = tuple(self._wrapped(thing) for thing in things)
        if self._worker.accumulates:  # elsewhere the models' own zero_grad needs no gate, and the models stay picklable
            for model in {*models, *self._worker.wrapped}:
                keep_gradients(model, self._window)
        return ready[0] if len(ready) == 1 else ready

    def epochs(self, count: int) -> Iterator[int]:
        """Epoch numbers from 0; ``loader`` shuffles by them."""
        self._loop.epochs = count
        for self._loop.epoch in range(count):
            yield self._loop.epoch

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
            return self._loop.evaluation(dataset, collate_fn)
        if not self._worker.models:
            raise ConfigError("run.loader was called before run.setup", remedy="Call run.setup(model, optimizer).")
        return self._loop.training(dataset, collate_fn, shuffle)

    def backward(self, loss: Tensor) -> None:
        """Gradients of ``loss``, a mean over the samples of the batch that the loader gave last.

        The loss is weighed by samples before backward, never the gradient after it, so that the average over the W
        workers that reduce together is the gradient of one device on the whole batch: W n_i/N L_i, summed, over W. May
        be called several times an update, as for several losses; their gradients add up.

        Raises:
            ConfigError: outside ``run.loader``; a second time through the same forward where workers reduce together.
        """
        if not self._window.open:
            raise ConfigError("run.backward was called outside run.loader", remedy="Call it once a batch, in the loop.")
        weight = self._worker.peers * self._window.samples / self._window.total
        if self._worker.wrapped and not self._loop.watch.backward.called:
            raise ConfigError(
                "run.backward was called again through the same forward, which DistributedDataParallel does not reduce",
                remedy="Add the losses, run.backward(a + b), or call the model again for the second.",
            )
        (loss * weight).backward()  # type: ignore[no-untyped-call]
        self._window.differentiated()
        if self._window.last:
            self._loop.watch.communicated()

    def clip_grad_norm_(self, model: nn.Module, max_norm: float) -> Tensor:
        """Clip the norm of the reduced gradient, before ``optimizer.step()``. Returns the norm before clipping, or nan
        where the update is not complete yet."""
        if not self._window.last:
            return torch.tensor(float("nan"))
        return nn.utils.clip_grad_norm_(self.unwrap(model).parameters(), max_norm)

    def reduce(self, total: Tensor | float, count: Tensor | float) -> float:
        """``total / count``, both summed over the whole cluster; nan if the count is 0. Every worker must call it.

        Raises:
            ConfigError: inside a training loop whose groups do not take the same number of steps.
        """
        if self._window.open and self.place.layout.server:
            raise ConfigError(
                f"run.reduce was called inside the training loop of {self.place.plan.strategy}, where groups take "
                "different numbers of steps and would wait for each other",
                remedy="Call it after the loop.",
            )
        values = torch.tensor([float(total), float(count)], dtype=torch.float64)
        self._worker.sum_over_cluster(values)
        return float(values[0] / values[1]) if values[1] else float("nan")

    def log(self, **values: float) -> None:
        """Note figures (``accuracy=...``) at the present sample count; the last ``accuracy`` is the summary's."""
        if taken := {"samples", "seconds"} & values.keys():
            raise ConfigError(
                f"run.log was given {min(taken)}", remedy="Choose another name; every entry has that one."
            )
        figures = {name: float(value) for name, value in values.items()}
        seconds = self._loop.watch.training_seconds
        self._worker.recorder.mark("log", samples=self.samples_seen, seconds=seconds, **figures)

    def print(self, *things: Any) -> None:
        """``print`` on the main worker only."""
        if self.is_main:
            print(*things, flush=True)

    def unwrap(self, model: nn.Module) -> nn.Module:
        """The user's own model, without what ``setup`` put around it."""
        inner = getattr(model, "module", model)
        return inner if any(inner is known for known in self._worker.models) else model

    def save(self, path: str | Path) -> None:
        """Write a checkpoint into the folder ``path``, on the main worker; whole or not at all.

        Raises:
            ConfigError: the folder cannot be written; a checkpoint that it held is untouched.
        """
        if self.is_main:
            disk.save(Path(path), snapshot.take(*self._trained, []), self._state())

    def _state(self) -> State:
        plan, (models, optimizers, _) = self.place.plan, self._trained
        return State(
            samples_seen=self.samples_seen,
            epoch=self._loop.epoch,
            epoch_size=None,
            left=[],
            finished=False,
            seed=self.seed,
            global_batch=self.global_batch,
            reduction="mean",
            strategy=plan.strategy,
            plan_hash=hashlib.sha256(plan.model_dump_json().encode()).hexdigest(),
            versions={"paceline": __version__, "python": platform.python_version(), "torch": torch.__version__},
            saved_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            models=[type(model).__name__ for model in models],
            optimizers=[type(optimizer).__name__ for optimizer in optimizers],
            parameters=sum(parameter.numel() for model in models for parameter in model.parameters()),
        )

    def _wrapped(self, thing: Any) -> Any:
        if isinstance(thing, nn.Module) and self._worker.reduces and any(p.requires_grad for p in thing.parameters()):
            wrapped = wrap(thing)
            self._loop.watch.backward.follow(wrapped)
            self._worker.wrapped.append(wrapped)
            return wrapped
        return thing
