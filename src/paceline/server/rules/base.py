"""What an update rule is: state in, state out; it sees flat float32 tensors and numbers, never user code.

Rules are made to be checked, too, where there is no torch: their files import it for types alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paceline.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class PushInfo:
    """What comes with a delta: samples and local steps it was learned over, how many versions it is behind, and, of a
    step of plain SGD, its learning rate."""

    samples: int
    steps: int
    global_batch: int
    staleness: int
    rate: float = 0.0

    @property
    def part(self) -> float:
        """What a local step of it is of the global batch. So weighted, every sample counts the same."""
        return self.samples / self.steps / self.global_batch


@dataclass(frozen=True)
class Rule(ABC):
    """One way to apply pushes. Its fields are its options, all of them numbers with a default.

    ``gradients``: pushes must be steps of plain SGD.
    """

    gradients: ClassVar[bool] = False

    def init(self, weights: Tensor) -> dict[str, Tensor]:
        """State kept beside ``weights`` (flat float32): none unless a rule says otherwise."""
        return {}

    @abstractmethod
    def update(self, weights: Tensor, delta: Tensor, state: dict[str, Tensor], push: PushInfo) -> None:
        """Apply ``delta`` to ``weights`` in place; all flat float32 of one size. ``delta`` may be overwritten."""

    def close(self, weights: Tensor, state: dict[str, Tensor]) -> None:  # noqa: B027  most have nothing to do
        """The pushes since the last call are all of one version."""

    def _check(self, option: str, least: float, most: float) -> None:
        """Raises ConfigError for an option out of its range."""
        if not least <= (value := getattr(self, option)) <= most:
            raise ConfigError(
                f"{option}={value:g} of a rule", expected=f"{least:g} to {most:g}", remedy="Change it in --rule."
            )
