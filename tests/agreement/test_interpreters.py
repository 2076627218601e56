"""Prediction and execution are one program: both interpreters run the same operations for every strategy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import harness
import jobs
from crew import Crew
from paceline import strategies
from paceline.ops import Adopt, Operation
from paceline.schema.plan import Plan
from paceline.simulating import interpreter
from paceline.strategies.base import get

RECIPE = """
import json, sys
sys.path.insert(0, sys.argv[2])
import jobs
jobs.SAMPLES = int(sys.argv[3])
rank, done = jobs.operations()
open(f"{sys.argv[1]}/{rank}.json", "w").write(json.dumps(done))
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


@pytest.mark.parametrize("strategy", sorted(name for name in strategies.TABLE if not get(name).layout.server))
def test_a_real_run_and_its_simulation_do_the_same_operations(crew: Crew, strategy: str) -> None:
    made = plan(strategy)
    predicted: list[list[Operation]] = interpreter.operations(made, jobs.SAMPLES, jobs.EPOCHS)
    real = crew.run(jobs.operations, made.workers, strategy=strategy)
    for (_, done), expected in zip(real, predicted, strict=True):
        assert done == [repr(operation) for operation in expected]


@pytest.mark.parametrize("strategy", sorted(name for name in strategies.TABLE if get(name).layout.server))
def test_so_do_groups_with_a_server_as_far_as_time_allows(tmp_path: Path, strategy: str) -> None:
    """How many leases a group gets is a matter of time; what it does with the first one is not."""
    made = plan(strategy)
    samples = 50 * jobs.SAMPLES  # more than one group can take before the other has begun
    harness.run(made, RECIPE, tmp_path, str(tmp_path), str(Path(jobs.__file__).parent), str(samples))
    predicted = interpreter.operations(made, samples, jobs.EPOCHS)
    for rank, expected in enumerate(predicted):
        real = json.loads((tmp_path / f"{rank}.json").read_text())
        shapes = [shape(repr(op)) for op in expected]
        rounds = shapes.index(repr(Adopt())) + 2  # a group that was outrun may find the epoch used up after it
        assert [shape(op) for op in real[:rounds]] == shapes[:rounds]
