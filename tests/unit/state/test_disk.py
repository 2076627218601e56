"""Checkpoints on disk: what is saved is loaded, and anything else is a sentence that names the file."""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.state import disk
from paceline.state.snapshot import Snapshot, restore, take
from states import state

REST: dict[str, list[dict[str, Any]]] = {"models": [{}], "optimizers": [], "schedulers": [], "scalers": []}


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 4)).square().sum().backward()
    optimizer.step()
    return model, optimizer


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model, optimizer = trained()
    disk.save(tmp_path / "last", take([model], [optimizer], [], []), state())
    return tmp_path / "last"


def data(path: Path) -> Path:
    return path / disk.load(path)[0].data


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    """C060's core, over the disk: the next update of Adam is that of the uninterrupted training, bit for bit."""
    model, optimizer = trained()
    disk.save(tmp_path, take([model], [optimizer], [], []), state())
    found, snapshot = disk.load(tmp_path)
    assert found == state(data=found.data)
    other, rebuilt = trained()
    restore(snapshot, [other], [rebuilt], [], [])
    for each, by in ((model, optimizer), (other, rebuilt)):
        by.zero_grad()
        each(torch.ones(1, 4)).square().sum().backward()
        by.step()
    assert torch.equal(model.weight, other.weight)
    assert torch.equal(model.bias, other.bias)


def test_every_kind_of_tensor(tmp_path: Path) -> None:
    whole = torch.randn(4, 6)
    tensors = {
        "model.0.a.b": whole.t(),
        "model.0.view": whole[1:3, ::2],
        "model.0.scalar": torch.tensor(3),
        "model.0.none": torch.zeros(0, 3),
        "model.0.half": torch.randn(3).bfloat16(),
        "model.0.eight": torch.randn(3).to(torch.float8_e4m3fn).view(torch.uint8),
        "model.0.complex": torch.randn(2, dtype=torch.complex128),
        "model.0.flag": torch.tensor([True]),
        "model.0.parameter": nn.Parameter(torch.randn(2)),
        "optimizer.0.0.a/b c": torch.tensor([float("nan"), float("inf")]),
    }
    disk.save(tmp_path, Snapshot(tensors, REST), state(optimizers=[]))
    found = disk.load(tmp_path)[1].tensors
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(found[name].nan_to_num(5), tensor.detach().nan_to_num(5)), name


def test_a_model_without_tensors(tmp_path: Path) -> None:
    disk.save(tmp_path, take([nn.ReLU()], [], [], []), state(models=["ReLU"], optimizers=[]))
    assert disk.load(tmp_path)[1].tensors == {}


def test_the_next_save_takes_the_place_of_the_last_and_leaves_other_files_alone(saved: Path) -> None:
    for name in ("thesis.tex", "data-set", f"data-{'z' * 32}"):
        (saved / name).mkdir()
    leftover = saved / f"data-{'0' * 32}"
    leftover.mkdir()
    first = data(saved).name
    model, optimizer = trained()
    disk.save(saved, take([model], [optimizer], [], []), state(samples_seen=24))
    found, snapshot = disk.load(saved)
    assert found.samples_seen == 24
    assert torch.equal(snapshot.tensors["model.0.weight"], model.weight)
    assert found.data != first
    assert names(saved) == sorted([found.data, "data-set", f"data-{'z' * 32}", "state.json", "thesis.tex"])


class Custom:
    """What no checkpoint can hold."""


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (REST | {"schedulers": [{"state": {"a": 1, "own": [2, Custom()]}}]}, "schedulers.0.state.own.1 is a Custom"),
        (REST | {"models": [{"extra": lambda: 0}]}, "models.0.extra is a function"),
    ],
)
def test_what_could_not_be_loaded_is_refused_when_it_is_saved(saved: Path, rest: Any, said: str) -> None:
    before = names(saved)
    with pytest.raises(ConfigError, match=said):
        disk.save(saved, Snapshot({}, rest), state(optimizers=[]))
    assert names(saved) == before
    assert disk.load(saved)[0].samples_seen == 12


FULL = """
import sys, resource, signal
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import torch
from states import state
from paceline.state import disk
from paceline.state.snapshot import Snapshot
from paceline.errors import ConfigError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
rest = {"models": [{}], "optimizers": [], "schedulers": [], "scalers": []}
try:
    disk.save(Path(sys.argv[1]), Snapshot({"model.0.a": torch.ones(100_000)}, rest), state(optimizers=[]))
except ConfigError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more_leaves_the_checkpoint_before(saved: Path) -> None:
    before = names(saved)
    tests = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", FULL, str(saved), tests], capture_output=True, text=True)
    assert done.stderr == ""
    assert f"{saved}: the checkpoint cannot be written: File too large. Save to another folder" in done.stdout
    assert names(saved) == before
    assert disk.load(saved)[0].samples_seen == 12


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file/last: the checkpoint cannot be written: Not a directory"):
        disk.save(tmp_path / "file" / "last", Snapshot({}, REST), state(optimizers=[]))


def test_an_interrupted_save_is_swept_up(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = names(saved)
    model, optimizer = trained()
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        disk.save(saved, take([model], [optimizer], [], []), state())
    assert names(saved) == before


def test_saves_to_one_folder_take_turns(saved: Path) -> None:
    at_the_door = threading.Event()

    def saving() -> None:
        sys.setprofile(lambda _, kind, what: at_the_door.set() if kind == "c_call" and what is fcntl.flock else None)
        disk.save(saved, Snapshot({}, REST), state(optimizers=[]))

    before, handle = names(saved), os.open(saved, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    other = threading.Thread(target=saving)
    other.start()
    arrived = at_the_door.wait(30)
    found = names(saved), disk.load(saved)[0].optimizers
    os.close(handle)
    other.join()
    assert arrived
    assert found == (before, ["Adam"])
    assert disk.load(saved)[0].optimizers == []


def test_a_save_while_another_reads(saved: Path) -> None:
    def meanwhile(frame: FrameType, kind: str, _: object) -> None:
        if kind == "call" and frame.f_code is disk._tensors.__code__:
            sys.setprofile(None)
            disk.save(saved, Snapshot({}, REST), state(optimizers=[], samples_seen=24))

    sys.setprofile(meanwhile)
    assert disk.load(saved)[0].samples_seen == 24


@pytest.mark.parametrize("path", ["nowhere", ".", "file"])
def test_what_holds_no_checkpoint(tmp_path: Path, path: str) -> None:
    """C063: neither does a folder that a first save was killed in."""
    (tmp_path / f"data-{'0' * 32}").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"holds no checkpoint: no state\.json"):
        disk.load(tmp_path / path)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def edit(old: str, new: str) -> Callable[[Path], None]:
    return lambda path: (path / "state.json").write_text((path / "state.json").read_text().replace(old, new))


class Bomb:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("exploded",))


DAMAGE: list[tuple[Callable[[Path], Any], str]] = [
    (lambda p: truncate(data(p) / "__0_0.distcp"), r"data-\w+ is damaged"),
    (lambda p: (data(p) / "__0_0.distcp").unlink(), r"data-\w+ cannot be read: No such file"),
    (lambda p: truncate(data(p) / ".metadata"), r".metadata is damaged"),
    (lambda p: (data(p) / ".metadata").unlink(), r".metadata cannot be read: No such file"),
    (lambda p: (data(p) / ".metadata").write_bytes(pickle.dumps(Bomb())), r".metadata is damaged \(UnpicklingError\)"),
    (lambda p: (data(p) / ".metadata").write_bytes(pickle.dumps([1])), r".metadata is damaged"),
    (lambda p: (data(p) / ".metadata").write_bytes(b"cbomb\nfuse\n."), r".metadata is damaged \(UnpicklingError\)"),
    (lambda p: truncate(data(p) / "rest.pt"), r"rest.pt is damaged"),
    (lambda p: torch.save(Bomb(), data(p) / "rest.pt"), r"rest.pt is damaged \(UnpicklingError\)"),
    (lambda p: data(p).rename(p / "moved"), r"rest.pt cannot be read: No such file"),
    (edit('"strategy"', '"strategie"'), "strategie|key 'strategy' is missing"),
    (edit('"version": 1', '"version": 2'), "state.json: key 'version' is 2: Input should be 1"),
    (edit('"data": "data-', '"data": "../data-'), "key 'data' is"),
    (edit('"Adam"', ""), r"0 optimizers in state.json; expected the 1 of data-"),
    (edit("}", ""), "is not YAML"),
]


@pytest.mark.parametrize(("harm", "said"), DAMAGE)
def test_a_damaged_checkpoint_is_a_sentence_and_executes_nothing(
    saved: Path, harm: Callable[[Path], Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved)
    monkeypatch.syspath_prepend(saved)
    (saved / "bomb.py").write_text("import os\nos.mkdir('exploded')\n")  # goes off where it is imported
    harm(saved)
    with pytest.raises(ConfigError, match=said):
        disk.load(saved)
    assert not (saved / "exploded").exists()


def test_contents_count_tensors_and_bytes(saved: Path) -> None:
    found = disk.contents(saved)
    assert found.state.samples_left == 26
    (model,), (optimizer,) = found.models, found.optimizers
    assert (model.name, model.tensors, model.values, model.bytes, model.dtypes) == ("Linear", 2, 15, 60, ["float32"])
    assert (optimizer.name, optimizer.tensors, optimizer.values) == ("Adam", 6, 32)
