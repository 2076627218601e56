"""Models, optimizers, schedulers and scalers as flat named tensors and a plain rest, and back.

model.<i>.<name>              parameters and buffers, under the names they have without any wrapper
optimizer.<i>.<j>.<key>       state of optimizer i for its parameter j, as Optimizer.state_dict counts them
parameter.<i>.<j>             a parameter of optimizer i that is in no model
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from paceline.errors import ConfigError

_SAME = "Build models, optimizers and schedulers as they were when the checkpoint was saved."


@dataclass(frozen=True)
class Snapshot:
    """``rest`` is what is not a tensor: one list for each of models, optimizers, schedulers and scalers."""

    tensors: dict[str, Tensor]
    rest: dict[str, list[dict[str, Any]]]


def take(
    models: Sequence[nn.Module],
    optimizers: Sequence[Optimizer],
    schedulers: Sequence[LRScheduler],
    scalers: Sequence[GradScaler],
) -> Snapshot:
    """The training state as it is now; the tensors are the live ones, not copies."""
    tensors: dict[str, Tensor] = {}
    rest: dict[str, list[dict[str, Any]]] = {
        "models": [],
        "optimizers": [],
        "schedulers": [_described(s, _scheduler_state(s)) for s in schedulers],
        "scalers": [_described(s, s.state_dict()) for s in scalers],
    }
    for index, model in enumerate(models):
        own = _plain_state(model)
        tensors |= {f"model.{index}.{name}": value for name, value in own.items() if isinstance(value, Tensor)}
        rest["models"].append({name: value for name, value in own.items() if not isinstance(value, Tensor)})
    for index, optimizer in enumerate(optimizers):
        names = _parameter_names(models, optimizer, index)
        loose = zip(names, _parameters(optimizer), strict=True)
        tensors |= {name: parameter.detach() for name, parameter in loose if name.startswith("parameter.")}
        packed = optimizer.state_dict()
        found, others = _sorted_out(packed["state"])
        tensors |= {f"optimizer.{index}.{place}": tensor for place, tensor in found.items()}
        described = _described(optimizer, others)
        rest["optimizers"].append({**described, "parameters": names, "groups": packed["param_groups"]})
    return Snapshot(tensors, _without_numpy(rest))


def restore(
    snapshot: Snapshot,
    models: Sequence[nn.Module],
    optimizers: Sequence[Optimizer],
    schedulers: Sequence[LRScheduler],
    scalers: Sequence[GradScaler],
) -> None:
    """Put a snapshot back. Parameters stay where they are and keep dtype and device; an optimizer's state goes to its
    parameter's device in the dtype it was saved in; options (lr, momentum) become those of the snapshot.

    Raises:
        ConfigError: something does not fit, named with what was seen and expected; then nothing was changed.
    """
    given: dict[str, Sequence[Any]] = {
        "models": models,
        "optimizers": optimizers,
        "schedulers": schedulers,
        "scalers": scalers,
    }
    _check_kinds(snapshot, given)
    for index, model in enumerate(models):
        _check_model(snapshot, index, model)
    for index, optimizer in enumerate(optimizers):
        _check_optimizer(snapshot, index, optimizer, models)
    own = Snapshot(snapshot.tensors, copy.deepcopy(snapshot.rest))
    for index, model in enumerate(models):
        _write_model(own, index, model)
    for index, optimizer in enumerate(optimizers):
        _write_optimizer(own, index, optimizer)
    for kind in ("schedulers", "scalers"):
        for saved, thing in zip(own.rest[kind], given[kind], strict=True):
            thing.load_state_dict(saved["state"])


def _write_model(snapshot: Snapshot, index: int, model: nn.Module) -> None:
    values = _under(snapshot, f"model.{index}.") | snapshot.rest["models"][index]
    wrappers = _wrappers(model)
    model.load_state_dict({name: values[_plain(name, wrappers)] for name in model.state_dict()})


@torch.no_grad()
def _write_optimizer(snapshot: Snapshot, index: int, optimizer: Optimizer) -> None:
    saved, parameters = snapshot.rest["optimizers"][index], list(_parameters(optimizer))
    state, tensors = saved["state"], []
    for place, tensor in _under(snapshot, f"optimizer.{index}.").items():
        number, _, key = place.partition(".")
        state[int(number)][key] = tensor
        tensors.append((parameters[int(number)], key, tensor))
    optimizer.load_state_dict({"state": state, "param_groups": saved["groups"]})
    for parameter, key, tensor in tensors:  # torch has put each on its device, but shared and in the parameter's dtype
        own = optimizer.state[parameter]
        like = parameter if tensor.shape == parameter.shape else tensor
        own[key] = torch.empty_like(like, dtype=tensor.dtype, device=own[key].device).copy_(tensor)
    for name, parameter in zip(saved["parameters"], parameters, strict=True):
        if name.startswith("parameter."):
            parameter.copy_(snapshot.tensors[name])


def _check_kinds(snapshot: Snapshot, given: dict[str, Sequence[Any]]) -> None:
    for kind, things in given.items():
        if len(snapshot.rest[kind]) != len(things):
            raise _misfit(f"{len(snapshot.rest[kind])} {kind} in the checkpoint", str(len(things)))
    for kind in ("optimizers", "schedulers", "scalers"):
        for index, (saved, thing) in enumerate(zip(snapshot.rest[kind], given[kind], strict=True)):
            if saved["kind"] != type(thing).__name__:
                raise _misfit(f"{saved['kind']} in the checkpoint", type(thing).__name__, f"{kind[:-1]} {index}")
    for index, (saved, scaler) in enumerate(zip(snapshot.rest["scalers"], given["scalers"], strict=True)):
        was, now = (("disabled", "enabled")[on] for on in (bool(saved["state"]), scaler.is_enabled()))
        if was != now:
            raise _misfit(f"{was} in the checkpoint", now, f"scaler {index}")


def _check_model(snapshot: Snapshot, index: int, model: nn.Module) -> None:
    where = f"model {index} ({type(model).__name__})"
    saved, own = _under(snapshot, f"model.{index}.") | snapshot.rest["models"][index], _plain_state(model)
    for name in own:
        if name not in saved:
            raise _misfit(f"'{name}' is not in the checkpoint", f"one of its {len(saved)} names", where)
    for name, value in saved.items():
        if name not in own:
            raise _misfit(f"the checkpoint holds '{name}'", f"only the {len(own)} names of this model", where)
        _check_tensor(value, own[name], f"{where}, '{name}'")


def _check_tensor(saved: Any, own: Any, where: str) -> None:
    if _kind(saved) != _kind(own):
        raise _misfit(f"{_kind(saved)} in the checkpoint", _kind(own), where)
    if isinstance(saved, Tensor) and saved.shape != own.shape:
        raise _misfit(f"shape {tuple(saved.shape)} in the checkpoint", f"{tuple(own.shape)}", where)


def _check_optimizer(snapshot: Snapshot, index: int, optimizer: Optimizer, models: Sequence[nn.Module]) -> None:
    where = f"optimizer {index} ({type(optimizer).__name__})"
    saved = snapshot.rest["optimizers"][index]
    sizes, own_sizes = ([len(g["params"]) for g in groups] for groups in (saved["groups"], optimizer.param_groups))
    if sizes != own_sizes:
        raise _misfit(f"groups of {sizes} parameters in the checkpoint", f"{own_sizes}", where)
    names = _parameter_names(models, optimizer, index)
    for number, (name, own, parameter) in enumerate(
        zip(saved["parameters"], names, _parameters(optimizer), strict=True)
    ):
        if name != own:
            raise _misfit(f"parameter {number} is {name} in the checkpoint", own, where)
        if name.startswith("parameter."):
            _check_tensor(snapshot.tensors[name], parameter, f"{where}, parameter {number}")


def _kind(value: Any) -> str:
    if not isinstance(value, Tensor):
        return "no tensor"
    return "complex" if value.is_complex() else "floating-point" if value.is_floating_point() else "integer"


def _misfit(seen: str, expected: str, where: str = "") -> ConfigError:
    return ConfigError(seen, expected=expected, where=where, remedy=_SAME)


def _under(snapshot: Snapshot, prefix: str) -> dict[str, Any]:
    return {name[len(prefix) :]: tensor for name, tensor in snapshot.tensors.items() if name.startswith(prefix)}


def _sorted_out(state: dict[Any, Any]) -> tuple[dict[str, Tensor], dict[Any, Any]]:
    """An optimizer's packed state as ``<j>.<key>`` -> tensor, and what is left of each entry."""
    tensors: dict[str, Tensor] = {}
    others: dict[Any, Any] = {}
    for number, entry in state.items():
        others[number] = entry
        if isinstance(entry, dict):
            found = {key: value for key, value in entry.items() if isinstance(value, Tensor)}
            tensors |= {f"{number}.{key}": value for key, value in found.items()}
            others[number] = {key: value for key, value in entry.items() if key not in found}
    return tensors, others


def _plain_state(model: nn.Module) -> dict[str, Any]:
    wrappers = _wrappers(model)
    return {_plain(name, wrappers): value for name, value in model.state_dict().items()}


def _wrappers(model: nn.Module) -> list[str]:
    """What DistributedDataParallel, DataParallel and torch.compile put into names, the innermost first. By type, as a
    model may well have a layer of its own that is called ``module``."""
    found = []
    for name, module in model.named_modules(remove_duplicate=False):
        inner = "module" if isinstance(module, (DistributedDataParallel, nn.DataParallel)) else "_orig_mod"
        if inner in module._modules:
            found.append(f"{name}.{inner}.".removeprefix("."))
    return found[::-1]


def _plain(name: str, wrappers: list[str]) -> str:
    for prefix in wrappers:
        if name.startswith(prefix):
            outer = prefix[:-1].rpartition(".")[0]
            name = f"{outer}.{name[len(prefix) :]}".removeprefix(".")
    return name


def _parameters(optimizer: Optimizer) -> Iterator[nn.Parameter]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _parameter_names(models: Sequence[nn.Module], optimizer: Optimizer, index: int) -> list[str]:
    names: dict[int, str] = {}
    for number, model in enumerate(models):
        wrappers = _wrappers(model)
        for name, parameter in model.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), f"model.{number}.{_plain(name, wrappers)}")
    return [names.get(id(parameter), f"parameter.{index}.{j}") for j, parameter in enumerate(_parameters(optimizer))]


def _described(thing: Any, state: Mapping[Any, Any]) -> dict[str, Any]:
    return {"kind": type(thing).__name__, "state": dict(state)}


def _scheduler_state(scheduler: LRScheduler) -> dict[str, Any]:
    """Without ``step``, which ``run.setup`` replaces in the object."""
    return {key: value for key, value in scheduler.state_dict().items() if key != "step"}


def _without_numpy(value: Any) -> Any:
    """Numpy's numbers as Python's own: torch does not read them back safely, and a computed learning rate is one."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is dict:
        return {key: _without_numpy(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_without_numpy(entry) for entry in value)
    return value
