"""Before the first collective, workers look whether they are about to do the same thing.

Over the store, not over collectives, which would hang or crash on the very differences that are looked for.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from dataclasses import astuple

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.distributed.distributed_c10d import Store
from torch.optim import Optimizer

from paceline.errors import ConfigError, LinkError
from paceline.hardware.host import ability, versions
from paceline.running.membership import Place
from paceline.schema.hello import Hello
from paceline.schema.settings import Settings


def hello(
    place: Place,
    settings: Settings,
    models: Sequence[nn.Module],
    optimizers: Sequence[Optimizer],
    scalers: Sequence[GradScaler],
) -> Hello:
    """What this worker says of itself."""
    tensors = [pair for model in models for pair in (*model.named_parameters(), *model.named_buffers())]
    return Hello(
        rank=place.rank,
        host=place.host,
        versions={name: number for name, number in versions().items() if name != "python"},
        settings=settings,
        plan=plan_hash(place),
        parameters=[(name, list(t.shape), _kind(t)) for name, t in tensors],
        optimizers=[type(optimizer).__name__ for optimizer in optimizers],
        scalers=[scaler.state_dict() for scaler in scalers],
        ability=astuple(ability(place.worker.device)) if settings.precision != "float32" else ("", True, True),
    )


def _kind(tensor: Tensor) -> str:
    frozen = isinstance(tensor, nn.Parameter) and not tensor.requires_grad
    return f"{'frozen ' if frozen else ''}{tensor.dtype}".replace("torch.", "")


def plan_hash(place: Place) -> str:
    """Twelve digits of a hash of who takes how much."""
    workers = [[(worker.share, worker.micro_batch) for worker in job.workers] for job in place.plan.jobs]
    return hashlib.sha256(f"{place.plan.strategy} {workers}".encode()).hexdigest()[:12]


def meet(store: Store, mine: Hello, rank: int, workers: int, timeout: float) -> list[Hello]:
    """Everyone's hello, in order of rank in the job; each worker finds the same difference and says so.

    Raises:
        ConfigError: two workers differ in what must agree.
        LinkError: a worker did not come.
    """
    store.set(f"hello/{rank}", mine.model_dump_json())
    everyone = []
    for other in range(workers):
        try:
            store.wait([f"hello/{other}"], datetime.timedelta(seconds=timeout))
        except RuntimeError as error:
            raise LinkError(
                f"worker {other} of the job did not come to run.setup within {timeout:g} s",
                where=str(mine), remedy="See its output.",
            ) from error  # fmt: skip
        everyone.append(Hello.model_validate_json(store.get(f"hello/{other}")))
    for other_hello in everyone:
        if (difference := everyone[0].difference(other_hello)) is not None:
            raise ConfigError(
                f"the workers differ: {difference}",
                expected="the same on all of them",
                where=str(mine),
                remedy="Run the same script, arguments and versions everywhere.",
            )
    return everyone
