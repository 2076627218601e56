"""Splits against brute force, against one sample after another, and the named cases."""

import heapq
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cost.compute import Seconds, curve
from paceline.cost.split import split
from paceline.errors import ConfigError
from paceline.schema.plan import WorkerPlan
from paceline.schema.profile import Point

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
    assert slowest([250] * 4, at(speeds)) == pytest.approx(1.25)


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


def test_a_far_slower_worker_may_get_nothing():
    assert split(4, at([100, 1])) == [4, 0]


@pytest.mark.parametrize(("batch", "speeds", "said"), [(0, [1.0], "batch of 0"), (4, [], "no worker")])
def test_an_impossible_split_is_refused_with_a_remedy(batch, speeds, said):
    with pytest.raises(ConfigError, match=said) as refused:
        split(batch, at(speeds))
    assert refused.value.remedy


def one_by_one(batch: int, seconds: list[Seconds]) -> list[int]:
    """Each sample to whoever would be done with it first, the lower index on a tie."""
    shares = [0] * len(seconds)
    ready = [(own(1), place) for place, own in enumerate(seconds)]
    heapq.heapify(ready)
    for _ in range(batch):
        _, place = ready[0]
        shares[place] += 1
        heapq.heapreplace(ready, (seconds[place](shares[place] + 1), place))
    return shares


def device(chance: random.Random, tabled: bool) -> Seconds:
    each = 1 / chance.uniform(1, 100)
    fixed = each * chance.uniform(0, 10)
    sizes = [2, 4, 8, 16] if tabled else []
    return curve(
        WorkerPlan(
            group="a", device="cpu", threads=1, share=0, solo_samples_per_second=1 / each, sample_seconds=each,
            fixed_seconds=fixed, micro_batch=chance.choice([None, 4, 16]), loading_seconds=each * chance.random(),
            table=tuple(Point(samples=n, seconds=(fixed + n * each) * chance.uniform(0.8, 1.2)) for n in sizes),
        )
    )  # fmt: skip


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 14), st.integers(1, 3), st.booleans())
def test_measured_tables_and_accumulation_within_a_thousandth_of_brute_force(chance, batch, count, tabled):
    seconds = [device(chance, tabled) for _ in range(count)]
    shares = split(batch, seconds)
    assert sum(shares) == batch
    assert slowest(shares, seconds) <= 1.001 * best(batch, seconds)


@settings(deadline=None, max_examples=30)
@given(st.randoms(use_true_random=False), st.integers(1, 3000), st.integers(1, 40), st.booleans())
def test_a_deadline_gives_the_shares_that_one_sample_after_another_does(chance, batch, count, tabled):
    seconds = [device(chance, tabled) for _ in range(count)]
    assert split(batch, seconds) == one_by_one(batch, seconds)


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 12), st.lists(st.integers(0, 8), min_size=3, max_size=3))
def test_caps_are_kept_and_what_is_left_is_shared_as_well_as_can_be(chance, batch, caps):
    seconds = [device(chance, False) for _ in caps]
    if sum(caps) < batch:
        with pytest.raises(ConfigError, match="at once"):
            split(batch, seconds, caps)
        return
    shares = split(batch, seconds, caps)
    capped = itertools.product(*(range(cap + 1) for cap in caps))
    least = min(slowest(list(tried), seconds) for tried in capped if sum(tried) == batch)
    assert sum(shares) == batch
    assert all(share <= cap for share, cap in zip(shares, caps, strict=True))
    assert slowest(shares, seconds) == pytest.approx(least)


@pytest.mark.parametrize(("count", "batch"), [(16, 512), (1024, 16_384), (1024, 100)])
def test_many_devices_share_exactly_the_batch(count, batch):
    chance = random.Random(count)
    seconds = [device(chance, tabled=True) for _ in range(count)]
    shares = split(batch, seconds)
    assert (len(shares), sum(shares)) == (count, batch)
    assert slowest(shares, seconds) == slowest(one_by_one(batch, seconds), seconds)


def test_each_worker_is_asked_for_only_a_few_times():
    """Whatever the batch: that is what makes 1,024 devices a matter of milliseconds."""
    asked = 0

    def counted(own: Seconds) -> Seconds:
        def spent(samples: int) -> float:
            nonlocal asked
            asked += 1
            return own(samples)

        return spent

    chance = random.Random(7)
    split(1_000_000, [counted(device(chance, tabled=True)) for _ in range(200)])
    assert asked <= 200 * 30


def test_an_exchange_that_overlaps_is_split_by_when_it_ends():
    """Overlap with two buckets: the second worker's first bucket is late."""
    ends = [lambda b: max(b + 30.0, 2.0 * b + 5.0), lambda b: max(4.0 * b + 30.0, 5.0 * b + 5.0)]
    shares = split(40, ends)
    assert slowest(shares, ends) == best(40, ends)


def test_times_that_stand_still_are_shared_too():
    assert sum(split(10_000, [lambda samples: 1.0, lambda samples: 1.0, lambda samples: float(samples)])) == 10_000
