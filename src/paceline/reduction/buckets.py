"""Gradients of one model in flat buckets, each summed over the workers as soon as backward has filled it.

parameters   p5 p4 | p3 p2 p1 p0 | tail          (the last registered comes first: backward makes it first)
buckets      #0    | #1          + tail          (the tail rides in the last bucket where their dtypes agree)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.errors import ConfigError

FIRST_BYTES, MORE_BYTES = 1 << 20, 25 << 20  # a small first bucket leaves early; DistributedDataParallel's sizes

Sent = tuple[float, float]  # seconds that handing gradients to the link took so far, and of the thread's CPU


class Bucket:
    """A flat tensor that holds the gradients of some parameters, each a view of it."""

    def __init__(self, parameters: Sequence[Tensor], like: Tensor, extra: int = 0) -> None:
        self.parameters = list(parameters)
        sizes = [parameter.numel() for parameter in parameters]
        self.flat = torch.zeros(sum(sizes) + extra, dtype=like.dtype, device=like.device)
        pieces = torch.split(self.flat[: sum(sizes)], sizes)
        self.views = [_shaped(piece, parameter) for piece, parameter in zip(pieces, parameters, strict=True)]
        self.pending = len(self.parameters)
        self.work: dist.Work | None = None
        self._held: list[tuple[Tensor, Tensor, Tensor]] = []

    @property
    def gradients(self) -> Tensor:
        """The flat gradients, without the tail."""
        return self.flat[: sum(view.numel() for view in self.views)]

    def put_aside(self) -> None:
        """Take away the gradients there are."""
        for parameter, view in self._pairs():
            if parameter.grad is not None:
                inside = _lies_in(parameter.grad, view)
                self._held.append((parameter, view, view.clone() if inside else parameter.grad))
                parameter.grad = None

    def give_back(self) -> None:
        """Add what was put aside."""
        for parameter, view, gradient in self._held:
            if parameter.grad is None:
                parameter.grad = view.copy_(gradient)
            else:
                parameter.grad.add_(gradient)
        self._held = []

    def launch(self, group: dist.ProcessGroup | None) -> None:
        """Gather the gradients into the flat tensor, let parameters see it there, and begin to sum it."""
        strays, places = [], []
        for parameter, view in self._pairs():
            if parameter.grad is None:
                view.zero_()
            elif not _lies_in(parameter.grad, view):
                strays.append(parameter.grad)
                places.append(view)
                parameter.grad = view
        if strays:
            torch._foreach_copy_(places, strays)
        whole = torch.view_as_real(self.flat) if self.flat.is_complex() else self.flat
        self.work = dist.all_reduce(whole, group=group, async_op=True)

    def wait(self) -> None:
        """Until the sum is here."""
        if self.work is not None:
            self.work.wait()
        self.work, self.pending = None, len(self.parameters)

    def _pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(self.parameters, self.views, strict=True)


def assign(parameters: Sequence[Tensor], extra: int) -> tuple[list[Bucket], Tensor]:
    """Buckets for ``parameters``, and a tail of ``extra`` values that is summed with the last of them.

    The tail is float64 where a parameter is, else float32; where the last bucket has another dtype, it gets its own.
    """
    groups: list[list[Tensor]] = []
    room = 0
    for parameter in reversed(parameters):
        if room <= 0 or parameter.dtype != groups[-1][0].dtype:
            room = MORE_BYTES if groups else FIRST_BYTES
            groups.append([])
        groups[-1].append(parameter)
        room -= parameter.numel() * parameter.element_size()
    double = any(parameter.dtype == torch.float64 for parameter in parameters)
    tail = torch.empty(0, dtype=torch.float64 if double else torch.float32, device=parameters[0].device)
    rides = groups[-1][0].dtype == tail.dtype
    buckets = [Bucket(group, group[0], extra if rides and group is groups[-1] else 0) for group in groups]
    if not rides:
        buckets.append(Bucket([], tail, extra))
    return buckets, buckets[-1].flat[-extra:]


def _shaped(piece: Tensor, parameter: Tensor) -> Tensor:
    """The piece in the parameter's shape and, for dense images, its memory layout."""
    if parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last):
        return piece.as_strided(parameter.shape, parameter.stride())
    return piece.view(parameter.shape)


def _lies_in(gradient: Tensor, view: Tensor) -> bool:
    if gradient.layout != torch.strided:
        raise ConfigError(
            "a gradient is sparse", expected="a dense one", remedy="Build the embedding with sparse=False."
        )  # fmt: skip
    return gradient.data_ptr() == view.data_ptr()
