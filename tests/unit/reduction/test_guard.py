from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from paceline.errors import ConfigError
from paceline.reduction.guard import Guard
from paceline.reduction.window import Window


@pytest.fixture
def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))


def micro_batch(model: nn.Module, guard: Guard) -> None:
    with guard.backward():
        model(torch.ones(3, 2)).sum().backward()


def no_gradients(model: nn.Sequential) -> None:
    for parameter in model.parameters():
        parameter.grad = None


@pytest.mark.parametrize(
    "change",
    [
        no_gradients,
        lambda model: model[1].zero_grad(),
        lambda model: model[1].zero_grad(set_to_none=False),
        lambda model: clip_grad_norm_(model.parameters(), 0.1),
    ],
)
def test_gradients_change_after_the_last_micro_batch_only(
    model: nn.Sequential, change: Callable[[nn.Sequential], object]
) -> None:
    window = Window()
    guard = Guard(window, [model])
    for _ in range(2):  # an update of one, then one of two
        guard.begin_update()
        window.begin(3, first=True, last=True)
        micro_batch(model, guard)
        change(model)
    guard.begin_update()
    window.begin(3, first=True, last=False)
    micro_batch(model, guard)
    micro_batch(model, guard)  # a second loss
    change(model)
    window.begin(3, first=False, last=True)
    with pytest.raises(ConfigError, match=r"of '[01].*' was changed between two micro-batches"):
        micro_batch(model, guard)


def test_in_an_update_only_run_backward_makes_gradients(model: nn.Sequential) -> None:
    window = Window()
    guard = Guard(window, [model])
    x = torch.ones(1, 2, requires_grad=True)
    model(x).sum().backward()  # outside, one may
    window.begin(1, first=True, last=True)
    assert torch.autograd.grad(model(x).sum(), x)
    with pytest.raises(ConfigError, match=r"expected run.backward\(loss\).*torch.autograd.grad"):
        model(x).sum().backward()
    micro_batch(model, guard)
    window.end()
    model(x).sum().backward()


def test_a_layer_that_comes_later_is_named(model: nn.Sequential) -> None:
    guard = Guard(Window(), [model])
    guard.check_models()
    model[1] = nn.Linear(2, 5)
    with pytest.raises(ConfigError, match=r"'1.weight' has come into the model after run.setup"):
        guard.check_models()
