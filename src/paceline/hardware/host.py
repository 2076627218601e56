"""Reads the facts of this host. Torch is imported only where a card is asked for."""

from __future__ import annotations

import platform
import socket
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from paceline.hardware import drivers
from paceline.hardware.cores import cores
from paceline.hardware.facts import CPU, Card, Facts, cpu_ability, find
from paceline.schema.precision import Ability


def versions() -> dict[str, str]:
    """What a run is made with."""
    return {"paceline": version("paceline"), "python": platform.python_version(), "torch": version("torch")}


def cards() -> list[Card]:
    """The accelerators that torch sees, in torch's order."""
    import torch

    if not torch.cuda.is_available():
        return []
    return [_card(index) for index in range(torch.cuda.device_count())]


def facts(environment: Mapping[str, str], *, accelerators: bool) -> Facts:
    """This host. Without ``accelerators`` nothing is said of cards and of torch, which is then not imported."""
    known = Facts(socket.gethostname(), platform.release(), cores(), environment)
    if not accelerators:
        return known
    import torch

    hip, cuda = torch.version.hip, torch.version.cuda
    build = f"ROCm {hip}" if hip else f"CUDA {cuda}" if cuda else None
    arches = tuple(torch.cuda.get_arch_list()) if cuda else ()
    return Facts(known.host, known.kernel, known.cores, environment, build, arches, tuple(cards()), drivers.order())


def ability(device: str) -> Ability:
    """What ``device``, a torch name of this host, computes at speed."""
    card = find(cards(), device) if device != CPU else None
    if card is not None:
        return card.ability
    info = Path("/proc/cpuinfo")
    return cpu_ability(info.read_text() if info.exists() else "")


def _card(index: int) -> Card:
    import torch

    found = torch.cuda.get_device_properties(index)
    amd = torch.version.hip is not None
    uuid = str(getattr(found, "uuid", ""))
    return Card(
        index=index,
        uuid=f"GPU-{uuid.removeprefix('GPU-')}" if uuid else None,
        name=found.name,
        capability=None if amd else (found.major, found.minor),
        total_bytes=found.total_memory,
        vendor="amd" if amd else "nvidia",
    )
