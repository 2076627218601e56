"""The user's models, optimizers and schedulers, made ready for a run."""

# No `from __future__ import annotations`: DistributedDataParallel looks at the types of a hook's arguments.

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from paceline.errors import ConfigError
from paceline.observation.clock import Clock

# Torch renamed this argument of DistributedDataParallel, and warns of the old name where it knows the new one.
_RENAMED = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
_NO_BROADCAST: dict[str, Any] = {"forward_sync_buffers" if _RENAMED else "broadcast_buffers": False}


class BucketClock:
    """Averages each gradient bucket over the job's workers, and notes when this worker handed over its last one.

    What comes after that moment inside ``backward`` is communication that computing does not hide. It is an average,
    and ``Run.backward`` makes up for the division, because a second backward of the same update adds to gradients that
    are reduced already: the average of equal copies leaves them as they are, a sum would not.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.last_at = 0.0
        self.left = 0  # buckets handed over so far

    def reduce(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """One bucket's sum, as DistributedDataParallel's hooks return it."""
        self.last_at = self._clock()
        self.left += 1
        work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])  # type: ignore[no-any-return]


def _hook(state: BucketClock, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    return state.reduce(bucket)


def wrap(model: nn.Module, buckets: BucketClock) -> DistributedDataParallel:
    """A model whose gradients are averaged over the job while backward runs.

    Buffers are not broadcast at every forward; ``merge_buffers`` joins them once an epoch.
    """
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True, **_NO_BROADCAST)
    wrapped.register_comm_hook(buckets, _hook)
    return wrapped


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
