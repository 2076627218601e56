"""What a recipe may do in virtual time, and how it fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import harness
import virtually
from paceline.errors import ConfigError, PacelineError, WorkerError
from paceline.schema.plan import Plan
from paceline.simulating.scenario import Scenario, Slow

ALONE = harness.plan("alone", [harness.worker(4)])
GROUPS = harness.plan("hybrid", [harness.worker(2)], [harness.worker(1), harness.worker(1)])
PAIR = harness.plan("allreduce", [harness.worker(2), harness.worker(2)])

HEAD = """
import sys, torch, paceline
from torch import nn
class Numbers(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(torch.ones(6, 1))
data = torch.utils.data.TensorDataset(torch.arange(10.0).unsqueeze(1))
model = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
"""
SETUP = "run = paceline.init(global_batch=4)\nmodel, optimizer = run.setup(model, optimizer)\n"
EPOCHS = """
for epoch in run.epochs(2):
    for (x,) in run.loader(data):
        run.backward(model(x).square().mean())
        optimizer.step()
        optimizer.zero_grad()
{inside}
{after}
"""


def text(inside: str = "", after: str = "", setup: str = SETUP) -> str:
    return HEAD + setup + EPOCHS.format(inside=f"        {inside}", after=f"    {after}")


@pytest.mark.parametrize("plan", [ALONE, GROUPS], ids=["alone", "groups"])
def test_an_exception_is_the_recipes_own(plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failing = text(after="if epoch == 1 and run.rank == run.world_size - 1: raise ValueError('no such label')")
    with pytest.raises(WorkerError, match=r"the recipe raised ValueError: no such label \(.*recipe.py:19\)") as caught:
        virtually.train(plan, failing, tmp_path)
    assert caught.value.exit_code == 5
    assert isinstance(caught.value.__cause__, ValueError)
    said = capsys.readouterr().err
    assert 'recipe.py", line 19' in said
    assert "driver.py" not in said


@pytest.mark.parametrize(
    ("plan", "recipe", "error", "message"),
    [
        (ALONE, "import sys; sys.exit(3)", WorkerError, "the recipe ended with exit code 3"),
        (GROUPS, text(inside="sys.exit(3)"), WorkerError, "the recipe ended with exit code 3"),
        (GROUPS, text(inside="sys.exit(0)"), WorkerError, "job 'job0': the recipe ended in the middle of an epoch"),
        (ALONE, text(inside="break", after="break"), WorkerError, "the recipe ended in the middle of an epoch"),
        (GROUPS, text(inside="break"), ConfigError, "opened epoch 1 while samples of the one before are open"),
        (ALONE, "print('hello')", WorkerError, "the recipe trained nothing"),
        (GROUPS, HEAD + SETUP + "run.reduce(1, 1)", WorkerError, "the recipe trained nothing"),
        (ALONE, text(setup=SETUP.replace("4", "5")), ConfigError, "global_batch=5; expected 4"),
        (GROUPS, text(inside="run.reduce(1, 1)"), ConfigError, "reduce was called inside the training loop of hybrid"),
        (PAIR, text(inside="run.reduce(1, 1)"), ConfigError, "reduce was called inside the training loop in virtual"),
        (ALONE, text(setup=SETUP + "run.load('there')"), ConfigError, "run.load was called in virtual time"),
        (ALONE, text().replace("loader(data)", "loader(Numbers())"), ConfigError, "a dataset without a length"),
        (ALONE, text(after="list(run.loader(Numbers(), train=False))"), ConfigError, "a dataset without a length"),
        (ALONE, text(after="data = torch.utils.data.Subset(data, [1, 2])"), ConfigError, "epoch 1 has 2 samples"),
        (GROUPS, text(after="if run.rank: break"), WorkerError, r"the jobs ended after \[2, 1\] epochs"),
        (PAIR, text().replace("SGD(", "LBFGS("), ConfigError, "LBFGS"),
        (harness.plan("solo", [harness.worker(2), harness.worker(2)]), text(), ConfigError, "solo trains a model on"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_in_a_sentence(
    plan: Plan, recipe: str, error: type[PacelineError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        virtually.train(plan, recipe, tmp_path)


def test_groups_with_other_models_are_refused(tmp_path: Path) -> None:
    other = text(setup="run = paceline.init(global_batch=4)\nmodel = nn.Linear(1, 1 + run.rank)\nrun.setup(model)\n")
    with pytest.raises(ConfigError, match="a group exchanges 4 values; expected 2"):
        virtually.train(GROUPS, other, tmp_path)


def test_a_recipe_may_stop_before_its_last_epoch(tmp_path: Path) -> None:
    trace = virtually.train(GROUPS, text(after="break"), tmp_path)
    marks = [mark.values for worker in trace.workers for mark in worker.marks if mark.kind == "epoch"]
    assert [values["epoch"] for values in marks] == [0, 0, 0]


def test_an_exit_with_0_after_training_is_well(tmp_path: Path) -> None:
    assert virtually.train(ALONE, text() + "sys.exit()", tmp_path).simulated


def test_one_worker_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    virtually.train(GROUPS, text(after="run.print('epoch', epoch)"), tmp_path)
    assert capsys.readouterr().out == "epoch 0\nepoch 1\n"


def test_a_simulation_replaces_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saving = text(inside="run.save(sys.argv[1])", after="run.save(sys.argv[1])")
    virtually.train(GROUPS, saving, tmp_path, str(tmp_path / "trained"))
    assert not (tmp_path / "trained").exists()
    assert capsys.readouterr().out.count("is left out: a simulation replaces no checkpoint") == 1


def test_the_script_runs_as_python_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As ``__main__``, with its arguments, and with the modules of its own folder; afterwards all is as before."""
    (tmp_path / "beside.py").write_text("count = 0\n")
    before = sys.argv, list(sys.path), sys.modules["__main__"]
    head = "import pickle, sys, beside\nclass Own: pass\nbeside.count += 1\n"
    tail = "print(__name__, type(pickle.loads(pickle.dumps(Own()))) is Own, sys.argv[1:], beside.count)"
    recipe = head + text() + tail
    virtually.train(GROUPS, recipe, tmp_path, "--rate", "3")
    assert capsys.readouterr().out == "__main__ True ['--rate', '3'] 1\n" * 2
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before
    assert "beside" not in sys.modules


def test_workers_parts_follow_the_shares_that_changed(tmp_path: Path) -> None:
    plan = harness.plan("allreduce", [harness.worker(8), harness.worker(4)])  # an update takes 0.01 s
    recipe = """
import sys, torch, paceline
from torch import nn
sizes = []
class Dropping(nn.Dropout):
    def forward(self, x):
        sizes.append(len(x))
        return super().forward(x)
data = torch.utils.data.TensorDataset(torch.ones(12 * 60, 1))
model = nn.Sequential(nn.Linear(1, 1), Dropping(0.1))
run = paceline.init(global_batch=12)
model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.001))
for _ in run.epochs(1):
    for (x,) in run.loader(data):
        run.backward(model(x).square().mean())
        optimizer.step()
        optimizer.zero_grad()
torch.save(sizes, sys.argv[1])
"""
    slow = Scenario(slow=(Slow(rank=0, at=0.1, factor=5.0),))
    trace = virtually.train(plan, recipe, tmp_path, str(tmp_path / "sizes"), scenario=slow)
    (change,) = [mark.values for worker in trace.workers for mark in worker.marks if mark.kind == "shares"]
    before, after = [8, 4], list(change["shares"])
    assert torch.load(tmp_path / "sizes") == before * change["update"] + after * (60 - change["update"])
    assert after[0] < before[0]
