"""What each worker will do: its strategy, its share, its local steps. Written by the planner, read by every worker."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paceline.schema.cluster import Emulation
from paceline.schema.profile import Pace, Point
from paceline.schema.record import Record

Positive = Annotated[int, Field(ge=1)]
Wire = Literal["float32", "bfloat16", "int8"]
BLOCK = 256  # values that share the scale, a float32, of their 8-bit integers
VALUE_BYTES: dict[Wire, float] = {"float32": 4.0, "bfloat16": 2.0, "int8": 1.0 + 4.0 / BLOCK}


def on_wire(model_bytes: int, wire: Wire) -> int:
    """Bytes that cross a link, each way, of weights that have ``model_bytes`` as float32."""
    return round(model_bytes * VALUE_BYTES[wire] / VALUE_BYTES["float32"])


class WorkerPlan(Record):
    """One worker. ``share``: its samples of one update (0 before the global batch is known).

    It takes ``fixed_seconds`` for a micro-batch and ``sample_seconds`` for each sample in it. ``uuid`` and ``name`` are
    the card's, where they are known. ``speed`` and ``pace`` emulate a device.
    """

    group: str
    device: str
    speed: float | None = None
    pace: Pace | None = None
    threads: Annotated[int, Field(ge=1, le=4096)]
    share: Annotated[int, Field(ge=0)]
    micro_batch: Positive | None = None
    solo_samples_per_second: float | None = None
    fixed_seconds: Annotated[float, Field(ge=0)] = 0.0
    sample_seconds: Annotated[float, Field(gt=0)] | None = None
    table: tuple[Point, ...] = ()
    loading_seconds: Annotated[float, Field(ge=0)] = 0.0
    handling_seconds: Annotated[float, Field(ge=0)] = 0.0
    spread: Annotated[float, Field(ge=0)] = 0.0
    predicted_samples_per_second: float | None = None
    uuid: str | None = None
    name: str | None = None

    @property
    def which(self) -> tuple[str, str, str | None]:
        """What tells this device from all others."""
        return self.group, self.device, self.uuid


class Alternative(Record):
    """What this plan was chosen over, and why it lost. Rates are samples/s; None: it cannot run here."""

    strategy: str
    predicted_samples_per_second: float | None
    why: str


class JobPlan(Record):
    """One torchrun job: workers that start together. ``local_steps``: updates between two exchanges with the server;
    ``overlap``: the first of them, made while an exchange is on its way. 0: the group waits for it."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_+.-]{0,99}$")]
    workers: Annotated[list[WorkerPlan], Field(min_length=1)]
    local_steps: Positive = 1
    overlap: Annotated[int, Field(ge=0)] = 0

    @property
    def shares(self) -> tuple[int, ...]:
        return tuple(worker.share for worker in self.workers)


class Plan(Record):
    """The whole run. Rates are samples/s; ``predicted`` comes from simulating this very plan.

    ``rule``: what a server does with a push. ``grace_seconds``: after a push, in which those of other groups become one
    version with it; 0: each is a version. ``most_ahead``: pushes that a group may be ahead of another; 0: any number.
    ``wire``: how weights cross the links to the server. ``shards``: ports that
    it is split over. ``most_gain``: see ``Profile``. ``rebalance``: what workers get may follow measured times, in
    strategies that do so. ``resume``: the checkpoint it goes on from.
    """

    version: Literal[1] = 1
    strategy: str
    cluster: str
    emulation: Emulation
    global_batch: Positive | None
    jobs: Annotated[list[JobPlan], Field(min_length=1)]
    limit_samples_per_second: float | None = None
    predicted_samples_per_second: float | None = None
    reason: str = ""
    alternatives: tuple[Alternative, ...] = ()
    most_gain: float | None = None
    predicted_staleness: float | None = None
    most_ahead: Annotated[int, Field(ge=0)] = 0
    wire: Wire = "float32"
    shards: Positive = 1
    rebalance: bool = True
    rule: str = "merge"
    grace_seconds: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    probe_seconds: float | None = None
    resume: str | None = None
    timeout_seconds: Annotated[float, Field(ge=0.1, le=1e6)] = 300.0

    def with_micro_batch(self, job: int, rank: int, samples: int) -> Plan:
        """The same plan, in which that worker takes at most ``samples`` samples at once."""
        workers = list(self.jobs[job].workers)
        workers[rank] = workers[rank].model_copy(update={"micro_batch": samples})
        jobs = list(self.jobs)
        jobs[job] = jobs[job].model_copy(update={"workers": workers})
        return self.model_copy(update={"jobs": jobs})

    @property
    def promised(self) -> float:
        """Predicted samples/s; 0 if nothing is."""
        return self.predicted_samples_per_second or 0.0

    @property
    def workers(self) -> list[WorkerPlan]:
        """All workers in global rank order: job by job, rank by rank."""
        return [worker for job in self.jobs for worker in job.workers]

    @property
    def emulated(self) -> bool:
        return self.emulation != "none"
