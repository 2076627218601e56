"""What machines there are: the cluster of a file or this host, and what will go wrong there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import ConfigError
from paceline.hardware import checks, host
from paceline.hardware.checks import Finding
from paceline.hardware.facts import Card, Facts
from paceline.launchers import bootstrap
from paceline.planning import places
from paceline.schema.cluster import Cluster, Emulation, GroupSpec
from paceline.schema.plan import Plan, WorkerPlan

PROBE_SECONDS = 10.0


def cluster(path: Path | None, emulation: Emulation | None = None) -> Cluster:
    """The cluster of a file, or this host as it is; ``emulation`` overrides the file's way of emulating.

    Raises:
        ConfigError: the file is missing or wrong, or nothing is emulated there.
    """
    found = _here(host.cards()) if path is None else Cluster.read(path)
    if emulation is None or emulation == found.emulation:
        return found
    return Cluster.parse({**found.model_dump(exclude_unset=True), "emulation": emulation}, str(path or "--emulation"))


def _here(cards: Sequence[Card]) -> Cluster:
    names = [card.device for card in cards]
    return Cluster(name="here", groups=[GroupSpec(name="here", devices=names or 1)])


@dataclass(frozen=True)
class Diagnosis:
    """What ``doctor`` saw: the host, the workers that a run would start there, and what is to be said of them."""

    facts: Facts
    workers: list[WorkerPlan]
    findings: list[Finding]


def doctor(path: Path | None, known: Facts | None = None) -> Diagnosis:
    """Look at this host, or at one that is ``known``, as a run on the cluster of ``path`` would find it.

    Raises:
        ConfigError: the cluster file is missing or wrong in itself.
    """
    known = known or host.facts(bootstrap.variables(), accelerators=True)
    machines = _here(known.cards) if path is None else Cluster.read(path)
    try:
        workers = probe_plan(machines, known, PROBE_SECONDS).workers
    except ConfigError as error:
        what = f"{error.seen}; expected {error.expected}" if error.expected else error.seen
        return Diagnosis(known, [], [Finding("error", what, error.remedy), *checks.check(known, [])])
    return Diagnosis(known, workers, checks.check(known, workers))


def probe_plan(machines: Cluster, known: Facts, seconds: float) -> Plan:
    """The plan that measures ``machines``, on a host of which this much is known."""
    cards = known.cards if machines.emulation == "none" else ()
    return places.probe_plan(machines, seconds, known.cores, cards, bootstrap.read(known.environment).threads)
