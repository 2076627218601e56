"""Threads that take turns: the order follows from keys, sums are over all that are there, a failure ends everyone."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.running.virtual.belongings import Belongings
from paceline.running.virtual.turns import Ended, Turns

Part = Callable[[Turns, int], None]


def play(jobs: int, part: Part, script: Path = Path("nowhere.py")) -> Turns:
    """Every job plays its part to the end."""
    before = sys.modules["__main__"]
    turns = Turns(jobs, Belongings(script, [ModuleType("__main__") for _ in range(jobs)]))

    def live(job: int) -> None:
        failure: BaseException | None = None
        try:
            turns.begin(job)
            part(turns, job)
        except BaseException as error:
            failure = None if isinstance(error, Ended) else error
        turns.leave(job, failure)

    threads = [threading.Thread(target=live, args=(job,), daemon=True) for job in range(jobs)]
    for thread in threads:
        thread.start()
    turns.open()
    for thread in threads:
        thread.join(20)
    sys.modules["__main__"] = before
    assert not any(thread.is_alive() for thread in threads)
    return turns


@given(st.permutations(range(9)))
def test_who_waits_longest_for_the_least_key_is_next(order: list[int]) -> None:
    seen: list[int] = []

    def part(turns: Turns, job: int) -> None:
        for key in sorted(order[3 * job : 3 * job + 3]):
            turns.wait(job, (key, 0))
            seen.append(key)

    play(3, part)
    assert seen == list(range(9))


def test_a_sum_is_over_all_that_have_not_left() -> None:
    seen: dict[tuple[int, int], float] = {}

    def part(turns: Turns, job: int) -> None:
        for number in range(3 - job):
            seen[job, number] = float(turns.gather(job, torch.tensor([float(10**job)])))

    assert play(3, part).failure is None
    assert seen == {(0, 0): 111, (1, 0): 111, (2, 0): 111, (0, 1): 11, (1, 1): 11, (0, 2): 1}


@pytest.mark.parametrize("wait", ["sum", "turn"])
def test_a_failure_ends_those_who_wait(wait: str) -> None:
    after: list[int] = []

    def part(turns: Turns, job: int) -> None:
        if job == 1:
            raise ValueError("broken")
        turns.gather(job, torch.zeros(1)) if wait == "sum" else turns.wait(job, (5, 0))
        after.append(job)

    turns = play(3, part)
    assert isinstance(turns.failure, ValueError)
    assert after == []


def test_each_job_has_its_own_random_numbers() -> None:
    drawn: dict[int, list[float]] = {0: [], 1: []}

    def part(turns: Turns, job: int) -> None:
        for key in range(4):
            turns.wait(job, (key, 0))
            drawn[job] += [random.random(), float(torch.rand(1))]

    play(2, part)
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 8


def test_each_job_has_its_own_copy_of_the_modules_beside_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "paceline_test_beside.py").write_text("seen = []\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    modules: dict[int, list[ModuleType]] = {0: [], 1: []}

    def part(turns: Turns, job: int) -> None:
        for key in range(2):
            import paceline_test_beside

            modules[job].append(paceline_test_beside)
            turns.wait(job, (key, 0))

    play(2, part, tmp_path / "recipe.py")
    (first, again), (other, _) = modules.values()
    assert first is again
    assert first is not other
