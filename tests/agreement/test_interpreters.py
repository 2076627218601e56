"""Prediction and execution are one program: both interpreters run the same operations for every strategy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import harness
from paceline import strategies
from paceline.ops import Operation
from paceline.schema.plan import Plan
from paceline.simulating import interpreter
from paceline.strategies.base import get

SAMPLES, EPOCHS = 100, 2
RECIPE = f"""
import json, sys, torch, paceline
from torch.utils.data import TensorDataset
data = TensorDataset(torch.arange({SAMPLES}.0).unsqueeze(1))
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
run = paceline.init(global_batch=6)
class Spy:  # the program, and what it yields
    def __init__(self, program):
        self.program = program
    def send(self, answer):
        operation = self.program.send(answer)
        done.append(repr(operation))
        return operation
done = [repr(run._worker.executor._next)]
run._worker.executor._program = Spy(run._worker.executor._program)
model, optimizer = run.setup(model, optimizer)
for epoch in run.epochs({EPOCHS}):
    for (x,) in run.loader(data):
        run.backward(model(x).mean())
        optimizer.step()
        optimizer.zero_grad()
open(f"{{sys.argv[1]}}/{{run.place.rank}}.json", "w").write(json.dumps(done[:-1]))  # the last waits for an epoch
"""


def plan(strategy: str) -> Plan:
    """Uneven shares where the strategy has them; two groups, one of two workers, where it has groups."""
    layout = get(strategy).layout
    if layout.devices == "fastest":
        return harness.plan(strategy, [harness.worker(6)])
    if layout.jobs == "groups":
        pair, single = [harness.worker(2, group="a"), harness.worker(2, group="a")], [harness.worker(2, group="b")]
        return harness.plan(strategy, pair, single, local_steps=(2, 1))
    return harness.plan(strategy, [harness.worker(3), harness.worker(2), harness.worker(1)])


def shape(operation: str) -> str:
    """An operation without the positions it works on: in asynchronous strategies those depend on who came first."""
    return operation.partition("part=")[0] + operation.partition("),")[2]


@pytest.mark.parametrize("strategy", sorted(strategies.TABLE))
def test_a_real_run_and_its_simulation_do_the_same_operations(tmp_path: Path, strategy: str) -> None:
    made = plan(strategy)
    harness.run(made, RECIPE, tmp_path, str(tmp_path))
    predicted: list[list[Operation]] = interpreter.operations(made, SAMPLES, EPOCHS)
    for rank, expected in enumerate(predicted):
        real = json.loads((tmp_path / f"{rank}.json").read_text())
        simulated = [repr(operation) for operation in expected]
        if get(
            strategy
        ).layout.server:  # how many leases a group gets is a matter of time; what it does with them is not
            rounds = 9  # the first exchange: a group that the other outran may find the epoch used up after it
            assert [shape(op) for op in real[:rounds]] == [shape(op) for op in simulated[:rounds]]
        else:
            assert real == simulated
