"""What is not a gradient and must still be the same on all workers of a job."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


@torch.no_grad()
def merge_buffers(models: Sequence[nn.Module], part: float) -> None:
    """Average floating-point buffers over the job, each worker's weighing its ``part`` of the samples.

    Not BatchNorm's of a model that trains: those are merged in every update.
    """
    for model in models:
        trains = any(parameter.requires_grad for parameter in model.parameters())
        layers = [layer for layer in model.modules() if trains and isinstance(layer, _BatchNorm)]
        merged = {id(buffer) for layer in layers for buffer in layer.buffers(recurse=False)}
        for buffer in model.buffers():
            if buffer.is_floating_point() and id(buffer) not in merged:
                whole = buffer.mul(part)
                dist.all_reduce(whole)
                buffer.copy_(whole)


@torch.no_grad()
def share_first_weights(models: Sequence[nn.Module]) -> None:
    """Give the first worker's parameters and buffers to the whole job."""
    for tensor in dict.fromkeys(t for model in models for t in (*model.parameters(), *model.buffers())):
        dense = tensor.detach().contiguous()
        dist.broadcast(torch.view_as_real(dense) if dense.is_complex() else dense, src=0)
        tensor.copy_(dense)


class Kept:
    """A copy of all buffers, so that a forward can be undone."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self._buffers = list(dict.fromkeys(buffer for model in models for buffer in model.buffers()))
        self._copies = [buffer.clone() for buffer in self._buffers]

    @torch.no_grad()
    def keep(self) -> None:
        """Note them as they are."""
        if self._buffers:
            torch._foreach_copy_(self._copies, self._buffers)

    @torch.no_grad()
    def put_back(self) -> None:
        """Make them what they were."""
        if self._buffers:
            torch._foreach_copy_(self._buffers, self._copies)
