from __future__ import annotations

from pathlib import Path

import pytest

from paceline.errors import ConfigError, LinkError
from paceline.launchers import failures
from paceline.launchers.folder import RunFolder

TORCHRUN = """
E1201 00:00:01.1 1 torch/distributed/elastic/multiprocessing/api.py:1010] failed (exitcode: -9) local_rank: 1 (pid: 7)
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Failures:
[1]:
  time      : 2026-12-01_00:00:01
  host      : box
  rank      : 2 (local_rank: 2)
  exitcode  : -15 (pid: 8)
Root Cause (first observed failure):
[0]:
  time      : 2026-12-01_00:00:01
  host      : box
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 7)
"""


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def log(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "job.err"
    path.write_text(text)
    return path


def test_the_root_cause_is_the_first_error_that_is_no_echo(folder: RunFolder, tmp_path: Path) -> None:
    failures.write_down(folder.errors, (0, 0), RuntimeError("[gloo/pair.cc] Connection closed by peer"), "rank 0", 0)
    failures.write_down(folder.errors, (0, 1), ValueError("no such label"), "rank 1 on box (cpu)", 0)
    failures.write_down(folder.errors, (0, 2), KeyError("later"), "rank 2", 0)
    error = failures.explain(folder, "all", 1, log(tmp_path, ""))
    assert "rank 1 on box (cpu)" in str(error)
    assert "ValueError: no such label" in str(error)
    assert error.exit_code == 5


def test_a_death_that_was_accepted_explains_nothing_later(folder: RunFolder, tmp_path: Path) -> None:
    failures.write_down(folder.errors, (1, 0), ValueError("of the dead group"), "rank 1", 0)
    failures.forget(folder.errors, job=1)
    assert "dead group" not in str(failures.explain(folder, "all", 1, log(tmp_path, "")))


def test_a_lost_link_keeps_its_exit_code(folder: RunFolder, tmp_path: Path) -> None:
    failures.write_down(folder.errors, (0, 0), LinkError("the peer is gone"), "rank 0", 0)
    assert failures.explain(folder, "all", 1, log(tmp_path, "")).exit_code == 4


def test_an_error_of_ours_keeps_its_exit_code(folder: RunFolder, tmp_path: Path) -> None:
    failures.write_down(folder.errors, (0, 0), ConfigError("the recipe is wrong"), "rank 0", 0)
    assert failures.explain(folder, "all", 1, log(tmp_path, "")).exit_code == 2


def test_a_killed_worker_is_named_with_its_signal(folder: RunFolder, tmp_path: Path) -> None:
    failures.write_down(folder.errors, (0, 0), RuntimeError("Connection closed by peer"), "rank 0", 0)
    error = failures.explain(folder, "all", 1, log(tmp_path, TORCHRUN))
    assert "rank 1 of job 'all' was killed by SIGKILL" in str(error)


def test_a_recipe_that_just_exits_is_quoted(folder: RunFolder, tmp_path: Path) -> None:
    text = "fashion-mnist is not here; install it\nE1201 00:00:01 1 api.py:1] failed (exitcode: 2) local_rank: 0\nmore"
    error = failures.explain(folder, "all", 1, log(tmp_path, text))
    assert "fashion-mnist is not here; install it" in str(error)
