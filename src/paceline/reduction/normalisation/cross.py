"""BatchNorm over the batches of all workers that reduce together."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from paceline.errors import ConfigError
from paceline.reduction.normalisation.moments import axes, moments, parts, pooled
from paceline.reduction.window import Window


class Peers:
    """The workers whose batches count as one.

    Copies of a model (an average of its weights) keep the same peers; a pickled model comes back alone.

    Args:
        group: of their own, for gradients travel on the default one at the same time; None: this worker is alone.
        window: tells a batch that weighs nothing.
    """

    def __init__(self, group: dist.ProcessGroup | None, window: Window) -> None:
        self._group, self._window = group, window

    def __deepcopy__(self, memo: dict[int, Any]) -> Peers:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Peers, (None, Window())

    def check(self) -> None:
        """Raises ConfigError where peers may not make the same call."""
        if self._group is not None and not self._window.open:
            raise ConfigError(
                "a SyncBatchNorm was called in training mode outside the training loop, where the other workers may "
                "not call it as often",
                remedy="Call model.eval() before you evaluate.",
            )

    @property
    def idle(self) -> bool:
        """This worker has no samples in the update; its batch only serves to meet the peers."""
        return self._window.open and self._window.samples == 0

    @property
    def weightless(self) -> bool:
        """The loss of this worker's batch counts for nothing, though its samples are seen."""
        return self._window.weightless

    def gather(self, row: Tensor) -> Tensor:
        """The rows (values) of all peers (peers, values), the same on each."""
        if self._group is None:
            return row[None]
        rows = row.new_empty(self._group.size(), row.numel())
        dist.all_gather(list(rows), row, group=self._group)
        return rows

    def sum(self, values: Tensor) -> Tensor:
        """The sum of ``values`` over all peers; ``values`` stay as they are."""
        if self._group is None:
            return values
        total = values.clone()
        dist.all_reduce(total, group=self._group)
        return total


class CrossBatchNorm(_BatchNorm):
    """BatchNorm over the batches of all peers, as one device computes it on the whole batch: output, gradients and
    running statistics, on any device. Made by ``cross_batch_norm``.

    Input (N, C, ...), N may differ between peers. While training, each forward is one collective and so is each
    backward: every peer must make the same calls. Gradients of weight and bias are those of this worker's samples, to
    be added up with all others. In evaluation there is no collective.
    """

    peers = Peers(None, Window())

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``input`` (N, C, ...).

        Raises:
            ConfigError: input of another shape; while training, fewer than 2 values per channel over all peers, or a
                call outside the training loop.
        """
        self._check_input_dim(input)
        if not self.training:
            return super().forward(input)
        self.peers.check()
        own = input[:0] if self.peers.idle else input
        with torch.no_grad():
            row = pooled(self.peers.gather(moments(own)))
            if own.numel() < 2 * self.num_features and row[0] < 2:  # asked of the device only where it can be that low
                raise ConfigError(
                    f"BatchNorm got {int(row[0])} values per channel over all workers", expected="2 or more to train",
                    remedy="Choose a global batch that leaves no single sample at the end of an epoch.",
                )  # fmt: skip
            self._track(row)
        normal = _Normalise.apply(input, self.weight, self.bias, row, self.eps, self.peers)  # type: ignore[no-untyped-call]
        return cast(Tensor, normal)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2 or input.size(1) != self.num_features:
            raise ConfigError(
                f"BatchNorm got an input of shape {tuple(input.shape)}", expected=f"(N, {self.num_features}, ...)"
            )

    def _track(self, row: Tensor) -> None:
        count, mean, variance = parts(row)
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        part = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.mul_(1 - part).add_(mean, alpha=part)
        self.running_var.mul_(1 - part).add_(variance * (count / (count - 1)), alpha=part)


class _Normalise(torch.autograd.Function):
    """Normalisation by the row of the whole batch, which depends on this worker's input and on those of its peers."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None, row: Tensor, eps: float, peers: Peers
    ) -> Tensor:
        count, mean, variance = parts(row)
        weight, bias = (None if parameter is None else parameter.to(row.dtype) for parameter in (weight, bias))
        ctx.peers, ctx.idle = peers, peers.idle
        ctx.save_for_backward(input, weight, count, mean, (variance + eps).rsqrt())
        return F.batch_norm(input, mean, variance, weight, bias, False, 0.0, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, count, mean, scale = ctx.saved_tensors
        others, shape = axes(input)
        normal = (input - mean.view(shape)).mul_(scale.view(shape))
        gradient = torch.zeros_like(normal) if ctx.peers.weightless else gradient.to(mean.dtype)
        size = 0 if ctx.idle else input.size(0)
        sums = torch.stack((gradient[:size].sum(others), (gradient * normal)[:size].sum(others)))
        to_input, (to_bias, to_weight) = None, sums
        if ctx.needs_input_grad[0]:
            means = ctx.peers.sum(sums) / count
            normal.mul_(means[1].view(shape)).add_(means[0].view(shape))
            to_input = (gradient - normal).mul_((scale if weight is None else scale * weight).view(shape))
            to_input = torch.zeros_like(input) if ctx.idle else to_input.to(input.dtype)
        weighs, shifts = ctx.needs_input_grad[1:3]
        return to_input, to_weight if weighs else None, to_bias if shifts else None, None, None, None


def cross_batch_norm(model: nn.Module, group: dist.ProcessGroup | None, window: Window) -> nn.Module:
    """Make every ``nn.SyncBatchNorm`` of a model a ``CrossBatchNorm``, and return the model.

    The layers, their parameters, buffers, hooks and flags stay the same objects; only their class changes. A layer's
    own ``process_group`` is let go: statistics are over all that reduce together.

    Args:
        model: may have been through ``nn.SyncBatchNorm.convert_sync_batchnorm``.
        group: of the workers that reduce together, used by nothing else; None where there is one worker.
        window: the state of the loop's micro-batch.
    """
    peers = Peers(group, window)
    for layer in model.modules():
        if type(layer) is nn.SyncBatchNorm:
            del layer.process_group
            layer.__class__ = CrossBatchNorm  # type: ignore[assignment]
            cast(CrossBatchNorm, layer).peers = peers
    return model
