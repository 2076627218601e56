from __future__ import annotations

import os
from pathlib import Path

import pytest

from paceline.errors import ConfigError
from paceline.launchers import bootstrap


def test_without_any_variable_this_process_is_alone() -> None:
    launch = bootstrap.read({})
    assert (launch.rank, launch.world_size, launch.folder, launch.quotas) == (0, 1, None, None)
    assert not launch.distributed


def test_torchruns_variables_give_the_rank() -> None:
    launch = bootstrap.read({"RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "3"})
    assert (launch.rank, launch.local_rank, launch.world_size) == (2, 0, 3)
    assert launch.distributed


def test_a_child_reads_what_its_launcher_wrote(tmp_path: Path) -> None:
    given = bootstrap.child_environment("id", tmp_path, "secret", job=3, quotas=tmp_path / "q")
    launch = bootstrap.read({**given, "RANK": "0", "WORLD_SIZE": "1"})
    assert (launch.folder, launch.token, launch.job, launch.quotas) == (tmp_path, "secret", 3, tmp_path / "q")
    assert launch.launcher == os.getpid()


def test_a_launcher_that_has_a_rank_itself_keeps_it_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")  # as on a cluster that starts one launcher on each node
    assert bootstrap.read(bootstrap.child_environment("id", tmp_path, "secret", job=0)).rank == 0


@pytest.mark.parametrize("text", ["", "12@another-host", "x@y", "12"])
def test_a_launcher_on_another_host_is_not_watched(text: str) -> None:
    assert bootstrap.read({bootstrap.LAUNCHER: text}).launcher is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"RANK": "x"}, "RANK is 'x'"),
        ({"WORLD_SIZE": ""}, "WORLD_SIZE is ''"),
        ({"RANK": "3"}, "RANK is 3"),
        ({"OMP_NUM_THREADS": "many"}, "OMP_NUM_THREADS is 'many'"),
        ({"OMP_NUM_THREADS": "0"}, "OMP_NUM_THREADS is '0'"),
    ],
)
def test_nonsense_names_the_variable(given: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        bootstrap.read(given)


@pytest.mark.parametrize(
    ("text", "local", "threads"),
    [(None, 1, None), ("", 1, None), ("4", 2, 4), ("1", 2, None), ("1", 1, 1), ("6,2", 2, 6)],
)
def test_c100_threads_that_torchrun_sets_by_itself_are_not_the_users(
    text: str | None, local: int, threads: int | None
) -> None:
    given = {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": str(local)}
    launch = bootstrap.read(given if text is None else {**given, "OMP_NUM_THREADS": text})
    assert (launch.local_world_size, launch.threads) == (local, threads)
