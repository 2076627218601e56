"""Plans that a person wrote or changed: read again with suspicion, and priced again."""

from __future__ import annotations

from collections import Counter

import yaml

from paceline import strategies
from paceline.errors import ConfigError, nearest
from paceline.planning import devices, exchanges
from paceline.planning.limit import limit
from paceline.planning.reasons import short_number
from paceline.schema.plan import Alternative, JobPlan, Plan, WorkerPlan
from paceline.schema.profile import DeviceProfile, Profile
from paceline.server import rules
from paceline.strategies.base import Layout, get

HEADER = """\
# A plan of paceline. Yours to change:
#   strategy       see `paceline plan --help`
#   share          samples of one update; all shares add up to global_batch
#   micro_batch    the most samples the device takes at once
#   local_steps    updates of a group between two exchanges with the server (hybrid)
#   overlap        how many of them it makes while an exchange is on its way; left out: it waits for it
#   grace_seconds  after a push, in which those of other groups become one version with it; left out: each is a version
#   most_ahead     how many pushes a group may be ahead of another before it waits for it; left out: any number
#   wire           float32, bfloat16 or int8: how weights cross the links to the server (hybrid)
#   rebalance      false: shares and local steps stay, whatever is measured; so do those that you have changed
#   jobs           take a worker out and give its share to others, or move it to another group (hybrid)
# Then:  paceline plan PROFILE --check THIS_FILE
# Times and predictions are measured or computed: changing them changes nothing.
"""


def document(made: Plan) -> str:
    """The plan as YAML for people, with what can be changed in it at the top."""
    content = made.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return HEADER + yaml.dump({"version": made.version, **content}, sort_keys=False, width=110, allow_unicode=True)


def check(made: Plan, profile: Profile) -> Plan:
    """The plan, if it can run on the devices of ``profile``, with their times as they were measured.

    Raises:
        ConfigError: a strategy, a worker, a share, a micro-batch or local steps that cannot be.
    """
    if made.strategy == strategies.AUTO:
        raise ConfigError(
            "a plan's strategy is auto", expected="the one it is for",
            remedy="Name one, or let the planner choose: paceline plan PROFILE --strategy auto.",
        )  # fmt: skip
    strategies.check(made.strategy)
    layout = get(made.strategy).layout
    if layout.server:
        rules.check(made.rule, layout.gradients)
    if made.cluster != profile.cluster:
        raise ConfigError(
            f"the plan is for cluster '{made.cluster}'", expected=f"'{profile.cluster}', as in the profile",
            remedy="Name the profile of that cluster, or make a new plan.",
        )  # fmt: skip
    if made.global_batch != profile.global_batch:
        raise ConfigError(
            f"global_batch is {made.global_batch}", expected=f"{profile.global_batch}, as in the profile",
            remedy="Change it in the script and probe again.",
        )  # fmt: skip
    if made.shards != 1:
        raise ConfigError(f"the server has {made.shards} shards", expected="1, all it can have", remedy="Leave it out.")
    _jobs(made, layout, profile)
    _shares(made, layout, profile)
    jobs, free = [], list(profile.devices)
    for job in made.jobs:
        workers = [_measured(worker, _taken(worker, free, profile)) for worker in job.workers]
        jobs.append(job.model_copy(update={"workers": workers}))
    known = {"emulation": profile.emulation, "limit_samples_per_second": limit(profile), "probe_seconds": None}
    return made.model_copy(update={"jobs": jobs, **known})


def kept(made: Plan, own: Plan) -> Plan:
    """A checked plan. What its workers get stays while it runs, if that is not what the planner's ``own`` gives."""
    same = [(job.shares, job.local_steps) for job in made.jobs] == [(job.shares, job.local_steps) for job in own.jobs]
    return made.model_copy(update={"rebalance": made.rebalance and same})


def compared(made: Plan, own: Plan) -> Plan:
    """A checked and priced plan, beside the planner's own of the same strategy and what that was chosen over."""
    mine, best = made.promised, own.promised
    told = f"{short_number(mine)} samples/s against {short_number(best)} of the planner's own"
    reason = f"Changed by hand: {told}, {mine / best:.1%} of it."
    if not made.rebalance:
        reason += " Shares and local steps stay as they are written, whatever is measured."
    if made.jobs == own.jobs:
        reason = f"As the planner has it. {own.reason}"
    label = f"the planner's own {own.strategy}"
    planned = Alternative(strategy=label, predicted_samples_per_second=best, why=f"Changed by hand: {told}.")
    server = get(made.strategy).layout.server
    return made.model_copy(
        update={
            "reason": reason,
            "alternatives": (planned, *own.alternatives),
            "most_gain": own.most_gain,
            "predicted_staleness": exchanges.staleness([job.overlap for job in made.jobs], made.grace_seconds)
            if server
            else None,
        }
    )


def _jobs(made: Plan, layout: Layout, profile: Profile) -> None:
    """That there are as many jobs, workers and local steps as the strategy can use."""
    twice = [name for name, count in Counter(job.name for job in made.jobs).items() if count > 1]
    if twice:
        raise ConfigError(f"two jobs are called '{twice[0]}'", remedy="Give each group its own name.")
    if layout.jobs == "one" and len(made.jobs) > 1:
        raise ConfigError(
            f"{made.strategy} has {len(made.jobs)} jobs", expected="1: all of its workers sum their gradients together",
            remedy="Put all workers in one job, or set strategy: hybrid.",
        )  # fmt: skip
    if layout.devices == "fastest" and len(made.workers) > 1:
        raise ConfigError(
            f"{made.strategy} has {len(made.workers)} workers", expected="1",
            remedy="Leave one worker, or set strategy: allreduce.",
        )  # fmt: skip
    for job in made.jobs:
        if not layout.server and job.local_steps > 1:
            raise ConfigError(
                f"job '{job.name}' has {job.local_steps} local steps, but {made.strategy} has no server to meet",
                expected="1", remedy="Leave local_steps out, or set strategy: hybrid.",
            )  # fmt: skip
        if job.overlap > (most := job.local_steps if layout.server else 0):
            raise ConfigError(
                f"job '{job.name}' has an overlap of {job.overlap}",
                expected=f"at most {most}, its local steps" if most else "none, as there is no server to exchange with",
                remedy="Lower it, or leave it out.",
            )
        if layout.server and job.local_steps > 1 and job.local_steps * sum(job.shares) > profile.epoch_samples:
            raise ConfigError(
                f"job '{job.name}' would train {job.local_steps} x {sum(job.shares)} samples between two exchanges",
                expected=f"no more than an epoch, {profile.epoch_samples}", remedy="Lower its local_steps.",
            )  # fmt: skip


def _shares(made: Plan, layout: Layout, profile: Profile) -> None:
    for job in made.jobs:
        for worker in job.workers:
            if not worker.share:
                raise ConfigError(
                    f"{_name(job, worker)} has a share of 0", expected="1 or more samples",
                    remedy="Take the worker out of the plan to leave its device out.",
                )  # fmt: skip
    total = sum(worker.share for worker in made.workers)
    if total != profile.global_batch:
        more, lower = total - profile.global_batch, total > profile.global_batch
        raise ConfigError(
            f"the shares add up to {total}", expected=f"the global batch, {profile.global_batch}",
            remedy=f"{'Take' if lower else 'Add'} {abs(more)} samples {'from' if lower else 'to'} the workers.",
        )  # fmt: skip
    shares = [worker.share for worker in made.workers]
    if layout.shares == "even" and max(shares) > min(shares) + 1:
        raise ConfigError(
            f"{made.strategy} has shares from {min(shares)} to {max(shares)}", expected="equal ones",
            remedy="Make them equal, or set strategy: allreduce.",
        )  # fmt: skip


def _taken(worker: WorkerPlan, free: list[DeviceProfile], profile: Profile) -> DeviceProfile:
    """The measured device that the worker stands for, which nobody else can have then.

    Raises:
        ConfigError: there is none, or the workers before took all of them.
    """
    for place, device in enumerate(free):
        if device.which == worker.which:
            return free.pop(place)
    known = [f"{device.group} ({device.device})" for device in profile.devices]
    name = f"{worker.group} ({worker.device})"
    if name in known:
        raise ConfigError(
            f"{name} is in the plan more often, or with another UUID, than in the profile",
            expected=f"{known.count(name)} of them", remedy="Take the worker out of the plan.",
        )  # fmt: skip
    raise ConfigError(f"{name} is no device of the profile", remedy=nearest(name, known))


def _measured(worker: WorkerPlan, device: DeviceProfile) -> WorkerPlan:
    """The worker with the times of its device.

    Raises:
        ConfigError: its micro-batches are larger than the device holds.
    """
    cap = devices.most(device)
    pieces = min(worker.micro_batch or worker.share, worker.share)
    if cap is not None and pieces > cap:
        raise ConfigError(
            f"{worker.group} ({worker.device}) would take {pieces} samples at once", expected=f"at most {cap}, its cap",
            remedy=f"Set its micro_batch to {cap} or less.",
        )  # fmt: skip
    kept = worker.model_dump(include={"share", "micro_batch", "threads", "predicted_samples_per_second"})
    return devices.worker(device).model_copy(update=kept)


def _name(job: JobPlan, worker: WorkerPlan) -> str:
    return f"{worker.group} ({worker.device}) of job '{job.name}'"
