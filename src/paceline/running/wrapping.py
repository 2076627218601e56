"""The user's models, optimizers and schedulers, made ready for a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from paceline.errors import ConfigError


def pace(model: nn.Module, settle: Callable[[], None]) -> None:
    """Call ``settle`` after each layer of forward and each gradient of backward, before a bucket with it leaves.

    So an emulated device rests all along its work, as a slow one is slow all along. With one rest at the end, devices
    that start an update together would compute in one burst, and disturb one another on shared cores far more than
    when each is measured alone; and a bucket would leave too early.
    """
    for module in model.modules():
        if next(module.children(), None) is None:
            module.register_forward_hook(lambda *_: settle())
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda _: settle())  # type: ignore[no-untyped-call]


@torch.no_grad()
def merge_buffers(models: Sequence[nn.Module], part: float) -> None:
    """Average floating-point buffers over the job, each worker's weighing its ``part`` of the samples.

    Not BatchNorm's: those are merged in every update.
    """
    for model in models:
        merged = {id(b) for m in model.modules() if isinstance(m, _BatchNorm) for b in m.buffers(recurse=False)}
        for buffer in model.buffers():
            if buffer.is_floating_point() and id(buffer) not in merged:
                whole = buffer.mul(part)
                dist.all_reduce(whole)
                buffer.copy_(whole)


@torch.no_grad()
def share_first_weights(models: Sequence[nn.Module]) -> None:
    """Give the first worker's parameters and buffers to the whole job."""
    for tensor in dict.fromkeys(t for model in models for t in (*model.parameters(), *model.buffers())):
        dense = tensor.detach().contiguous()
        dist.broadcast(torch.view_as_real(dense) if dense.is_complex() else dense, src=0)
        tensor.copy_(dense)


def sort_out(things: Sequence[Any]) -> tuple[list[nn.Module], list[Optimizer], list[LRScheduler]]:
    """Models, optimizers and schedulers among ``things``.

    Raises:
        ConfigError: something else, or no model.
    """
    models = [thing for thing in things if isinstance(thing, nn.Module)]
    optimizers = [thing for thing in things if isinstance(thing, Optimizer)]
    schedulers = [thing for thing in things if isinstance(thing, LRScheduler)]
    for thing in things:
        if not isinstance(thing, (nn.Module, Optimizer, LRScheduler)):
            raise ConfigError(
                f"run.setup was given a {type(thing).__name__}", expected="models, optimizers and schedulers",
                remedy="Pass data to run.loader, and leave anything else out.",
            )  # fmt: skip
    for scheduler in schedulers:
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ConfigError(
                "run.setup was given a ReduceLROnPlateau, which follows a metric and not updates",
                remedy="Leave it out of run.setup and step it yourself.",
            )
    if not models:
        raise ConfigError("run.setup was given no model", remedy="Call run.setup(model, optimizer).")
    return models, optimizers, schedulers
