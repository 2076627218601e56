"""What a probe measured: how fast each device trains while all train at once and none talks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from paceline.schema.cluster import Emulation
from paceline.schema.network import Link, Network
from paceline.schema.record import MOST, MOST_BYTES, Record


class Point(Record):
    """A measured batch: ``seconds`` is the mean of ``count`` updates, without outliers, of ``samples`` samples."""

    samples: Annotated[int, Field(ge=1)]
    seconds: Annotated[float, Field(gt=0, le=MOST)]
    count: Annotated[int, Field(ge=1)] = 1


class Pair(Link):
    """The wire between two devices, by rank, one direction."""

    ranks: tuple[int, int]


class RatePoint(Record):
    """Each optimizer group's learning rate once ``samples`` samples are trained."""

    samples: int
    rates: list[float]


class Pace(Record):
    """What an emulated device takes for a micro-batch of b samples: ``fixed_seconds + b * sample_seconds``."""

    fixed_seconds: Annotated[float, Field(ge=0, le=MOST)] = 0.0
    sample_seconds: Annotated[float, Field(gt=0, le=MOST)]

    def seconds(self, samples: int) -> float:
        """Of a micro-batch; 0 without samples."""
        return self.fixed_seconds + samples * self.sample_seconds if samples else 0.0


class DeviceProfile(Record):
    """One device. ``samples_per_second`` is its solo speed on batches of ``batch`` samples, optimizer step included.

    A batch of b samples takes ``fixed_seconds + b * sample_seconds``, fitted to the measured ``table``; of the device's
    ``memory_bytes`` it needs ``fixed_bytes + b * sample_bytes``, where that could be measured. ``loading_seconds``: of
    reading one sample, which comes on top. ``handling_seconds``: of taking what was learned out of the device and
    putting new weights in, for one exchange with a server. ``spread``: standard deviation of a batch's time, relative
    to its mean.
    """

    group: str
    device: str
    speed: float | None
    pace: Pace | None = None
    threads: Annotated[int, Field(ge=1)]
    micro_batch: Annotated[int, Field(ge=1)] | None
    batch: Annotated[int, Field(ge=1)]
    samples_per_second: Annotated[float, Field(gt=0, le=MOST)]
    fixed_seconds: Annotated[float, Field(ge=0, le=MOST)] = 0.0
    sample_seconds: Annotated[float, Field(gt=0, le=MOST)] | None = None
    table: tuple[Point, ...] = ()
    loading_seconds: Annotated[float, Field(ge=0, le=MOST)] = 0.0
    handling_seconds: Annotated[float, Field(ge=0, le=MOST)] = 0.0
    spread: Annotated[float, Field(ge=0, le=10)] = 0.0
    uuid: str | None = None
    name: str | None = None
    memory_bytes: Annotated[int, Field(gt=0)] | None = None
    fixed_bytes: Annotated[int, Field(ge=0)] | None = None
    sample_bytes: Annotated[float, Field(gt=0, le=MOST)] | None = None

    @field_validator("table")
    @classmethod
    def _in_order(cls, table: tuple[Point, ...]) -> tuple[Point, ...]:
        sizes = [point.samples for point in table]
        if sizes != sorted(set(sizes)):
            raise ValueError(f"batches of {sizes} samples, expected each size once, in order")
        return table

    @property
    def which(self) -> tuple[str, str, str | None]:
        """What tells this device from all others."""
        return self.group, self.device, self.uuid

    @property
    def whole_sample_seconds(self) -> float:
        """What one sample more costs, with reading it."""
        return (self.sample_seconds or 1 / self.samples_per_second) + self.loading_seconds


class Profile(Record):
    """All devices of a cluster, in rank order, for one recipe. ``model_bytes``: float32 bytes of one exchange.

    ``learning_rate``: what ``lr_rule`` made of it. ``rates``: learning rates over samples, of a scheduler given to
    ``run.setup``. ``recipe``: the script and its arguments, empty where times are known from elsewhere.
    ``pairs``: the wires between devices as they were measured; ``network`` is what plans and simulations go by.
    """

    version: Literal[1] = 1
    cluster: str
    emulation: Emulation
    global_batch: Annotated[int, Field(ge=1, le=MOST)]
    model_bytes: Annotated[int, Field(ge=0, le=MOST_BYTES)]
    epoch_samples: Annotated[int, Field(ge=1, le=MOST)]
    learning_rate: str = ""
    rates: tuple[RatePoint, ...] = ()
    recipe: tuple[str, ...] = ()
    network: Network = Network()
    pairs: tuple[Pair, ...] = ()
    devices: Annotated[list[DeviceProfile], Field(min_length=1)]

    @property
    def most_gain(self) -> float:
        """What any split of samples can gain over an even one by speed alone: R_max = max c * mean(1/c), with c the
        seconds of a sample."""
        each = [device.whole_sample_seconds for device in self.devices]
        return max(each) * sum(1 / c for c in each) / len(each)
