"""BatchNorm over all workers, as one worker sees it. Several: tests/exactness/test_normalisation.py."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.distributed as dist
from torch import nn

from paceline.errors import ConfigError
from paceline.reduction.normalisation import CrossBatchNorm, cross_batch_norm
from paceline.reduction.window import Window

SHAPES = [(nn.BatchNorm1d, (6, 4)), (nn.BatchNorm1d, (6, 4, 3)), (nn.BatchNorm2d, (6, 4, 3, 2)),
          (nn.BatchNorm3d, (2, 4, 3, 2, 2))]  # fmt: skip


def pair(kind: type[nn.Module], dtype: torch.dtype, **options: object) -> tuple[nn.Module, nn.Module]:
    """A layer of torch, and its copy over all workers."""
    torch.manual_seed(3)
    layer = kind(4, **options, dtype=torch.float64)
    if layer.affine:
        nn.init.normal_(layer.weight)
        nn.init.normal_(layer.bias)
    made = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(layer))
    return layer, cross_batch_norm(made, None, Window()).to(dtype)


def differences(layer: nn.Module, ours: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> list[float]:
    """How far output, gradients and statistics are apart after three batches, relative to the largest value."""
    for _ in range(3):
        given, factor = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
        inputs = [given.clone().requires_grad_(), given.double().requires_grad_()]
        outputs = [ours(inputs[0]), layer(inputs[1])]
        assert outputs[0].dtype == dtype
        outputs[0].backward(factor)
        outputs[1].backward(factor.double())
    pairs = [outputs, [x.grad for x in inputs], *zip(ours.buffers(), layer.buffers(), strict=True)]
    pairs += [(a.grad, b.grad) for a, b in zip(ours.parameters(), layer.parameters(), strict=True)]
    return [float((a.double() - b).detach().abs().max() / b.detach().abs().max()) for a, b in pairs]


@pytest.mark.parametrize(("kind", "shape"), SHAPES)
@pytest.mark.parametrize(
    "options", [{}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}, {"eps": 0.1}]
)
def test_one_worker_computes_what_torch_does(kind: type[nn.Module], shape: tuple[int, ...], options: dict) -> None:
    layer, ours = pair(kind, torch.float64, **options)
    assert max(differences(layer, ours, shape, torch.float64)) < 1e-12
    given = torch.randn(shape, dtype=torch.float64)
    assert torch.allclose(ours.eval()(given), layer.eval()(given), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("whole", [False, True], ids=["float32 layer", "half layer"])
def test_half_precision_is_off_by_its_own_rounding_only(dtype: torch.dtype, whole: bool) -> None:
    layer, ours = pair(nn.BatchNorm2d, dtype if whole else torch.float32)
    assert max(differences(layer, ours, (8, 4, 16, 16), dtype)) < 4 * torch.finfo(dtype).eps


def test_squares_may_exceed_half_precision() -> None:
    layer, ours = pair(nn.BatchNorm1d, torch.float32)
    given = (500 * torch.randn(64, 4)).half()
    ours(given)
    layer(given.double())
    assert torch.allclose(ours.running_var.double(), layer.running_var, rtol=1e-5)


def test_under_autocast_the_layer_takes_what_a_convolution_gives() -> None:
    ours = cross_batch_norm(nn.Sequential(nn.Conv2d(3, 4, 1), nn.SyncBatchNorm(4)), None, Window())
    with torch.autocast("cpu", torch.bfloat16):
        out = ours(torch.randn(8, 3, 5, 5))
    assert out.dtype == torch.bfloat16
    out.float().square().sum().backward()
    assert ours[0].weight.grad.dtype == ours[1].weight.grad.dtype == torch.float32


def test_a_large_mean_does_not_cancel() -> None:
    layer, ours = pair(nn.BatchNorm1d, torch.float32)
    given = 1e4 + torch.randn(4096, 4)
    ours(given)
    layer(given.double())
    assert torch.allclose(ours.running_var.double(), layer.running_var, rtol=1e-5)


def test_layers_become_ours_and_stay_themselves() -> None:
    shared = nn.SyncBatchNorm(4, eps=0.1, momentum=None, affine=False)
    plain = nn.BatchNorm1d(4)
    model = nn.Sequential(nn.SyncBatchNorm(4).eval(), shared, nn.Sequential(shared, plain))
    state, objects = model.state_dict(), [*model.parameters(), *model.buffers(), *model.modules()]
    optimizer, calls = torch.optim.SGD(model.parameters(), lr=0.1), []
    shared.register_forward_hook(lambda *_: calls.append(1))
    window = Window()
    assert cross_batch_norm(model, None, window) is model
    peers = model[0].peers
    assert cross_batch_norm(model, None, window) is model
    assert model[0].peers is peers
    assert [type(layer) for layer in model] == [CrossBatchNorm, CrossBatchNorm, nn.Sequential]
    assert model[2][0] is model[1]
    assert type(plain) is nn.BatchNorm1d
    kept = [*model.parameters(), *model.buffers(), *model.modules()]
    assert all(now is before for now, before in zip(kept, objects, strict=True))
    assert model.state_dict().keys() == state.keys()
    assert not model[0].training
    before = model[0].weight.detach().clone()
    model.train()(torch.randn(8, 4)).pow(3).sum().backward()
    optimizer.step()
    assert calls == [1, 1]
    assert not torch.equal(model[0].weight, before)


def test_a_model_may_be_one_layer() -> None:
    layer = nn.SyncBatchNorm(4)
    assert cross_batch_norm(layer, None, Window()) is layer
    assert type(layer) is CrossBatchNorm


def test_a_copy_keeps_its_peers_and_a_pickled_model_is_alone() -> None:
    """With real groups, which can neither be copied nor pickled."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        window, layer = Window(), nn.SyncBatchNorm(4, process_group=dist.group.WORLD)
        model = cross_batch_norm(nn.Sequential(layer), dist.new_group(), window)
        assert copy.deepcopy(model)[0].peers is model[0].peers
        window.begin(0, first=True, last=True)
        assert model[0].peers.idle
        back = pickle.loads(pickle.dumps(model))
    finally:
        dist.destroy_process_group()
    assert not back[0].peers.idle
    assert back(torch.randn(8, 4)).isfinite().all()


@pytest.mark.parametrize("shape", [(1, 4), (0, 4), (1, 4, 1, 1)])
def test_a_whole_batch_of_one_value_is_refused(shape: tuple[int, ...]) -> None:
    given, values = torch.ones(shape), shape[0]
    layer = cross_batch_norm(nn.SyncBatchNorm(4), None, Window())
    with pytest.raises(ConfigError, match=rf"BatchNorm got {values} values.*expected 2 or more to train.*global batch"):
        layer(given)
    assert layer.num_batches_tracked == 0
    assert layer.running_mean.isfinite().all()
    assert torch.equal(layer.eval()(given), given / (1 + 1e-5) ** 0.5)
    assert cross_batch_norm(nn.SyncBatchNorm(4), None, Window())(torch.ones(1, 4, 2)).isfinite().all()


@pytest.mark.parametrize("shape", [(4,), (3, 1), (3, 5, 4)])
def test_an_input_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    layer = cross_batch_norm(nn.SyncBatchNorm(4), None, Window())
    with pytest.raises(ConfigError, match=r"of shape .*expected \(N, 4, ...\)"):
        layer(torch.ones(shape))


def test_a_second_derivative_is_refused() -> None:
    layer, given = cross_batch_norm(nn.SyncBatchNorm(4), None, Window()), torch.randn(8, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(given).pow(3).sum(), given, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
