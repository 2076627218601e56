"""Where workers are: on which device each one measures, and where its card is now."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.errors import ConfigError
from paceline.hardware.cores import threads
from paceline.hardware.facts import CPU, Card, find
from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.profile import Pace


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
            pace=_pace(group) if cluster.emulation == "pacing" else None,
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


def _pace(group: GroupSpec) -> Pace | None:
    if group.sample_seconds is None:
        return None
    return Pace(fixed_seconds=group.fixed_seconds, sample_seconds=group.sample_seconds)


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
