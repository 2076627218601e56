"""What an update rule is: state in, state out; it sees flat float32 tensors and numbers, never user code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class PushInfo:
    """What comes with a delta: samples and local steps it was learned over, and how many versions it is behind."""

    samples: int
    steps: int
    global_batch: int
    staleness: int


class Rule(ABC):
    """One way to apply pushes."""

    def init(self, weights: Tensor) -> dict[str, Tensor]:
        """State kept beside ``weights`` (flat float32): none unless a rule says otherwise."""
        return {}

    @abstractmethod
    def update(self, weights: Tensor, delta: Tensor, state: dict[str, Tensor], push: PushInfo) -> None:
        """Apply ``delta`` to ``weights`` in place; all flat float32 of one size. ``delta`` may be overwritten."""
