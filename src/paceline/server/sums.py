"""Sums over all groups, round after round."""

from __future__ import annotations

from collections.abc import Set

import torch
from torch import Tensor


class Sums:
    """A round is closed once every group has brought its values. Not thread-safe; the caller holds a lock."""

    def __init__(self) -> None:
        self.round, self.total = 0, torch.zeros(0)
        self._here: dict[str, Tensor] = {}

    def add(self, group: str, values: Tensor) -> None:
        """What ``group`` brings to the open round."""
        self._here[group] = values

    def close(self, awaited: Set[str]) -> bool:
        """Close the round if all that are ``awaited`` have come; whether it did."""
        complete = bool(self._here) and awaited <= self._here.keys()
        if complete:
            self.total = torch.stack(list(self._here.values())).sum(0)
            self._here = {}
            self.round += 1
        return complete
