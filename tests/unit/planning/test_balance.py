"""Splits against brute force, and the named cases."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cost.split import Seconds, split
from paceline.errors import ConfigError
from paceline.planning.balance import even, local_steps

SPEEDS = st.lists(st.integers(1, 50), min_size=1, max_size=8)
WORKERS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9), st.integers(1, 5)), min_size=1, max_size=3)


def at(speeds: list[float]) -> list[Seconds]:
    """Times in proportion to the number of samples."""
    return [lambda samples, speed=speed: samples / speed for speed in speeds]


def staircase(fixed: int, per_sample: int, micro_batch: int) -> Seconds:
    return lambda samples: -(-samples // micro_batch) * fixed + per_sample * samples


def slowest(shares: list[int], seconds: list[Seconds]) -> float:
    return max(own(share) for share, own in zip(shares, seconds, strict=True))


def best(batch: int, seconds: list[Seconds]) -> float:
    """The least time of any split, by trying all of them."""
    candidates = itertools.product(range(batch + 1), repeat=len(seconds))
    return min(slowest(list(shares), seconds) for shares in candidates if sum(shares) == batch)


def test_c018_speeds_7_5_3_share_32_samples():
    shares = split(32, at([7, 5, 3]))
    assert shares == [15, 11, 6]
    assert slowest(shares, at([7, 5, 3])) == pytest.approx(2.2)


def test_c018_speeds_in_proportion_take_a_fifth_less_time_than_equal_shares():
    speeds = [300, 300, 200, 200]
    assert split(1000, at(speeds)) == [300, 300, 200, 200]
    assert slowest(split(1000, at(speeds)), at(speeds)) == pytest.approx(1.0)
    assert slowest(even(1000, 4), at(speeds)) == pytest.approx(1.25)


@settings(deadline=None)
@given(st.integers(1, 10_000), SPEEDS)
def test_split_adds_up_to_the_batch(batch, speeds):
    shares = split(batch, at(speeds))
    assert sum(shares) == batch
    assert min(shares) >= 0


@settings(deadline=None)
@given(st.integers(1, 12), WORKERS)
def test_split_is_as_fast_as_the_best_of_all_splits(batch, workers):
    """With a fixed cost for each micro-batch, so the times are stairs."""
    seconds = [staircase(*worker) for worker in workers]
    shares = split(batch, seconds)
    assert sum(shares) == batch
    assert slowest(shares, seconds) == best(batch, seconds)


def test_a_fixed_cost_takes_samples_from_the_slow():
    slow, quick = staircase(40, 10, 10**6), staircase(10, 1, 10**6)
    assert split(30, [slow, quick]) == [0, 30]
    assert split(100, [slow, quick]) == [6, 94]


@settings(deadline=None)
@given(st.integers(1, 1000), SPEEDS)
def test_a_faster_worker_never_takes_less(batch, speeds):
    pairs = sorted(zip(speeds, split(batch, at(speeds)), strict=True))
    assert all(a_share <= b_share for (a, a_share), (b, b_share) in itertools.pairwise(pairs) if a < b)


@settings(deadline=None)
@given(st.integers(1, 1000), SPEEDS, st.integers(1, 20))
def test_speeding_a_worker_up_never_lowers_its_share(batch, speeds, more):
    assert split(batch, at([speeds[0] + more, *speeds[1:]]))[0] >= split(batch, at(speeds))[0]


def test_ties_go_to_the_lower_index():
    assert split(5, at([2.0, 2.0, 2.0])) == [2, 2, 1]
    assert even(5, 3) == [2, 2, 1]


def test_a_far_slower_worker_may_get_nothing():
    assert split(4, at([100, 1])) == [4, 0]


@pytest.mark.parametrize(("batch", "speeds", "said"), [(0, [1.0], "batch of 0"), (4, [], "no worker")])
def test_an_impossible_split_is_refused_with_a_remedy(batch, speeds, said):
    with pytest.raises(ConfigError, match=said) as refused:
        split(batch, at(speeds))
    assert refused.value.remedy


def test_fewer_samples_than_workers_is_a_share_that_cannot_be_met():
    with pytest.raises(ConfigError, match="a share that cannot be met: a global batch of 3 for 4 workers") as refused:
        even(3, 4)
    assert "Raise the global batch to 4" in refused.value.remedy


def test_local_steps_follow_speed_down_to_one():
    assert local_steps([40.0, 20.0, 10.0, 10.0]) == [8, 4, 2, 2]
    assert local_steps([1.0, 1000.0], most=4) == [1, 4]
    assert local_steps([3.0, 3.0]) == [8, 8]
    assert local_steps([10.0, 4.4]) == [8, 4]
