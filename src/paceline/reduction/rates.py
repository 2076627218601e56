"""Learning rates that were chosen for another batch."""

from __future__ import annotations

from collections.abc import Sequence

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

RATES = ("lr", "initial_lr", "max_lr", "min_lr")  # what optimizers and schedulers keep in a group


def scale_rates(optimizers: Sequence[Optimizer], schedulers: Sequence[LRScheduler], factor: float) -> list[float]:
    """Multiply every learning rate by ``factor``, also in schedulers; returns each group's ``lr``."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group.update({key: group[key] * factor for key in RATES if key in group})
    for scheduler in schedulers:
        _scale_memory(scheduler, factor)
    return [float(group["lr"]) for optimizer in optimizers for group in optimizer.param_groups]


def _scale_memory(scheduler: LRScheduler, factor: float) -> None:
    for name in ("base_lrs", "_last_lr"):
        if hasattr(scheduler, name):
            setattr(scheduler, name, [rate * factor for rate in getattr(scheduler, name)])
    for inner in getattr(scheduler, "_schedulers", ()):  # of SequentialLR and ChainedScheduler
        _scale_memory(inner, factor)
