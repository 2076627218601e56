"""What a user hands over to be trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from paceline.errors import ConfigError


@dataclass(frozen=True)
class Things:
    """What ``run.setup`` was given, by kind."""

    models: list[nn.Module]
    optimizers: list[Optimizer]
    schedulers: list[LRScheduler]
    scalers: list[GradScaler]


def sort_out(things: Sequence[Any]) -> Things:
    """Models, optimizers, schedulers and loss scalers among ``things``.

    Raises:
        ConfigError: something else, or no model.
    """
    for thing in things:
        if not isinstance(thing, (nn.Module, Optimizer, LRScheduler, GradScaler)):
            raise ConfigError(
                f"run.setup was given a {type(thing).__name__}",
                expected="models, optimizers, schedulers and gradient scalers",
                remedy="Pass data to run.loader, and leave anything else out.",
            )
        if isinstance(thing, ReduceLROnPlateau):
            raise ConfigError(
                "run.setup was given a ReduceLROnPlateau, which follows a metric and not updates",
                remedy="Leave it out of run.setup and step it yourself.",
            )
    models = [thing for thing in things if isinstance(thing, nn.Module)]
    optimizers = [thing for thing in things if isinstance(thing, Optimizer)]
    schedulers = [thing for thing in things if isinstance(thing, LRScheduler)]
    scalers = [thing for thing in things if isinstance(thing, GradScaler)]
    if not models:
        raise ConfigError("run.setup was given no model", remedy="Call run.setup(model, optimizer).")
    return Things(models, optimizers, schedulers, scalers)
