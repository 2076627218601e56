"""Plain steps and momentum at the server, as asynchronous parameter servers take them: Dean et al., NIPS 2012.

A push carries the step that plain SGD would take (or, of a strategy that pushes differences, what was learned). Pushes
of one version are one step. Stale steps may be damped as in Xie et al., "Asynchronous Federated Optimization" (2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paceline.server.rules.base import PushInfo, Rule

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Sgd(Rule):
    """``w += part / (1 + staleness) ** damping * step``; without damping what ``merge`` does."""

    damping: float = 0.0

    def __post_init__(self) -> None:
        self._check("damping", 0.0, 4.0)

    def update(self, weights: Tensor, delta: Tensor, state: dict[str, Tensor], push: PushInfo) -> None:
        weights.add_(delta, alpha=self._weight(push))

    def _weight(self, push: PushInfo) -> float:
        return push.part / math.pow(1 + push.staleness, self.damping)


@dataclass(frozen=True)
class Momentum(Sgd):
    """``m = beta * m + sum of weighted steps`` at the end of a version, then ``w += m``.

    ``groups`` that push as they come add a momentum of ``1 - 1 / groups`` by themselves (Mitliagkas et al., Allerton
    2016); ``beta`` is lowered so that both together make ``momentum``.
    """

    momentum: float = 0.9
    groups: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("momentum", 0.0, 0.999)
        self._check("groups", 1.0, 1e6)

    @property
    def beta(self) -> float:
        """Momentum that is left to add."""
        return max(0.0, 1 - self.groups * (1 - self.momentum))

    def init(self, weights: Tensor) -> dict[str, Tensor]:
        return {"momentum": weights.new_zeros(weights.shape), "sum": weights.new_zeros(weights.shape)}

    def update(self, weights: Tensor, delta: Tensor, state: dict[str, Tensor], push: PushInfo) -> None:
        state["sum"].add_(delta, alpha=self._weight(push))

    def close(self, weights: Tensor, state: dict[str, Tensor]) -> None:
        state["momentum"].mul_(self.beta).add_(state["sum"])
        state["sum"].zero_()
        weights.add_(state["momentum"])
