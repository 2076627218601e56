"""Models as one flat float32 vector: parameters and floating-point buffers, in order of registration."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class FlatState:
    """What an exchange carries: float32, complex values as two. Integer buffers (counters) stay with their worker."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        tensors = [tensor for model in models for tensor in (*model.parameters(), *model.buffers())]
        unique = {id(tensor): tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()}
        self._tensors = [torch.view_as_real(t.detach()) if t.is_complex() else t for t in unique.values()]
        self._learned = [isinstance(tensor, nn.Parameter) for tensor in unique.values()]
        self.size = sum(tensor.numel() for tensor in self._tensors)

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
        for (tensor, piece), learned in zip(self._pieces(change), self._learned, strict=True):
            if learned:
                tensor.add_(piece.to(tensor.device))

    def _pieces(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        pieces = torch.split(flat, [tensor.numel() for tensor in self._tensors])
        return [(tensor, piece.view_as(tensor)) for tensor, piece in zip(self._tensors, pieces, strict=True)]
