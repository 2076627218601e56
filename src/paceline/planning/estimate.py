"""What a plan would reach, by formulas: fast enough to compare many, and the default where nothing is simulated.

synchronous   X = B / max_i end_i(b_i)                    end_i: of computing b_i samples and of the exchange
groups        X = sum_j K_j B_j / R_j                      R_j = K_j T_j + max(0, x_j - O_j T_j) + u_j, and that of the
                                                           slowest for all whose pushes fall in one window
              T_j: of one update, x_j: of one exchange with the server, beside which O_j updates are made,
              u_j: of the part of it that the devices themselves do
server        load = S sum_j f_j / beta                   f_j = 1 / R_j
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from paceline.cost.compute import Seconds, curve, last_micro_batch, sample_seconds
from paceline.cost.network import ring, slowest, to_server, transfer
from paceline.cost.overlap import reduction
from paceline.schema.plan import JobPlan, Plan, Wire, WorkerPlan, on_wire
from paceline.schema.profile import Profile
from paceline.strategies.base import get

FULL = 0.7  # of a server's port: beyond it transfers wait for one another for longer than they take


def ends(profile: Profile, workers: Sequence[WorkerPlan]) -> list[Seconds]:
    """For each worker that sums gradients with the others, when its update of so many samples ends if nobody is
    slower: the exchange of gradients included, as far as it does not hide behind backward."""
    if len(workers) == 1:
        return [curve(worker) for worker in workers]
    link = slowest(profile.network, [worker.group for worker in workers])
    exchange = reduction(profile.model_bytes, len(workers), link)

    def end(worker: WorkerPlan) -> Seconds:
        own = curve(worker)
        return lambda samples: exchange.seconds(own(samples), own(last_micro_batch(worker, samples)))

    return [end(worker) for worker in workers]


def update_seconds(profile: Profile, workers: Sequence[WorkerPlan], reduces: bool = True) -> float:
    """Seconds of one update of workers that wait for one another; without an exchange unless they reduce."""
    times = ends(profile, workers) if reduces else [curve(worker) for worker in workers]
    return max(end(worker.share) for end, worker in zip(times, workers, strict=True))


def exchange_seconds(profile: Profile, workers: Sequence[WorkerPlan], crowd: int = 1, wire: Wire = "float32") -> float:
    """Seconds in which a group hands the server what it learned, and has all of its members begin with the newest.

    Args:
        profile: the wires and the bytes.
        workers: of the group.
        crowd: groups that come to the server's port at once: those that meet it equally often fall into step.
        wire: how weights cross the link.
    """
    way = to_server(profile.network, workers[0].group).link
    rate = min(way.bytes_per_second, _port(profile) / crowd)
    link = 2 * (way.latency + on_wire(profile.model_bytes, wire) / rate) + profile.network.server_seconds
    return link + _own_seconds(profile, workers)


def _own_seconds(profile: Profile, workers: Sequence[WorkerPlan]) -> float:
    """Those of them in which nobody of the group computes: the leader takes what was learned out of its device and puts
    new weights in, and so do the other members once they have them."""
    leader, *others = workers
    if not others:
        return leader.handling_seconds
    shared = transfer(slowest(profile.network, [worker.group for worker in workers]), profile.model_bytes)
    return leader.handling_seconds + shared + max(other.handling_seconds for other in others) / 2


def round_seconds(profile: Profile, job: JobPlan, crowd: int = 1, wire: Wire = "float32") -> float:
    """Seconds from one exchange of a group to the next; ``crowd`` and ``wire`` as for ``exchange_seconds``."""
    update, own = update_seconds(profile, job.workers), _own_seconds(profile, job.workers)
    left = exchange_seconds(profile, job.workers, crowd, wire) - own - job.overlap * update
    return job.local_steps * update + max(0.0, left) + own


def rates(profile: Profile, made: Plan) -> list[float]:
    """Predicted samples/s of each worker, in rank order."""
    layout = get(made.strategy).layout
    if layout.server:
        passed = _rounds(profile, made)
    else:
        passed = [update_seconds(profile, job.workers, layout.reduces) for job in made.jobs]
    return [
        job.local_steps * worker.share / spent
        for job, spent in zip(made.jobs, passed, strict=True)
        for worker in job.workers
    ]


def _rounds(profile: Profile, made: Plan) -> list[float]:
    """Seconds from one exchange to the next of each job: those in step take as long as the slowest of them."""
    own = [round_seconds(profile, job, len(made.jobs), made.wire) for job in made.jobs]
    latest = min(own) + made.grace_seconds
    in_step = max(spent for spent in own if spent <= latest)
    return [max(spent, in_step) if made.grace_seconds else spent for spent in own]


def server_load(profile: Profile, made: Plan) -> float:
    """The part of the time for which the server's port is busy in one direction, if nobody waited for it; over 1 it
    cannot keep up."""
    frequency = sum(1 / round_seconds(profile, job, wire=made.wire) for job in made.jobs)
    return on_wire(profile.model_bytes, made.wire) * frequency / _port(profile)


def shards(load: float) -> int:
    """Ports that a server with that load on one port would need."""
    return max(1, math.ceil(load / FULL))


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
