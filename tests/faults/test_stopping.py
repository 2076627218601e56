"""A run that is asked to stop saves itself, and goes on where it was (real signals, real processes)."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import harness
import paceline
from commands import Command
from crew import Crew
from paceline.running import stopping
from paceline.state import disk

COUNTING = """
import json, os, sys, torch, paceline
from torch.utils.data import TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.arange(160), torch.randn(160, 4))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
run = paceline.init(global_batch=8)
model, optimizer = run.setup(model, optimizer)
stop_at = int(sys.argv[1])
log = open(f"drawn-{os.getpid()}", "w", buffering=1)
for epoch in run.epochs(2):
    for number, (ids, x) in enumerate(run.loader(data)):
        run.backward(model(x).square().mean())
        optimizer.step()
        optimizer.zero_grad()
        for id in ids.tolist():
            print(json.dumps([epoch, id]), file=log)
        if epoch == 0 and number == stop_at:
            print("training", run.rank, os.getpid(), flush=True)
            while not run._request.number:
                os.sched_yield()
torch.save(model.state_dict(), f"weights-{run.rank}.pt")
"""


def drawn(folder: Path) -> list[list[int]]:
    lines = [line for path in folder.glob("drawn-*") for line in path.read_text().splitlines()]
    return sorted(json.loads(line) for line in lines)


EVERY = [[epoch, number] for epoch in range(2) for number in range(160)]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("strategy", "number"),
    [("allreduce", signal.SIGINT), ("hybrid", signal.SIGTERM)],
)
def test_a_signal_to_the_launcher_saves_at_the_next_update_and_the_run_goes_on_there(
    start: Callable[..., Command], tmp_path: Path, strategy: str, number: int
) -> None:
    """C070: SIGTERM in update 7. C072: only the launcher gets it, every worker sees it."""
    command = start(strategy, "7", recipe=COUNTING)
    command.workers()
    command.process.send_signal(number)
    code, errors = command.end()
    assert code == 130
    assert "Go on with the same command and --resume out" in errors
    state, _ = disk.load(tmp_path / "out" / "checkpoint")
    assert len(drawn(tmp_path)) == state.samples_seen
    if strategy != "hybrid":
        assert state.samples_seen in (8 * 8, 9 * 8)  # this update or the next
        assert state.left == [(state.samples_seen, 160)]
    again = start(strategy, "-1", recipe=COUNTING, flags=("--resume", "out"))
    _, errors = again.process.communicate(timeout=100)
    assert again.process.returncode == 0, errors
    assert drawn(tmp_path) == EVERY
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [(e["samples"], e["duplicates"], e["missing"]) for e in summary["epochs"]] == [(160, 0, 0)] * 2


def train_until_told(seed: int) -> int:
    """A short training into which a signal falls at a random moment."""
    rank = int(os.environ["RANK"])
    chance = random.Random(seed)
    delays = [chance.uniform(0, 0.08), chance.uniform(0, 0.08)]
    hit = chance.choice([(0,), (1,), (0, 1)])
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    run = paceline.init(global_batch=4)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    timer = threading.Timer(delays[rank], os.kill, (os.getpid(), signal.SIGTERM))
    try:
        for epoch in run.epochs(1000):
            for number, (x,) in enumerate(run.loader(TensorDataset(torch.randn(40, 4)))):
                if rank in hit and epoch == 0 and number == 1:  # before that, a worker just ends
                    timer.start()
                run.backward(model(x).square().mean())
                optimizer.step()
                optimizer.zero_grad()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        timer.cancel()
        with contextlib.suppress(Exception):
            torch.distributed.destroy_process_group()
    return 0


def test_a_signal_at_any_moment_to_any_worker_stops_all_of_them(crew: Crew) -> None:
    """C071: 50 signals at random moments; nobody hangs, and all stop after the same update."""
    workers = [harness.worker(3), harness.worker(1)]
    for seed in range(50):
        codes = crew.run(train_until_told, workers, seed)
        assert 143 in codes
        assert set(codes) <= {0, 143}


def test_the_handler_only_takes_a_note() -> None:
    """C071: no collective, no file, no lock."""
    lines = inspect.getsource(stopping.StopRequest._note).splitlines()
    assert [line.strip() for line in lines[1:]] == [
        "self.number = number",
        "if not self._trained():",
        "raise SystemExit(self.exit_code)",
    ]
