"""The global weights: one flat float32 tensor, the pushes that are in it, and the rule that applies them."""

from __future__ import annotations

from collections import Counter

from torch import Tensor

from paceline.server.rules.base import PushInfo, Rule


class Store:
    """Not thread-safe; the caller holds a lock."""

    def __init__(self, rule: Rule, global_batch: int) -> None:
        self._rule, self._global_batch = rule, global_batch
        self._weights: Tensor | None = None
        self._state: dict[str, Tensor] = {}
        self.pushes = 0
        self.samples = 0
        self.staleness: Counter[int] = Counter()

    @property
    def ready(self) -> bool:
        """A first group has brought the initial weights."""
        return self._weights is not None

    def initialise(self, weights: Tensor, samples: int = 0) -> None:
        """Take a first group's weights, trained on ``samples`` samples, as version 0."""
        self._weights, self.samples = weights.clone(), samples
        self._state = self._rule.init(self._weights)

    def push(self, delta: Tensor, samples: int, steps: int, staleness: int) -> None:
        """Apply a delta learned from weights that are ``staleness`` versions old."""
        if self._weights is None:
            raise RuntimeError("push before the initial weights")
        self._rule.update(self._weights, delta, self._state, PushInfo(samples, steps, self._global_batch, staleness))
        self.pushes += 1
        self.samples += samples
        self.staleness[staleness] += 1

    def copy_to(self, out: Tensor) -> None:
        """Copy the newest weights to ``out`` (float32, same size)."""
        if self._weights is None:
            raise RuntimeError("pull before the initial weights")
        out.copy_(self._weights)
