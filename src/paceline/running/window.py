"""The accumulation window: which micro-batch of which update the user's loop is in."""

from __future__ import annotations

from functools import wraps
from types import MethodType
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


class Window:
    """State of the current micro-batch. Outside ``run.loader`` there is none, and everything acts at once."""

    def __init__(self) -> None:
        self.open = False
        self.samples = 0
        self.total = 1
        self.first = self.last = True
        self.update = 0
        self.accumulating = False

    def begin(self, samples: int, total: int, first: bool, last: bool) -> None:
        """A micro-batch of ``samples`` of the update's ``total`` over all peers; ``last`` completes the update."""
        self.open, self.samples, self.total, self.first, self.last = True, samples, total, first, last
        if first:
            self.update += 1
            self.accumulating = False

    def differentiated(self) -> None:
        """A backward of this update is through; in an update of several micro-batches its gradient must be kept."""
        self.accumulating = not (self.first and self.last)

    def end(self) -> None:
        """The loop is between updates."""
        self.open = self.accumulating = False
        self.first = self.last = True


def step_in(optimizer: Optimizer, window: Window) -> None:
    """Make ``step`` of this optimizer act in the last micro-batch of an update only, and ``zero_grad`` never on a
    gradient that is still being accumulated, whether the loop calls it before ``backward`` or after ``step``.

    The object stays the user's own, so schedulers that hold it keep working, made before or after.
    """
    step, zero_grad = optimizer.step, optimizer.zero_grad
    stepped = 0  # the update this optimizer stepped in last

    @wraps(step)
    def gated_step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        nonlocal stepped
        if not window.last:
            return None
        stepped = window.update
        return step(*args, **kwargs)

    @wraps(zero_grad)
    def gated_zero_grad(self: Optimizer, *args: Any, **kwargs: Any) -> None:
        if not window.accumulating or stepped == window.update:
            zero_grad(*args, **kwargs)

    for name, gated in (("step", gated_step), ("zero_grad", gated_zero_grad)):
        setattr(optimizer, name, MethodType(gated, optimizer))


class UpdateCounter:
    """Moves one scheduler by global updates: samples seen by the whole cluster over the global batch, rounded up.

    The user's own calls of ``scheduler.step()`` do nothing from here on. A scheduler that counts epochs is not handed
    over; it stays right as it is.
    """

    def __init__(self, scheduler: LRScheduler, global_batch: int) -> None:
        self._step = scheduler.step
        self._global_batch = global_batch
        self._updates = 0
        setattr(scheduler, "step", lambda *args, **kwargs: None)  # noqa: B010  mypy forbids the plain assignment

    def advance(self, samples_seen: int) -> None:
        """Step until the scheduler stands where one device would after ``samples_seen`` samples."""
        target = -(-samples_seen // self._global_batch)
        while self._updates < target:
            self._step()
            self._updates += 1
