"""Training state as flat tensors and back: exact, under plain names, and refused before anything is changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import lr_scheduler

from paceline.state.snapshot import Snapshot, restore, take
from states import OPTIMIZERS, batch, detached, network, train


def same(one: nn.Module, other: nn.Module) -> bool:
    values = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in values)


@settings(max_examples=20, deadline=None)
@given(
    name=st.sampled_from(sorted(OPTIMIZERS)), before=st.integers(0, 3), width=st.integers(1, 6),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)  # fmt: skip
def test_training_goes_on_as_if_it_had_not_stopped(name: str, before: int, width: int, dtype: torch.dtype) -> None:
    """C060's core: bit for bit, from the initial state and from any later one."""
    model = network(width, dtype=dtype)
    optimizer = OPTIMIZERS[name](model.parameters())
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda step: np.float64(0.9) ** step)
    train(model, optimizer, range(before), scheduler)
    saved = detached(take([model], [optimizer], [scheduler], []))
    other = network(width, seed=1, dtype=dtype)
    rebuilt = OPTIMIZERS[name](other.parameters())
    follower = lr_scheduler.LambdaLR(rebuilt, lambda step: np.float64(0.9) ** step)
    train(other, rebuilt, range(7, 9), follower)
    restore(saved, [other], [rebuilt], [follower], [])
    assert same(model, other)
    train(model, optimizer, range(before, before + 3), scheduler)
    train(other, rebuilt, range(before, before + 3), follower)
    assert same(model, other)
    assert follower.get_last_lr() == scheduler.get_last_lr()


def test_a_snapshot_is_not_changed_by_training_on_from_it() -> None:
    model = network()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    train(model, optimizer, range(2))
    saved = detached(take([model], [optimizer], [], []))
    kept = detached(saved)
    restore(saved, [model], [optimizer], [], [])
    train(model, optimizer, range(2))
    assert all(torch.equal(saved.tensors[name], kept.tensors[name]) for name in kept.tensors)
    assert saved.rest == kept.rest


def test_names_are_flat_and_values_are_the_live_ones() -> None:
    model = nn.Linear(2, 1)
    optimizer = OPTIMIZERS["adam"](model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    tensors = take([model], [optimizer], [], []).tensors
    state = [f"optimizer.0.{j}.{key}" for j in (0, 1) for key in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")]
    assert sorted(tensors) == ["model.0.bias", "model.0.weight", *state]
    assert tensors["model.0.weight"].data_ptr() == model.weight.data_ptr()


class Named(nn.Module):
    """Has a layer of its own with the name that wrappers use."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(2, 2)
        self.inner = nn.DataParallel(nn.Linear(2, 2))


@pytest.fixture
def group(tmp_path: Any) -> Any:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_wrappers_leave_no_trace_in_names_and_a_layer_called_module_keeps_its_own() -> None:
    """C064."""
    plain = nn.Linear(2, 1)
    wrapped = [
        plain,
        torch.compile(plain, backend="eager"),
        DistributedDataParallel(plain),
        torch.compile(DistributedDataParallel(torch.compile(plain, backend="eager")), backend="eager"),
        nn.DataParallel(DistributedDataParallel(plain)),
    ]
    for model in wrapped:
        saved = detached(take([model], [OPTIMIZERS["plain"](model.parameters())], [], []))
        assert sorted(saved.tensors) == ["model.0.bias", "model.0.weight"]
        assert saved.rest["optimizers"][0]["parameters"] == ["model.0.weight", "model.0.bias"]
        for other in wrapped:
            with torch.no_grad():
                plain.weight.fill_(7.0)
            restore(saved, [other], [OPTIMIZERS["plain"](other.parameters())], [], [])
            assert torch.equal(plain.weight, saved.tensors["model.0.weight"])
    names = take([Named()], [], [], []).tensors
    assert sorted(names) == [f"model.0.{part}.{name}" for part in ("inner", "module") for name in ("bias", "weight")]


class Counted(nn.Linear):
    """Keeps something that is not a tensor, and shares one."""

    def __init__(self) -> None:
        super().__init__(2, 2, bias=False)
        self.tied = self.weight
        self.phase = nn.Parameter(torch.tensor([1 + 2j, 3j]))
        self.calls = 0

    def get_extra_state(self) -> int:
        return self.calls

    def set_extra_state(self, state: int) -> None:
        self.calls = state


def test_tied_and_complex_weights_and_a_models_extra_state() -> None:
    model, other = Counted(), Counted()
    model.calls = 5
    restore(detached(take([model], [], [], [])), [other], [], [], [])
    assert (other.calls, other.tied is other.weight) == (5, True)
    assert torch.equal(other.weight, model.weight)
    assert torch.equal(other.phase, model.phase)


def test_weights_stay_the_objects_and_the_dtype_that_they_are() -> None:
    saved = detached(take([network()], [], [], []))
    other = network(seed=1, dtype=torch.float64)
    before = {name: (id(p), p.data_ptr()) for name, p in other.named_parameters()}
    restore(saved, [other], [], [], [])
    assert {name: (id(p), p.data_ptr()) for name, p in other.named_parameters()} == before
    assert torch.equal(other[0].weight, saved.tensors["model.0.0.weight"].double())


class Half(torch.optim.SGD):
    """Keeps float32 for bfloat16 parameters, and what is no tensor."""

    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter] |= {"sum": torch.full(parameter.shape, 1 / 3), "steps": 4, "nothing": None}


def test_an_optimizers_state_keeps_its_dtype_and_what_is_no_tensor() -> None:
    model = nn.Linear(2, 1).bfloat16()
    optimizer = Half(model.parameters(), lr=0.1)
    optimizer.step()
    other = nn.Linear(2, 1).bfloat16()
    rebuilt = Half(other.parameters(), lr=0.5)
    restore(detached(take([model], [optimizer], [], [])), [other], [rebuilt], [], [])
    state = rebuilt.state[other.weight]
    assert torch.equal(state["sum"], torch.full((1, 2), 1 / 3))
    assert (state["steps"], state["nothing"], rebuilt.param_groups[0]["lr"]) == (4, None, 0.1)


def test_an_optimizers_state_keeps_the_memory_format_of_its_parameter() -> None:
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = OPTIMIZERS["adam"](model.parameters())
    model(torch.randn(1, 3, 5, 5)).sum().backward()
    optimizer.step()
    saved = {name: tensor.contiguous() for name, tensor in take([model], [optimizer], [], []).tensors.items()}
    restore(Snapshot(saved, take([model], [optimizer], [], []).rest), [model], [optimizer], [], [])
    assert optimizer.state[model.weight]["exp_avg"].stride() == model.weight.stride()


def test_lists_of_tensors_in_an_optimizers_state() -> None:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        def loss() -> Tensor:
            optimizer.zero_grad()
            value = model(batch(0)).square().mean()
            value.backward()
            return value

        optimizer.step(loss)

    model, other = nn.Linear(4, 2), nn.Linear(4, 2)
    optimizer, rebuilt = (torch.optim.LBFGS(m.parameters(), max_iter=3) for m in (model, other))
    step(model, optimizer)
    restore(detached(take([model], [optimizer], [], [])), [other], [rebuilt], [], [])
    step(model, optimizer)
    step(other, rebuilt)
    assert same(model, other)


def test_several_optimizers_and_parameters_that_are_in_no_model() -> None:
    def build(seed: int) -> tuple[list[nn.Module], list[torch.optim.Optimizer], nn.Parameter]:
        models, temperature = [network(seed=seed), network(seed=seed + 1)], nn.Parameter(torch.tensor(float(seed)))
        optimizers = [
            OPTIMIZERS["adam"]([{"params": [temperature]}, {"params": models[1].parameters(), "lr": 0.5}]),
            OPTIMIZERS["momentum"](models[0].parameters()),
        ]
        return models, optimizers, temperature

    models, optimizers, temperature = build(0)
    for model, optimizer in zip(models, reversed(optimizers), strict=True):
        (model(batch(1)).square().mean() * temperature.exp()).backward()
        optimizer.step()
    saved = detached(take(models, optimizers, [], []))
    assert "parameter.0.0" in saved.tensors
    others, rebuilt, loose = build(5)
    restore(saved, others, rebuilt, [], [])
    assert loose.item() == temperature.item()
    assert all(same(a, b) for a, b in zip(models, others, strict=True))
    again = take(others, rebuilt, [], [])
    assert again.rest == saved.rest
    assert all(torch.equal(again.tensors[name], saved.tensors[name]) for name in saved.tensors)


def test_a_scheduler_whose_step_is_anothers_and_a_scaler() -> None:
    model = network()
    optimizer = OPTIMIZERS["plain"](model.parameters())
    scheduler = lr_scheduler.StepLR(optimizer, 2)
    train(model, optimizer, range(3), scheduler)
    scheduler.step = print  # as run.setup does
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    saved = detached(take([model], [optimizer], [scheduler], [scaler]))
    assert "step" not in saved.rest["schedulers"][0]["state"]
    other = torch.amp.GradScaler("cpu", init_scale=2.0)
    follower = lr_scheduler.StepLR(optimizer, 2)
    restore(saved, [model], [optimizer], [follower], [other])
    assert other.get_scale() == 8.0
    assert follower.last_epoch == 3
    assert follower.step is not print


def test_a_numpy_number_is_kept_as_a_plain_one() -> None:
    model = network()
    optimizer = torch.optim.SGD([{"params": model.parameters(), "lr": np.float64(0.3)}])
    (group,) = take([model], [optimizer], [], []).rest["optimizers"][0]["groups"]
    assert (type(group["lr"]), group["lr"]) == (float, 0.3)
