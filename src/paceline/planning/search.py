"""From a profile and a strategy to a plan: who takes how many samples, in which job, with how many local steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from paceline.cost.compute import seconds
from paceline.errors import ConfigError
from paceline.planning import balance
from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.profile import DeviceProfile, Profile
from paceline.strategies import base
from paceline.strategies.base import Layout

CPU = "cpu"


def plan(profile: Profile, strategy: str, price: Callable[[Plan], float] | None = None) -> Plan:
    """The plan of ``strategy`` on the devices of ``profile``.

    Args:
        profile: measured speeds and the global batch.
        strategy: a name of the strategies' table.
        price: predicts the samples/s of a plan.

    Raises:
        ConfigError: no such strategy, or fewer samples than devices that share them evenly.
    """
    layout = base.get(strategy).layout
    shared = _shared(profile.global_batch, [_worker(device) for device in _devices(profile, layout)], layout)
    jobs = _jobs([worker for worker in shared if worker.share], layout)
    made = Plan(
        strategy=strategy,
        cluster=profile.cluster,
        emulation=profile.emulation,
        global_batch=profile.global_batch,
        jobs=jobs,
        limit_samples_per_second=profile.limit,
        reason=_reason(profile, layout, jobs) + _left_out([worker for worker in shared if not worker.share]),
    )
    return made if price is None else made.model_copy(update={"predicted_samples_per_second": price(made)})


def probe_plan(cluster: Cluster, duration: float, cores: int, accelerators: Sequence[str]) -> Plan:
    """The plan that measures ``cluster``: every device trains at once and none talks.

    Args:
        cluster: the machines.
        duration: how many seconds to measure.
        cores: CPU cores of this host, for the threads of workers that compute on them.
        accelerators: torch names of this host's accelerators; groups that only give a number take them in order.

    Raises:
        ConfigError: a group wants more accelerators than are left.
    """
    named = {device for group in cluster.groups if isinstance(group.devices, list) for device in group.devices}
    free = [name for name in accelerators if name not in named]
    on_cpu = cluster.emulation != "none" or not accelerators
    places = [(group, device) for group in cluster.groups for device in _places(group, on_cpu, free)]
    sharers = sum(device == CPU for _, device in places) or len(places)
    threads = 1 if cluster.emulation != "none" else max(1, cores // sharers)
    workers = [
        WorkerPlan(
            group=group.name,
            device=device,
            speed=group.speed,
            threads=threads,
            share=0,
            micro_batch=group.micro_batch,
        )
        for group, device in places
    ]
    return Plan(
        strategy="solo",
        cluster=cluster.name,
        emulation=cluster.emulation,
        global_batch=None,
        jobs=[JobPlan(name="probe", workers=workers)],
        reason=f"Each of {len(workers)} devices trains alone for {duration:g} s while the others do the same.",
        probe_seconds=duration,
    )


def _places(group: GroupSpec, on_cpu: bool, free: list[str]) -> list[str]:
    """The torch names of a group's devices; those it takes from ``free`` are removed there."""
    if isinstance(group.devices, list):
        return group.devices
    if on_cpu:
        return [CPU] * group.devices
    if len(free) < group.devices:
        raise ConfigError(
            f"group '{group.name}' wants {group.devices} devices but {len(free)} accelerators are left on this host",
            remedy=f"Lower its devices, or name them, as in devices: [{CPU}].",
        )
    taken = free[: group.devices]
    del free[: group.devices]
    return taken


def _devices(profile: Profile, layout: Layout) -> list[DeviceProfile]:
    if layout.devices == "fastest":
        return [max(profile.devices, key=lambda device: device.samples_per_second)]
    return profile.devices


def _worker(device: DeviceProfile) -> WorkerPlan:
    return WorkerPlan(
        group=device.group,
        device=device.device,
        speed=device.speed,
        threads=device.threads,
        share=0,
        micro_batch=device.micro_batch,
        solo_samples_per_second=device.samples_per_second,
        fixed_seconds=device.fixed_seconds,
        sample_seconds=device.sample_seconds,
    )


def _shared(batch: int, workers: Sequence[WorkerPlan], layout: Layout) -> list[WorkerPlan]:
    if layout.shares == "even":
        shares = balance.even(batch, len(workers))
    else:
        shares = balance.split(batch, [partial(seconds, worker) for worker in workers])
    return [worker.model_copy(update={"share": share}) for worker, share in zip(workers, shares, strict=True)]


def _left_out(workers: Sequence[WorkerPlan]) -> str:
    """What the reason says of devices that got no sample."""
    if not workers:
        return ""
    names = ", ".join(f"{worker.group} ({worker.device})" for worker in workers)
    return (
        f" Left out: {names}. One sample there takes longer than the whole update on the others; "
        "a larger global batch or --strategy hybrid would use them."
    )


def _jobs(workers: list[WorkerPlan], layout: Layout) -> list[JobPlan]:
    if layout.jobs == "one":
        return [JobPlan(name="all", workers=workers)]
    groups = {
        name: [worker for worker in workers if worker.group == name]
        for name in dict.fromkeys(worker.group for worker in workers)
    }
    steps = [1] * len(groups)
    if layout.server:
        steps = balance.local_steps([1 / _update_seconds(members) for members in groups.values()])
    return [
        JobPlan(name=name, workers=members, local_steps=step)
        for (name, members), step in zip(groups.items(), steps, strict=True)
    ]


def _update_seconds(members: Sequence[WorkerPlan]) -> float:
    """Seconds of one update of workers that wait for one another."""
    return max(seconds(worker, worker.share) for worker in members)


def _reason(profile: Profile, layout: Layout, jobs: Sequence[JobPlan]) -> str:
    batch, workers = profile.global_batch, [worker for job in jobs for worker in job.workers]
    shares = ", ".join(str(worker.share) for worker in workers)
    if layout.devices == "fastest":
        return (
            f"{workers[0].group} ({workers[0].device}) is the fastest of {len(profile.devices)} devices "
            f"at {workers[0].solo_samples_per_second:.4g} samples/s and takes the whole batch of {batch}."
        )
    if layout.server:
        steps = ", ".join(f"{job.name} {job.local_steps}" for job in jobs)
        rates = ", ".join(f"{1 / _update_seconds(job.workers):.3g}" for job in jobs)
        return (
            f"The batch of {batch} is cut evenly into {shares}; groups make {rates} updates/s, so they exchange after "
            f"{steps} updates and meet the server about equally often."
        )
    if layout.shares == "speed":
        return (
            f"Shares {shares} of {batch} follow each device's time for a batch, so all are done with an update "
            f"after {_update_seconds(workers):.3g} s."
        )
    return f"The batch of {batch} is cut evenly into {shares}, whatever the speed of each device."
