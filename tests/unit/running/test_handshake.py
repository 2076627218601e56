"""Workers that differ are told so, all of them, before the first collective (C079, real gloo)."""

from __future__ import annotations

import os
from importlib import metadata

import pytest
import torch
from torch import nn

import harness
import jobs
import paceline
from crew import Crew
from paceline.errors import ConfigError
from paceline.hardware import host


def train(what: str) -> float:
    odd = os.environ["RANK"] == "1"
    model = nn.Sequential(nn.Linear(2, 2))
    if odd and what == "parameter":
        model.add_module("extra", nn.Linear(2, 1))
    if odd and what == "dtype":
        model.double()
    if odd and what == "shape":
        model = nn.Sequential(nn.Linear(2, 3))
    if odd and what == "version":
        host.version = lambda name: "0.0.9"
    optimizer = (torch.optim.Adam if odd and what == "optimizer" else torch.optim.SGD)(model.parameters(), lr=0.1)
    precision = "auto" if odd and what == "precision" else "float32"
    run = paceline.init(global_batch=3, seed=int(odd and what == "seed"), precision=precision)
    try:
        run.setup(model, optimizer)
    finally:
        host.version = metadata.version
    jobs.done(run)
    return run.global_batch


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "parameter",
            r"rank 1 on .* has parameter 'extra.weight' of shape \[1, 2\] and float32, rank 0 .* has not",
        ),
        (
            "dtype",
            r"rank 1 .*'0.weight' of shape \[2, 2\] and float64, rank 0 .* and float32",
        ),
        ("shape", r"rank 1 .*shape \[3, 2\].*rank 0 .*shape \[2, 2\]"),
        ("version", rf"rank 1 on \S+ has paceline 0.0.9, rank 0 on \S+ has paceline {paceline.__version__}"),
        ("optimizer", r"rank 1 .*Adam.*rank 0 .*SGD"),
        ("precision", r"rank 1 .*precision='auto'.*rank 0 .*precision='float32'"),  # C034
        ("seed", r"rank 1 .*seed=1.*rank 0 .*seed=0"),
    ],
)
def test_each_worker_says_what_differs(crew: Crew, what: str, said: str) -> None:
    errors = crew.outcomes(train, [harness.worker(1)] * 3, what, strategy="allreduce")
    for rank, error in enumerate(errors):
        assert isinstance(error, ConfigError)
        with pytest.raises(ConfigError, match=said):
            raise error
        assert str(error).startswith(f"rank {rank} on ")


def test_workers_that_agree_go_on(crew: Crew) -> None:
    assert crew.run(train, [harness.worker(1)] * 3, "nothing") == [3, 3, 3]
