"""A host as plain records, which need neither torch nor a card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from paceline.errors import ConfigError
from paceline.schema.precision import Ability

CPU = "cpu"
FAST_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # the last is ARM's name for it


@dataclass(frozen=True, slots=True)
class Card:
    """One accelerator as torch sees it.

    ``index`` is torch's own, which changes with the environment; ``uuid`` stays. ``capability``: CUDA's, as (7, 5);
    None on ROCm.
    """

    index: int
    uuid: str | None
    name: str
    capability: tuple[int, int] | None
    total_bytes: int
    vendor: Literal["nvidia", "amd"] = "nvidia"

    @property
    def device(self) -> str:
        """Its torch name."""
        return f"cuda:{self.index}"

    @property
    def ability(self) -> Ability:
        """bfloat16 from compute capability 8.0, float16 from 7.0 (older cards have it, but slower than float32).

        ROCm: both, as torch itself answers.
        """
        name = f"{self.name} ({self.device})"
        if self.capability is None:
            return Ability(name, bfloat16=True, float16=True)
        return Ability(name, bfloat16=self.capability >= (8, 0), float16=self.capability >= (7, 0))

    def __str__(self) -> str:
        return f"{self.device} {self.name}" + (f" {self.uuid}" if self.uuid else "")


@dataclass(frozen=True, slots=True)
class Facts:
    """One host.

    ``kernel``: its release. ``build``: what this torch computes on besides the CPU, as "CUDA 12.8", and ``arches`` for
    which cards it holds code, as "sm_80" or "compute_90". ``order``: UUIDs as nvidia-smi counts them.
    """

    host: str
    kernel: str
    cores: int
    environment: Mapping[str, str] = field(default_factory=dict)
    build: str | None = None
    arches: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    order: tuple[str, ...] = ()


def find(cards: Sequence[Card], device: str) -> Card | None:
    """The card that ``device`` names: by its torch name, its UUID, or the start of one. None: the CPU, or not here.

    Raises:
        ConfigError: a UUID of no card, or of several.
    """
    if device == CPU or device.startswith("cuda:"):
        return next((card for card in cards if card.device == device), None)
    found = [card for card in cards if card.uuid is not None and card.uuid.startswith(device)]
    if len(found) == 1:
        return found[0]
    known = "; ".join(map(str, cards)) or "none"
    raise ConfigError(
        f"{len(found) or 'no'} cards have a UUID that starts with {device}", expected=f"one of this host's: {known}",
        remedy="Name a card of that list; CUDA_VISIBLE_DEVICES may hide others.",
    )  # fmt: skip


def cpu_ability(cpuinfo: str) -> Ability:
    """What the CPU of a ``/proc/cpuinfo`` computes at speed; never float16."""
    return Ability(CPU, bfloat16=not FAST_BFLOAT16.isdisjoint(cpuinfo.split()), float16=False)
