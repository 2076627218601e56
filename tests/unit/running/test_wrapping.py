"""A model made ready: an emulated device's rests in forward and backward, and the clock behind them (real gloo)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn

from paceline.running.wrapping import BackwardClock, pace, wrap


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_an_emulated_device_rests_after_each_layer_and_each_gradient() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1)))
    model[0].bias.requires_grad_(False)
    rests: list[str] = []
    pace(model, lambda: rests.append("rest"))
    out = model(torch.ones(4, 2))
    assert len(rests) == 3
    out.sum().backward()
    assert len(rests) == 3 + 3


def test_the_last_gradient_is_noted_behind_the_rests(group: None) -> None:
    done: list[str] = []

    def clock() -> float:
        done.append("noted")
        return float(len(done))

    model, backward = nn.Linear(2, 3), BackwardClock(clock)
    pace(model, lambda: done.append("rest"))
    wrapped = wrap(model)
    backward.follow(wrapped)
    loss = wrapped(torch.ones(4, 2)).sum()
    assert backward.called
    loss.backward()
    assert done == ["rest", "rest", "noted", "rest", "noted"]  # forward, two gradients
    assert backward.last_at == 5.0
    assert not backward.called
    assert torch.equal(model.weight.grad, torch.full((3, 2), 4.0))
