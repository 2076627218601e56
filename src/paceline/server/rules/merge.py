"""Weighted delta: each sample counts the same, whoever trained it and however many steps it took."""

from __future__ import annotations

from torch import Tensor

from paceline.server.rules.base import PushInfo, Rule


class Merge(Rule):
    """``w += (samples / steps) / global_batch * delta``: a local step weighs its part of the global batch."""

    def update(self, weights: Tensor, delta: Tensor, state: dict[str, Tensor], push: PushInfo) -> None:
        weights.add_(delta, alpha=push.samples / push.steps / push.global_batch)
