"""What a probe measured: how fast each device trains while all train at once and none talks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paceline.schema.cluster import Emulation
from paceline.schema.record import Record


class DeviceProfile(Record):
    """One device. ``samples_per_second`` is its solo speed on batches of ``batch`` samples, optimizer step included;
    such a batch takes ``fixed_seconds + batch * sample_seconds``, and of the device's ``memory_bytes`` it needs
    ``fixed_bytes + batch * sample_bytes``, where that could be measured."""

    group: str
    device: str
    speed: float | None
    threads: Annotated[int, Field(ge=1)]
    micro_batch: int | None
    batch: Annotated[int, Field(ge=1)]
    samples_per_second: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    fixed_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    sample_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    uuid: str | None = None
    name: str | None = None
    memory_bytes: Annotated[int, Field(gt=0)] | None = None
    fixed_bytes: Annotated[int, Field(ge=0)] | None = None
    sample_bytes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Profile(Record):
    """All devices of a cluster, in rank order, for one recipe. ``model_bytes``: float32 bytes of one exchange.
    ``learning_rate``: what ``lr_rule`` made of it."""

    version: Literal[1] = 1
    cluster: str
    emulation: Emulation
    global_batch: Annotated[int, Field(ge=1)]
    model_bytes: Annotated[int, Field(ge=0)]
    epoch_samples: Annotated[int, Field(ge=1)]
    learning_rate: str = ""
    devices: Annotated[list[DeviceProfile], Field(min_length=1)]

    @property
    def limit(self) -> float:
        """Samples/s of all devices at once, training and never talking."""
        return sum(device.samples_per_second for device in self.devices)
