"""Splits against brute force, and the named cases."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import ConfigError
from paceline.planning.balance import even, local_steps, split

SPEEDS = st.lists(st.integers(1, 50), min_size=1, max_size=8)


def slowest(shares: list[int], speeds: list[int]) -> float:
    return max(share / speed for share, speed in zip(shares, speeds, strict=True))


def best(batch: int, speeds: list[int], caps: list[int]) -> float:
    """The least time of any split, by trying all of them."""
    candidates = itertools.product(*(range(min(cap, batch) + 1) for cap in caps))
    return min(slowest(list(shares), speeds) for shares in candidates if sum(shares) == batch)


def test_c018_speeds_7_5_3_share_32_samples():
    shares = split(32, [7, 5, 3])
    assert shares == [15, 11, 6]
    assert slowest(shares, [7, 5, 3]) == pytest.approx(2.2)


def test_c018_speeds_in_proportion_take_a_fifth_less_time_than_equal_shares():
    speeds = [300, 300, 200, 200]
    assert split(1000, speeds) == [300, 300, 200, 200]
    assert slowest(split(1000, speeds), speeds) == pytest.approx(1.0)
    assert slowest(even(1000, 4), speeds) == pytest.approx(1.25)


@settings(deadline=None)
@given(st.integers(1, 10_000), SPEEDS)
def test_split_adds_up_to_the_batch(batch, speeds):
    shares = split(batch, speeds)
    assert sum(shares) == batch
    assert min(shares) >= 0


@settings(deadline=None)
@given(st.integers(1, 12), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_split_is_as_fast_as_the_best_of_all_splits(batch, speeds):
    assert slowest(split(batch, speeds), speeds) == best(batch, speeds, [batch] * len(speeds))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 6)), min_size=1, max_size=3), st.data())
def test_capped_split_is_as_fast_as_the_best_within_the_caps(workers, data):
    speeds, caps = [speed for speed, _ in workers], [cap for _, cap in workers]
    if sum(caps) == 0:
        caps[0] = 1
    batch = data.draw(st.integers(1, sum(caps)))
    shares = split(batch, speeds, caps)
    assert sum(shares) == batch
    assert all(share <= cap for share, cap in zip(shares, caps, strict=True))
    assert slowest(shares, speeds) == best(batch, speeds, caps)


@settings(deadline=None)
@given(st.integers(1, 1000), SPEEDS)
def test_a_faster_worker_never_takes_less(batch, speeds):
    pairs = sorted(zip(speeds, split(batch, speeds), strict=True))
    assert all(a_share <= b_share for (a, a_share), (b, b_share) in itertools.pairwise(pairs) if a < b)


@settings(deadline=None)
@given(st.integers(1, 1000), SPEEDS, st.integers(1, 20))
def test_speeding_a_worker_up_never_lowers_its_share(batch, speeds, more):
    assert split(batch, [speeds[0] + more, *speeds[1:]])[0] >= split(batch, speeds)[0]


def test_ties_go_to_the_lower_index():
    assert split(5, [2.0, 2.0, 2.0]) == [2, 2, 1]
    assert even(5, 3) == [2, 2, 1]


def test_a_far_slower_worker_may_get_nothing():
    assert split(4, [100, 1]) == [4, 0]


@pytest.mark.parametrize(
    ("batch", "speeds", "caps", "said"),
    [
        (0, [1.0], None, "batch of 0"),
        (4, [], None, "no worker"),
        (4, [1.0, 0.0], None, "worker 1 has a speed of 0.0"),
        (4, [1.0, -2.0], None, "worker 1 has a speed of -2.0"),
        (4, [float("nan")], None, "worker 0 has a speed of nan"),
        (4, [1.0, 1.0], [1, 2], "hold 3 samples"),
    ],
)
def test_an_impossible_split_is_refused_with_a_remedy(batch, speeds, caps, said):
    with pytest.raises(ConfigError, match=said) as refused:
        split(batch, speeds, caps)
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
