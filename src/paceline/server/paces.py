"""How much a group is given at a time, where it has become slower than its plan: what it trains while others train all
that they ask for.

planned   |== 8 updates ==|== 8 updates ==|         a round of each group takes about as long
slowed    |============ 8 updates ============|     so its pushes would come late, from weights that are old,
fitted    |= 3 updates ===|= 3 updates ===|         and others would wait for them at the end of an epoch
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Set
from dataclasses import dataclass, field

LATE = 1.5  # times as long as others' rounds: up to there a window's grace and chance explain it
AGAIN = 1.2  # the same, for one that gets less and would get all again
KEPT = 5  # rounds of which the middle one counts: some slow ones are no reason


@dataclass(slots=True)
class _Pace:
    want: int = 0
    given: int = 0
    told: int = 0
    pushes: int = 0
    since: float | None = None  # begin of the round, where it has begun
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def round(self) -> float:
        """Seconds of a round of all that it wants."""
        return self.want / self.rate

    @property
    def rate(self) -> float:
        return statistics.median_low(self.rates)


class Paces:
    """Samples/s of each group between two pushes. Not thread-safe; the caller holds a lock.

    ``fixed``: groups get what they ask for. ``most``: pushes that a group may be ahead of another (stale synchronous
    parallel: Ho et al., NIPS 2013); 0: any number.
    """

    def __init__(self, fixed: bool = False, most: int = 0) -> None:
        self._fixed, self._most = fixed, most
        self._groups: dict[str, _Pace] = {}

    def fit(self, group: str, want: int, batch: int) -> int:
        """What to give ``group``, which asks for ``want`` samples: whole batches of them, at least one."""
        own = self._group(group)
        own.told = own.told or want
        others = [pace for name, pace in self._groups.items() if name != group and pace.want]
        own.given, own.want = min(want, own.given or want) if others else want, want
        rounds = [pace.round for pace in others if len(pace.rates) == KEPT]
        if self._fixed or not rounds or len(own.rates) < KEPT:
            return own.given
        fitted = self._fitted(own, statistics.median_low(rounds), batch)
        if 4 * abs(fitted - own.given) >= want:
            own.given = fitted
            own.rates.clear()  # to be measured anew before it may change again
        return own.given

    def news(self, group: str, batch: int) -> str:
        """What to say of a change, once."""
        own = self._groups[group]
        if own.given == own.told:
            return ""
        own.told = own.given
        made, planned = -(-own.given // batch), -(-own.want // batch)
        return f"{group} makes {made} of {planned} updates between exchanges from here on"

    @staticmethod
    def _fitted(own: _Pace, usual: float, batch: int) -> int:
        late = LATE if own.given == own.want else AGAIN
        if own.round <= late * usual:
            return own.want
        return min(own.want, max(batch, int(usual * own.rate) // batch * batch))

    def may_begin(self, group: str, training: Set[str]) -> bool:
        """Whether ``group`` is not too far ahead of those that are ``training``."""
        others = [self._group(name).pushes for name in training if name != group]
        return not self._most or not others or self._group(group).pushes - min(others) < self._most

    def begin(self, group: str, now: float) -> None:
        """It has nothing on its way and begins a round."""
        self._group(group).since = now

    def push(self, group: str, samples: int, now: float) -> None:
        """It has pushed so many samples, and goes on if it has leased ahead."""
        own = self._group(group)
        own.pushes += 1
        if own.since is not None and now > own.since:
            own.rates.append(samples / (now - own.since))
        own.since = now

    def forget(self, group: str) -> None:
        """It is gone."""
        self._groups.pop(group, None)

    def _group(self, name: str) -> _Pace:
        """A newcomer is as far as the one that is least so."""
        if name not in self._groups:
            self._groups[name] = _Pace(pushes=min((pace.pushes for pace in self._groups.values()), default=0))
        return self._groups[name]
