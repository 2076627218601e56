"""What workers tell one another in each update beside gradients: a few numbers each, summed with the last bucket."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ROWS = ("samples", "weight", "ahead", "present", "stop", "update", "steps", "slowness")


@dataclass(frozen=True)
class Tally:
    """One number a worker in each row: every worker fills its own column, and a sum gives them all.

    samples: of this update.
    weight: what its losses counted for, in samples or tokens.
    ahead: samples it has ready for the next update (streams of unknown length).
    present: how many backward calls its loop came to.
    stop: 1 where a signal asked the run to end.
    update: the number of the update its loop is in.
    steps: updates before it in which an optimizer stepped.
    slowness: how many times its planned seconds the update before it took; 0 where that says nothing.

    ``values`` has shape (rows, workers) and may lie on an accelerator, where ``row`` waits for it.
    """

    values: Tensor

    @staticmethod
    def length(workers: int) -> int:
        """Numbers in the tally of that many workers."""
        return len(ROWS) * workers

    @classmethod
    def of(cls, rank: int, workers: int, **numbers: float) -> Tally:
        """The tally in which only the column of ``rank`` is filled; rows that are not given are 0."""
        values = torch.zeros(len(ROWS), workers, dtype=torch.float64)
        values[:, rank] = torch.tensor([float(numbers.get(row, 0.0)) for row in ROWS])
        return cls(values)

    def of_row(self, name: str) -> Tensor:
        """A row, where it lies."""
        return self.values[ROWS.index(name)]

    def with_present(self, before: Tensor | None) -> Tally:
        """With ``present`` on top of what it was ``before``."""
        if before is not None:
            self.of_row("present").add_(before)
        return self

    def row(self, name: str) -> list[float]:
        """One number for each worker."""
        numbers: list[float] = self.of_row(name).tolist()
        return numbers

    def sum(self, name: str) -> float | Tensor:
        """A row's sum: a number on the CPU; on an accelerator a tensor, so that nobody waits for it."""
        total = self.of_row(name).sum()
        return float(total) if total.device.type == "cpu" else total

    def correction(self, nominal: float) -> float | Tensor | None:
        """What turns a gradient over ``nominal`` into one over the sum of weights; None if nothing needs to change."""
        weight = self.sum("weight")
        if isinstance(weight, Tensor):
            return torch.where(weight > 0, nominal / weight, torch.ones_like(weight))
        return None if weight in (0.0, nominal) else nominal / weight
