"""What happened, whoever wrote it: a real run or a simulation. Times are seconds on one axis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

SpanKind = Literal["compute", "exchange", "wait", "load", "send"]


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of a worker's time. ``samples`` counts what a compute span trained.

    ``load``: reading data. ``send``: handing gradients to the link; what comes after it until their sum is here is the
    ``exchange``.
    """

    kind: SpanKind
    start: float
    stop: float
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one moment.

    Kinds: ``log``, ``epoch``, ``done``, ``staleness``, ``pull``, ``data``, ``setup``, ``measure``, ``memory``,
    ``rates``, ``schedule``, ``before``, ``wires``, ``shares``. A leader's ``pull`` is of a ``version`` of the server's
    weights with so many ``pushes`` in them, after it has trained the positions ``start`` to ``stop`` of an epoch, if
    any, and its push ``found`` so many and was of a ``staleness``; when it got these positions (``ahead`` of the push
    before) it ``heard`` of so many samples trained by all (known of a real run only).
    """

    kind: str
    at: float
    values: dict[str, Any]


@dataclass(frozen=True)
class WorkerTrace:
    """One worker's spans and marks, in time order. ``complete`` is false when the worker died on the way."""

    rank: int
    group: str
    name: str
    host: str
    share: int
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    complete: bool = True


@dataclass(frozen=True)
class Trace:
    """All workers of a run. Training stretches are the ``epoch`` marks' start..stop; evaluation lies outside.

    ``server``: its marks, ``done`` for each push. It has the account of the samples, whoever dies; without a server
    each worker keeps its own.
    """

    workers: list[WorkerTrace]
    simulated: bool = False
    server: list[Mark] = field(default_factory=list)
