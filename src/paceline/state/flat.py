"""Models as one flat float32 vector: all parameters, then all floating-point buffers, in order of registration."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class FlatState:
    """What an exchange carries: float32, complex values as two. Integer buffers (counters) stay with their worker.

    ``learned``: how many of its ``size`` values are parameters'.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        tensors: list[Tensor] = [parameter for model in models for parameter in model.parameters()]
        tensors += [buffer for model in models for buffer in model.buffers()]
        unique = {id(tensor): tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()}
        self._unique = list(unique.values())
        self._tensors = [torch.view_as_real(t.detach()) if t.is_complex() else t for t in unique.values()]
        sizes = [tensor.numel() for tensor in self._tensors]
        learned = [isinstance(tensor, nn.Parameter) for tensor in unique.values()]
        self.size, self.learned = sum(sizes), sum(size for size, own in zip(sizes, learned, strict=True) if own)

    @torch.no_grad()
    def read(self, out: Tensor) -> Tensor:
        """Copy the models' values into ``out`` (flat float32 on the CPU, ``size`` values) and return it."""
        for tensor, piece in self._pieces(out):
            piece.copy_(tensor)
        return out

    @torch.no_grad()
    def write(self, flat: Tensor) -> None:
        """Copy ``flat`` into the models."""
        for tensor, piece in self._pieces(flat):
            tensor.copy_(piece)

    @torch.no_grad()
    def add(self, change: Tensor) -> None:
        """Add ``change`` to the parameters. Buffers stay: they are averages of what was seen of late, which a sum of
        differences can take out of their range (a variance below 0)."""
        at = 0
        for tensor, piece in self._pieces(change):
            if (at := at + piece.numel()) <= self.learned:
                tensor.add_(piece.to(tensor.device))

    def parts_of(self, flat: Tensor) -> dict[Tensor, Tensor]:
        """Where each parameter lies in ``flat``, the ``learned`` values."""
        sizes = [tensor.numel() for tensor in self._tensors]
        parts, at = {}, 0
        for own, tensor, size in zip(self._unique, self._tensors, sizes, strict=True):
            if at + size <= self.learned:
                parts[own] = flat[at : at + size].view_as(tensor)
            at += size
        return parts

    def _pieces(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        pieces = torch.split(flat, [tensor.numel() for tensor in self._tensors])
        return [(tensor, piece.view_as(tensor)) for tensor, piece in zip(self._tensors, pieces, strict=True)]
