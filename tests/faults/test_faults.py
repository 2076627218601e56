"""What goes wrong ends in a sentence, the documented exit code, no process left and no summary (real processes)."""

from __future__ import annotations

import json
import os
import signal
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
        loss = model(x).mean()
        run.backward(loss)
        if sys.argv[1:] == ["again"]:
            run.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if number == 3:
            print("training", run.place.rank, os.getpid(), flush=True)
        if number == 5 and sys.argv[1:] == ["raise"] and run.place.rank == 1:
            raise ValueError("no such label")
        if number == 5 and sys.argv[1:] == ["leave"] and run.place.rank == 1:
            sys.exit(3)
        if sys.argv[1:] == ["reduce"]:
            run.reduce(1.0, 1.0)
"""


class Command:
    """A running ``paceline run`` in its own session."""

    def __init__(self, folder: Path, strategy: str, *arguments: str, recipe: str = ENDLESS) -> None:
        self.folder = folder
        (folder / "endless.py").write_text(recipe)
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


def test_a_second_backward_that_would_not_be_reduced_is_refused(start: Callable[..., Command]) -> None:
    code, errors = start("allreduce", "again").end()
    assert code == 2
    assert "run.backward was called again through the same forward" in errors


def test_a_worker_that_leaves_early_is_named_and_not_its_peers_complaint(start: Callable[..., Command]) -> None:
    code, errors = start("allreduce", "leave").end()
    assert code == 5
    assert "rank 1 on" in errors
    assert "the recipe ended in the middle of an epoch" in errors


def test_a_second_run_into_the_folder_of_a_living_one_is_refused(start: Callable[..., Command], tmp_path: Path) -> None:
    living = start("allreduce")
    living.workers()
    done = harness.command(tmp_path, "run", "--profile", "profile.json", "--out", "out", "endless.py")
    assert done.returncode == 2
    assert "another run is writing to out" in done.stderr
    assert (tmp_path / "out" / "plan.json").exists()
    living.process.send_signal(signal.SIGINT)
    assert living.end()[0] == 130


def test_a_full_disk_does_not_stop_the_workers(tmp_path: Path) -> None:
    """Their lines are read to the end, though they cannot be kept: /dev/full stands for the log."""
    (tmp_path / "run" / "logs").mkdir(parents=True)
    (tmp_path / "run" / "logs" / "job-job0.out").symlink_to("/dev/full")
    recipe = "import paceline\nrun = paceline.init(global_batch=2)\nfor n in range(20_000):\n    run.print('line', n)\n"
    lines, _ = harness.run(harness.plan("allreduce", [harness.worker(2)]), recipe, tmp_path)
    assert len(lines) == 20_000


@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_torchrun_of_a_hybrid_leaves_its_samples_to_the_others(tmp_path: Path, killed: int) -> None:
    recipe = ENDLESS.replace("100_000", "2_000").replace("epochs(1000)", "epochs(2)")
    recipe = recipe.partition("        if number == 5")[0] + (
        f"        if number == 5 and run.place.rank == {killed}:\n            os.kill(os.getppid(), 9)\n"
    )
    made = harness.plan("hybrid", [harness.worker(4, group="a")], [harness.worker(4, group="b")], local_steps=(2, 2))
    lines, events = harness.run(made, recipe, tmp_path)
    assert "fault" in [event.kind for event in events]
    assert any(f"torchrun of job 'job{killed}' was killed by SIGKILL" in line for line in lines)


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


def test_a_launcher_killed_before_the_recipe_calls_init_leaves_not_even_what_that_started(tmp_path: Path) -> None:
    slow = Command(
        tmp_path,
        "allreduce",
        recipe="import subprocess\nprint('loading', flush=True)\nsubprocess.run(['sleep', '1000'])\n",
    )
    while "loading" not in slow.process.stdout.readline():
        pass
    children = psutil.Process(slow.process.pid).children(recursive=True)
    slow.process.kill()
    slow.process.communicate()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
    assert slow.leftovers() == []


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
