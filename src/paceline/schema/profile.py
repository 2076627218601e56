"""What a probe measured: how fast each device trains while all train at once and none talks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paceline.schema.cluster import Emulation
from paceline.schema.network import Link, Network
from paceline.schema.record import Record


class Point(Record):
    """A measured batch: ``seconds`` is the median of ``count`` updates of ``samples`` samples."""

    samples: Annotated[int, Field(ge=1)]
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    count: Annotated[int, Field(ge=1)] = 1


class Pair(Link):
    """The wire between two devices, by rank, one direction."""

    ranks: tuple[int, int]


class RatePoint(Record):
    """Each optimizer group's learning rate once ``samples`` samples are trained."""

    samples: int
    rates: list[float]


class DeviceProfile(Record):
    """One device. ``samples_per_second`` is its solo speed on batches of ``batch`` samples, optimizer step included.

    A batch of b samples takes ``fixed_seconds + b * sample_seconds``, fitted to the measured ``table``; of the device's
    ``memory_bytes`` it needs ``fixed_bytes + b * sample_bytes``, where that could be measured. ``loading_seconds``: of
    reading one sample, which comes on top.
    """

    group: str
    device: str
    speed: float | None
    threads: Annotated[int, Field(ge=1)]
    micro_batch: int | None
    batch: Annotated[int, Field(ge=1)]
    samples_per_second: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    fixed_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    sample_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    table: tuple[Point, ...] = ()
    loading_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    uuid: str | None = None
    name: str | None = None
    memory_bytes: Annotated[int, Field(gt=0)] | None = None
    fixed_bytes: Annotated[int, Field(ge=0)] | None = None
    sample_bytes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Profile(Record):
    """All devices of a cluster, in rank order, for one recipe. ``model_bytes``: float32 bytes of one exchange.

    ``learning_rate``: what ``lr_rule`` made of it. ``rates``: learning rates over samples, of a scheduler given to
    ``run.setup``. ``recipe``: the script and its arguments, empty where times are known from elsewhere.
    ``pairs``: the wires between devices as they were measured; ``network`` is what plans and simulations go by.
    """

    version: Literal[1] = 1
    cluster: str
    emulation: Emulation
    global_batch: Annotated[int, Field(ge=1)]
    model_bytes: Annotated[int, Field(ge=0)]
    epoch_samples: Annotated[int, Field(ge=1)]
    learning_rate: str = ""
    rates: tuple[RatePoint, ...] = ()
    recipe: tuple[str, ...] = ()
    network: Network = Network()
    pairs: tuple[Pair, ...] = ()
    devices: Annotated[list[DeviceProfile], Field(min_length=1)]

    @property
    def limit(self) -> float:
        """Samples/s of all devices at once, training and never talking."""
        return sum(device.samples_per_second for device in self.devices)
