"""A save that is killed at any moment leaves the checkpoint before it or its own, whole (real kill -9); and the verbs
that read checkpoints, as processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from harness import command
from paceline.state import disk
from paceline.state.snapshot import take
from states import state

# Saves over and over in children that kill themselves at one call of a C function (all that touches a file is one),
# and prints what each left: the number of the save that can be loaded, or "none".
SAVER = """
import json, os, random, signal, sys
from pathlib import Path

import torch

sys.path.insert(0, sys.argv[2])
from states import state
from paceline.state import disk
from paceline.state.snapshot import Snapshot
from paceline.errors import ConfigError

torch.set_num_threads(1)
folder = Path(sys.argv[1])


def save(path, number, event=None):
    tensors = {f"model.0.{name}": torch.full((50, 50), float(number)) for name in "abc"}
    rest = {"models": [{"number": number}], "optimizers": [], "schedulers": [], "scalers": []}
    if event is not None:
        sys.setprofile(event)
    disk.save(path, Snapshot(tensors, rest), state(samples_seen=number, models=["Net"], optimizers=[]))
    sys.setprofile(None)


def calls(path, number):
    count = 0

    def event(frame, kind, function):
        nonlocal count
        count += kind == "c_call"

    save(path, number, event)
    return count


def killed_at(moment, path, number):
    def event(frame, kind, function):
        nonlocal moment
        if kind == "c_call":
            moment -= 1
            if moment == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        save(path, number, event)
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


def found(path):
    try:
        state, snapshot = disk.load(path)
    except ConfigError as error:
        assert "holds no checkpoint" in str(error), error
        return "none"
    numbers = {float(value) for tensor in snapshot.tensors.values() for value in tensor.unique()}
    assert numbers == {state.samples_seen} == {snapshot.rest["models"][0]["number"]}
    return state.samples_seen


save(folder / "before", 0)
count = calls(folder / "before", 0)
for number in range(1, 16):
    path = folder / "before" if number < 11 else folder / str(number)
    moment = random.Random(number).randint(1, count)
    earlier = found(path)
    print(json.dumps([killed_at(moment, path, number), earlier, number, found(path)]))
save(path, 99)
print(json.dumps([found(path), sorted(entry.name[:5] for entry in path.iterdir())]))
"""


def test_a_save_that_is_killed_leaves_one_that_loads(tmp_path: Path) -> None:
    """C063, at ten random moments over an older checkpoint and five in an empty folder."""
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", SAVER, str(tmp_path), str(tests)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    *each, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(each) == 15
    assert all(killed for killed, *_ in each)
    assert [now for _, earlier, number, now in each if now not in (earlier, number)] == []
    assert {"old" if now == earlier else "new" for _, earlier, _, now in each} == {"old", "new"}
    assert last == [99, ["data-", "state"]]


@pytest.fixture
def model(tmp_path: Path) -> torch.nn.Linear:
    """Saved in ``last``."""
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.Adam(model.parameters())
    disk.save(tmp_path / "last", take([model], [optimizer], [], []), state())
    return model


@pytest.mark.usefixtures("model")
def test_inspect_shows_what_is_in_it(tmp_path: Path) -> None:
    done = command(tmp_path, "inspect", "last", "--json")
    assert done.returncode == 0, done.stderr
    for words in ("Linear", "float32", "Adam", "26 of 40 samples left", "alone", "2030-01-02", "torch 2.13"):
        assert words in done.stderr
    found = json.loads(done.stdout)
    assert (found["state"]["samples_seen"], found["models"][0]["bytes"]) == (12, 60)


def test_export_writes_one_file_that_plain_torch_loads(tmp_path: Path, model: torch.nn.Linear) -> None:
    """C064."""
    done = command(tmp_path, "export", "last", "--out", "net.safetensors")
    assert (done.returncode, done.stdout, done.stderr) == (0, "net.safetensors\n", "")
    found = load_file(tmp_path / "net.safetensors")
    assert sorted(found) == ["bias", "weight"]
    torch.nn.Linear(4, 3).load_state_dict(found)
    assert torch.equal(found["weight"], model.weight)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["inspect", "nowhere"], "nowhere holds no checkpoint: no state.json."),
        (["export", "last", "--out", "mine"], "mine is there already. Choose another --out, or remove it."),
    ],
)
def test_what_cannot_be_read_is_one_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "mine").write_text("precious")
    done = command(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert (tmp_path / "mine").read_text() == "precious"
