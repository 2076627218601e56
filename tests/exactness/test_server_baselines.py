"""Parameter servers of old: synchronous ones do what one device does, asynchronous ones learn too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import harness
import virtually
from paceline.observation import metrics
from paceline.observation.merge import merge
from paceline.schema.plan import Plan

LOOP = virtually.loop("plain").replace("        run.clip_grad_norm_(model, 2.0)\n", "")  # each would clip its own
CONSTANT = LOOP.replace("LinearLR(optimizer, 1.0, 0.1, total_iters=24)", "LinearLR(optimizer, 1.0, 1.0)")
DECAYED = CONSTANT.replace("momentum=0.9", "momentum=0.9, weight_decay=0.1")
DEVICES = [[harness.worker(4)], [harness.worker(4)], [harness.worker(4)]]
WAITS = {"grace_seconds": 1e6}


def plan(strategy: str, rule: str, **changes: float) -> Plan:
    return harness.plan(strategy, *DEVICES).model_copy(update={"rule": rule, **changes})


def trained(made: Plan, recipe: str, folder: Path, real: bool = False) -> dict[str, torch.Tensor]:
    folder.mkdir()
    if real:
        harness.run(made, recipe, folder, str(folder), "float32")
    else:
        virtually.train(made, recipe, folder, str(folder), "float32")
    weights: dict[str, torch.Tensor] = torch.load(folder / "0.pt")
    return weights


def close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("recipe", [CONSTANT, DECAYED], ids=["constant", "decayed"])
@pytest.mark.parametrize("real", [False, True], ids=["virtual", "real"])
def test_a_synchronous_server_with_momentum_is_sgd_on_one_device(recipe: str, real: bool, tmp_path: Path) -> None:
    expected = trained(harness.plan("alone", [harness.worker(12)]), recipe, tmp_path / "alone")
    found = trained(plan("server_sync", "momentum", **WAITS), recipe, tmp_path / "served", real)
    close(found, expected)


@pytest.mark.parametrize(
    ("rule", "optimizer"),
    [
        ("sgd", "SGD(model.parameters(), lr=0.1)"),
        ("momentum:momentum=0.5", "SGD(model.parameters(), lr=0.1, momentum=0.5)"),
        ("adam", "Adam(model.parameters(), lr=0.1)"),
        ("adamw:decay=0.02", "AdamW(model.parameters(), lr=0.1, weight_decay=0.02)"),
    ],
)
def test_rules_are_the_optimizers_of_their_names(rule: str, optimizer: str, tmp_path: Path) -> None:
    recipe = CONSTANT.replace("SGD(model.parameters(), lr=0.1, momentum=0.9)", optimizer)
    assert recipe != CONSTANT
    expected = trained(harness.plan("alone", [harness.worker(12)]), recipe, tmp_path / "alone")
    close(trained(plan("server_sync", rule, **WAITS), recipe, tmp_path / "served"), expected)


def test_iterations_between_pushes_make_a_large_batch(tmp_path: Path) -> None:
    """Three updates of four samples each at the same weights are one of twelve."""
    alone = harness.plan("alone", [harness.worker(12)])
    large = harness.plan("server_async", [harness.worker(4)], local_steps=(3,)).model_copy(
        update={"rule": "momentum", "global_batch": 12, "rebalance": False}
    )
    expected = trained(alone, CONSTANT, tmp_path / "alone")
    close(trained(large, CONSTANT, tmp_path / "served"), expected)


def test_an_asynchronous_server_learns_and_counts_how_stale_it_was(tmp_path: Path) -> None:
    recipe = CONSTANT.replace("lr=0.1", "lr=0.02")
    harness.run(plan("server_async", "momentum:groups=3"), recipe, tmp_path, str(tmp_path), "float32")
    trace = merge(tmp_path / "run" / "traces")
    losses = [point.value for point in metrics.curve(trace, "loss")]
    assert losses[-1] < losses[0]
    assert sum(metrics.staleness(trace).histogram.values()) == 2 * 144 / 4
