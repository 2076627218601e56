"""Shares that follow measured times: soon after a change of speed, and not after noise."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harness
from paceline.cost.compute import seconds
from paceline.cost.rebalance import Balancer
from paceline.cost.split import split
from paceline.schema.plan import WorkerPlan

Speed = Callable[[int, int], float]  # of an update and a worker: how many times its planned seconds it takes

unhurried = settings(deadline=None, max_examples=60)
clusters = st.lists(st.sampled_from([1.0, 0.5, 0.25, 0.1]), min_size=2, max_size=6)


def workers(speeds: Sequence[float], batch: int, fixed: float = 0.0) -> list[WorkerPlan]:
    """Of these speeds, with the best shares of a batch."""
    bare = [
        harness.worker(1).model_copy(
            update={"solo_samples_per_second": 100 * s, "sample_seconds": 0.01 / s, "fixed_seconds": fixed}
        )
        for s in speeds
    ]
    shares = split(batch, [lambda b, own=own: seconds(own, b) for own in bare])
    return [own.model_copy(update={"share": share}) for own, share in zip(bare, shares, strict=True)]


def times(made: Sequence[WorkerPlan], shares: Sequence[int], slow: Sequence[float]) -> list[float]:
    return [s * seconds(own, share) for own, share, s in zip(made, shares, slow, strict=True)]


def drive(made: Sequence[WorkerPlan], updates: int, slowness: Speed) -> tuple[list[float], list[int]]:
    """Seconds of each update, and the updates after which shares changed. A measurement is known one update later, as
    in a real run."""
    balancer, took, changes, before = Balancer(made), [], [], [0.0] * len(made)
    for update in range(updates):
        slow = [slowness(update, worker) for worker in range(len(made))]
        took.append(max(times(made, balancer.shares, slow)))
        if balancer.observe(before) is not None:
            changes.append(update)
        assert sum(balancer.shares) == sum(own.share for own in made)
        before = slow
    return took, changes


def bound(made: Sequence[WorkerPlan], slow: Sequence[float]) -> float:
    """The least seconds that any whole shares take, each worker that has samples keeping one."""
    taking = [(own, s) for own, s in zip(made, slow, strict=True) if own.share]
    spare = sum(own.share for own in made) - len(taking)
    best = split(spare, [lambda b, own=own, s=s: s * seconds(own, b + 1) for own, s in taking])
    return max(s * seconds(own, 1 + b) for (own, s), b in zip(taking, best, strict=True))


@unhurried
@given(clusters, st.data())
def test_a_worker_slowed_5_times_costs_at_most_20_updates_until_95_percent_of_the_new_bound(speeds, data):
    made = workers(speeds, 64 * len(speeds), fixed=data.draw(st.sampled_from([0.0, 0.05])))
    slowed, since = data.draw(st.integers(0, len(speeds) - 1)), data.draw(st.integers(5, 60))
    slow = [5.0 if worker == slowed else 1.0 for worker in range(len(made))]
    took, changes = drive(made, since + 40, lambda update, worker: slow[worker] if update >= since else 1.0)
    assert all(seconds <= bound(made, slow) / 0.95 for seconds in took[since + 20 :])
    assert not any(change < since for change in changes)


@unhurried
@given(clusters, st.integers(0, 10**6))
def test_a_worker_that_recovers_gets_its_samples_back(speeds, seed):
    made = workers(speeds, 64 * len(speeds))
    slowed = seed % len(made)
    slow = [5.0 if worker == slowed else 1.0 for worker in range(len(made))]
    took, _ = drive(made, 120, lambda update, worker: slow[worker] if 20 <= update < 70 else 1.0)
    assert took[-1] <= took[0] * 1.03


def noisy(seed: int, deviation: float = 0.1) -> Speed:
    draw = random.Random(seed)
    return lambda update, worker: draw.lognormvariate(0.0, deviation)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("speeds", [(1.0, 1.0), (1.0, 0.5, 0.25, 0.25), (1.0,) * 4 + (0.5,) * 4])
def test_noise_of_a_tenth_changes_shares_a_few_times_in_1000_updates_and_costs_nothing(speeds, seed):
    made = workers(speeds, 64 * len(speeds))
    took, changes = drive(made, 1000, noisy(seed))
    still = [
        max(times(made, [own.share for own in made], [own(u, w) for w in range(len(made))]))
        for own in [noisy(seed)]
        for u in range(1000)
    ]
    assert len(changes) <= 2
    assert statistics.fmean(took) <= 1.01 * statistics.fmean(still)


@pytest.mark.parametrize("seed", range(5))
def test_a_slow_worker_among_noise_is_found_and_the_rest_stays(seed):
    made = workers((1.0, 0.5, 0.25, 0.25), 256)
    noise = noisy(seed)
    took, changes = drive(made, 300, lambda u, w: noise(u, w) * (5.0 if w == 0 and u >= 100 else 1.0))
    best = bound(made, [5.0, 1.0, 1.0, 1.0])
    assert statistics.fmean(took[120:]) <= 1.25 * best  # the slowest of four draws with this noise is a tenth above
    assert len([change for change in changes if change >= 100]) <= 4


@pytest.mark.parametrize("every", [1, 2, 3, 5, 10, 15, 20])
def test_workers_that_take_turns_in_being_slow_do_not_make_shares_swing_for_ever(every):
    made = workers((1.0, 1.0), 128)
    _, changes = drive(made, 2000, lambda update, worker: 5.0 if update // every % 2 == worker else 1.0)
    assert len(changes) <= 16
    assert len([change for change in changes if change >= 1000]) <= 6


def test_pauses_of_one_update_change_nothing():
    made = workers((1.0, 0.5), 128)
    _, changes = drive(made, 400, lambda update, worker: 20.0 if worker == 1 and update % 25 == 20 else 1.0)
    assert changes == []


def test_a_plan_that_was_wrong_is_put_right():
    made = workers((1.0, 1.0, 1.0), 96)
    took, changes = drive(made, 40, lambda update, worker: 1.5 if worker == 2 else 1.0)
    assert took[-1] <= bound(made, [1.0, 1.0, 1.5]) * 1.01
    assert len(changes) == 1


def test_a_gain_of_less_than_3_percent_changes_nothing():
    _, changes = drive(workers((1.0,) * 8, 512), 200, lambda update, worker: 1.025 if worker == 0 else 1.0)
    assert changes == []


def test_a_worker_without_a_share_stays_without():
    made = workers((1.0, 1.0, 0.001), 64)
    assert made[2].share == 0
    balancer = Balancer(made)
    for _ in range(40):
        balancer.observe([5.0, 1.0, 0.0])
    assert balancer.shares[2] == 0
    assert balancer.shares[0] < balancer.shares[1]


def test_a_worker_keeps_one_sample_by_which_it_is_seen_to_recover():
    balancer = Balancer(workers((1.0, 1.0), 16))
    for _ in range(40):
        balancer.observe([1.0, 1000.0])
    assert balancer.shares == (15, 1)
    for _ in range(40):
        balancer.observe([1.0, 1.0])
    assert balancer.shares == (8, 8)


def test_shares_follow_the_steps_of_accumulation():
    """At most 8 samples at once, each time with a fixed cost: 16 samples are two pieces, 17 are three."""
    made = [own.model_copy(update={"micro_batch": 8}) for own in workers((1.0, 1.0, 1.0), 48, fixed=0.2)]
    balancer, slow = Balancer(made), [2.0, 1.0, 1.0]
    for _ in range(30):
        balancer.observe(slow)
    assert max(times(made, balancer.shares, slow)) == pytest.approx(bound(made, slow))


@pytest.mark.parametrize("told", [[0.0, 0.0], [5.0, 0.0]])
def test_nothing_is_done_about_what_was_not_measured(told):
    balancer = Balancer(workers((1.0, 1.0), 16))
    assert [balancer.observe(told) for _ in range(40)] == [None] * 40


def test_workers_whose_speed_the_plan_does_not_know_keep_their_shares():
    made = [own.model_copy(update={"solo_samples_per_second": None}) for own in workers((1.0, 1.0), 16)]
    balancer = Balancer(made)
    assert [balancer.observe([5.0, 1.0]) for _ in range(40)] == [None] * 40


def test_a_change_says_what_it_was_made_for():
    balancer = Balancer(workers((1.0, 1.0), 60))
    (change,) = filter(None, [balancer.observe([2.0, 1.0]) for _ in range(20)])
    assert (change.before, change.shares) == ((30, 30), (20, 40))
    assert change.gain == pytest.approx(0.5)
    assert change.slowness == pytest.approx((2.0, 1.0))


def test_the_same_numbers_give_the_same_shares():
    made, draw = workers((1.0, 0.5, 0.25), 96), noisy(3, 0.4)
    told = [[draw(u, w) for w in range(3)] for u in range(200)]
    first, second = Balancer(made), Balancer(made)
    assert [first.observe(now) for now in told] == [second.observe(now) for now in told]
    assert first.shares == second.shares


def test_a_share_that_was_taken_at_once_still_is():
    made = [own.model_copy(update={"micro_batch": 20}) for own in workers((1.0, 1.0, 1.0), 48)]  # 16 each
    balancer = Balancer(made)
    for _ in range(40):
        balancer.observe([5.0, 1.0, 1.0])
    assert balancer.shares == (8, 20, 20)
