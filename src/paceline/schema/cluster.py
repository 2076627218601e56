"""``cluster.yaml``: the machines, written by a person. Hardware facts only; the run's own settings live elsewhere."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from paceline.schema.record import Record

Emulation = Literal["none", "pacing", "cgroups"]
Device = Annotated[str, Field(pattern=r"^(cpu|cuda:[0-9]+|GPU-[0-9a-zA-Z-]+)$")]


class GroupSpec(Record):
    """Like devices behind one fast link.

    ``devices`` is a number of devices, or their names: torch's (``"cuda:0"``), or a UUID or the start of one
    (``"GPU-8f3a1c2e"``), which stays with the card whatever the order.
    ``speed`` emulates a device as that part of one CPU core.
    ``micro_batch`` is the most samples a device takes at once.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]
    devices: Annotated[int, Field(ge=1, le=10_000)] | Annotated[list[Device], Field(min_length=1)] = 1
    speed: Annotated[float, Field(gt=0, le=1)] | None = None
    micro_batch: Annotated[int, Field(ge=1)] | None = None


class Cluster(Record):
    """All groups of a cluster, and how unequal speeds are emulated where the devices are not really there."""

    version: Literal[1] = 1
    name: str
    emulation: Emulation = "none"
    groups: Annotated[list[GroupSpec], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Cluster:
        names = [group.name for group in self.groups]
        if len(set(names)) < len(names):
            raise ValueError(f"two groups share a name in {names}; give each its own")
        cards = [device for group in self.groups if isinstance(group.devices, list) for device in group.devices]
        twice = sorted({card for card in cards if card != "cpu" and cards.count(card) > 1})
        if twice:
            raise ValueError(f"{twice} stand in the cluster twice; name each device once")
        for group in self.groups:
            named = f"group '{group.name}'"
            if self.emulation == "none" and group.speed is not None:
                raise ValueError(f"{named} has a speed but emulation is none; set emulation: pacing or cgroups")
            if self.emulation != "none" and group.speed is None:
                raise ValueError(f"{named} has no speed but emulation is {self.emulation}; give it one")
        return self
