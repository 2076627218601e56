"""Learning rates that were chosen for another batch."""

from __future__ import annotations

from collections.abc import Sequence

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from paceline.schema.settings import Settings

RATES = ("lr", "initial_lr", "max_lr", "min_lr", "swa_lr")  # what optimizers and schedulers keep in a group
MEMORY = ("base_lrs", "max_lrs", "_last_lr")  # what schedulers keep in themselves, one number a group


def scale_rates(optimizers: Sequence[Optimizer], schedulers: Sequence[LRScheduler], told: Settings) -> str:
    """Multiply every learning rate by what ``lr_rule`` says, also in schedulers; returns a line for people."""
    factor = told.rate_factor
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    said = ", ".join(f"{float(group['lr']):.4g} x {factor:.4g} = {float(group['lr']) * factor:.4g}" for group in groups)
    for group in groups:
        group.update({key: group[key] * factor for key in RATES if key in group})
    for scheduler in schedulers:
        _scale_memory(scheduler, factor)
    return f"Learning rate {said} ({told.lr_rule}, from {told.base_batch} to {told.global_batch} samples an update)."


def _scale_memory(scheduler: LRScheduler, factor: float) -> None:
    for name in MEMORY:
        if hasattr(scheduler, name):
            setattr(scheduler, name, [rate * factor for rate in getattr(scheduler, name)])
    if hasattr(scheduler, "eta_min"):
        scheduler.eta_min *= factor
    for inner in getattr(scheduler, "_schedulers", ()):  # of SequentialLR and ChainedScheduler
        _scale_memory(inner, factor)
