"""A model made ready: an emulated device's rests in forward and backward."""

from __future__ import annotations

import torch
from torch import nn

from paceline.running.timing import pace


def test_an_emulated_device_rests_after_each_layer_and_each_gradient() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1)))
    model[0].bias.requires_grad_(False)
    rests: list[str] = []
    pace(model, lambda: rests.append("rest"))
    out = model(torch.ones(4, 2))
    assert len(rests) == 3
    out.sum().backward()
    assert len(rests) == 3 + 3
