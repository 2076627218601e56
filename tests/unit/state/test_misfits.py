"""What does not fit a snapshot is refused before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from paceline.errors import ConfigError
from paceline.state.snapshot import restore, take
from states import OPTIMIZERS, detached, network, train


def parts(**changed: Any) -> list[Any]:
    model = changed.get("model", network())
    optimizer = changed.get("optimizer", OPTIMIZERS["adam"])(model.parameters())
    scheduler = changed.get("scheduler", lambda o: lr_scheduler.StepLR(o, 1))(optimizer)
    scaler = torch.amp.GradScaler("cpu", enabled=changed.get("scaler", True))
    return [[model], [optimizer], [scheduler], [scaler]]


def wider() -> nn.Module:
    model = network()
    model.extra = nn.Linear(1, 1)
    return model


def narrower() -> nn.Module:
    model = network()
    model[0].bias = None
    return model


def twisted() -> nn.Module:
    model = network()
    model[3].weight = nn.Parameter(model[3].weight.to(torch.complex64))
    return model


MISFITS: list[tuple[Callable[[], list[Any]], str]] = [
    (lambda: parts(model=wider()), "model 0 (Sequential): 'extra.weight' is not in the checkpoint; expected one of"),
    (lambda: parts(model=narrower()), "model 0 (Sequential): the checkpoint holds '0.bias'; expected only the 8 names"),
    (
        lambda: parts(model=network(6)),
        "model 0 (Sequential), '0.weight': shape (5, 4) in the checkpoint; expected (6, 4).",
    ),
    (lambda: parts(model=twisted()), "'3.weight': floating-point in the checkpoint; expected complex"),
    (lambda: parts(optimizer=OPTIMIZERS["adamw"]), "optimizer 0: Adam in the checkpoint; expected AdamW"),
    (
        lambda: parts(optimizer=lambda p: torch.optim.Adam(reversed(list(p)))),
        "optimizer 0 (Adam): parameter 0 is model.0.0.weight in the checkpoint; expected model.0.3.bias",
    ),
    (
        lambda: parts(optimizer=lambda p: torch.optim.Adam([{"params": [q]} for q in p])),
        "groups of [6] parameters in the checkpoint; expected [1, 1, 1, 1, 1, 1]",
    ),
    (
        lambda: parts(optimizer=lambda p: torch.optim.Adam([*list(p)[:-1], nn.Parameter(torch.ones(2))])),
        "parameter 5 is model.0.3.bias in the checkpoint; expected parameter.0.5",
    ),
    (
        lambda: parts(scheduler=lambda o: lr_scheduler.ConstantLR(o)),
        "scheduler 0: StepLR in the checkpoint; expected ConstantLR",
    ),
    (lambda: parts(scaler=False), "scaler 0: enabled in the checkpoint; expected disabled"),
    (lambda: [*parts()[:2], [], parts()[3]], "1 schedulers in the checkpoint; expected 0"),
]


@pytest.mark.parametrize(("build", "said"), MISFITS)
def test_what_does_not_fit_is_named_and_nothing_is_changed(build: Callable[[], list[Any]], said: str) -> None:
    model, optimizer, *others = parts()
    train(model[0], optimizer[0], range(2))
    saved = detached(take(model, optimizer, *others))
    target = build()
    before = detached(take(*target))
    with pytest.raises(ConfigError) as caught:
        restore(saved, *target)
    assert said in str(caught.value)
    assert "Build models, optimizers and schedulers as they were" in str(caught.value)
    after = take(*target)
    assert all(torch.equal(after.tensors[name], before.tensors[name]) for name in before.tensors)
    assert after.rest == before.rest
