from __future__ import annotations

import torch
from torch import nn

from paceline.state.flat import FlatState


def test_read_and_write_are_inverse_and_carry_float_buffers() -> None:
    model, other = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)) for _ in range(2))
    model(torch.randn(8, 3))
    state = FlatState([model])
    assert state.size == 3 * 4 + 4 + 4 * 4  # linear, then weight, bias, mean and variance of the norm
    FlatState([other]).write(state.read(torch.empty(state.size)))
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            assert torch.equal(other.state_dict()[name], value), name


def test_a_shared_parameter_travels_once() -> None:
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    assert FlatState([first, second]).size == 16


def test_other_dtypes_travel_as_float32() -> None:
    model = nn.Linear(2, 1, bias=False).to(torch.float64)
    state = FlatState([model])
    flat = state.read(torch.empty(state.size))
    assert flat.dtype == torch.float32
    state.write(torch.tensor([1.0, 2.0]))
    assert model.weight.dtype == torch.float64
    assert model.weight.tolist() == [[1.0, 2.0]]


def test_adding_moves_parameters_and_leaves_statistics_in_their_range() -> None:
    model = nn.BatchNorm1d(2)
    state = FlatState([model])
    state.add(torch.full((state.size,), -5.0))
    assert model.weight.tolist() == [-4.0, -4.0]
    assert model.bias.tolist() == [-5.0, -5.0]
    assert model.running_mean.tolist() == [0.0, 0.0]
    assert model.running_var.tolist() == [1.0, 1.0]
