"""Training state to save: networks and optimizers by name, and a completion mark."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from paceline.schema.checkpoint import State
from paceline.schema.settings import Settings
from paceline.state.snapshot import Snapshot


def state(**values: Any) -> State:
    """Twelve samples into an epoch of 40, with one model and one optimizer unless told otherwise."""
    known: dict[str, Any] = {
        "samples_seen": 12,
        "updates": 3,
        "epoch": 0,
        "epoch_size": 40,
        "left": [(12, 30), (32, 40)],
        "finished": False,
        "settings": Settings(global_batch=4, seed=3),
        "strategy": "alone",
        "plan_hash": "0",
        "versions": {"torch": "2.13"},
        "saved_at": "2030-01-02T03:04:05+00:00",
        "models": ["Linear"],
        "optimizers": ["Adam"],
        "parameters": 15,
    }
    return State(**known | values)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "plain": lambda p: torch.optim.SGD(p, lr=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
}


def network(width: int = 5, seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Linear(width, 2)).to(dtype)


def batch(number: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(number)).to(dtype)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range, *others: Any) -> None:
    for number in steps:
        optimizer.zero_grad()
        model(batch(number, next(model.parameters()).dtype)).square().mean().backward()
        optimizer.step()
        for scheduler in others:
            scheduler.step()


def detached(snapshot: Snapshot) -> Snapshot:
    """As if it had been to the disk and back."""
    tensors = {name: tensor.clone() for name, tensor in snapshot.tensors.items()}
    return Snapshot(tensors, copy.deepcopy(snapshot.rest))
