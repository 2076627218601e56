"""Momentum over what all groups learned, taken once a round: between rounds a push moves the weights by itself.

Liu et al., "Asynchronous Local-SGD Training for Language Modeling" (2024), algorithm 3, with c = 0. A round there is a
fixed number of pushes; here it is done when the parts that its pushes are of the global batch make a whole, which is
the same where all groups push equally often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paceline.server.rules.base import PushInfo, Rule

if TYPE_CHECKING:
    from torch import Tensor

WHOLE = 1 - 1e-6  # parts are quotients of whole numbers, and their sum is a float32


@dataclass(frozen=True)
class DelayedNesterov(Rule):
    """``w += rate * part * delta``; at the end of a round ``m = momentum * m + sum of part * delta`` and
    ``w += rate * momentum * m``. The deltas point downhill."""

    rate: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        self._check("rate", 0.001, 10.0)
        self._check("momentum", 0.0, 0.999)

    def init(self, weights: Tensor) -> dict[str, Tensor]:
        return {"momentum": weights.new_zeros(weights.shape), "round": weights.new_zeros(weights.shape),
                "part": weights.new_zeros(())}  # fmt: skip

    def update(self, weights: Tensor, delta: Tensor, state: dict[str, Tensor], push: PushInfo) -> None:
        weights.add_(delta, alpha=self.rate * push.part)
        state["round"].add_(delta, alpha=push.part)
        state["part"] += push.part
        if float(state["part"]) >= WHOLE:
            state["momentum"].mul_(self.momentum).add_(state["round"])
            weights.add_(state["momentum"], alpha=self.rate * self.momentum)
            state["round"].zero_()
            state["part"].zero_()
