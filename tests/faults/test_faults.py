"""What goes wrong ends in a sentence, the documented exit code, no process left and no summary (real processes)."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import harness
from commands import ENDLESS, Command
from paceline.errors import WorkerError
from paceline.state import disk


def test_a_recipe_that_raises_on_one_worker(start: Callable[..., Command]) -> None:
    code, errors = start("hybrid", "raise").end()
    assert code == 5
    assert "rank 1 on" in errors
    assert "the recipe raised ValueError: no such label" in errors
    assert "endless.py:" in errors
    assert "Traceback" not in errors


def test_a_sum_over_groups_that_are_not_in_step_is_refused_at_once(tmp_path: Path) -> None:
    made = harness.plan("hybrid", [harness.worker(8)])
    with pytest.raises(WorkerError, match=r"run\.reduce was called inside the training loop of hybrid") as caught:
        harness.run(made, ENDLESS, tmp_path, "reduce")
    assert caught.value.exit_code == 2
    assert "Call it after the loop" in str(caught.value)
    assert "recipe.py:" in str(caught.value)  # the user's line, not ours


def test_a_worker_that_leaves_early_is_named_and_not_its_peers_complaint(start: Callable[..., Command]) -> None:
    code, errors = start("allreduce", "leave").end()
    assert code == 5
    assert "rank 1 on" in errors
    assert "the recipe ended in the middle of an epoch" in errors


@pytest.mark.parametrize("end", ["sys.exit(0)", "os._exit(0)"])
@pytest.mark.parametrize("strategy", ["allreduce", "hybrid"])
def test_a_recipe_that_ends_in_mid_epoch_as_if_all_was_well_is_no_success(
    end: str, strategy: str, tmp_path: Path
) -> None:
    recipe = (
        ENDLESS.partition("        if number == 5")[0] + f"        if number == 5:\n            import sys; {end}\n"
    )
    with pytest.raises(WorkerError, match=r"ended in the middle of an epoch"):
        harness.run(harness.plan(strategy, [harness.worker(8)]), recipe, tmp_path)


def test_a_loop_that_trains_nothing_is_told_so(tmp_path: Path) -> None:
    recipe = (
        "import torch, paceline\nfrom torch.utils.data import TensorDataset\n"
        "run = paceline.init(global_batch=8)\nmodel = torch.nn.Linear(1, 1)\n"
        "model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))\n"
        "for epoch in run.epochs(1):\n    for x in run.loader(TensorDataset(torch.zeros(32, 1))):\n"
        "        model(x[0])\n"
    )
    with pytest.raises(WorkerError, match=r"an epoch without run\.backward and without a step"):
        harness.run(harness.plan("allreduce", [harness.worker(8)]), recipe, tmp_path)


def test_a_full_disk_does_not_stop_the_workers(tmp_path: Path) -> None:
    """Their lines are read to the end, though they cannot be kept: /dev/full stands for the log."""
    (tmp_path / "run" / "logs").mkdir(parents=True)
    (tmp_path / "run" / "logs" / "job-job0.out").symlink_to("/dev/full")
    recipe = "import paceline\nrun = paceline.init(global_batch=2)\nfor n in range(20_000):\n    run.print('line', n)\n"
    lines, _ = harness.run(harness.plan("allreduce", [harness.worker(2)]), recipe, tmp_path)
    assert len(lines) == 20_000


def test_a_killed_worker_of_an_all_reduce(start: Callable[..., Command]) -> None:
    command = start("allreduce")
    os.kill(command.workers()[1], signal.SIGKILL)
    code, errors = command.end()
    assert code == 5
    assert "rank 1 of job 'all' was killed by SIGKILL" in errors


def test_a_killed_launcher_takes_everything_with_it(start: Callable[..., Command]) -> None:
    command = start("hybrid")
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


FEEDERS = """import subprocess
feeders = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) for _ in range(2)]
"""


def test_ctrl_c_twice_ends_workers_that_ignore_the_first_and_what_feeds_them(
    start: Callable[..., Command], tmp_path: Path
) -> None:
    """C073: two workers with two processes each that feed them; ``end`` counts what is left. Until then, no other run
    may write to their folder."""
    command = start("allreduce", recipe=ENDLESS.replace("data =", FEEDERS + "data =", 1))
    workers = command.workers()
    done = harness.command(tmp_path, "run", "--profile", "profile.json", "--out", "out", "endless.py")
    assert done.returncode == 2
    assert "another run is writing to out" in done.stderr
    assert (tmp_path / "out" / "plan.json").exists()
    for pid in workers.values():
        os.kill(pid, signal.SIGSTOP)  # a stopped process does not act on SIGTERM
    command.process.send_signal(signal.SIGINT)
    while "stopping" not in command.process.stdout.readline():
        pass
    command.process.send_signal(signal.SIGINT)
    assert command.end()[0] == 130


@pytest.mark.parametrize("overlap", [(0, 0, 0), (2, 1, 1)])
def test_killed_groups_of_a_hybrid_leave_their_samples_to_the_others(overlap: tuple[int, ...], tmp_path: Path) -> None:
    """A worker is killed in one, torchrun in the other. Their open leases return to the ledger; the run ends well with
    every sample counted."""
    recipe = ENDLESS.replace("100_000", "2_000").replace("epochs(1000)", "epochs(2)")
    recipe = recipe.partition("        if number == 5")[0] + (
        "        if number == 5 and run.place.rank > 0:\n"
        "            os.kill(os.getpid() if run.place.rank == 1 else os.getppid(), 9)\n"
        "            import signal; signal.pause()  # torchrun's end is this worker's\n"
    )
    groups = [[harness.worker(share, group=name)] for share, name in ((4, "a"), (2, "b"), (2, "c"))]
    plan = harness.plan("hybrid", *groups, local_steps=(2, 1, 1), overlap=overlap, fixed=True)
    lines, events = harness.run(plan, recipe, tmp_path)
    assert sorted(event.kind for event in events) == ["fault"] * 2 + ["join"] * 3 + ["leave"] + ["lost"] * 2
    assert any("rank 0 of job 'job1' was killed by SIGKILL" in line for line in lines)
    assert any("torchrun of job 'job2' was killed by SIGKILL" in line for line in lines)
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


def test_another_worker_prints_and_saves_once_the_main_one_is_gone(tmp_path: Path) -> None:
    recipe = ENDLESS.replace("100_000", "400").replace("epochs(1000)", "epochs(2)")
    recipe = recipe.partition("        if number == 5")[0] + (
        "        if number == 5 and run.place.rank == 0:\n"
        "            os.kill(os.getpid(), 9)\n"
        "    run.print('epoch', epoch, 'by rank', run.rank)\n"
        "run.save(sys.argv[1])\n"
    )
    groups = [[harness.worker(4, group="a")], [harness.worker(4, group="b")]]
    plan = harness.plan("hybrid", *groups, local_steps=(1, 1))
    lines, events = harness.run(plan, recipe, tmp_path, str(tmp_path / "saved"))
    assert [event.kind for event in events].count("lost") == 1
    assert any("epoch 1 by rank 1" in line for line in lines)
    assert disk.contents(tmp_path / "saved").state.samples_seen == 800
