"""``paceline simulate --train``: whose words are whose, and what goes where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import harness

LAB = """
name: lab
work: {name: numbers, global_batch: 4, model_bytes: 8, epoch_samples: 10}
groups: [{name: one, sample_seconds: 0.5}, {name: other, sample_seconds: 0.5}]
"""
RECIPE = """
import sys, torch, paceline
run = paceline.init(global_batch=4)
model = run.setup(torch.nn.Linear(1, 1))
for _ in run.epochs(int(sys.argv[2])):
    for (x,) in run.loader(torch.utils.data.TensorDataset(torch.ones(8, 1))):
        run.backward(model(x).mean())
run.log(accuracy=0.75)
print(sys.argv[1:])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lab.yaml").write_text(LAB)
    (tmp_path / "recipe.py").write_text(RECIPE)
    return tmp_path


def test_figures_go_to_standard_output_and_the_recipes_lines_elsewhere(folder: Path) -> None:
    done = harness.command(
        folder, "simulate", "--cluster", "lab.yaml", "--strategy", "hybrid", "--train", "recipe.py", "--json",
        "--", "--url=http://there", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert [epoch["samples"] for epoch in summary["epochs"]] == [8, 8]
    assert summary["accuracy"] == 0.75
    assert summary["seconds"] >= 8 * 2 / 4  # two devices of two samples a second
    assert done.stderr.count("['--url=http://there', '2']") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "neither a profile nor a cluster"),
        (("--cluster", "lab.yaml", "x.json"), "both a profile and a cluster"),
        (("--cluster", "lab.yaml", "--train", "recipe.py", "--epochs", "2"), "--train with --epochs or --updates"),
        (("--cluster", "lab.yaml", "--train", "nothing.py"), "there is no recipe nothing.py"),
    ],
)
def test_what_cannot_be_typed_together(folder: Path, words: tuple[str, ...], message: str) -> None:
    done = harness.command(folder, "simulate", *words)
    assert done.returncode == 2
    assert message in done.stderr
