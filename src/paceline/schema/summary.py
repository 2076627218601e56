"""``summary.json``: the stable figures of one run. Field names do not change within a schema version."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from paceline.schema.record import Record


class Staleness(Record):
    """Versions that passed between a group's pull and its push. ``histogram``: staleness -> number of pushes.
    ``groups``: the mean of each."""

    mean: float
    max: int
    histogram: dict[int, int]
    groups: dict[str, float] = Field(default_factory=dict)


class DeviceSummary(Record):
    """One device. ``busy``, ``loading``, ``waiting`` and ``exchanging`` are parts of its training time; what is left of
    it is the user's own code and ours. Rates are samples/s."""

    rank: int
    group: str
    name: str
    share: int
    samples: int
    samples_per_second: float
    solo_samples_per_second: float | None
    busy: float
    waiting: float
    exchanging: float
    loading: float = 0.0
    predicted_samples_per_second: float | None = None


class EpochSummary(Record):
    """How often the samples of one epoch were trained: each exactly once when both counts are 0."""

    epoch: int
    samples: int
    duplicates: int
    missing: int


class Event(Record):
    """A join, a leave, a fault or a change of shares. ``at``: seconds from the launch of the run; of a ``replan``, from
    the first worker's start."""

    at: float
    kind: str
    what: str


Cause = Literal["data", "compute", "link"]


class Finding(Record):
    """A device that loses time against what was expected of it, by what, and ``what`` to do next."""

    rank: int
    cause: Cause
    what: str


class Summary(Record):
    """One run in figures. ``seconds`` is training time: evaluation and start-up are not in it."""

    schema_version: Literal[1] = 1
    strategy: str
    cluster: str
    emulation: str
    emulated: bool
    simulated: bool = False
    samples: int
    seconds: float
    samples_per_second: float
    limit_samples_per_second: float | None
    fraction_of_limit: float | None
    predicted_samples_per_second: float | None
    prediction_error: float | None
    most_gain: float | None = None
    accuracy: float | None
    staleness: Staleness
    devices: list[DeviceSummary]
    epochs: list[EpochSummary]
    events: list[Event]
    findings: tuple[Finding, ...] = ()
    versions: dict[str, str]
    command: str
