"""Adam at the server, on the gradients of pushes: Kingma and Ba, ICLR 2015; AdamW: Loshchilov and Hutter, ICLR 2019.

The learning rate is the script's own of that moment, which comes with a push. It grows with the part that a version's
samples are of the global batch, by its square root unless told otherwise (You et al., 2017; Malladi et al., 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paceline.server.rules.base import PushInfo, Rule

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Adam(Rule):
    """A step for each version, on the mean gradient of its samples. ``decay``: of weights, apart from the gradient."""

    gradients: ClassVar[bool] = True

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0
    power: float = 0.5

    def __post_init__(self) -> None:
        self._check("beta1", 0.0, 0.9999)
        self._check("beta2", 0.0, 0.999999)
        self._check("epsilon", 1e-16, 1.0)
        self._check("decay", 0.0, 10.0)
        self._check("power", 0.0, 1.0)

    def init(self, weights: Tensor) -> dict[str, Tensor]:
        numbers = {name: weights.new_zeros(()) for name in ("part", "rate", "steps")}
        return {name: weights.new_zeros(weights.shape) for name in ("sum", "first", "second")} | numbers

    def update(self, weights: Tensor, delta: Tensor, state: dict[str, Tensor], push: PushInfo) -> None:
        if not push.rate:
            return  # a schedule that has come to its end
        state["sum"].add_(delta, alpha=-push.part / push.rate)
        state["part"] += push.part
        state["rate"].fill_(push.rate)

    def close(self, weights: Tensor, state: dict[str, Tensor]) -> None:
        part = float(state["part"])
        if not part:
            return
        gradient = state["sum"].div_(part)
        state["steps"] += 1
        steps, rate = int(state["steps"]), float(state["rate"]) * part**self.power
        state["first"].lerp_(gradient, 1 - self.beta1)
        state["second"].mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        scale = (state["second"] / (1 - self.beta2**steps)).sqrt_().add_(self.epsilon)
        weights.mul_(1 - rate * self.decay)
        weights.addcdiv_(state["first"], scale, value=-rate / (1 - self.beta1**steps))
        state["sum"].zero_()
        state["part"].zero_()


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with the decay that torch's has."""

    decay: float = 0.01
