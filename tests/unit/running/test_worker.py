"""What a worker's process does for the whole run (real processes)."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness

TALKATIVE = """
import paceline
run = paceline.init(global_batch=2)
for number in range(1000):
    print("rank", run.place.rank, "says", number)
run.reduce(0, 1)  # who ends before its peer has connected takes it along
"""


def test_workers_that_share_a_pipe_print_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # as in many containers: Python would write each piece by itself
    lines, _ = harness.run(harness.plan("allreduce", [harness.worker(1), harness.worker(1)]), TALKATIVE, tmp_path)
    assert sorted(lines) == sorted(f"rank {rank} says {number}" for rank in (0, 1) for number in range(1000))
