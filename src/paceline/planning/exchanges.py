"""How often groups meet the server: local steps between two exchanges, and how many of them run beside one.

waits     |== K updates ==|~ exchange ~|== K updates ==|~ exchange ~|        no staler than it must be: the default
overlaps  |== K updates ==|== overlap ==|== the rest ==|== overlap ==|       where waiting would cost more than WAITED
                          |~ exchange ~|               |~ exchange ~|
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.planning import balance, estimate
from paceline.planning.balance import LOCAL_STEPS
from paceline.schema.plan import WorkerPlan
from paceline.schema.profile import Profile

Group = Sequence[WorkerPlan]

LOST = 0.03  # of a group's time, to exchanges with the server
WAITED = 0.1  # of it, at which groups no longer wait for their exchanges: staleness doubles, which costs accuracy
MOST_STEPS = 64  # of the fastest group: beyond it groups drift apart
MOST_BESIDE = 256  # where groups overlap, as HALoS and others that train over such links
MARGIN = 1.1  # of an exchange's time, in which it is over even if others come in between
EXCHANGES = 8  # of each group in an epoch, at least: at its end groups wait for the last lease


@dataclass(frozen=True, slots=True)
class Rhythm:
    """``steps``: local steps of each group; ``overlaps``: those of them beside an exchange; ``why`` so many."""

    steps: list[int]
    overlaps: list[int]
    why: str


def rhythm(profile: Profile, groups: Sequence[Group]) -> Rhythm:
    """Enough local steps to make little of slow links and a crowded server, but never so many that an epoch has only a
    few exchanges, nor that groups drift apart. Groups wait for their exchanges unless that costs too much."""
    times = [estimate.update_seconds(profile, workers) for workers in groups]
    exchanges = [estimate.exchange_seconds(profile, workers, len(groups)) for workers in groups]
    quickest, longest = min(times), max(exchanges)
    fitting, whole = _in_epoch(profile, groups, times)
    if whole < LOCAL_STEPS:
        return _waiting(times, whole, "an epoch has no more for each group")
    most, why = _bounded(math.ceil(longest / LOST / quickest), fitting, MOST_STEPS)
    if longest <= WAITED * (longest + most * quickest):
        return _waiting(times, most, why or f"exchanges cost no more than {LOST:.0%} of the time")
    most, why = _bounded(math.ceil(MARGIN * longest / quickest), fitting, MOST_BESIDE)
    steps = balance.local_steps([1 / own for own in times], most)
    overlaps = [
        min(count, math.ceil(MARGIN * exchange / own)) if exchange > LOST * count * own else 0
        for own, exchange, count in zip(times, exchanges, steps, strict=True)
    ]
    return Rhythm(steps, overlaps, why or "an exchange is over by then")


def staleness(overlaps: Sequence[int]) -> float:
    """Mean over the pushes of groups that exchange equally often, in versions. In steps beside an exchange a group has
    not yet adopted what its last one brought."""
    return float(len(overlaps) - 1 + sum(overlap > 0 for overlap in overlaps))


def _waiting(times: Sequence[float], most: int, why: str) -> Rhythm:
    return Rhythm(balance.local_steps([1 / own for own in times], most), [0] * len(times), why)


def _in_epoch(profile: Profile, groups: Sequence[Group], times: Sequence[float]) -> tuple[int, int]:
    """Steps of the fastest group with which an epoch has ``EXCHANGES`` of them, and with which each group can make its
    own in an epoch."""
    quickest = min(times)
    batches = [sum(worker.share for worker in workers) for workers in groups]
    samples = sum(batch * quickest / own for batch, own in zip(batches, times, strict=True))
    whole = min(profile.epoch_samples // batch * own / quickest for batch, own in zip(batches, times, strict=True))
    return int(profile.epoch_samples / EXCHANGES / samples), max(1, int(whole))


def _bounded(wanted: int, fitting: int, most: int) -> tuple[int, str]:
    """That many steps, or what bounds them."""
    if max(LOCAL_STEPS, wanted) <= min(fitting, most):
        return max(LOCAL_STEPS, wanted), ""
    if fitting < LOCAL_STEPS:
        return LOCAL_STEPS, f"the fastest makes {LOCAL_STEPS} between two exchanges, which is the least"
    if fitting < most:
        return fitting, f"an epoch still has {EXCHANGES} exchanges of each group or so"
    return most, f"groups do not drift apart for more than {most} updates"
