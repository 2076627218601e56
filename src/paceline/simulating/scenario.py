"""What a simulated run is told beside its plan: what it trains on, and what befalls it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist

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
BLOCK = 50  # computes over which jitter is exact in its mean
NORMAL = NormalDist()


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
    the worker; they are log-normal and drawn anew for every worker and compute from ``seed``. Of every 50 computes of a
    worker each fiftieth part of that distribution has one, so that a short run shows no luck.
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
        self._factors = _factors(self._spread, random.Random(f"{scenario.seed}/{rank}"))

    def seconds(self, start: float, work: float) -> float:
        """Of a compute that begins at ``start`` and takes ``work`` seconds if nothing disturbs it."""
        if self._spread:
            work *= next(self._factors)
        at, factor = start, 1.0
        for slow in self._slow:
            if at + work * factor <= slow.at:
                break
            done = max(slow.at - at, 0.0)
            at, work, factor = at + done, work - done / factor, slow.factor
        return at - start + work * factor


def _factors(sigma: float, chance: random.Random) -> Iterator[float]:
    """Log-normal numbers of mean 1 without end, each ``BLOCK`` of them the same ones in another order."""
    while True:
        yield from chance.sample(_parts(sigma), BLOCK)


@cache
def _parts(sigma: float) -> list[float]:
    """The means of the ``BLOCK`` equally likely parts of the log-normal distribution of mean 1."""
    ends = [-math.inf, *(NORMAL.inv_cdf(part / BLOCK) for part in range(1, BLOCK)), math.inf]
    below = [NORMAL.cdf(end - sigma) for end in ends]
    return [BLOCK * (above - under) for under, above in itertools.pairwise(below)]
