"""Training in virtual time: the same bits each time, and the updates that real workers make."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import harness
import jobs
import virtually
from crew import Crew
from paceline.observation import metrics
from paceline.server.store import Store

PLANS = {
    "alone": harness.plan("alone", [harness.worker(12)]),
    "allreduce": harness.plan("allreduce", [harness.worker(6), harness.worker(4), harness.worker(2)]),
    "hybrid": harness.plan(
        "hybrid", [harness.worker(4), harness.worker(2)], [harness.worker(6)], local_steps=(2, 3)
    ),
    "overlap": harness.plan(
        "hybrid", [harness.worker(4), harness.worker(2)], [harness.worker(6)], local_steps=(2, 3), overlap=(1, 3)
    ),
}  # fmt: skip

OF_128 = {
    "allreduce": ([harness.worker(64), harness.worker(40), harness.worker(24)],),
    "hybrid": ([harness.worker(64), harness.worker(32)], [harness.worker(32)]),
}


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest relative difference of two models' values."""
    return max(float((one[n] - other[n]).abs().max() / other[n].abs().max().clamp_min(1e-30)) for n in other)


@pytest.mark.parametrize("model", ["plain", "norm", "dropout"])
@pytest.mark.parametrize("strategy", sorted(PLANS))
def test_repeated_it_is_the_same_bit_for_bit(strategy: str, model: str, tmp_path: Path) -> None:
    runs = [virtually.weights(PLANS[strategy], model, tmp_path / str(number), "float32") for number in range(2)]
    (first, before), (second, after) = runs
    assert before == after
    for one, other in zip(first, second, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_without_staleness_it_does_not_matter_who_takes_what(tmp_path: Path) -> None:
    (alone,), _ = virtually.weights(PLANS["alone"], "plain", tmp_path / "alone")
    (together,), _ = virtually.weights(PLANS["allreduce"], "plain", tmp_path / "together")
    assert distance(together, alone) < 1e-12


def test_what_is_logged_is_in_the_trace_at_the_predicted_second(tmp_path: Path) -> None:
    for strategy, plan in PLANS.items():
        _, trace = virtually.weights(plan, "plain", tmp_path / strategy)
        losses, rates = metrics.curve(trace, "loss"), metrics.curve(trace, "rate")
        assert [point.samples for point in losses] == [144, 288]
        stops = [mark.values["stop"] for mark in trace.workers[0].marks if mark.kind == "epoch"]
        assert [point.seconds for point in losses] == pytest.approx(stops)
        assert losses[1].value < losses[0].value
        if plan.strategy != "hybrid":  # there a group's last update has not heard of the others' yet
            assert [point.value for point in rates] == pytest.approx([0.1 * (1 - 0.9 * step / 24) for step in (12, 24)])


@pytest.mark.parametrize("strategy", ["hybrid", "overlap"])
def test_groups_agree_on_sums_and_weights(strategy: str, tmp_path: Path) -> None:
    both, trace = virtually.weights(PLANS[strategy], "norm", tmp_path, "float32")
    assert all(torch.equal(both[0][name], both[1][name]) for name in both[0] if "tracked" not in name)
    logs = [[mark.values["loss"] for mark in worker.marks if mark.kind == "log"] for worker in trace.workers]
    assert logs[0] == logs[2] != []
    assert logs[1] == []


@pytest.mark.parametrize("grace", [0.0, 0.5])
@pytest.mark.parametrize("overlap", [(), (1, 0, 1)])
@pytest.mark.parametrize("steps", [(1, 1, 1), (3, 1, 2)])
def test_pushes_come_in_the_order_that_was_foreseen_and_as_stale(
    steps: tuple[int, ...], overlap: tuple[int, ...], grace: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed: list[tuple[int, int, int]] = []
    push = Store.push

    def noted(
        self: Store, delta: Tensor, version: int, samples: int, steps: int, staleness: int, rate: float = 0.0
    ) -> None:
        pushed.append((self.pushes, samples, staleness))
        push(self, delta, version, samples, steps, staleness, rate)

    monkeypatch.setattr(Store, "push", noted)
    groups = [[harness.worker(share)] for share in (7, 3, 2)]
    plan = harness.plan("hybrid", *groups, local_steps=steps, overlap=overlap).model_copy(
        update={"grace_seconds": grace}
    )
    _, trace = virtually.weights(plan, "plain", tmp_path)
    told = [mark.values for worker in trace.workers for mark in worker.marks if mark.kind == "pull"]
    foreseen = [(each["found"], each["stop"] - each["start"], each["staleness"]) for each in told]
    assert pushed == sorted(one for one in foreseen if one[1])
    assert (max(each["version"] for each in told) < len(pushed)) == bool(grace)


JOB = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, jobs
torch.save(jobs.{call}, sys.argv[2])
"""


@pytest.mark.parametrize(
    ("call", "shares", "micro_batch"),
    [
        ("samples(50, 12, torch.float64, 1.0, False, 2)", (6, 5, 1), None),
        ("samples(50, 12, torch.float64, 1.0, True, 1)", (6, 5, 1), None),  # SyncBatchNorm
        ("tokens([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], 4, torch.float64)", (2, 1, 1), None),
        ("sums(50, 12, torch.float64)", (7, 5), None),
        ("images((40, 12), torch.float64, 'plain')", (7, 5), None),
        ("images((40, 12), torch.float64, 'plain')", (7, 5), 3),
        ("images((40, 12), torch.float64, 'own')", (8, 4), None),
    ],
)
def test_it_trains_what_real_workers_train(
    crew: Crew, tmp_path: Path, call: str, shares: tuple[int, ...], micro_batch: int | None
) -> None:
    workers = [harness.worker(share, micro_batch=micro_batch) for share in shares]
    out = tmp_path / "result.pt"
    virtually.train(harness.plan("allreduce", workers), JOB.format(call=call), tmp_path, virtually.TESTS, str(out))
    function, _, example = call.partition("(")
    real = crew.run(getattr(jobs, function), workers, *eval(f"({example}"))[0]
    assert distance(torch.load(out)["weights"], real["weights"]) < 1e-12


def test_dropout_drops_what_it_would_in_real_workers(crew: Crew, tmp_path: Path) -> None:
    workers = [harness.worker(7), harness.worker(5)]
    out = tmp_path / "result.pt"
    made = harness.plan("allreduce", workers, fixed=True)  # which worker has a sample decides what is dropped
    virtually.train(made, JOB.format(call="dropping()"), tmp_path, virtually.TESTS, str(out))
    real = crew.run(jobs.dropping, workers)[0]
    assert distance(torch.load(out)["weights"], real["weights"]) < 1e-12


@pytest.mark.parametrize("strategy", ["allreduce", "hybrid"])
def test_the_digits_recipe_learns_in_predicted_seconds(strategy: str, tmp_path: Path) -> None:
    recipes = Path(__file__).parents[2] / "recipes"
    for name in ("classify.py", "images.py"):
        shutil.copy(recipes / name, tmp_path / name)
    plan = harness.plan(strategy, *OF_128[strategy])
    trace = virtually.train(plan, (tmp_path / "classify.py").read_text(), tmp_path, "--epochs", "5")
    curve = metrics.curve(trace)
    assert len(curve) == 5
    assert curve[-1].value > 0.9
    assert curve[-1].seconds == pytest.approx(metrics.training_seconds(trace), rel=0.01)
