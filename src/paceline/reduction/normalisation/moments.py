"""Count, means and variances of the parts of a batch, pooled as Chan, Golub and LeVeque do (1983): exact for any split,
and without cancellation.

A row (1 + 2 C) holds all three, for they travel together.
"""

from __future__ import annotations

import torch
from torch import Tensor


def axes(input: Tensor) -> tuple[list[int], list[int]]:
    """The axes of an input (N, C, ...) that are not channels, and the shape of one value per channel."""
    return [axis for axis in range(input.dim()) if axis != 1], [1, -1] + [1] * (input.dim() - 2)


def moments(input: Tensor) -> Tensor:
    """The row of an input (N, C, ...), in float32 or wider; N may be 0.

    Two passes, for torch's ``var_mean`` takes three times as long on a CPU.
    """
    others, shape = axes(input)
    wide = input.to(torch.promote_types(input.dtype, torch.float32))
    if not wide.numel():
        return wide.new_zeros(1 + 2 * input.size(1))
    mean = wide.mean(others)
    variance = (wide - mean.view(shape)).square_().mean(others)
    return torch.cat((mean.new_full((1,), input.numel() // input.size(1)), mean, variance))


def parts(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Counts (..., 1), means (..., C) and variances (..., C) of rows (..., 1 + 2 C)."""
    channels = rows.size(-1) // 2
    count, mean, variance = torch.split(rows, [1, channels, channels], dim=-1)
    return count, mean, variance


def pooled(rows: Tensor) -> Tensor:
    """The row of all values together, from the rows of their parts (parts, 1 + 2 C)."""
    counts, means, variances = parts(rows)
    total = counts.sum(0)
    weights = counts / total
    mean = (weights * means).sum(0)
    return torch.cat((total, mean, (weights * (variances + (means - mean).square())).sum(0)))
