"""The accumulation window: which micro-batch of which update the user's loop is in."""

from __future__ import annotations

from collections.abc import Callable
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
        self.last = True

    def begin(self, samples: int, total: int, last: bool) -> None:
        """A micro-batch of ``samples`` of the update's ``total`` over all peers; ``last`` completes the update."""
        self.open, self.samples, self.total, self.last = True, samples, total, last

    def end(self) -> None:
        """The loop is between updates."""
        self.open, self.last = False, True


def step_in(optimizer: Optimizer, window: Window) -> None:
    """Make ``step`` and ``zero_grad`` of this optimizer do nothing but in the last micro-batch of an update.

    The object stays the user's own, so schedulers and scalers that hold it keep working, made before or after.
    """
    for name in ("step", "zero_grad"):
        act = getattr(optimizer, name)

        @wraps(act)
        def gated(self: Optimizer, *args: Any, _act: Callable[..., Any] = act, **kwargs: Any) -> Any:
            return _act(*args, **kwargs) if window.last else None

        setattr(optimizer, name, MethodType(gated, optimizer))


class UpdateCounter:
    """Moves one scheduler by global updates: samples seen by the whole cluster over the global batch.

    The user's own calls of ``scheduler.step()`` do nothing from here on, so a loop written for one device stays right.
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
