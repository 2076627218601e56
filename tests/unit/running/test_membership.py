"""A worker's place outside ``paceline run``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.hardware.cores import cores
from paceline.launchers import bootstrap
from paceline.running.membership import take_place


@pytest.mark.parametrize(
    ("local", "omp", "each"),
    [
        ("1", None, cores()),
        ("2", None, max(1, cores() // 2)),
        ("2", "1", max(1, cores() // 2)),
        ("2", "5", 5),
        ("1", "1", 1),
    ],
)
def test_c100_threads_are_counted_among_the_workers_of_one_host(local: str, omp: str | None, each: int) -> None:
    """Of 3 ranks as 2+1: the host with one gives it all its cores. The 1 that torchrun sets for several is not the
    user's."""
    given = {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": local}
    launch = bootstrap.read({**given, "OMP_NUM_THREADS": omp} if omp else given)
    assert take_place(launch, 9).worker.threads == each


def test_c100_under_torchrun_what_the_user_set_is_kept(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import paceline, torch\n"
        "paceline.init(global_batch=4)\n"
        "torch.distributed.barrier()  # or the first to end leaves the other alone while they still connect\n"
        "print('threads', torch.get_num_threads())\n"
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "3"}
    done = subprocess.run(launch, capture_output=True, text=True, env=environment, timeout=100)
    assert done.stdout.count("threads") == done.stdout.count("3") == 2, done.stderr
