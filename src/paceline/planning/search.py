"""From a profile and a strategy to a plan: who takes how many samples, in which job, with how many local steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from paceline.cost import memory
from paceline.cost.compute import seconds
from paceline.cost.split import split
from paceline.errors import ConfigError
from paceline.hardware.cores import threads
from paceline.hardware.facts import CPU, Card, find
from paceline.planning import balance
from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.profile import DeviceProfile, Profile
from paceline.strategies import base
from paceline.strategies.base import Layout

# Samples go to a device that need not accumulate unless that makes an update this much slower: accumulation rules out
# several optimizers, and BatchNorm sees less of a batch.
ACCUMULATE = 1.2


def plan(
    profile: Profile,
    strategy: str,
    price: Callable[[Plan], float] | None = None,
    headroom: float = memory.HEADROOM,
) -> Plan:
    """The plan of ``strategy`` on the devices of ``profile``.

    Args:
        profile: measured speeds and the global batch.
        strategy: a name of the strategies' table.
        price: predicts the samples/s of a plan.
        headroom: the part of each device's memory to leave free.

    Raises:
        ConfigError: no such strategy, or fewer samples than devices that share them evenly.
    """
    layout = base.get(strategy).layout
    workers = [_worker(device, headroom) for device in _devices(profile, layout)]
    shared = _shared(profile.global_batch, workers, layout)
    jobs = _jobs([worker for worker in shared if worker.share], layout)
    left_out = _left_out([worker for worker in shared if not worker.share])
    reasons = (_reason(profile, layout, jobs), left_out, profile.learning_rate)
    made = Plan(
        strategy=strategy,
        cluster=profile.cluster,
        emulation=profile.emulation,
        global_batch=profile.global_batch,
        jobs=jobs,
        limit_samples_per_second=profile.limit,
        reason=" ".join(filter(None, reasons)),
    )
    return made if price is None else made.model_copy(update={"predicted_samples_per_second": price(made)})


def probe_plan(
    cluster: Cluster, duration: float, cores: int, cards: Sequence[Card], user_threads: int | None = None
) -> Plan:
    """The plan that measures ``cluster``: every device trains at once and none talks.

    Args:
        cluster: the machines.
        duration: how many seconds to measure.
        cores: CPU cores of this host, for the threads of workers that compute on them.
        cards: this host's accelerators; groups that only give a number take them in order.
        user_threads: CPU threads of each worker, if the user set them.

    Raises:
        ConfigError: a group wants more accelerators than are left, a card that is not here, or one of another group.
    """
    places = _places(cluster, cards)
    sharers = sum(device == CPU for _, device, _ in places) or len(places)
    each = 1 if cluster.emulation != "none" else threads(cores, sharers, user_threads)
    workers = [
        WorkerPlan(
            group=group.name,
            device=device,
            speed=group.speed,
            threads=each,
            share=0,
            micro_batch=group.micro_batch,
            uuid=card.uuid if card else None,
            name=card.name if card else None,
        )
        for group, device, card in places
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


def located(made: Plan, cards: Sequence[Card]) -> Plan:
    """The plan with each worker on its card, wherever that is counted now: torch's numbers change with
    CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, UUIDs do not.

    Raises:
        ConfigError: a card of the plan is not among ``cards``.
    """

    def moved(worker: WorkerPlan) -> WorkerPlan:
        card = find(cards, worker.uuid) if worker.uuid else None
        return worker if card is None else worker.model_copy(update={"device": card.device})

    jobs = [job.model_copy(update={"workers": [moved(worker) for worker in job.workers]}) for job in made.jobs]
    return made.model_copy(update={"jobs": jobs})


def _places(cluster: Cluster, cards: Sequence[Card]) -> list[tuple[GroupSpec, str, Card | None]]:
    """For each worker its group, the torch name of its device, and its card, if it has one that is here."""
    on_cpu = cluster.emulation != "none" or not cards
    named = {
        group.name: [(device, find(cards, device)) for device in group.devices]
        for group in cluster.groups
        if isinstance(group.devices, list)
    }
    meant = [card for places in named.values() for _, card in places if card is not None]
    for card in meant:
        if meant.count(card) > 1:
            raise ConfigError(f"{card} stands in the cluster twice", remedy="Name it once, by index or by UUID.")
    free = [card for card in cards if card not in meant]
    found = []
    for group in cluster.groups:
        own = named[group.name] if isinstance(group.devices, list) else _taken(group.name, group.devices, on_cpu, free)
        found += [(group, card.device if card else device, card) for device, card in own]
    return found


def _taken(group: str, count: int, on_cpu: bool, free: list[Card]) -> list[tuple[str, Card | None]]:
    """Devices for a group that only gives their number; cards that it takes are removed from ``free``."""
    if on_cpu:
        return [(CPU, None)] * count
    if len(free) < count:
        raise ConfigError(
            f"group '{group}' wants {count} devices but {len(free)} accelerators are left on this host",
            remedy=f"Lower its devices, or name them, as in devices: [{CPU}].",
        )
    taken = free[:count]
    del free[:count]
    return [(card.device, card) for card in taken]


def _devices(profile: Profile, layout: Layout) -> list[DeviceProfile]:
    if layout.devices == "fastest":
        return [max(profile.devices, key=lambda device: device.samples_per_second)]
    return profile.devices


def _worker(device: DeviceProfile, headroom: float) -> WorkerPlan:
    limits = [limit for limit in (device.micro_batch, _cap(device, headroom)) if limit is not None]
    return WorkerPlan(
        group=device.group,
        device=device.device,
        speed=device.speed,
        threads=device.threads,
        share=0,
        micro_batch=min(limits, default=None),
        solo_samples_per_second=device.samples_per_second,
        fixed_seconds=device.fixed_seconds,
        sample_seconds=device.sample_seconds,
        uuid=device.uuid,
        name=device.name,
    )


def _cap(device: DeviceProfile, headroom: float) -> int | None:
    """Samples that the device's memory holds at once, where that was measured."""
    if device.memory_bytes is None or device.fixed_bytes is None or device.sample_bytes is None:
        return None
    return memory.cap(device.memory_bytes, device.fixed_bytes, device.sample_bytes, headroom)


def _shared(batch: int, workers: Sequence[WorkerPlan], layout: Layout) -> list[WorkerPlan]:
    shares = balance.even(batch, len(workers)) if layout.shares == "even" else _by_speed(batch, workers)
    return [worker.model_copy(update={"share": share}) for worker, share in zip(workers, shares, strict=True)]


def _by_speed(batch: int, workers: Sequence[WorkerPlan]) -> list[int]:
    """The fastest split; where all devices together hold the batch at once, one without accumulation if that is not
    much slower."""
    times = [partial(seconds, worker) for worker in workers]
    shares = split(batch, times)
    if sum(worker.micro_batch or batch for worker in workers) < batch:
        return shares
    whole = split(batch, [partial(_at_once, worker) for worker in workers])
    slowest, wholes = (max(own(n) for own, n in zip(times, part, strict=True)) for part in (shares, whole))
    return whole if wholes <= ACCUMULATE * slowest else shares


def _at_once(worker: WorkerPlan, samples: int) -> float:
    return seconds(worker, samples) if samples <= (worker.micro_batch or samples) else math.inf


def _left_out(workers: Sequence[WorkerPlan]) -> str:
    """What the reason says of devices that got no sample."""
    if not workers:
        return ""
    names = ", ".join(f"{worker.group} ({worker.device})" for worker in workers)
    return (
        f"Left out: {names}. One sample there takes longer than the whole update on the others; "
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
        full = any(worker.share == worker.micro_batch for worker in workers)
        how = "as far as it holds its share at once; an update ends" if full else "so all are done with an update"
        return (
            f"Shares {shares} of {batch} follow each device's time for a batch, {how} "
            f"after {_update_seconds(workers):.3g} s."
        )
    return f"The batch of {batch} is cut evenly into {shares}, whatever the speed of each device."
