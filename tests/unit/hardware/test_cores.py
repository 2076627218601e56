"""CPU threads of a worker."""

import os

import pytest

from paceline.hardware.cores import cores, threads


@pytest.mark.parametrize(
    ("available", "workers", "user_set", "each"),
    [(2, 2, None, 1), (8, 3, None, 2), (2, 3, None, 1), (2, 2, 7, 7), (64, 1, None, 64), (64, 1, 1, 1)],
)
def test_c100_cores_are_shared_evenly_and_what_the_user_set_stands(available, workers, user_set, each):
    assert threads(available, workers, user_set) == each


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not pin processes")
def test_only_the_cores_that_this_process_may_use_count():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cores() == len(before)
