"""The order of samples: one permutation an epoch, the same on every worker whatever their number."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paceline.ops import Range


def order(size: int, epoch: int, seed: int) -> Tensor:
    """A permutation of ``0..size-1`` (int64) that depends on seed and epoch only."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return torch.randperm(size, generator=generator)


def evaluation_part(size: int, weights: Sequence[float], position: int) -> Range:
    """This worker's contiguous part of an evaluation set, in proportion to ``weights``; each sample once."""
    total = sum(weights)
    return Range(0, size).cut([max(1, round(1000 * weight / total)) for weight in weights])[position]
