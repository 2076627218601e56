"""How often groups meet the server, with which shares, and how many of their local steps run beside an exchange.

group a   |== overlap ==|== the rest ==|== overlap ==|== the rest ==|      all end a round at about the same time:
          |~ exchange ~|               |~ exchange ~|                      local steps follow speed, and shares take up
group b   |= overlap =|=== the rest ===|= overlap =|=== the rest ===|      what whole steps leave of a difference
                                       ^ pushes within the grace time are one version, which all of them go on from
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paceline.cost.compute import Seconds
from paceline.planning import balance, estimate
from paceline.planning.balance import LOCAL_STEPS
from paceline.schema.plan import JobPlan, Wire, WorkerPlan
from paceline.schema.profile import Profile

Group = Sequence[WorkerPlan]

SLACK = 0.1  # of a round, that groups in step may differ by from one to the next
MOST_STEPS = 256  # of the fastest group: beyond it groups drift apart; HALoS and others train with about as many
WORTH = 0.01  # of the speed: less is no reason for more local steps than an exchange needs
MARGIN = 1.1  # of an exchange's time, in which it is over even if others come in between
EXCHANGES = 8  # of each group in an epoch, at least: at its end groups wait for the last lease


@dataclass(frozen=True, slots=True)
class Rhythm:
    """``jobs`` with their shares, local steps and overlaps; ``idle``: workers without a sample; ``grace``: seconds in
    which pushes are one version; ``why`` so many steps."""

    jobs: list[JobPlan]
    idle: list[WorkerPlan]
    grace: float
    why: str


def rhythm(profile: Profile, groups: Mapping[str, Group], wire: Wire = "float32") -> Rhythm:
    """No more local steps than an exchange needs to be over beside them, and never so many that an epoch has only a few
    exchanges, nor that groups drift apart.

    Raises:
        ConfigError: fewer samples than workers.
    """
    members = list(groups.values())
    even = iter(balance.even(profile.global_batch, sum(map(len, members))))
    batches = [sum(next(even) for _ in own) for own in members]
    times = [_seconds(profile, own, batch) for own, batch in zip(members, batches, strict=True)]
    longest = max(estimate.exchange_seconds(profile, own, len(members), wire) for own in members)
    counts, why = _counts(profile, batches, times, math.ceil(MARGIN * longest / (1 - SLACK) / min(times)))
    speeds = [1 / own for own in times]
    cuts = [_cut(profile, groups, balance.local_steps(speeds, count)) for count in counts]
    best = max(cut.rate for cut in cuts)
    jobs, idle, _ = next(cut for cut in cuts if cut.rate >= (1 - WORTH) * best)
    return _overlapping(profile, jobs, idle, why, wire)


class _Cut(NamedTuple):
    """Jobs with shares for their local steps, who got none, and samples/s of all that wait for the slowest."""

    jobs: list[JobPlan]
    idle: list[WorkerPlan]
    rate: float


def _cut(profile: Profile, groups: Mapping[str, Group], steps: Sequence[int]) -> _Cut:
    workers = [worker for own in groups.values() for worker in own]
    ends = [
        _times(count, end)
        for own, count in zip(groups.values(), steps, strict=True)
        for end in estimate.ends(profile, own)
    ]
    cut = balance.by_speed(profile.global_batch, workers, ends)
    shares = iter(cut)
    jobs, idle = [], []
    for (name, own), count in zip(groups.items(), steps, strict=True):
        shared = [worker.model_copy(update={"share": next(shares)}) for worker in own]
        idle += [worker for worker in shared if not worker.share]
        if busy := [worker for worker in shared if worker.share]:
            jobs.append(JobPlan(name=name, workers=busy, local_steps=count))
    round_seconds = max(end(share) for end, share in zip(ends, cut, strict=True) if share)
    return _Cut(jobs, idle, sum(job.local_steps * sum(job.shares) for job in jobs) / round_seconds)


def staleness(overlaps: Sequence[int], grace: float) -> float:
    """Mean over the pushes of groups that exchange equally often, in versions: what others pushed since, and a version
    more for groups that adopt what an exchange brought after they went on. Pushes within ``grace`` are one version."""
    others = 0 if grace else len(overlaps) - 1
    return others + sum(overlap > 0 for overlap in overlaps) / (len(overlaps) if grace else 1)


def _overlapping(profile: Profile, jobs: Sequence[JobPlan], idle: list[WorkerPlan], why: str, wire: Wire) -> Rhythm:
    """With the steps beside an exchange, which last until all groups in step have come to it and it is over.

    A group whose rounds are a little shorter comes earlier each time, until its steps beside the exchange no longer
    suffice and hold it back; the grace lasts for longer than that, so all are still in one window.
    """
    times = [estimate.update_seconds(profile, job.workers) for job in jobs]
    rounds = [job.local_steps * own for job, own in zip(jobs, times, strict=True)]
    exchanges = [estimate.exchange_seconds(profile, job.workers, len(jobs), wire) for job in jobs]
    slack = SLACK * max(*rounds, *exchanges)
    quickest = min(rounds)
    arrivals = [min(own, quickest + slack) + x / 2 for own, x in zip(rounds, exchanges, strict=True)]  # of pushes
    found, grace = [], max(arrivals) - min(arrivals)
    for job, own, exchange, arrival in zip(jobs, times, exchanges, arrivals, strict=True):
        beside = MARGIN * exchange + max(arrivals) - arrival + slack
        found.append(job.model_copy(update={"overlap": min(job.local_steps, math.ceil(beside / own))}))
        grace = max(grace, found[-1].overlap * own - exchange / 2)
    return Rhythm(found, idle, grace + slack if len(jobs) > 1 else 0.0, why)


def _seconds(profile: Profile, group: Group, batch: int) -> float:
    """Of an update in which the group's members share ``batch`` by speed."""
    ends = estimate.ends(profile, group)
    shares = balance.by_speed(batch, group, ends)
    return max(end(share) for end, share in zip(ends, shares, strict=True) if share)


def _times(count: int, end: Seconds) -> Seconds:
    """Of so many updates."""
    return lambda samples: count * end(samples)


def _counts(profile: Profile, batches: Sequence[int], times: Sequence[float], needed: int) -> tuple[range, str]:
    """Steps of the fastest group that may do, and what decides how many they are."""
    quickest = min(times)
    samples = sum(batch * quickest / own for batch, own in zip(batches, times, strict=True))
    each = (profile.epoch_samples // batch * own / quickest for batch, own in zip(batches, times, strict=True))
    whole = max(1, int(min(each)))
    fitting = int(profile.epoch_samples / EXCHANGES / samples)
    most = max(LOCAL_STEPS, min(needed, fitting, MOST_STEPS))
    if whole < most:
        return range(whole, whole + 1), "an epoch has no more for each group"
    counts = range(most, min(most + LOCAL_STEPS, whole + 1))
    if needed <= most:
        return counts, "an exchange is over beside them"
    if fitting < MOST_STEPS:
        return counts, f"an epoch still has {EXCHANGES} exchanges of each group or so"
    return counts, f"groups do not drift apart for more than {most} updates"
