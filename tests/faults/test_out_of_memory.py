"""A device that runs out of memory gets smaller micro-batches, and nothing of it is seen in what was trained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from commands import Command
from paceline.data.sampler import order
from paceline.launchers import failures

HUNGRY = """
import json, os, sys, torch, paceline
from torch import nn
from torch.utils.data import TensorDataset

class Limit(torch.autograd.Function):  # as an allocator that has no more half-way through backward
    @staticmethod
    def forward(ctx, x, most):
        ctx.full = len(x) > most
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        if ctx.full:
            raise torch.OutOfMemoryError("tried to allocate 2 GiB")
        return gradient, None

class Count(nn.Module):  # a buffer that forward moves: nothing of a failed update may stay in it
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.tensor(0))
    def forward(self, x):
        self.seen += len(x)
        return x

since, most = int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(0)
data = TensorDataset(torch.arange(160), torch.randn(160, 4).double(), torch.randn(160, 1).double())
first, second = nn.Sequential(Count(), nn.Linear(4, 8)).double(), nn.Sequential(nn.Tanh(), nn.Linear(8, 1)).double()
model = nn.ModuleList([first, second])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
run = paceline.init(global_batch=16)
model, optimizer = run.setup(model, optimizer)
log = open(f"drawn-{os.getpid()}", "w", buffering=1)
for epoch in run.epochs(2):
    waiting = []
    for ids, x, y in run.loader(data):
        full = run.rank == 1 and run.samples_seen >= since
        hidden = Limit.apply(first(x), most if full else 1000)
        run.backward(nn.functional.mse_loss(second(hidden), y))
        optimizer.step()
        optimizer.zero_grad()
        waiting += [[epoch, id] for id in ids.tolist()]
        if run._window.last:
            print("\\n".join(map(json.dumps, waiting)), file=log)
            waiting = []
torch.save(model.state_dict(), f"weights-{run.rank}.pt")
"""


def on_one_device() -> dict[str, torch.Tensor]:
    """The same training in plain torch."""
    torch.manual_seed(0)
    x, y = torch.randn(160, 4).double(), torch.randn(160, 1).double()
    model = nn.ModuleList(
        [nn.Sequential(nn.Identity(), nn.Linear(4, 8)).double(), nn.Sequential(nn.Tanh(), nn.Linear(8, 1)).double()]
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(2):
        for part in order(160, epoch, seed=0).split(16):
            optimizer.zero_grad()
            nn.functional.mse_loss(model[1](model[0](x[part])), y[part]).backward()
            optimizer.step()
    return model.state_dict()


@pytest.mark.timeout(240)  # two attempts
def test_micro_batches_are_halved_until_they_fit_and_the_update_is_that_of_one_device(
    start: Callable[..., Command], tmp_path: Path
) -> None:
    """C014: from the fifth update on rank 1 has no memory for more than 4 of 8 samples; first it fails half-way through
    a backward, whose first sums its peer has got."""
    command = start("allreduce", "64", "4", recipe=HUNGRY)
    output, errors = command.process.communicate(timeout=220)
    assert command.process.returncode == 0, errors
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert [w["micro_batch"] for job in plan["jobs"] for w in job["workers"]] == [None, 4]  # what all of them read
    assert "ran out of memory with 8 samples at once; with 4 now, on from" in output
    lines = [line for path in tmp_path.glob("drawn-*") for line in path.read_text().splitlines()]
    assert sorted(map(json.loads, lines)) == [[epoch, number] for epoch in range(2) for number in range(160)]
    both = [torch.load(tmp_path / f"weights-{rank}.pt") for rank in range(2)]
    seen = [weights.pop("0.0.seen") for weights in both]  # shares may have changed on the way
    assert sum(seen) == 2 * 160
    for weights in both:
        for name, weight in on_one_device().items():
            assert torch.allclose(weights[name], weight, rtol=1e-12), name


def test_a_device_without_room_for_one_sample_is_named(tmp_path: Path) -> None:
    error = torch.OutOfMemoryError("tried to allocate 2 GiB")
    failures.write_down(tmp_path, (0, 1), error, "rank 1 on here", samples=1)
    assert failures.overfull(tmp_path) is None
