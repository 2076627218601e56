"""The user's models, optimizers and schedulers, made ready for a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from paceline.errors import ConfigError
from paceline.observation.clock import Clock

# Torch renamed this argument of DistributedDataParallel, and warns of the old name where it knows the new one.
_RENAMED = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
_NO_BROADCAST: dict[str, Any] = {"forward_sync_buffers" if _RENAMED else "broadcast_buffers": False}


class BackwardClock:
    """Notes when backward made a model's last gradient, and whether the model was called before it.

    What comes after that moment inside ``backward`` is communication that computing does not hide.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.last_at = 0.0
        self.called = False  # since the last backward

    def follow(self, model: nn.Module) -> None:
        """Listen to a model's forward and gradients."""
        model.register_forward_hook(self._forward)
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._gradient)  # type: ignore[no-untyped-call]

    def _forward(self, *_: Any) -> None:
        self.called = True

    def _gradient(self, _: Tensor) -> None:
        self.last_at, self.called = self._clock(), False


def wrap(model: nn.Module) -> DistributedDataParallel:
    """A model whose gradients are averaged over the job, bucket by bucket, while backward runs.

    An average, for which ``Run.backward`` makes up, because a second backward of the same update adds to gradients that
    are reduced already: the average of equal copies leaves them as they are, a sum would not. Buffers are not broadcast
    at every forward; ``merge_buffers`` joins them once an epoch.
    """
    return DistributedDataParallel(model, gradient_as_bucket_view=True, **_NO_BROADCAST)


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
    """Average floating-point buffers over the job, each worker's weighing its ``part`` of the samples."""
    for model in models:
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.mul_(part)
                dist.all_reduce(buffer)


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
