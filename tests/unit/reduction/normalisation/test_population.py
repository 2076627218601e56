"""Running statistics taken anew, on one worker. Several: tests/exactness/test_normalisation.py."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from paceline.reduction.normalisation import cross_batch_norm, reestimate
from paceline.reduction.window import Window


def alone(values: Tensor) -> None:
    assert values.dtype == torch.float64
    assert values.device.type == "cpu"


@pytest.mark.parametrize("sizes", [[8], [6, 2], [1, 4, 3], [1] * 8])
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (x, 0), lambda x: [x, 0]], ids=["tensor", "tuple", "list"])
def test_each_value_weighs_the_same_whichever_batch_it_is_in(sizes: list[int], wrap: object) -> None:
    """C027 on one worker, where torch.optim.swa_utils.update_bn weighs each batch the same."""
    layer = nn.BatchNorm1d(1)
    reestimate(layer, [wrap(part) for part in torch.arange(8.0)[:, None].split(sizes)], alone)
    assert layer.running_mean.item() == 3.5
    assert layer.running_var.item() == pytest.approx(5.25, rel=1e-7)
    assert layer.num_batches_tracked == len(sizes)


def test_layers_behind_see_inputs_normalised_by_the_batch() -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)).double()
    nn.init.constant_(model[0].running_mean, 50.0)
    batches = [torch.randn(size, 2, 5, 5, dtype=torch.float64) + 9 for size in (4, 2, 7)]
    with torch.no_grad():
        inputs = [model[1](nn.functional.batch_norm(batch, None, None, training=True)) for batch in batches]
    values = torch.cat(inputs).transpose(0, 1).flatten(1)
    reestimate(model, batches, alone)
    assert torch.allclose(model[2].running_mean, values.mean(1), rtol=1e-12)
    assert torch.allclose(model[2].running_var, values.var(1, correction=0), rtol=1e-12)


@pytest.mark.parametrize(("dtype", "mean"), [(torch.float32, 1e6), (torch.float64, 1e8)])
def test_a_large_mean_does_not_cancel(dtype: torch.dtype, mean: float) -> None:
    torch.manual_seed(4)
    layer, values = nn.BatchNorm1d(1, dtype=dtype), mean + torch.randn(4096, 1, dtype=dtype)
    reestimate(layer, values.split(100), alone)
    assert layer.running_var.item() == pytest.approx(float(values.double().var(correction=0)), rel=1e-6)


def test_modes_and_momentum_are_as_before_also_where_a_batch_fails() -> None:
    seen: list[bool] = []
    model = nn.Sequential(nn.BatchNorm1d(2, momentum=0.3), nn.Dropout(), nn.BatchNorm1d(2)).eval()
    model[2].train()
    model[1].register_forward_hook(lambda layer, *_: seen.append(layer.training))
    for batches in ([torch.randn(4, 2)], [torch.randn(4, 2), torch.randn(4, 3)]):
        try:
            reestimate(model, batches, alone)
        except RuntimeError:
            assert len(batches) == 2
        assert [layer.training for layer in (model, *model)] == [False, False, False, True]
        assert not model[0]._forward_pre_hooks
    assert model[0].momentum == 0.3
    assert seen == [True, True]  # others train meanwhile


def test_what_no_batch_reached_keeps_its_statistics() -> None:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
            self.untracked = nn.BatchNorm1d(2, track_running_stats=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.untracked(self.used(x))

    model = Part()
    nn.init.constant_(model.unused.running_mean, 5.0)
    reestimate(model, [torch.zeros(0, 2), torch.randn(4, 2)], alone)
    assert torch.equal(model.unused.running_mean, torch.full((2,), 5.0))
    assert model.used.num_batches_tracked == 2
    assert model.used.running_mean.isfinite().all()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    reestimate(model, [], alone)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_model_without_statistics_is_left_alone() -> None:
    def refuse(values: Tensor) -> None:
        raise AssertionError("nothing to sum")

    reestimate(nn.BatchNorm1d(2, track_running_stats=False), [torch.zeros(0)], refuse)


def test_a_layer_over_all_workers_takes_part() -> None:
    layer = cross_batch_norm(nn.SyncBatchNorm(1), None, Window())
    reestimate(layer, torch.arange(8.0)[:, None].split([7, 1]), alone)
    assert layer.running_mean.item() == 3.5
    assert layer.running_var.item() == pytest.approx(5.25, rel=1e-7)
