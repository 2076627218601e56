"""The global weights: one flat float32 tensor, the pushes that are in it, and the rule that applies them.

What is not learned (a BatchNorm's averages) has no direction to go in, so a group pushes it as it is, and it moves
towards that by the part that the group's samples are of the global batch: always between what groups have seen, also
where they push from old versions, of which sums of differences can leave the range (a variance below 0).
"""

from __future__ import annotations

import math
from collections import Counter

import torch
from torch import Tensor

from paceline.errors import ConfigError
from paceline.server.rules.base import PushInfo, Rule


class Store:
    """Not thread-safe; the caller holds a lock."""

    def __init__(self, rule: Rule, global_batch: int) -> None:
        self._rule, self._global_batch = rule, global_batch
        self._weights: Tensor | None = None
        self._learned = self._readers = 0
        self._version, self._open = 0, False  # of the last push, and whether its version may get more of them
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

    def push(self, delta: Tensor, version: int, samples: int, steps: int, staleness: int, rate: float = 0.0) -> None:
        """Apply to ``version`` what was learned from one that is ``staleness`` versions old: for parameters the
        difference to it, and what there is else as it is.

        Raises:
            ConfigError: it is not finite; the weights are as they were.
        """
        if self._weights is None:
            raise RuntimeError("push before the initial weights")
        if not math.isfinite(float(torch.dot(delta, delta))):
            raise ConfigError(self._diverged(staleness), remedy="Lower the learning rate, or look at that device.")
        self._close_before(version)
        info, cut = PushInfo(samples, steps, self._global_batch, staleness, rate), self._learned
        weights = self._to_change()
        self._rule.update(weights[:cut], delta[:cut], self._state, info)
        weights[cut:].lerp_(delta[cut:], min(1.0, info.part))
        self._version, self._open = version, True
        self.pushes += 1
        self.samples += samples
        self.staleness[staleness] += 1

    def lend(self, version: int = 0) -> Tensor:
        """The newest weights (flat float32) in which all versions before ``version`` are closed, to be read without the
        lock. They do not change until they are given back: a push in between works on a copy."""
        self._close_before(version)
        self._readers += 1
        return self._newest()

    def give_back(self, weights: Tensor) -> None:
        """What was lent has been read."""
        if weights is self._weights:
            self._readers -= 1

    def _newest(self) -> Tensor:
        if self._weights is None:
            raise RuntimeError("pull before the initial weights")
        return self._weights

    def _to_change(self) -> Tensor:
        if self._readers:
            self._weights, self._readers = self._newest().clone(), 0
        return self._newest()

    def _close_before(self, version: int) -> None:
        if self._open and version > self._version:
            self._rule.close(self._to_change()[: self._learned], self._state)
            self._open = False

    def _diverged(self, staleness: int) -> str:
        """Of plain steps on a curvature those are stable whose rate times it is below 2 sin(pi / (2 (2 tau + 1)))."""
        tau = max(float(staleness), sum(own * count for own, count in self.staleness.items()) / max(1, self.pushes))
        stable = math.sin(math.pi / (2 * (2 * tau + 1)))
        less = f"; there, rates over {stable:.2g} of those that are stable without staleness diverge" if tau else ""
        return f"what was learned is not finite, from weights {tau:.1f} versions old{less}"
