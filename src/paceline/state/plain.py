"""Steps taken off the optimizers: where the server has the optimizer, a worker only says where plain SGD would go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from paceline.state.flat import FlatState


class PlainSteps:
    """Sums what plain SGD would add to the parameters, and keeps the optimizers from moving them.

    Args:
        state: the models, of whose flat vector the sum is the first part.
        optimizers: those that the script steps. SGD's decay of weights is part of a step, that of others is the rule's.

    ``rate``: the learning rate of the first group of parameters, in the latest step.
    """

    def __init__(self, state: FlatState, optimizers: Sequence[Optimizer]) -> None:
        self.sum = torch.zeros(state.learned)
        self.rate = 0.0
        self._pieces = state.parts_of(self.sum)
        for optimizer in optimizers:
            optimizer.register_step_pre_hook(self._take)

    def take(self, out: Tensor) -> None:
        """Fill ``out`` with the sum and begin a new one."""
        out.copy_(self.sum)
        self.sum.zero_()

    @torch.no_grad()
    def _take(self, optimizer: Optimizer, *called: Any) -> None:
        for number, group in enumerate(optimizer.param_groups):
            rate, decay = float(group["lr"]), group.get("weight_decay", 0.0) if isinstance(optimizer, SGD) else 0.0
            self.rate = self.rate if number else rate
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                step = parameter.grad.add(parameter, alpha=decay) if decay else parameter.grad
                step = torch.view_as_real(step) if step.is_complex() else step
                self._pieces[parameter].add_(step.to("cpu", torch.float32), alpha=-rate)
                parameter.grad = None  # an optimizer does nothing with such
