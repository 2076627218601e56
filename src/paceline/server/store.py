"""The global weights: one flat float32 tensor, the pushes that are in it, and the rule that applies them.

What is not learned (a BatchNorm's averages) has no direction to go in, so a group pushes it as it is, and it moves
towards that by the part that the group's samples are of the global batch: always between what groups have seen, also
where they push from old versions, of which sums of differences can leave the range (a variance below 0).
"""

from __future__ import annotations

from collections import Counter

from torch import Tensor

from paceline.server.rules.base import PushInfo, Rule


class Store:
    """Not thread-safe; the caller holds a lock."""

    def __init__(self, rule: Rule, global_batch: int) -> None:
        self._rule, self._global_batch = rule, global_batch
        self._weights: Tensor | None = None
        self._learned = 0
        self._state: dict[str, Tensor] = {}
        self.pushes = 0
        self.samples = 0
        self.staleness: Counter[int] = Counter()

    @property
    def ready(self) -> bool:
        """A first group has brought the initial weights."""
        return self._weights is not None

    def initialise(self, weights: Tensor, samples: int = 0, learned: int | None = None) -> None:
        """Take a first group's weights, trained on ``samples`` samples, as version 0; the first ``learned`` are
        parameters, all of them if that is not given."""
        self._weights, self.samples = weights.clone(), samples
        self._learned = len(weights) if learned is None else learned
        self._state = self._rule.init(self._weights[: self._learned])

    def push(self, delta: Tensor, samples: int, steps: int, staleness: int) -> None:
        """Apply what was learned from weights that are ``staleness`` versions old: for parameters the difference to
        them, and what there is else as it is."""
        if self._weights is None:
            raise RuntimeError("push before the initial weights")
        info, cut = PushInfo(samples, steps, self._global_batch, staleness), self._learned
        self._rule.update(self._weights[:cut], delta[:cut], self._state, info)
        self._weights[cut:].lerp_(delta[cut:], min(1.0, info.part))
        self.pushes += 1
        self.samples += samples
        self.staleness[staleness] += 1

    def copy_to(self, out: Tensor) -> None:
        """Copy the newest weights to ``out`` (float32, same size)."""
        if self._weights is None:
            raise RuntimeError("pull before the initial weights")
        out.copy_(self._weights)
