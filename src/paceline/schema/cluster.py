"""``cluster.yaml``: the machines, written by a person. Hardware facts only; the run's own settings live elsewhere."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from paceline.schema.network import Network
from paceline.schema.record import MOST, MOST_BYTES, Record

Emulation = Literal["none", "pacing", "cgroups"]
Device = Annotated[str, Field(pattern=r"^(cpu|cuda:[0-9]+|GPU-[0-9a-zA-Z-]+)$")]


class GroupSpec(Record):
    """Like devices behind one fast link.

    ``devices`` is a number of devices, or their names: torch's (``"cuda:0"``), or a UUID or the start of one
    (``"GPU-8f3a1c2e"``), which stays with the card whatever the order.
    ``speed`` emulates a device as that part of one CPU core; under pacing, known times do so exactly.
    ``micro_batch`` is the most samples a device takes at once.
    ``sample_seconds`` and ``fixed_seconds`` are known times of each device, of a batch of b samples
    ``fixed_seconds + b * sample_seconds``: with them a cluster is planned and simulated without being here.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]
    devices: Annotated[int, Field(ge=1, le=10_000)] | Annotated[list[Device], Field(min_length=1)] = 1
    speed: Annotated[float, Field(gt=0, le=1)] | None = None
    micro_batch: Annotated[int, Field(ge=1)] | None = None
    sample_seconds: Annotated[float, Field(gt=0, le=MOST)] | None = None
    fixed_seconds: Annotated[float, Field(ge=0, le=MOST)] = 0.0

    @property
    def size(self) -> int:
        """How many devices."""
        return self.devices if isinstance(self.devices, int) else len(self.devices)


class Work(Record):
    """What the known times of a cluster's devices are for: a model, and the run it is trained in."""

    name: str
    global_batch: Annotated[int, Field(ge=1, le=MOST)]
    model_bytes: Annotated[int, Field(ge=0, le=MOST_BYTES)] = 0
    epoch_samples: Annotated[int, Field(ge=1, le=MOST)]


class Cluster(Record):
    """All groups of a cluster, and how unequal speeds are emulated where the devices are not really there.

    ``network``: the wires; what is not said is measured. ``work``: what ``sample_seconds`` were measured on.
    """

    version: Literal[1] = 1
    name: str
    emulation: Emulation = "none"
    groups: Annotated[list[GroupSpec], Field(min_length=1)]
    network: Network | None = None
    work: Work | None = None

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
            paced = self.emulation == "pacing" and group.sample_seconds is not None
            if self.emulation != "none" and group.speed is None and not paced:
                raise ValueError(f"{named} has no speed but emulation is {self.emulation}; give it one")
            if (self.work is None) != (group.sample_seconds is None):
                raise ValueError(f"{named}: sample_seconds and work go together; give both, for all groups, or neither")
        wires = self.network or Network()
        said = {*wires.inside, *wires.ports, *(name for wire in wires.between for name in wire.groups)}
        if strangers := sorted((said | {wires.server_at or names[0]}) - set(names)):
            raise ValueError(f"network names {strangers}, which are no groups; the groups are {names}")
        return self
