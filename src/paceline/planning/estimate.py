"""What a plan would reach, by formulas: fast enough to compare many, and the default where nothing is simulated.

synchronous   X = B / max_i end_i(b_i)                    end_i: of computing b_i samples and of the exchange
groups        X = sum_j K_j B_j / (K_j T_j + x_j)         T_j: of one update, x_j: of one exchange with the server
server        load = S sum_j f_j / beta                   f_j = 1 / (K_j T_j + x_j)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from paceline.cost.compute import Seconds, curve, sample_seconds
from paceline.cost.network import ring, slowest, to_server, transfer
from paceline.cost.overlap import reduction
from paceline.planning.balance import LOCAL_STEPS
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.profile import Profile
from paceline.strategies.base import get

FULL = 0.7  # of a server's port: beyond it transfers wait for one another for longer than they take
LOST = 0.03  # of a group's time, to exchanges with the server
MOST_STEPS = 64  # of the fastest group: beyond it groups drift apart
EXCHANGES = 8  # of each group in an epoch, at least: at its end groups wait for the last lease


def ends(profile: Profile, workers: Sequence[WorkerPlan]) -> list[Seconds]:
    """For each worker that sums gradients with the others, when its update of so many samples ends if nobody is
    slower: the exchange of gradients included, as far as it does not hide behind backward."""
    if len(workers) == 1:
        return [curve(worker) for worker in workers]
    link = slowest(profile.network, [worker.group for worker in workers])
    exchange = reduction(profile.model_bytes, len(workers), link)

    def end(worker: WorkerPlan) -> Seconds:
        own, cap = curve(worker), worker.micro_batch

        def ending(samples: int) -> float:
            last = own((samples - 1) % cap + 1) if cap and samples else None
            return exchange.seconds(own(samples), last)

        return ending

    return [end(worker) for worker in workers]


def update_seconds(profile: Profile, workers: Sequence[WorkerPlan], reduces: bool = True) -> float:
    """Seconds of one update of workers that wait for one another; without an exchange unless they reduce."""
    times = ends(profile, workers) if reduces else [curve(worker) for worker in workers]
    return max(end(worker.share) for end, worker in zip(times, workers, strict=True))


def exchange_seconds(profile: Profile, workers: Sequence[WorkerPlan], crowd: int = 1) -> float:
    """Seconds in which a group hands the server what it learned, and has all of its members begin with the newest.

    Args:
        profile: the wires and the bytes.
        workers: of the group.
        crowd: groups that come to the server's port at once: those that meet it equally often fall into step.
    """
    way = to_server(profile.network, workers[0].group).link
    rate = min(way.bytes_per_second, _port(profile) / crowd)
    both = 2 * (way.latency + profile.model_bytes / rate)
    if len(workers) == 1:
        return both
    return both + transfer(slowest(profile.network, [worker.group for worker in workers]), profile.model_bytes)


def rates(profile: Profile, made: Plan) -> list[float]:
    """Predicted samples/s of each worker, in rank order."""
    layout = get(made.strategy).layout
    found = []
    for job in made.jobs:
        passed = job.local_steps * update_seconds(profile, job.workers, layout.reduces)
        if layout.server:
            passed += exchange_seconds(profile, job.workers, len(made.jobs))
        found += [job.local_steps * worker.share / passed for worker in job.workers]
    return found


def server_load(profile: Profile, jobs: Sequence[JobPlan]) -> float:
    """The part of the time for which the server's port is busy in one direction, if nobody waited for it; over 1 it
    cannot keep up."""
    frequency = sum(
        1 / (job.local_steps * update_seconds(profile, job.workers) + exchange_seconds(profile, job.workers))
        for job in jobs
    )
    return profile.model_bytes * frequency / _port(profile)


def shards(load: float) -> int:
    """Ports that a server with that load on one port would need."""
    return max(1, math.ceil(load / FULL))


def most_steps(profile: Profile, groups: Sequence[Sequence[WorkerPlan]]) -> tuple[int, str]:
    """Local steps of the fastest group, and what bounds them: enough to hide slow links and a crowded server,
    but never so many that an epoch has only a few exchanges, nor that groups drift apart."""
    times = [update_seconds(profile, workers) for workers in groups]
    quickest = min(times)
    slowest_exchange = max(exchange_seconds(profile, workers, len(groups)) for workers in groups)
    samples = sum(
        sum(worker.share for worker in workers) * quickest / own for workers, own in zip(groups, times, strict=True)
    )
    wanted = math.ceil(slowest_exchange / LOST / quickest)
    fitting = int(profile.epoch_samples / EXCHANGES / samples)
    whole = [
        profile.epoch_samples // sum(worker.share for worker in workers) * own / quickest
        for workers, own in zip(groups, times, strict=True)
    ]
    if (most := max(1, int(min(whole)))) < LOCAL_STEPS:
        return most, "an epoch has no more for each group"
    if max(LOCAL_STEPS, wanted) <= min(fitting, MOST_STEPS):
        return max(LOCAL_STEPS, wanted), f"exchanges cost no more than {LOST:.0%} of the time"
    if fitting < LOCAL_STEPS:
        return LOCAL_STEPS, f"the fastest makes {LOCAL_STEPS} between two exchanges, which is the least"
    if fitting < MOST_STEPS:
        return fitting, f"an epoch still has {EXCHANGES} exchanges of each group or so"
    return MOST_STEPS, f"groups do not drift apart for more than {MOST_STEPS} updates"


def together(profile: Profile, workers: Sequence[WorkerPlan]) -> float:
    """Roughly the seconds of one update that these share by speed: no caps, no whole samples."""
    each = [sample_seconds(worker) + worker.loading_seconds for worker in workers]
    fixed = sum(worker.fixed_seconds / c for worker, c in zip(workers, each, strict=True))
    computing = (profile.global_batch + fixed) / sum(1 / c for c in each)
    if len(workers) == 1:
        return computing
    link = slowest(profile.network, [worker.group for worker in workers])
    return reduction(profile.model_bytes, len(workers), link).seconds(computing)


def ring_seconds(profile: Profile, workers: Sequence[WorkerPlan]) -> float:
    """Seconds of one whole exchange of gradients, hidden or not."""
    link = slowest(profile.network, [worker.group for worker in workers])
    return ring(link, profile.model_bytes, len(workers))


def _port(profile: Profile) -> float:
    """Bytes/s of the server's port."""
    return (profile.network.server or profile.network.default).bytes_per_second
