"""What a scheduler remembers of learning rates grows with them: it goes on as one made for the larger rate would."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.optim import SGD, Optimizer, lr_scheduler

from paceline.reduction.rates import scale_rates
from paceline.schema.settings import Settings

MADE: dict[str, Callable[[Optimizer, float], lr_scheduler.LRScheduler]] = {
    "step": lambda optimizer, f: lr_scheduler.StepLR(optimizer, 2, 0.5),
    "linear": lambda optimizer, f: lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 5),
    "cosine": lambda optimizer, f: lr_scheduler.CosineAnnealingLR(optimizer, 6, eta_min=0.001 * f),
    "one_cycle": lambda optimizer, f: lr_scheduler.OneCycleLR(optimizer, max_lr=0.1 * f, total_steps=9),
    "cyclic": lambda optimizer, f: lr_scheduler.CyclicLR(optimizer, 0.01 * f, 0.05 * f, step_size_up=3),
    "in_turn": lambda optimizer, f: lr_scheduler.SequentialLR(
        optimizer, [lr_scheduler.ConstantLR(optimizer, 0.5, 2), lr_scheduler.ExponentialLR(optimizer, 0.9)], [3]
    ),
}


def rates(made: Callable[[Optimizer, float], lr_scheduler.LRScheduler], told: Settings | None, factor: float) -> list:
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.02 * factor, momentum=0.9)
    scheduler = made(optimizer, factor)
    if told is not None:
        scale_rates([optimizer], [scheduler], told)
    seen = []
    for _ in range(8):
        optimizer.step()
        seen.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
    return seen


@pytest.mark.parametrize("kind", sorted(MADE))
def test_a_scaled_schedule_is_the_schedule_of_the_scaled_rate(kind: str) -> None:
    scaled = rates(MADE[kind], Settings(global_batch=40, base_batch=16, lr_rule="linear"), 1.0)
    assert scaled == pytest.approx(rates(MADE[kind], None, 2.5))
