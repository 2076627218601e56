"""A real run with groups and a server, trained again in virtual time from nothing but its trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import harness
import virtually
from paceline.launchers.recipe import Recipe
from paceline.observation import metrics
from paceline.observation.merge import merge
from paceline.running.virtual import driver
from paceline.running.virtual.schedule import Recorded

GROUPS = [harness.worker(4), harness.worker(2)], [harness.worker(6)]


@pytest.mark.parametrize(
    ("model", "overlap", "wire", "bound"),
    [
        ("plain", (0, 0), "float32", 1e-6),
        ("norm", (0, 0), "float32", 0.0),
        ("norm", (1, 3), "float32", 0.0),
        ("norm", (1, 3), "int8", 0.0),
    ],
)
def test_it_comes_to_the_same_weights(
    model: str, overlap: tuple[int, ...], wire: str, bound: float, tmp_path: Path
) -> None:
    """In the workers' parts it does the very same sums; at once it rounds them in another order.

    A leader that saves its weights after the last exchange has the server's.
    """
    plan = harness.plan("hybrid", *GROUPS, local_steps=(2, 3), overlap=overlap).model_copy(update={"wire": wire})
    real, again = tmp_path / "real", tmp_path / "again"
    again.mkdir()
    harness.run(plan, virtually.loop(model), real, str(real), "float32")
    recorded = merge(real / "run" / "traces")
    silent = [replace(worker, marks=[m for m in worker.marks if m.kind != "log"]) for worker in recorded.workers]
    course = Recorded(plan, replace(recorded, workers=silent))
    replayed = driver.train(plan, Recipe(real / "recipe.py", (str(again), "float32")), course)
    expected, weights = torch.load(real / "0.pt"), torch.load(again / "0.pt")
    for name, value in expected.items():
        assert (weights[name] - value).abs().max() <= bound * value.abs().max(), name
    for log in ("loss", "rate"):
        values = [[point.value for point in metrics.curve(trace, log)] for trace in (recorded, replayed)]
        assert values[1] == pytest.approx(values[0], rel=1e-6)
        assert len(values[1]) == 2
