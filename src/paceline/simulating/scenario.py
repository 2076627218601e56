"""What a simulated run is told beside its plan: what it trains on, and what befalls it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from paceline.errors import ConfigError, nearest
from paceline.schema.network import Network
from paceline.schema.plan import Plan


@dataclass(frozen=True, slots=True)
class Workload:
    """``epochs`` of ``epoch_samples`` samples, an exchange of ``model_bytes`` bytes, the wires it goes over.

    ``updates``: stop after that many of the first worker, in the middle of an epoch if need be.
    """

    epoch_samples: int
    epochs: int = 1
    updates: int | None = None
    model_bytes: int = 0
    network: Network = field(default_factory=Network)


MOST_SLOWER = 1e6
MOST_JITTER = 10  # far above, a log-normal number overflows


@dataclass(frozen=True, slots=True)
class Slow:
    """From the second ``at`` on, the worker ``rank`` takes ``factor`` times as long to compute."""

    rank: int
    at: float
    factor: float


@dataclass(frozen=True, slots=True)
class Kill:
    """The workers of ``group``, and all that reduce with them, die in the second ``at``."""

    group: str
    at: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """What devices do that a plan cannot know.

    ``jitter``: the standard deviation of each compute's seconds over their mean, beside the spread that was measured of
    the worker; they are log-normal and drawn anew for every worker and compute from ``seed``.
    """

    jitter: float = 0.0
    seed: int = 0
    slow: tuple[Slow, ...] = ()
    kill: tuple[Kill, ...] = ()

    def check(self, plan: Plan) -> None:
        """Raise ConfigError for a worker or a group that ``plan`` does not have, or a number that cannot be."""
        if not 0 <= self.jitter <= MOST_JITTER:
            raise ConfigError(f"a jitter of {self.jitter}", expected=f"0 to {MOST_JITTER}", remedy="Try --jitter 0.05.")
        ranks, groups = len(plan.workers), sorted({worker.group for worker in plan.workers})
        for slow in self.slow:
            if not 0 <= slow.rank < ranks:
                raise ConfigError(f"rank {slow.rank} is to slow down", expected=f"0 to {ranks - 1}, as the plan has")
            if not 1 / MOST_SLOWER <= slow.factor <= MOST_SLOWER:
                raise ConfigError(
                    f"rank {slow.rank} is to slow down {slow.factor} times",
                    expected=f"a factor above 0, of {MOST_SLOWER:,.0f} or less",
                )
        for kill in self.kill:
            if kill.group not in groups:
                raise ConfigError(f"group '{kill.group}' is to die", remedy=nearest(kill.group, groups))
        for at in (*(slow.at for slow in self.slow), *(kill.at for kill in self.kill)):
            if not 0 <= at < math.inf:
                raise ConfigError(f"a fault in second {at}", expected="0 or later")

    def touches(self, rank: int, spread: float) -> bool:
        """Whether this worker, of a measured spread, computes otherwise than its like."""
        return self.jitter > 0 or spread > 0 or any(slow.rank == rank for slow in self.slow)


class Pace:
    """How long one worker's computes take under a scenario."""

    def __init__(self, scenario: Scenario, rank: int, spread: float) -> None:
        self._slow = sorted((slow for slow in scenario.slow if slow.rank == rank), key=lambda slow: slow.at)
        self._spread = math.sqrt(math.log1p(scenario.jitter**2 + spread**2))
        self._random = random.Random(f"{scenario.seed}/{rank}")

    def seconds(self, start: float, work: float) -> float:
        """Of a compute that begins at ``start`` and takes ``work`` seconds if nothing disturbs it."""
        if self._spread:
            work *= self._random.lognormvariate(-(self._spread**2) / 2, self._spread)
        at, factor = start, 1.0
        for slow in self._slow:
            if at + work * factor <= slow.at:
                break
            done = max(slow.at - at, 0.0)
            at, work, factor = at + done, work - done / factor, slow.factor
        return at - start + work * factor
