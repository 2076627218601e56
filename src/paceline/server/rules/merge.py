"""Weighted delta: each sample counts the same, whoever trained it and however many steps it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paceline.server.rules.base import PushInfo, Rule

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Merge(Rule):
    """``w += (samples / steps) / global_batch * delta``: a local step weighs its part of the global batch."""

    def update(self, weights: Tensor, delta: Tensor, state: dict[str, Tensor], push: PushInfo) -> None:
        weights.add_(delta, alpha=push.part)
