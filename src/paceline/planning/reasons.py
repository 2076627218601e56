"""What a plan says of itself: why it is as it is, what it leaves out, and what it was chosen over. Numbers, in short
sentences."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.cost.compute import seconds
from paceline.planning import estimate
from paceline.schema.plan import Alternative, JobPlan, Plan, WorkerPlan
from paceline.schema.profile import Profile
from paceline.strategies.base import Layout, get

SAME = 5e-4  # of the speed: less is no difference that a person could see
NAMED = 4  # devices in a sentence; of more only the number


def plan(profile: Profile, layout: Layout, made: Plan, bound: str) -> str:
    """Why the shares and local steps are what they are; ``bound``: why there are so many steps."""
    batch, workers = profile.global_batch, made.workers
    shares = _listed([worker.share for worker in workers])
    if layout.devices == "fastest":
        rate = short_number(batch / estimate.update_seconds(profile, workers))
        return (
            f"{_name(workers[0])} is the fastest of {len(profile.devices)} devices "
            f"and takes the whole batch of {batch} at {rate} samples/s."
        )
    if layout.server:
        return _exchanges(profile, made, shares, bound)
    if layout.shares == "speed" and len(workers) == 1:
        ends = estimate.update_seconds(profile, workers)
        return f"{_name(workers[0])} takes the whole batch of {batch}; an update ends after {ends:.3g} s."
    if layout.shares == "speed":
        full = any(worker.share == worker.micro_batch for worker in workers)
        how = "as far as it holds its share at once; an update ends" if full else "so all are done with an update"
        return (
            f"Shares {shares} of {batch} follow each device's time for a batch, {how} "
            f"after {estimate.update_seconds(profile, workers):.3g} s."
        )
    return f"The batch of {batch} is cut evenly into {shares}, whatever the speed of each device."


def _exchanges(profile: Profile, made: Plan, shares: str, bound: str) -> str:
    """Of groups that meet at a server."""
    jobs = made.jobs
    updates = [estimate.update_seconds(profile, job.workers) for job in jobs]
    steps = ", ".join(f"{job.name} {job.local_steps}" for job in jobs[:NAMED])
    rates = ", ".join(f"{1 / own:.3g}" for own in updates[:NAMED])
    more = f" and {len(jobs) - NAMED} more groups" if len(jobs) > NAMED else ""
    longest = max(job.local_steps * own for job, own in zip(jobs, updates, strict=True))
    load = estimate.server_load(profile, made)
    crowded = (
        f" The server's port would be busy {load:.0%} of the time, over the {estimate.FULL:.0%} that transfers pass "
        f"without a queue: it takes {estimate.shards(load)} ports, and has 1."
        if load > estimate.FULL
        else ""
    )
    return (
        f"With shares {shares} of {profile.global_batch} groups make {rates}{more} updates/s and exchange after {steps}"
        f"{more} of them, all within {longest:.3g} s; so many, that {bound}. {_beside(profile, made)}{crowded}"
    )


def _beside(profile: Profile, made: Plan) -> str:
    """What exchanges take, and who goes on meanwhile."""
    longest = max(estimate.exchange_seconds(profile, job.workers, len(made.jobs), made.wire) for job in made.jobs)
    on = _short([job.name for job in made.jobs if job.overlap])
    grace = made.grace_seconds
    one = f" Pushes within {grace:.3g} s are one version of the weights." if grace else ""
    wire = "" if made.wire == "float32" else f" as {made.wire}"
    return f"An exchange takes {longest:.3g} s{wire}, beside which {on} go on.{one}"


def idle(profile: Profile, jobs: Sequence[JobPlan], workers: Sequence[WorkerPlan]) -> str:
    """What is said of devices to which the split gave no sample."""
    if not workers:
        return ""
    update = estimate.update_seconds(profile, [worker for job in jobs for worker in job.workers])
    quickest = min(workers, key=lambda worker: seconds(worker, 1))
    first = seconds(quickest, 1)
    fixed = f", {quickest.fixed_seconds:.3g} s of it for the batch itself," if quickest.fixed_seconds else ""
    return (
        f"Left out: {_names(workers)}. One sample takes {_name(quickest)} {first:.3g} s{fixed} and the whole update "
        f"takes the others {update:.3g} s; a larger global batch would use it."
    )


def dropped(profile: Profile, made: Plan, full: Plan) -> str:
    """Why a plan leaves devices out that would have got a share."""
    missing = _missing(full.workers, made.workers)
    if get(made.strategy).layout.server:
        return f"Left out: {_names(missing)}. With it {_rate(full)} samples/s, without it {_rate(made)}."
    before, after = (estimate.update_seconds(profile, own.workers) for own in (full, made))
    wire = estimate.ring_seconds(profile, full.workers)
    return (
        f"Left out: {_names(missing)}. With it an update takes {before:.3g} s, and its exchange of gradients "
        f"{wire:.3g} s on the wire: {_rate(full)} samples/s; without it {after:.3g} s and {_rate(made)} samples/s."
    )


def without(profile: Profile, made: Plan) -> str:
    """``"without slow (cuda:1)"``: what a plan leaves out of the devices there are."""
    left = [device.which for device in profile.devices]
    for worker in made.workers:
        left.remove(worker.which)
    return "without " + _short([f"{group} ({device})" for group, device, _ in left])


def alternative(label: str, made: Plan, chosen: Plan) -> Alternative:
    """One that was not taken, with what it would reach and why it was not."""
    mine, best = made.promised, chosen.promised
    told = f"{_rate(made)} samples/s against {_rate(chosen)}"
    if abs(mine - best) <= SAME * best:
        why = f"As fast: {told}; {_weakness(made)}."
    elif mine < best:
        why = f"{1 - mine / best:.1%} slower: {told}; {_weakness(made)}."
    else:
        how = f"--strategy {made.strategy}" if label == made.strategy else "a cluster file of these groups"
        how = how if made.wire == chosen.wire else f"wire: {made.wire} in its plan"
        stale = f", but with {_staleness(made)}" if get(made.strategy).layout.server else ""
        why = f"{mine / best - 1:.1%} faster: {told}{stale}; {how} takes it."
    return Alternative(strategy=label, predicted_samples_per_second=mine, why=why)


def _weakness(made: Plan) -> str:
    layout = get(made.strategy).layout
    if layout.devices == "fastest" or len(made.workers) == 1:
        return f"{_name(made.workers[0])} alone, the others idle"
    if layout.server:
        return f"{len(made.jobs)} groups, {_staleness(made)}"
    slow = max(made.workers, key=lambda worker: seconds(worker, worker.share))
    return f"{len(made.workers)} devices, each update waits {seconds(slow, slow.share):.3g} s for {_name(slow)}"


def _staleness(made: Plan) -> str:
    return f"a mean staleness of {short_number(made.predicted_staleness or 0.0)}"


def beaten(chosen: Plan, found: Sequence[Plan]) -> str:
    """What the reason adds where one device alone would be faster than the plan that was asked for."""
    single = max((made for made in found if len(made.workers) == 1), key=lambda made: made.promised, default=None)
    if single is None or single.promised <= chosen.promised:
        return ""
    return f" {_name(single.workers[0])} alone would be faster: {_rate(single)} samples/s against {_rate(chosen)}."


def _rate(made: Plan) -> str:
    return short_number(made.promised)


def short_number(value: float) -> str:
    """Samples/s for a sentence: whole from a thousand on, four digits below."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _name(worker: WorkerPlan) -> str:
    return f"{worker.group} ({worker.device})"


def _names(workers: Sequence[WorkerPlan]) -> str:
    return _short([_name(worker) for worker in workers])


def _short(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) if len(numbers) <= 16 else f"{min(numbers)} to {max(numbers)}"


def _missing(all_workers: Sequence[WorkerPlan], kept: Sequence[WorkerPlan]) -> list[WorkerPlan]:
    left = [worker.which for worker in kept]
    missing = []
    for worker in all_workers:
        if worker.which in left:
            left.remove(worker.which)
        else:
            missing.append(worker)
    return missing
