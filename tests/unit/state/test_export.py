"""One model of a checkpoint as a safetensors file for plain torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from paceline.errors import ConfigError
from paceline.state import disk
from paceline.state.snapshot import Snapshot, take
from states import state

REST: dict[str, list[dict[str, Any]]] = {"models": [{}], "optimizers": [], "schedulers": [], "scalers": []}


def test_export_loads_strictly_in_plain_torch(tmp_path: Path) -> None:
    """C064, with a weight that is used twice."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    model[2].weight = model[0].weight
    wrapped = torch.compile(nn.DataParallel(model), backend="eager")
    disk.save(tmp_path / "last", take([wrapped], [], [], []), state(optimizers=[]))
    disk.export(tmp_path / "last", tmp_path / "model.safetensors", None)
    found = load_file(tmp_path / "model.safetensors")
    assert found.keys() == model.state_dict().keys()
    assert all(torch.equal(found[name], value) for name, value in model.state_dict().items())
    nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2)).load_state_dict(found)


def test_of_several_models_one_is_exported(tmp_path: Path) -> None:
    models = [nn.Linear(1, 2), nn.Linear(3, 4)]
    disk.save(tmp_path / "last", take(models, [], [], []), state(models=["G", "D"], optimizers=[]))
    with pytest.raises(ConfigError, match=r"holds 2 models \(0: G, 1: D\). Choose one with --model"):
        disk.export(tmp_path / "last", tmp_path / "out", None)
    with pytest.raises(ConfigError, match="holds no model 2; expected one of 0: G, 1: D"):
        disk.export(tmp_path / "last", tmp_path / "out", 2)
    disk.export(tmp_path / "last", tmp_path / "out", 1)
    models[1].load_state_dict(load_file(tmp_path / "out"))


def test_export_costs_nobody_a_file(tmp_path: Path) -> None:
    saved = tmp_path / "last"
    disk.save(saved, take([nn.Linear(1, 1)], [], [], []), state(optimizers=[]))
    (tmp_path / "thesis.tex").write_text("years")
    for out, said in (("thesis.tex", "is there already"), ("no/model", "there is no folder")):
        with pytest.raises(ConfigError, match=said):
            disk.export(saved, tmp_path / out, None)
    assert (tmp_path / "thesis.tex").read_text() == "years"


@pytest.mark.parametrize(
    ("snapshot", "said"),
    [
        (Snapshot({"model.0.a": torch.zeros(1, dtype=torch.complex128)}, REST), "cannot be written: torch.complex128"),
        (Snapshot({}, REST | {"models": [{"_extra_state": 1}]}), "keeps '_extra_state', which is no tensor"),
    ],
)
def test_what_safetensors_cannot_hold(tmp_path: Path, snapshot: Snapshot, said: str) -> None:
    disk.save(tmp_path / "last", snapshot, state(optimizers=[]))
    with pytest.raises(ConfigError, match=said):
        disk.export(tmp_path / "last", tmp_path / "out", None)
    assert [entry.name for entry in tmp_path.iterdir()] == ["last"]
