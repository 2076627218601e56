"""GroupNorm in the place of BatchNorm."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.reduction.normalisation import to_group_norm


@pytest.mark.parametrize(
    ("channels", "groups", "expected"),
    [(256, 32, 32), (128, 32, 32), (64, 32, 16), (96, 32, 24), (24, 32, 6), (12, 32, 3), (7, 32, 1), (4, 32, 1),
     (3, 32, 1), (1, 32, 1), (128, 8, 8), (60, 8, 6)],
)  # fmt: skip
def test_the_largest_number_of_groups_with_four_channels_each(channels: int, groups: int, expected: int) -> None:
    assert to_group_norm(nn.BatchNorm2d(channels), groups).num_groups == expected


def test_parameters_stay_and_statistics_go() -> None:
    last = nn.BatchNorm3d(8, eps=0.1)
    nn.init.zeros_(last.weight)
    last.weight.requires_grad_(False)
    shared, bare = nn.BatchNorm2d(8).double(), nn.SyncBatchNorm(8, affine=False).eval()
    others = [nn.BatchNorm1d(8), nn.InstanceNorm2d(8), nn.Conv2d(8, 8, 1)]
    model = nn.ModuleList([shared, nn.ModuleDict({"again": shared, "bare": bare}), last, *others])
    parameters, calls = list(model.parameters()), list(model[3:])
    assert to_group_norm(model) is model
    made = [model[0], model[1]["again"], model[1]["bare"], model[2]]
    assert all(type(layer) is nn.GroupNorm for layer in made)
    assert made[0] is made[1]
    assert [layer.eps for layer in made] == [1e-5, 1e-5, 1e-5, 0.1]
    assert [layer.affine for layer in made] == [True, True, False, True]
    assert [layer.training for layer in made] == [True, True, False, True]
    assert all(now is before for now, before in zip(model.parameters(), parameters, strict=True))
    assert made[0].weight.dtype == torch.float64
    assert not made[3].weight.any()
    assert not made[3].weight.requires_grad
    assert all(now is before for now, before in zip(model[3:], calls, strict=True))
    assert [name for name, _ in model.named_buffers()] == [f"3.{name}" for name, _ in others[0].named_buffers()]


def test_a_sample_is_normalised_by_itself() -> None:
    torch.manual_seed(1)
    model = to_group_norm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))
    given = torch.randn(6, 3, 5, 5)
    assert torch.allclose(model(given)[:1], model(given[:1]), atol=1e-6)
    expected = nn.functional.group_norm(model[0](given), 2)
    assert torch.allclose(model(given), expected)


def test_no_groups_are_refused() -> None:
    with pytest.raises(ConfigError, match="groups=0; expected 1 or more"):
        to_group_norm(nn.BatchNorm2d(8), 0)
