"""Buffers of a job's workers, which one model stands for: each worker's go their own way within an update."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class WorkersBuffers:
    """The models hold the buffers of one worker of the job at a time, at first the leader's.

    Args:
        models: as given to ``run.setup``.
        workers: of the job.
    """

    def __init__(self, models: Sequence[nn.Module], workers: int) -> None:
        self._buffers = list(dict.fromkeys(buffer for model in models for buffer in model.buffers()))
        self._of = [[buffer.clone() for buffer in self._buffers] for _ in range(workers)]
        self._now = 0
        trained = [model for model in models if any(parameter.requires_grad for parameter in model.parameters())]
        layers = [layer for model in trained for layer in model.modules() if isinstance(layer, _BatchNorm)]
        statistics = {id(buffer) for layer in layers for buffer in layer.buffers(recurse=False)}
        floats = [(place, buffer) for place, buffer in enumerate(self._buffers) if buffer.is_floating_point()]
        self.statistics = [place for place, buffer in floats if id(buffer) in statistics]
        self.others = [place for place, buffer in floats if id(buffer) not in statistics]

    @torch.no_grad()
    def change(self, worker: int) -> None:
        """The models hold this worker's from here on."""
        for buffer, old, new in zip(self._buffers, self._of[self._now], self._of[worker], strict=True):
            old.copy_(buffer)
            buffer.copy_(new)
        self._now = worker

    @torch.no_grad()
    def spread(self) -> None:
        """All workers have what the models hold."""
        for worker in self._of:
            for copy, buffer in zip(worker, self._buffers, strict=True):
                copy.copy_(buffer)

    @torch.no_grad()
    def average(self, places: Sequence[int], weights: Sequence[int]) -> None:
        """All workers get the mean of the buffers at ``places``, and the models hold the leader's."""
        self.change(0)
        self._of[0] = [buffer.clone() for buffer in self._buffers]
        for place in places:
            parts = [own[place] * weight for own, weight in zip(self._of, weights, strict=True) if weight]
            mean: Tensor = torch.stack(parts).sum(0) / sum(weights)
            self._buffers[place].copy_(mean)
            for own in self._of:
                own[place].copy_(mean)
