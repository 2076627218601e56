"""Running statistics taken anew from a whole dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from paceline.reduction.normalisation.moments import moments, parts, pooled


@torch.no_grad()
def reestimate(model: nn.Module, batches: Iterable[Any], sum_over_workers: Callable[[Tensor], None]) -> None:
    """Set the running statistics of every BatchNorm to the mean and variance of its input over all workers' batches.

    Like ``torch.optim.swa_utils.update_bn``, but each value weighs the same, whichever batch and worker it is in.
    Numbers and sizes of batches may differ between workers; one without any takes part. Layers are normalised by the
    batch at hand meanwhile, others are in training mode, and no forward is a collective. A layer that no batch reached
    keeps its statistics; where a batch fails, a layer has those of its last one.

    Args:
        model: without ``DistributedDataParallel`` around it, the same on every worker; its modes are restored.
        batches: on the model's device; of a list or tuple, the model gets the first element.
        sum_over_workers: sums a float64 vector on the CPU in place over all workers. Called twice on every worker.
    """
    modes = {module: module.training for module in model.modules()}
    layers = [module for module in modes if isinstance(module, _BatchNorm)]
    populations = [_Population(layer) for layer in layers if layer.running_mean is not None]
    if not populations:
        return
    hooks = [population.layer.register_forward_pre_hook(population.add) for population in populations]
    try:
        model.train()
        for layer in layers:
            layer.eval()  # then it normalises by its running statistics, which the hook has set to the batch's
        for batch in batches:
            model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    finally:
        for hook in hooks:
            hook.remove()
        for module, mode in modes.items():
            module.training = mode
    sums = _summed([population.sums() for population in populations], sum_over_workers)
    means = [piece[2:] / piece[1] for piece in sums]
    around = [population.squares(mean) for population, mean in zip(populations, means, strict=True)]
    squares = _summed(around, sum_over_workers)
    for population, piece, mean, square in zip(populations, sums, means, squares, strict=True):
        if piece[1]:
            population.write(int(piece[0]), mean, square / piece[1])


class _Population:
    """What one layer saw of this worker's batches, in float64."""

    def __init__(self, layer: _BatchNorm) -> None:
        self.layer, self._batches = layer, 0
        self._seen = torch.zeros(1 + 2 * layer.num_features, dtype=torch.float64)

    def add(self, _: nn.Module, args: tuple[Tensor, ...]) -> None:
        """Before the layer's forward: take its input in, and let it be normalised by the moments of that."""
        row = moments(args[0].double())
        self._batches += 1
        if args[0].numel():
            self._seen = pooled(torch.stack((self._seen.to(row.device), row)))
            self._set(*parts(row)[1:])

    def sums(self) -> Tensor:
        """Numbers of batches and of values per channel, and the sums of these values (2 + C)."""
        count, mean, _ = parts(self._seen.cpu())
        return torch.cat((count.new_full((1,), self._batches), count, count * mean))

    def squares(self, center: Tensor) -> Tensor:
        """Sums of squared distances from ``center`` (C)."""
        count, mean, variance = parts(self._seen.cpu())
        return count * (variance + (mean - center).square())

    def write(self, batches: int, mean: Tensor, variance: Tensor) -> None:
        """Give the layer its statistics."""
        self._set(mean, variance)
        if self.layer.num_batches_tracked is not None:
            self.layer.num_batches_tracked.fill_(batches)

    def _set(self, mean: Tensor, variance: Tensor) -> None:
        if self.layer.running_mean is not None and self.layer.running_var is not None:
            self.layer.running_mean.copy_(mean)
            self.layer.running_var.copy_(variance)


def _summed(pieces: Sequence[Tensor], sum_over_workers: Callable[[Tensor], None]) -> tuple[Tensor, ...]:
    flat = torch.cat(list(pieces))
    sum_over_workers(flat)
    return torch.split(flat, [piece.numel() for piece in pieces])
