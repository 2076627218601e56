"""BatchNorm over any split of a batch is BatchNorm over the whole batch (real processes, real gloo)."""

from __future__ import annotations

import datetime
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from paceline.errors import ConfigError
from paceline.reduction.normalisation import cross_batch_norm, reestimate
from paceline.reduction.window import Window

WORKERS = 4
groups: dict[int, dist.ProcessGroup] = {}  # in a worker: the first so many workers, as a group of their own


def join(rank: int, meeting: str) -> None:
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=30)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=WORKERS, timeout=limit)
    for count in range(2, WORKERS + 1):
        groups[count] = dist.new_group(list(range(count)))


Call = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def on_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Call]:
    """Calls a function on the first workers at once, each with arguments of its own."""
    meeting = str(tmp_path_factory.mktemp("gloo") / "store")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hypothesis", "paceline.reduction.normalisation"])  # torch is imported once for all
    pools = [ProcessPoolExecutor(1, context, initializer=join, initargs=(n, meeting)) for n in range(WORKERS)]
    for joining in [pool.submit(int) for pool in pools]:  # a group needs all of them
        joining.result(timeout=60)

    def call(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        futures = [pool.submit(function, *each) for pool, each in zip(pools, arguments, strict=False)]
        return [future.result(timeout=60) for future in futures]

    yield call
    for waiting in (False, True):  # all end at the same time
        for pool in pools:
            pool.shutdown(wait=waiting)


def layer_of(channels: int, momentum: float | None, affine: bool, kind: type[nn.Module]) -> nn.Module:
    layer = kind(channels, momentum=momentum, affine=affine, dtype=torch.float64)
    if affine:
        layer.weight.data.copy_(torch.linspace(-2, 3, channels))
        layer.bias.data.copy_(torch.linspace(1, 2, channels))
    return layer


def results(layer: nn.Module, batches: list[tuple[Tensor, Tensor]], around: Callable[[Tensor], None]) -> dict[str, Any]:
    """What a layer gives for inputs and the gradients at its output, and where that leaves it. As numpy arrays, which
    cross between processes by value."""
    outputs, to_inputs = [], []
    for value, gradient in batches:
        around(gradient)
        value = value.clone().requires_grad_()
        output = layer(value)
        output.backward(gradient)
        outputs.append(output.detach().numpy())
        to_inputs.append(value.grad.numpy())
    own = {name: parameter.grad.numpy() for name, parameter in layer.named_parameters()}
    buffers = {name: buffer.numpy() for name, buffer in layer.named_buffers()}
    return {"outputs": outputs, "to_inputs": to_inputs, "own": own, "buffers": buffers}


def train(
    split: tuple[int, ...], rank: int, batches: list[Any], momentum: float | None, affine: bool
) -> dict[str, Any]:
    """One worker's part of batches, or where it has none a sample that weighs nothing."""
    window, pairs = Window(), [(torch.from_numpy(a), torch.from_numpy(b)) for a, b in batches]
    layer = layer_of(pairs[0][0].size(1), momentum, affine, nn.SyncBatchNorm)
    cross_batch_norm(layer, groups.get(len(split)), window)

    def around(_: Tensor) -> None:
        window.begin(split[rank], first=True, last=True)

    return results(layer, pairs, around)


splits = st.lists(st.integers(0, 5), min_size=1, max_size=WORKERS).filter(lambda split: sum(split) > 1)


@settings(max_examples=50, deadline=None)
@given(
    split=splits, shape=st.sampled_from([(3,), (1, 2), (2, 3, 2), (3, 1, 2, 2)]), seed=st.integers(0, 2**31),
    momentum=st.sampled_from([0.1, 1.0, None]), affine=st.booleans(), offset=st.sampled_from([0.0, 10.0]),
)  # fmt: skip
def test_any_split_is_one_batch(
    on_workers: Call, split: list[int], shape: tuple[int, ...], seed: int, momentum: float | None, affine: bool,
    offset: float,
) -> None:  # fmt: skip
    """C024, C025: any split of two batches, also with workers that only bring a sample that weighs nothing."""
    torch.manual_seed(seed)
    whole = [torch.randn(2, sum(split), *shape, dtype=torch.float64) for _ in range(2)]
    batches = [(value + offset, gradient) for value, gradient in whole]
    kind = {1: nn.BatchNorm1d, 2: nn.BatchNorm1d, 3: nn.BatchNorm2d, 4: nn.BatchNorm3d}[len(shape)]
    one = results(layer_of(shape[0], momentum, affine, kind), batches, lambda _: None)

    filler = torch.full((1, *shape), 1e3, dtype=torch.float64).numpy()
    mine: list[list[Any]] = [[] for _ in split]
    for pair in batches:
        for parts, *cut in zip(mine, *(part.split(split) for part in pair), strict=True):
            parts.append([part.numpy() if len(part) else filler for part in cut])
    many = on_workers(train, [(tuple(split), n, parts, momentum, affine) for n, parts in enumerate(mine)])

    busy = [each for each, size in zip(many, split, strict=True) if size]
    for key in ("outputs", "to_inputs"):
        for number, expected in enumerate(one[key]):
            joined = torch.cat([torch.from_numpy(each[key][number]) for each in busy])
            close(joined, torch.from_numpy(expected), whole[number][1] if key == "to_inputs" else None)
    for name, expected in one["own"].items():
        close(sum(torch.from_numpy(each["own"][name]) for each in many), torch.from_numpy(expected))
    for each, size in zip(many, split, strict=True):
        for name, expected in one["buffers"].items():
            close(torch.from_numpy(each["buffers"][name]), torch.from_numpy(expected))
            assert each["buffers"][name].tobytes() == many[0]["buffers"][name].tobytes()
        if not size:
            assert not any(gradient.any() for gradient in [*each["to_inputs"], *each["own"].values()])
            for output, (value, _) in zip(each["outputs"], batches, strict=True):
                close(torch.from_numpy(output), normalised(filler, value, affine))


def close(seen: Tensor, expected: Tensor, scale: Tensor | None = None) -> None:
    """Equal to 1e-12 of the largest value, or of ``scale``'s where that is larger and differences of such cancel."""
    largest = max(value.abs().max() for value in (expected, scale) if value is not None)
    assert (seen - expected).abs().max() <= 1e-12 * largest + 1e-14


def normalised(filler: Any, value: Tensor, affine: bool) -> Tensor:
    """A sample by the moments of a batch of others."""
    layer = layer_of(value.size(1), 1.0, affine, nn.SyncBatchNorm)
    axes = [axis for axis in range(value.dim()) if axis != 1]
    layer.running_mean, layer.running_var = value.mean(axes), value.var(axes, correction=0)
    return layer.eval()(torch.from_numpy(filler)).detach()


def normalise(part: list[float], samples: int) -> tuple[list[float], float, float, list[float]]:
    window, workers = Window(), 2
    layer = cross_batch_norm(nn.SyncBatchNorm(1, eps=0.0), groups[workers], window)
    window.begin(samples, first=True, last=True)
    output = layer(torch.tensor(part)[:, None])
    return output[:, 0].tolist(), layer.running_mean.item(), layer.running_var.item(), part


@pytest.mark.parametrize("first", [6, 7])
def test_the_values_0_to_7(on_workers: Call, first: int) -> None:
    """C024 (6/2) and C025 (7/1): mean 3.5, variance 5.25, unbiased 6.0; running statistics (0.35, 1.5) on both."""
    values = [float(value) for value in range(8)]
    for output, mean, variance, part in on_workers(normalise, [(values[:first], first), (values[first:], 8 - first)]):
        assert output == pytest.approx([(value - 3.5) / 5.25**0.5 for value in part], rel=1e-6)
        assert mean == pytest.approx(0.35)
        assert variance == pytest.approx(1.5)


def refuse(samples: int) -> str:
    window = Window()
    layer = cross_batch_norm(nn.SyncBatchNorm(1), groups[3], window)
    window.begin(samples, first=True, last=True)
    with pytest.raises(ConfigError) as caught:
        layer(torch.ones(1, 1))
    return str(caught.value)


def test_one_value_over_all_workers_is_refused_by_all(on_workers: Call) -> None:
    messages = on_workers(refuse, [(0,), (1,), (0,)])
    assert len({*messages}) == 1
    assert "got 1 values per channel over all workers; expected 2 or more" in messages[0]


def evaluate(rank: int) -> list[float]:
    layer = cross_batch_norm(nn.SyncBatchNorm(1, eps=0.0), groups[2], Window()).eval()
    return [layer(torch.full((1, 1), 2.0)).item() for _ in range(rank)]


def test_evaluation_takes_any_number_of_batches(on_workers: Call) -> None:
    assert on_workers(evaluate, [(1,), (3,)]) == [[2.0], [2.0, 2.0, 2.0]]


def anew(batches: list[list[float]], cross: bool) -> tuple[float, float, int]:
    layer = nn.SyncBatchNorm(1) if cross else nn.BatchNorm1d(1)
    model = cross_batch_norm(nn.Sequential(layer), groups[3], Window())
    tensors = [torch.tensor(batch)[:, None] for batch in batches]
    reestimate(model, tensors, lambda values: dist.all_reduce(values, group=groups[3]))
    return layer.running_mean.item(), layer.running_var.item(), layer.num_batches_tracked.item()


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("first", [[[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]], [[0.0, 1.0, 2.0, 3.0], [4.0], [5.0]]])
def test_statistics_taken_anew_are_those_of_the_whole_set(on_workers: Call, first: list[Any], cross: bool) -> None:
    """C027: 0 to 5 on one worker, 6 and 7 on the next, none on the last, in batches of any number and size."""
    seen = on_workers(anew, [(first, cross), ([[6.0, 7.0]], cross), ([], cross)])
    assert seen[0] == (3.5, 5.25, len(first) + 1)
    assert seen == [seen[0]] * 3
