"""A model made ready: an emulated device's rests in forward and backward, and buckets behind them (real gloo)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn

from paceline.running.wrapping import BucketClock, pace, wrap


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


def test_a_bucket_leaves_after_the_rests_of_its_gradients(group: None) -> None:
    done: list[str] = []

    def clock() -> float:
        done.append("bucket")
        return 0.0

    model = nn.Linear(2, 3)
    pace(model, lambda: done.append("rest"))
    wrapped = wrap(model, BucketClock(clock))
    wrapped(torch.ones(4, 2)).sum().backward()
    assert done == ["rest", "rest", "rest", "bucket"]  # forward, two gradients
    assert torch.equal(model.weight.grad, torch.full((3, 2), 4.0))
