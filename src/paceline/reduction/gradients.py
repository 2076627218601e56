"""From a loss to the update's gradient: weighed, backward, summed over the workers, whoever had what to add."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from torch import Tensor, nn

from paceline.errors import ConfigError
from paceline.reduction.buckets import Sent
from paceline.reduction.guard import Guard
from paceline.reduction.reducer import Local, Reducer
from paceline.reduction.tally import Tally
from paceline.reduction.weights import Weights
from paceline.reduction.window import Window
from paceline.schema.settings import Reduction


class Gradients:
    """One worker's gradients, update by update.

    Args:
        window: where the loop is in its update.
        reduction: how the user's loss is taken over a batch.
        rank: of this worker among the ``workers`` that reduce together.
    """

    def __init__(self, window: Window, reduction: Reduction, rank: int, workers: int) -> None:
        self._window, self._weights = window, Weights(reduction)
        self._rank, self._workers = rank, workers
        self._reducer: Reducer | Local = Local([])
        self._parameters: list[nn.Parameter] = []
        self.guard = Guard(window, [])
        self._total: Tally | None = None
        self.ahead = 0  # samples this worker has ready for the next update, where only it can know
        self.stop = False  # this worker wants the run to end
        self.slowness = 0.0  # of this worker in the update before, see Tally

    def attach(self, models: Sequence[nn.Module], limit: timedelta) -> None:
        """The models whose gradients make up an update, and how long to wait for a worker."""
        self._parameters = list(dict.fromkeys(p for model in models for p in model.parameters()))
        self.guard = Guard(self._window, models)
        self._reducer = Reducer(models, self._workers, limit) if self._workers > 1 else Local(models)

    def begin(self, samples: int, total: int) -> None:
        """The loop is handed a micro-batch of ``samples`` samples of an update of ``total``."""
        if self._window.first:
            self._weights.begin_update(total)
            self._reducer.begin_update()
            self.guard.begin_update()
            self._total = None
        self._weights.begin_batch(samples)

    def backward(self, loss: Tensor, weight: float | None, retain_graph: bool) -> None:
        """Gradients of ``loss``, and on the last micro-batch their sum over all workers."""
        if not self._window.open:
            raise ConfigError("run.backward was called outside run.loader", remedy="Call it once a batch, in the loop.")
        self._window.differentiating()
        factor = self._weights.factor(weight)
        with self.guard.backward():
            self._reducer.put_aside()
            if factor == 0:
                self._without_effect(loss, retain_graph)
            if self._window.last:
                self._reducer.arm()
            if factor != 0:
                (loss * factor).backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]

    def _without_effect(self, loss: Tensor, retain_graph: bool) -> None:
        """Backward for peers that wait for it, in a BatchNorm over all workers. Through its statistics even samples of
        no weight have gradients; all others are let go, for they are not zero where the loss is no number, as a mean
        over no tokens."""
        before = [(parameter, parameter.grad) for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        self._window.weightless = True
        (loss * 0.0).backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]
        self._window.weightless = False
        for parameter, gradient in before:
            made = parameter.grad if self._window.samples else None
            if made is not None:
                made.nan_to_num_(0.0, 0.0, 0.0)
                gradient = made if gradient is None else gradient.add_(made)
            parameter.grad = gradient

    @property
    def sent(self) -> Sent:
        """Seconds that it took so far to hand gradients to the link, and of the thread's CPU."""
        return self._reducer.sent

    def reduce(self) -> None:
        """After the last micro-batch's backward: sum over the workers, and divide once by what all losses count for."""
        self._total = self._reducer.finish(self._mine(present=True), self._weights.nominal)
        self._weights.settle(self._total)
        self._window.reduced = True

    def end(self) -> Tally:
        """The update is over for this worker's loop; where it left out a backward, its peers are not left waiting."""
        if self._total is None or not self._reducer.complete:
            self._total = self._reducer.skip(self._mine(present=False), self._weights.nominal)
            self._weights.settle(self._total)
        return self._total

    def _mine(self, present: bool) -> Tally:
        numbers = {"samples": self._weights.samples, "weight": self._weights.weight} if present else {}
        numbers |= {"ahead": self.ahead, "present": present, "stop": self.stop, "slowness": self.slowness}
        numbers |= {"update": self._window.update, "steps": self._window.steps}
        return Tally.of(self._rank, self._workers, **numbers)
