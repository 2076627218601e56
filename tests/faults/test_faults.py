"""What goes wrong ends in a sentence, the documented exit code, no process left and no summary (real processes)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import harness
from paceline.schema.profile import DeviceProfile, Profile

ENDLESS = """
import os, sys, torch, paceline
from torch.utils.data import TensorDataset

data = TensorDataset(torch.randn(100_000, 4))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
run = paceline.init(global_batch=8)
model, optimizer = run.setup(model, optimizer)
for epoch in run.epochs(1000):
    for number, (x,) in enumerate(run.loader(data)):
        run.backward(model(x).mean())
        optimizer.step()
        optimizer.zero_grad()
        if number == 3:
            print("training", run.place.rank, os.getpid(), flush=True)
        if number == 5 and sys.argv[1:] == ["raise"] and run.place.rank == 1:
            raise ValueError("no such label")
        if sys.argv[1:] == ["reduce"]:
            run.reduce(1.0, 1.0)
"""


class Command:
    """A running ``paceline run`` in its own session."""

    def __init__(self, folder: Path, strategy: str, *arguments: str) -> None:
        self.folder = folder
        (folder / "endless.py").write_text(ENDLESS)
        devices = [
            DeviceProfile(
                group=name, device="cpu", speed=None, threads=1, micro_batch=None, batch=4, samples_per_second=100.0
            )
            for name in "ab"
        ]
        profile = Profile(
            cluster="two", emulation="none", global_batch=8, model_bytes=20, epoch_samples=100, devices=devices
        )
        profile.write(folder / "profile.json")
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "paceline", "run", "--strategy", strategy, "--profile", "profile.json",
                "--out", "out", "endless.py", "--", *arguments,
            ],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip

    def workers(self) -> dict[int, int]:
        """rank -> process id, once both train."""
        found: dict[int, int] = {}
        while len(found) < 2:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            if line.startswith("training"):
                _, rank, pid = line.split()
                found[int(rank)] = int(pid)
        return found

    def end(self) -> tuple[int, str]:
        """Exit code and standard error; afterwards nothing of the run lives and no summary stands."""
        _, errors = self.process.communicate(timeout=60)
        assert self.leftovers() == []
        assert not (self.folder / "out" / "summary.json").exists()
        return self.process.returncode, errors

    def leftovers(self) -> list[str]:
        left = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("PACELINE_RUN", "").startswith(str(self.folder)) or (
                    process.cwd() == str(self.folder) and process.pid != self.process.pid
                ):
                    left.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        return left


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def begin(strategy: str, *arguments: str) -> Command:
        started.append(Command(tmp_path, strategy, *arguments))
        return started[-1]

    yield begin
    for command in started:
        if command.process.poll() is None:
            command.process.kill()
            command.process.communicate()


@pytest.mark.parametrize("strategy", ["allreduce", "hybrid"])
def test_a_recipe_that_raises_on_one_worker(start: Callable[..., Command], strategy: str) -> None:
    code, errors = start(strategy, "raise").end()
    assert code == 5
    assert "rank 1 on" in errors
    assert "the recipe raised ValueError: no such label" in errors
    assert "endless.py:" in errors
    assert "Traceback" not in errors


def test_a_sum_over_groups_that_are_not_in_step_is_refused_at_once(start: Callable[..., Command]) -> None:
    code, errors = start("hybrid", "reduce").end()
    assert code == 2
    assert "run.reduce was called inside the training loop of hybrid" in errors
    assert "Call it after the loop" in errors
    assert "endless.py:" in errors  # the user's line, not ours


def test_a_killed_worker_of_an_all_reduce(start: Callable[..., Command]) -> None:
    command = start("allreduce")
    os.kill(command.workers()[1], signal.SIGKILL)
    code, errors = command.end()
    assert code == 5
    assert "rank 1 of job 'all' was killed by SIGKILL" in errors


@pytest.mark.parametrize("strategy", ["allreduce", "hybrid"])
def test_a_killed_launcher_takes_everything_with_it(start: Callable[..., Command], strategy: str) -> None:
    command = start(strategy)
    command.workers()
    children = psutil.Process(command.process.pid).children(recursive=True)
    command.process.kill()
    command.process.communicate()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []


def test_a_killed_server(start: Callable[..., Command]) -> None:
    command = start("hybrid")
    command.workers()
    server = next(process for process in psutil.Process(command.process.pid).children() if "serve" in process.cmdline())
    server.kill()
    code, errors = command.end()
    assert code == 4
    assert "the parameter server ended with code -9" in errors


@pytest.mark.parametrize("strategy", ["allreduce", "hybrid"])
def test_ctrl_c_once(start: Callable[..., Command], strategy: str) -> None:
    command = start(strategy)
    command.workers()
    command.process.send_signal(signal.SIGINT)
    code, errors = command.end()
    assert code == 130
    assert "stopped by SIGINT" in errors


def test_ctrl_c_twice_ends_workers_that_ignore_the_first(start: Callable[..., Command]) -> None:
    command = start("allreduce")
    workers = command.workers()
    for pid in workers.values():
        os.kill(pid, signal.SIGSTOP)  # a stopped process does not act on SIGTERM
    command.process.send_signal(signal.SIGINT)
    while "stopping" not in command.process.stdout.readline():
        pass
    command.process.send_signal(signal.SIGINT)
    code, _ = command.end()
    assert code == 130


def test_sigterm_is_a_stop_too(start: Callable[..., Command]) -> None:
    command = start("allreduce")
    command.workers()
    command.process.terminate()
    code, errors = command.end()
    assert code == 130
    assert "SIGTERM" in errors


def test_a_killed_group_of_a_hybrid_leaves_its_samples_to_the_others(tmp_path: Path) -> None:
    """The dead group's open lease returns to the ledger; the run ends well with every sample counted."""
    recipe = ENDLESS.replace("100_000", "2_000").replace("epochs(1000)", "epochs(2)")
    recipe = recipe.partition("        if number == 5")[0] + (
        "        if number == 5 and run.place.rank == 1:\n            os.kill(os.getpid(), 9)\n"
    )
    made = harness.plan("hybrid", [harness.worker(4, group="a")], [harness.worker(4, group="b")], local_steps=(2, 2))
    lines, events = harness.run(made, recipe, tmp_path)
    assert sorted(event.kind for event in events) == ["fault", "join", "join", "leave", "lost"]
    assert any("samples return to the ledger" in line for line in lines)
    marks = [json.loads(line) for line in (tmp_path / "run/traces/00000.jsonl").read_text().splitlines()[1:]]
    assert [mark[2]["epoch"] for mark in marks if mark[0] == "@epoch"] == [0, 1]
    done = [
        mark[2]
        for path in (tmp_path / "run/traces").glob("*.jsonl")
        for mark in map(json.loads, path.read_text().splitlines()[1:])
        if mark[0] == "@done"
    ]
    trained = [sum(mark["stop"] - mark["start"] for mark in done if mark["epoch"] == epoch) for epoch in (0, 1)]
    assert trained == [2_000, 2_000]


def command(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nowhere.py"], "there is no recipe nowhere.py"),
        (["run", "--strategy", "hybird", "nowhere.py"], "Did you mean 'hybrid'?"),
        (["run", "--cluster", "none.yaml", "r.py"], "none.yaml cannot be read"),
        (["run", "--cluster", "bad.yaml", "r.py"], "unknown key 'groups.0.sped'. Did you mean 'speed'?"),
        (["plan", "small.json", "--strategy", "allreduce_even"], "a share that cannot be met"),
        (["run", "--profile", "small.json", "--cluster", "bad.yaml", "r.py"], "already holds the cluster"),
        (["run", "--out", ".", "r.py"], "holds files that are not a run's"),
        (["bench", "overhaed"], "Did you mean 'overhead'?"),
        (["run", "--rule", "marge", "r.py"], "Did you mean 'merge'?"),
        (["run", "bad.yaml"], "bad.yaml:1: the recipe is not Python: "),
        (["report", "pictures"], "pictures holds no finished run."),
        (["simulate", "small.json", "--updates", "-3"], "greater than or equal to 1"),
        (["rum"], "Did you mean 'run'?"),
        (["run"], "Missing argument 'recipe'. See `"),
        (["run", "--bogus", "r.py"], "No such option: --bogus"),
        (["run", "--emulation", "foo", "r.py"], "'foo' is not one of 'pacing', 'cgroups'. See `"),
        (["run", "r.py", "--out"], "requires an argument. See `paceline --help`."),
        (
            ["run", "--profile", "small.json", "--strategy", "alone", "--out", ".", "r.py"],
            "holds files that are not a run's",
        ),
    ],
)
def test_what_cannot_be_right_is_one_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "r.py").write_text("")
    (tmp_path / "bad.yaml").write_text("name: x\nemulation: pacing\ngroups: [{name: a, sped: 1}]\n")
    device = DeviceProfile(
        group="a", device="cpu", speed=None, threads=1, micro_batch=None, batch=1, samples_per_second=1.0
    )
    Profile(cluster="c", emulation="none", global_batch=1, model_bytes=4, epoch_samples=9, devices=[device] * 2).write(
        tmp_path / "small.json"
    )
    done = command(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert (tmp_path / "r.py").exists()


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        port = door.getsockname()[1]
        done = command(tmp_path, "serve", "--groups=1", "--global-batch=8", f"--port={port}", PACELINE_TOKEN="t")
    assert done.returncode == 3
    assert done.stderr.strip() == (
        f"error: cannot listen on 127.0.0.1:{port}: Address already in use. Choose another --port, or 0 for a free one."
    )


def test_a_server_without_a_token(tmp_path: Path) -> None:
    done = command(tmp_path, "serve", "--groups=1", "--global-batch=8", PACELINE_TOKEN="")
    assert done.returncode == 2
    assert "PACELINE_TOKEN is not set" in done.stderr


def test_a_recipe_that_never_trains(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("print('hello')")
    done = command(tmp_path, "run", "r.py", "--out", "out")
    assert done.returncode == 5
    assert "Does the recipe call paceline.init" in done.stderr
