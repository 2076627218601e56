"""Sums gradients over the workers of a job while backward runs: one all-reduce a bucket, whatever each worker holds.

A loss arrives weighed by what it counts for (``W_i / nominal``), so that the sum over workers is the gradient of the
whole update. What is reduced already (by an earlier backward, or left by an update that made no step) is the same
everywhere and must stay what it is: once there is such a gradient, losses weigh ``workers`` times as much and buckets
are averaged. What nobody knows before backward rides in the last bucket's tail: how much each worker's loss counted
for, whether a parameter was used by anyone, BatchNorm's statistics, whether to stop.

    arm -> backward: bucket full -> all-reduce ... -> finish: the rest, the tail; wait; correct by nominal / sum of W_i
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from paceline.errors import ConfigError
from paceline.reduction.buckets import assign
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
        self._frozen = [p for model in models for p in model.parameters() if not p.requires_grad]
        self._workers, self._scale = workers, 1
        self._corrected: dict[_Part, float | Tensor] = {}  # in this update
        self._present: Tensor | None = None  # how many of this update's backward calls each worker came to
        self._count, self._usual = 0, 1  # reductions in this update, and in the one before

    def begin_update(self) -> None:
        """A new update: nothing is reduced yet."""
        self._corrected, self._present, self._scale = {}, None, 1
        self._usual = self._count or self._usual
        self._count = 0

    def scale(self) -> int:
        """Before a backward: what its loss must weigh more, as there are reduced gradients that it will add to."""
        if self._scale == 1 and any(part.holds for part in self._parts):
            for part in self._parts:
                part.multiply_own(self._workers)
            self._scale = self._workers
        return self._scale

    def arm(self) -> None:
        """Backward of the last micro-batch begins. ``finish`` corrects all it finds, also what is corrected already."""
        for part, correction in self._corrected.items():
            part.multiply(1 / correction)
        for part in self._parts:
            part.arm(self.scale())

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
            self._corrected |= dict.fromkeys(touched, correction)
        for part, factor in self._corrected.items():
            part.multiply(factor)
        total = total.with_present(self._present)
        self._present = total.of_row("present")
        return total

    @property
    def complete(self) -> bool:
        """This update had as many reductions as the one before it."""
        return self._count >= self._usual

    def skip(self, mine: Tally, nominal: float | None) -> Tally:
        """This worker left out a backward of this update: take part in the others' with nothing, as often as usual."""
        if not self._count:
            for part in self._parts:
                part.drop()
        total = mine
        while not self.complete:
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
        touched = [part for part, count in zip(self._parts, flags.tolist(), strict=True) if count]
        return touched or self._parts[:1]


class Local:
    """The same for a worker that reduces with nobody: only the correction is left."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self._parameters = list({p: None for model in models for p in model.parameters()})
        self._held: list[tuple[Tensor, Tensor]] = []
        self._corrected = False

    def begin_update(self) -> None:
        """A new update: nothing is corrected yet."""
        self._corrected = False

    def scale(self) -> int:
        """What a loss must weigh more: nobody else adds to it."""
        return 1

    def arm(self) -> None:
        """Backward of the last micro-batch begins; what is corrected already is put aside."""
        gradients = [p.grad for p in self._parameters if p.grad is not None] if self._corrected else []
        self._held = [(gradient, gradient.clone()) for gradient in gradients]
        for gradient in gradients:
            gradient.zero_()

    def finish(self, mine: Tally, nominal: float | None) -> Tally:
        """Correct the gradients by ``nominal / weight``."""
        correction = None if nominal is None else mine.correction(nominal)
        if correction is not None:
            torch._foreach_mul_([p.grad for p in self._parameters if p.grad is not None], correction)
            self._corrected = True
        for gradient, before in self._held:
            gradient.add_(before)
        self._held = []
        return mine

    @property
    def complete(self) -> bool:
        """Nobody waits for this worker."""
        return True

    def skip(self, mine: Tally, nominal: float | None) -> Tally:
        """Forget what earlier micro-batches of this update have added up."""
        for parameter in self._parameters:
            parameter.grad = None
        return mine


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
        self._scale, self._next = 1, 0
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self._ready)  # type: ignore[no-untyped-call]

    def arm(self, scale: int) -> None:
        """A backward begins in which full buckets leave, divided by ``scale``.

        Raises:
            ConfigError: the one before it ended half-way, and some have left.
        """
        if self._next:
            raise ConfigError(
                "a run.backward failed half-way, and the loop went on",
                remedy="Let the error end the script: what the other workers have got of it cannot be taken back.",
            )
        self._armed, self._touched, self._scale = True, False, scale

    def disarm(self) -> bool:
        """Backward is through; True if it reached this model."""
        self._armed = False
        return self._touched

    @property
    def holds(self) -> bool:
        """Some gradient is what an earlier reduction has left."""
        return any(bucket.holds for bucket in self.buckets)

    def multiply_own(self, factor: int) -> None:
        """Multiply gradients that are this worker's own so far."""
        for bucket in self.buckets:
            bucket.multiply_own(factor)

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
        if not self._armed:
            return
        self._touched = True
        bucket = self._bucket_of[parameter]
        bucket.pending -= 1
        if bucket.pending < 0 or bucket.work is not None:
            raise ConfigError(
                "a gradient came twice in one backward", expected="once",
                remedy="Call torch.utils.checkpoint with use_reentrant=False.",
            )  # fmt: skip
        self._launch(len(self.buckets) - 1)  # the last one waits for the tail

    def _launch(self, end: int) -> None:
        while self._next < end and (not self._armed or not self.buckets[self._next].pending):
            self.buckets[self._next].launch(self._group, self._scale)
            self._next += 1

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
