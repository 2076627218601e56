"""Sums gradients over the workers of a job while backward runs: one all-reduce a bucket, whatever each worker holds.

A loss arrives weighed by what it counts for (``W_i / nominal``), so that the sum over workers is the gradient of the
whole update. What is reduced already (by an earlier backward, or left by an update that made no step) is the same
everywhere: it is put aside meanwhile. What nobody knows before backward rides in the last bucket's tail: how much each
worker's loss counted for, whether a parameter was used by anyone, BatchNorm's statistics, whether to stop.

    put_aside -> arm -> backward: bucket full -> all-reduce ... -> finish: the rest, the tail; wait; correct by
                                                                   nominal / sum of W_i; add what was put aside
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from paceline.errors import ConfigError
from paceline.reduction.buckets import Sent, assign
from paceline.reduction.normalisation import CrossBatchNorm
from paceline.reduction.tally import Tally


class Reducer:
    """Gradients of several models over ``workers`` workers.

    A backward reduces the models that it reached on some worker; on the others they count as zeros. Each model has a
    process group of its own, because the order in which two models' buckets fill may differ between workers.

    Args:
        models: as they were given to ``run.setup``.
        workers: in the job.
        limit: how long to wait for a worker.

    Every worker must make one at the same time.
    """

    def __init__(self, models: Sequence[nn.Module], workers: int, limit: timedelta) -> None:
        owned: dict[nn.Module, list[nn.Parameter]] = {}
        taken: set[nn.Parameter] = set()
        for model in models:
            own = [p for p in model.parameters() if p.requires_grad and p not in taken]
            taken.update(own)
            if own:
                owned[model] = own
        groups = [dist.new_group(timeout=limit) if len(owned) > 1 else None for _ in owned]
        self._parts = [
            _Part(model, own, workers, group) for (model, own), group in zip(owned.items(), groups, strict=True)
        ]
        self._frozen = [p for model in models for p in model.parameters() if not p.requires_grad and p.grad is None]
        self._ready = True  # gradients are what an update, or an earlier backward of this one, has left
        self._present: Tensor | None = None  # how many of this update's backward calls each worker came to
        self._count, self._usual = 0, 1  # reductions in this update, and in the one before

    def begin_update(self) -> None:
        """A new update: nothing is reduced yet."""
        self._present, self._ready = None, True
        self._usual = self._count or self._usual
        self._count = 0

    def put_aside(self) -> None:
        """Before each backward: what is reduced already. It is the same on all workers, and no part of a new sum."""
        for part in self._parts if self._ready else ():
            part.put_aside()
        self._ready = False

    def arm(self) -> None:
        """Backward of the last micro-batch begins."""
        for part in self._parts:
            part.arm()

    def finish(self, mine: Tally, nominal: float | None) -> Tally:
        """Sum what backward has not filled, and wait for everything.

        Args:
            mine: what this worker puts in.
            nominal: gradients are multiplied by ``nominal / (sum of weights)``; None: they are right as they are.

        Returns:
            The tally of all workers, not yet copied from the device; ``present`` counts all reductions of this update.
        """
        touched = self._touched()
        if any(parameter.grad is not None for parameter in self._frozen):
            raise ConfigError(
                "a parameter that was frozen at run.setup has a gradient, which the other workers do not add to",
                remedy="Unfreeze before run.setup, and freeze afterwards.",
            )
        self._count += 1
        total = mine
        for part in touched:
            total = part.finish(mine)
        correction = None if nominal is None else total.correction(nominal)
        if correction is not None:
            for part in touched:
                part.multiply(correction)
        for part in self._parts:
            part.give_back()
        self._ready = True
        total = total.with_present(self._present)
        self._present = total.of_row("present")
        return total

    @property
    def sent(self) -> Sent:
        return sum(part.sent for part in self._parts), sum(part.worked for part in self._parts)

    @property
    def complete(self) -> bool:
        """This update had as many reductions as the one before it."""
        return self._count >= self._usual

    def skip(self, mine: Tally, nominal: float | None) -> Tally:
        """This worker left out a backward of this update: take part in the others' with nothing, as often as usual."""
        total = mine
        while not self.complete:
            self.put_aside()
            for part in self._parts:
                part.drop()
            self.arm()
            total = self.finish(mine, nominal)
        return total

    def _touched(self) -> list[_Part]:
        """The models that backward has reached on some worker; one at least, for its tail."""
        reached = [part.disarm() for part in self._parts]
        if len(self._parts) == 1:
            return self._parts
        flags = torch.tensor(reached, dtype=torch.int64)
        dist.all_reduce(flags)
        return [part for part, count in zip(self._parts, flags.tolist(), strict=True) if count] or self._parts[:1]


class Local:
    """The same for a worker that reduces with nobody: only the correction is left."""

    sent: Sent = (0.0, 0.0)

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self._parameters = list({p: None for model in models for p in model.parameters()})
        self._held: dict[nn.Parameter, Tensor] = {}
        self._ready = True  # gradients are what an update, or an earlier backward of this one, has left

    def begin_update(self) -> None:
        """A new update: there is nothing of it yet."""
        self._ready = True

    def put_aside(self) -> None:
        """Before each backward: what is corrected already."""
        if self._ready:
            self._held = {p: p.grad for p in self._parameters if p.grad is not None}
            self._forget()
        self._ready = False

    def arm(self) -> None:
        """Backward of the last micro-batch begins."""

    def finish(self, mine: Tally, nominal: float | None) -> Tally:
        """Correct the gradients by ``nominal / weight``, and add what was put aside."""
        correction = None if nominal is None else mine.correction(nominal)
        made = [p.grad for p in self._parameters if p.grad is not None]
        if correction is not None and made:
            torch._foreach_mul_(made, correction)
        for parameter, before in self._held.items():
            parameter.grad = before if parameter.grad is None else before.add_(parameter.grad)
        self._held, self._ready = {}, True
        return mine

    @property
    def complete(self) -> bool:
        """Nobody waits for this worker."""
        return True

    def skip(self, mine: Tally, nominal: float | None) -> Tally:
        """Forget what earlier micro-batches of this update have added up."""
        if not self._ready:
            self._forget()
            self.finish(mine, None)
        return mine

    def _forget(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None


class _Part:
    """One model's parameters in buckets, which leave in order on every worker."""

    def __init__(
        self, model: nn.Module, parameters: Sequence[Tensor], workers: int, group: dist.ProcessGroup | None
    ) -> None:
        self._group = group
        self._parameters = parameters
        layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and not isinstance(m, CrossBatchNorm)]
        self._statistics = [s for m in layers for s in (m.running_mean, m.running_var) if isinstance(s, Tensor)]
        sizes = [Tally.length(workers), len(parameters), *(s.numel() for s in self._statistics)]
        self.buckets, tail = assign(parameters, sum(sizes))
        self._head, self._used, *self._places = torch.split(tail, sizes)
        self._bucket_of = {p: bucket for bucket in self.buckets for p in bucket.parameters}
        self._armed = self._touched = False
        self._next, self.sent, self.worked = 0, 0.0, 0.0
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self._ready)  # type: ignore[no-untyped-call]

    def arm(self) -> None:
        """A backward begins in which full buckets leave.

        Raises:
            ConfigError: the one before it ended half-way.
        """
        if any(bucket.pending < len(bucket.parameters) for bucket in self.buckets):
            raise ConfigError(
                "a run.backward failed half-way, and the loop went on",
                remedy="Let the error end the script: what the other workers have got of it cannot be taken back.",
            )
        self._armed = True

    def disarm(self) -> bool:
        """Backward is through; True if it, or that of an earlier micro-batch, reached this model."""
        touched, self._armed, self._touched = self._touched, False, False
        return touched

    def put_aside(self) -> None:
        """Take away the gradients there are."""
        for bucket in self.buckets:
            bucket.put_aside()

    def give_back(self) -> None:
        """Add what was put aside."""
        for bucket in self.buckets:
            bucket.give_back()

    def multiply(self, factor: float | Tensor) -> None:
        """Multiply the reduced gradients."""
        for bucket in self.buckets:
            bucket.gradients.mul_(factor)

    def drop(self) -> None:
        """Forget what this worker's gradients hold; the others have all that counts."""
        for parameter in self._parameters:
            parameter.grad = None

    def finish(self, mine: Tally) -> Tally:
        """Launch what is left, wait, and give parameters that nobody used their None back."""
        used = [parameter.grad is not None for parameter in self._parameters]
        self._head.copy_(mine.values.flatten())
        self._used.copy_(torch.tensor(used))
        if self._statistics:
            torch._foreach_copy_(self._places, [s.flatten() for s in self._statistics])
            torch._foreach_mul_(self._places, float(mine.sum("samples")))
        self._launch(len(self.buckets))
        for bucket in self.buckets:
            bucket.wait()
        self._next = 0
        total = Tally(self._head.view_as(mine.values).clone())
        self._merge(total)
        if not all(used):
            self._share_unused(used)
        return total

    def _ready(self, parameter: Tensor) -> None:
        """Backward has made a gradient."""
        self._touched = True
        if not self._armed:
            return
        bucket = self._bucket_of[parameter]
        bucket.pending -= 1
        if bucket.pending < 0 or bucket.work is not None:
            raise ConfigError(
                "a gradient came twice in one backward", expected="once",
                remedy="Call torch.utils.checkpoint with use_reentrant=False.",
            )  # fmt: skip
        self._launch(len(self.buckets) - 1)  # the last one waits for the tail

    def _launch(self, end: int) -> None:
        start, worked = time.monotonic(), time.thread_time()
        while self._next < end and (not self._armed or not self.buckets[self._next].pending):
            self.buckets[self._next].launch(self._group)
            self._next += 1
        self.sent += time.monotonic() - start
        self.worked += time.thread_time() - worked

    def _merge(self, total: Tally) -> None:
        """BatchNorm's running statistics, averaged over the workers by samples; as they are where nobody had any."""
        count = total.sum("samples")
        if isinstance(count, float) and count == 0:
            return
        for place, statistic in zip(self._places, self._statistics, strict=True):
            merged = (place / count).view_as(statistic)
            statistic.copy_(merged if isinstance(count, float) else torch.where(count > 0, merged, statistic))

    def _share_unused(self, used: list[bool]) -> None:
        views = {p: v for bucket in self.buckets for p, v in zip(bucket.parameters, bucket.views, strict=True)}
        for parameter, mine, anyones in zip(self._parameters, used, self._used.tolist(), strict=True):
            if not mine and anyones:
                parameter.grad = views[parameter]
