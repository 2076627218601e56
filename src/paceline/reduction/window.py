"""The accumulation window: which micro-batch of which update the user's loop is in."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from functools import wraps
from types import MethodType
from typing import Any

from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from paceline.errors import ConfigError

SCHEDULE_POINTS, MOST_SCHEDULED = 10, 100_000  # of a table of learning rates, and the updates that it may cover


class Window:
    """State of the current micro-batch. Outside ``run.loader`` there is none, and everything acts at once."""

    def __init__(self) -> None:
        self.open = False
        self.unfinished = False  # an update has begun that is not through, and stays so if the loop broke off in it
        self.samples = 0
        self.first = self.last = True
        self.update = 0
        self.stepped = 0  # the update in which an optimizer stepped last
        self.steps = 0  # updates in which one did
        self.backwards = 0
        self.in_backward = False  # run.backward is at work
        self.reduced = False  # the update's gradient is there
        self.accumulating = False
        self.weightless = False  # the running backward counts for nothing, whatever its gradients are
        self._step_passed = False  # the loop came to a step in this micro-batch
        self._backward_passed = self._cleared = False  # to a backward, and to a zero_grad after it

    def begin(self, samples: int, first: bool, last: bool) -> None:
        """A micro-batch of ``samples`` samples; ``last`` completes the update."""
        self.open = self.unfinished = True
        self.samples, self.first, self.last = samples, first, last
        self._step_passed = self._backward_passed = self._cleared = self.reduced = False
        if first:
            self.update += 1
            self.accumulating = False

    def differentiating(self) -> None:
        """A backward of this update begins; in an update of several micro-batches its gradient must be kept.

        Raises:
            ConfigError: it comes after a step or zero_grad, which in an update of several micro-batches come later.
        """
        if (self._step_passed or self._cleared) and not (self.first and self.last):
            raise ConfigError(
                f"run.backward came after a {'step' if self._step_passed else 'zero_grad'} in one batch, and this "
                "worker's share is cut into micro-batches, where both wait for the last one",
                expected="all backward calls of a batch before them, or a share that fits at once",
                remedy="Raise micro_batch in the cluster file, or lower the global batch.",
            )
        self._backward_passed = True
        self.backwards += 1
        self.accumulating = not (self.first and self.last)

    def step(self) -> bool:
        """The loop comes to a step; True if it is due.

        Raises:
            ConfigError: it is inside a backward, where gradients are not those of all workers yet.
        """
        if self.in_backward:
            raise ConfigError(
                "optimizer.step() was called inside run.backward", expected="a call after it, with all gradients in"
            )
        self._step_passed = True
        if self.last and self.stepped != self.update:
            self.steps += 1
            self.stepped = self.update
        return self.last

    def clears(self) -> bool:
        """The loop comes to a zero_grad; True if it may act: nothing is still being added up."""
        may = not self.accumulating or self.reduced
        self._cleared = self._cleared or (self._backward_passed and not may)
        return may

    def check_trained(self) -> None:
        """Raises ConfigError if updates went by without a single backward or step."""
        if self.update and not (self.backwards or self.steps):
            raise ConfigError(
                "the loop went through an epoch without run.backward and without a step",
                remedy="Call run.backward(loss) and optimizer.step(); to evaluate, use run.loader(..., train=False).",
            )

    @property
    def stepped_now(self) -> bool:
        """A step of the latest update was made, or begun."""
        return self.stepped == self.update

    def end(self) -> None:
        """The loop is between updates."""
        self.unfinished = False
        self.close()

    def close(self) -> None:
        """The loop has gone, at an end or by a break or an error: it has no micro-batch any more."""
        self.open = self.accumulating = False
        self.first = self.last = True


def step_in(optimizer: Optimizer, window: Window) -> None:
    """Make ``step`` of this optimizer act in the last micro-batch of an update only, and ``zero_grad`` never on a
    gradient that is still being accumulated, whether the loop calls it before ``backward`` or after ``step``.

    The object stays the user's own, so schedulers that hold it keep working, made before or after.
    """
    step = optimizer.step

    @wraps(step)
    def gated_step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        return step(*args, **kwargs) if window.step() else None

    setattr(optimizer, "step", MethodType(gated_step, optimizer))  # noqa: B010  mypy forbids the plain assignment
    keep_gradients(optimizer, window)


def keep_gradients(thing: Optimizer | nn.Module, window: Window) -> None:
    """Make ``zero_grad`` of an optimizer or model leave a gradient alone that is still being accumulated."""
    zero_grad = thing.zero_grad

    @wraps(zero_grad)
    def gated(self: Any, *args: Any, **kwargs: Any) -> None:
        if window.clears():
            zero_grad(*args, **kwargs)

    setattr(thing, "zero_grad", MethodType(gated, thing))  # noqa: B010


def scale_in(scaler: GradScaler, window: Window) -> None:
    """Make a loss scaler look at gradients and move its scale once an update, when they are complete."""
    unscale, step, update = scaler.unscale_, scaler.step, scaler.update

    @wraps(unscale)
    def gated_unscale(self: GradScaler, *args: Any, **kwargs: Any) -> None:
        if window.last:
            unscale(*args, **kwargs)

    @wraps(step)
    def gated_step(self: GradScaler, *args: Any, **kwargs: Any) -> Any:
        return step(*args, **kwargs) if window.step() else None  # also where it will skip the optimizer's step

    @wraps(update)
    def gated_update(self: GradScaler, *args: Any, **kwargs: Any) -> None:
        if window.last:
            update(*args, **kwargs)

    for name, gated in (("unscale_", gated_unscale), ("step", gated_step), ("update", gated_update)):
        setattr(scaler, name, MethodType(gated, scaler))


class UpdateCounter:
    """Moves one scheduler by global updates: samples seen by the whole cluster over the global batch, rounded up.

    The user's own calls of ``scheduler.step()`` in the training loop do nothing from here on. Elsewhere they are
    refused: a scheduler that counts epochs is not handed over; it stays right as it is.
    """

    def __init__(self, scheduler: LRScheduler, global_batch: int, window: Window) -> None:
        self._scheduler, self._step = scheduler, scheduler.step
        self._global_batch = global_batch
        self._updates = 0
        setattr(scheduler, "step", self._users_step)  # noqa: B010  mypy forbids the plain assignment
        self._window = window

    def resume(self, updates: int) -> None:
        """The scheduler was loaded and stands where it did after that many updates."""
        self._updates = updates

    def advance(self, samples_seen: int) -> None:
        """Step until the scheduler stands where one device would after ``samples_seen`` samples."""
        target = -(-samples_seen // self._global_batch)
        while self._updates < target:
            self._step()
            self._updates += 1

    def rates_after(self, updates: Sequence[int]) -> list[list[float]]:
        """The learning rates of its optimizer's groups after each of so many ``updates``, in rising order; the
        scheduler then stands where it stood."""
        groups, state = self._scheduler.optimizer.param_groups, copy.deepcopy(self._scheduler.state_dict())
        before = [{key: value for key, value in group.items() if key != "params"} for group in groups]
        found, made = [], self._updates
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a step before the optimizer's first
            for number in updates:
                for _ in range(number - made):
                    self._step()
                made = number
                found.append([float(group["lr"]) for group in groups])
        self._scheduler.load_state_dict(state)
        for group, values in zip(groups, before, strict=True):
            group.update(values)
        return found

    def _users_step(self, *args: Any, **kwargs: Any) -> None:
        if not self._window.open:
            raise ConfigError(
                "scheduler.step() was called outside the training loop, but a scheduler given to run.setup moves with "
                "each update",
                remedy="Leave a scheduler that counts epochs out of run.setup.",
            )


def schedule(counters: Sequence[UpdateCounter], updates: int, global_batch: int) -> list[dict[str, Any]]:
    """Learning rates over a training of so many updates: at a few points, the samples before each and all rates."""
    last = min(updates, MOST_SCHEDULED)
    numbers = sorted({round(part * last / SCHEDULE_POINTS) for part in range(SCHEDULE_POINTS + 1)})
    rates = [counter.rates_after(numbers) for counter in counters]
    return [
        {"samples": number * global_batch, "rates": [rate for own in rates for rate in own[place]]}
        for place, number in enumerate(numbers)
    ]
