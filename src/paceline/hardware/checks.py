"""What would go wrong on a host, found before anything starts. A check is a function of ``TABLE``: facts in, findings
out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from paceline.errors import ConfigError
from paceline.hardware.facts import CPU, Card, Facts, find
from paceline.schema.plan import WorkerPlan

Workers = Sequence[WorkerPlan]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing seen. An error stops a run, a warning may, a note does not."""

    level: Literal["error", "warning", "note"]
    what: str
    remedy: str = ""


def check(facts: Facts, workers: Workers) -> list[Finding]:
    """All findings on the host of ``facts``, where ``workers`` are to train; errors first."""
    found = [finding for one in TABLE for finding in one(facts, workers)]
    return sorted(found, key=lambda finding: ("error", "warning", "note").index(finding.level))


def refuse(facts: Facts, workers: Workers) -> None:
    """Stop before anything starts.

    Raises:
        ConfigError: the first error there is.
    """
    for finding in check(facts, workers):
        if finding.level == "error":
            raise ConfigError(finding.what, remedy=finding.remedy, where=facts.host)


def supports(arches: Sequence[str], capability: tuple[int, int]) -> bool:
    """A build for ``arches`` has code that runs on a card of this compute capability.

    Machine code (sm_75) runs on the same major and no smaller minor version, and with a letter (sm_90a) on that very
    card; compute_75 is compiled for any newer card when it is first used.
    Source: CUDA C++ Programming Guide, binary and PTX compatibility.
    """
    for kind, major, minor, letter in (_parts(arch) for arch in arches):
        built = (major, minor)
        same = built == capability if letter == "a" else built[0] == capability[0] and built <= capability
        if same or (kind == "compute" and not letter and built <= capability):
            return True
    return False


def _parts(arch: str) -> tuple[str, int, int, str]:
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([a-z]?)", arch)
    return (match[1], int(match[2]), int(match[3]), match[4]) if match else ("", 0, 0, "")


def _missing(facts: Facts, workers: Workers) -> Iterator[Finding]:
    """A device of the cluster that torch does not see."""
    for worker in workers:
        if worker.device == CPU or find(facts.cards, worker.device) is not None:
            continue
        what = f"group '{worker.group}' wants {worker.device} but "
        if facts.build is None:
            what += "this build of torch has neither CUDA nor ROCm"
            yield Finding("error", what, f"Install torch for your card, or write devices: [{CPU}].")
        elif not facts.cards:
            yield Finding(
                "error", f"{what}torch ({facts.build}) sees no card", "Is the driver there? See `nvidia-smi`."
            )
        else:
            what += f"torch sees {'; '.join(map(str, facts.cards))}"
            yield Finding("error", what, "Name one of these; CUDA_VISIBLE_DEVICES may hide others.")


def _arches(facts: Facts, workers: Workers) -> Iterator[Finding]:
    """A card for which torch was not built: it fails at its first operation, however long the set-up took."""
    good = [card for card in facts.cards if _runs(facts, card)]
    for card in facts.cards:
        if card in good or card.device not in [worker.device for worker in workers] or card.capability is None:
            continue
        built = ", ".join(
            dict.fromkeys(f"{major}.{minor}{letter}" for _, major, minor, letter in map(_parts, facts.arches))
        )
        without = f"export CUDA_VISIBLE_DEVICES={','.join(other.uuid or str(other.index) for other in good)}"
        yield Finding(
            "error",
            f"{card} on {facts.host} has compute capability {'.'.join(map(str, card.capability))}, "
            f"for which this build of torch holds no code; it supports {built}",
            f"To go on without it: {without if good else f'devices: [{CPU}] in the cluster file'}; "
            "or install an older torch that still supports it.",
        )


def _runs(facts: Facts, card: Card) -> bool:
    """Also where nothing is known of the build or the card, as on ROCm."""
    return card.capability is None or not facts.arches or supports(facts.arches, card.capability)


def _order(facts: Facts, workers: Workers) -> Iterator[Finding]:
    """torch counts the fastest card first, nvidia-smi by slot."""
    counted = [uuid for uuid in facts.order if uuid in [card.uuid for card in facts.cards]]
    both = [card for card in facts.cards if card.uuid in counted]
    if [card.uuid for card in both] != counted:
        pairs = "; ".join(f"{card} is its {facts.order.index(card.uuid or '')}" for card in both)
        yield Finding(
            "warning",
            f"torch and nvidia-smi count the cards differently: {pairs}",
            "Name cards by UUID in the cluster file, or set CUDA_DEVICE_ORDER=PCI_BUS_ID to count as nvidia-smi does.",
        )


def _visible(facts: Facts, workers: Workers) -> Iterator[Finding]:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if facts.build is not None and name in facts.environment:
            yield Finding("note", f"{name}={facts.environment[name]}: torch sees {len(facts.cards)} cards")


def _interfaces(facts: Facts, workers: Workers) -> Iterator[Finding]:
    """gloo aborts the process on a name in NCCL's syntax."""
    given = facts.environment.get("GLOO_SOCKET_IFNAME", "")
    if any(name.startswith(("^", "=")) for name in given.split(",")):
        yield Finding(
            "error",
            f"GLOO_SOCKET_IFNAME is '{given}', but gloo takes plain names of interfaces, as in eth0 or eth0,eth1",
            "Unset it or name an interface (see `ip -brief link`); NCCL_SOCKET_IFNAME may keep its ^.",
        )


def _wsl(facts: Facts, workers: Workers) -> Iterator[Finding]:
    if "microsoft-standard-WSL2" in facts.kernel and len(facts.cards) > 1:
        yield Finding(
            "warning",
            f"this is WSL ({facts.kernel}) with {len(facts.cards)} cards: NCCL between cards is known to fail there or "
            "to run out of pinned memory, with messages about something else; only a run shows it",
            "Try it: NCCL_DEBUG=INFO paceline run --probe-seconds 1 RECIPE. If it fails, give each card a group of "
            "its own and use --strategy hybrid: groups meet over gloo, without NCCL.",
        )


def _threads(facts: Facts, workers: Workers) -> Iterator[Finding]:
    if not workers:
        return
    kept = facts.environment.get("OMP_NUM_THREADS")
    why = f"OMP_NUM_THREADS={kept} is kept" if kept else "OMP_NUM_THREADS sets another number"
    if any(worker.speed is not None for worker in workers):
        why = "emulated devices have one each"
    counts = ", ".join(dict.fromkeys(str(worker.threads) for worker in workers))
    yield Finding(
        "note", f"CPU threads of each worker: {counts} (cores: {facts.cores}, workers: {len(workers)}); {why}"
    )


TABLE: tuple[Callable[[Facts, Workers], Iterator[Finding]], ...] = (
    _missing,
    _arches,
    _interfaces,
    _order,
    _wsl,
    _visible,
    _threads,
)
