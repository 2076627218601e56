"""What each strategy's plan looks like, what it was chosen over, and what the planner refuses."""

import re
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import api
from paceline.api import foreseeing
from paceline.cost.compute import curve
from paceline.errors import ConfigError
from paceline.observation import metrics
from paceline.planning.search import WORTH, Price, choose, plan
from paceline.schema.network import Link, Network
from paceline.schema.plan import Plan
from paceline.schema.profile import Point, Profile
from paceline.simulating.scenario import Scenario
from paceline.strategies import TABLE
from profiles import MIXED, memory_profile, profile


def shares(made: Plan) -> list[int]:
    return [worker.share for worker in made.workers]


def test_c018_allreduce_shares_in_proportion_to_speed():
    made = plan(profile({"a": [7.0, 5.0], "b": [3.0]}, 32), "allreduce")
    assert shares(made) == [15, 11, 6]
    assert [(job.name, job.local_steps) for job in made.jobs] == [("all", 1)]
    assert "15, 11, 6 of 32" in made.reason


def test_even_allreduce_ignores_speed():
    assert shares(plan(profile(MIXED, 130), "allreduce_even")) == [33, 33, 32, 32]


def test_alone_gives_the_fastest_device_everything_but_keeps_the_limit_of_all():
    made = plan(profile({"slow": [1.0], "fast": [9.0, 8.0]}, 32), "alone")
    assert [(worker.group, worker.device, worker.share) for worker in made.workers] == [("fast", "cuda:0", 32)]
    assert made.limit_samples_per_second == pytest.approx(18.0)
    assert "fastest of 3 devices" in made.reason


def test_hybrid_makes_a_job_of_each_group_with_steps_by_its_updates_per_second():
    made = plan(profile(MIXED, 128, epoch=12_800), "hybrid")
    assert [job.name for job in made.jobs] == ["a", "b", "c"]
    assert [job.shares for job in made.jobs] == [(32,), (32,), (32, 32)]
    assert [job.local_steps for job in made.jobs] == [8, 4, 2]
    assert "a 8, b 4, c 2" in made.reason


def test_unlike_members_of_a_group_share_its_updates_by_speed():
    made = plan(profile({"a": [100.0], "b": [100.0, 50.0]}, 300, epoch=10**5), "hybrid")
    assert [job.local_steps for job in made.jobs] == [8, 6]
    assert made.jobs[1].shares[0] == pytest.approx(2 * made.jobs[1].shares[1], rel=0.05)
    assert _balanced(made) < 1.03


@pytest.mark.parametrize("rates", [[4, 2, 1, 1], [6, 3, 2, 1], [8, 7, 6, 5, 4, 3, 2, 1], [31, 17, 9.5, 2.2]])
def test_rounds_of_all_groups_take_about_as_long(rates):
    made = plan(profile({f"g{place}": [250.0 * rate] for place, rate in enumerate(rates)}, 128, epoch=60_000), "hybrid")
    assert sum(sum(job.shares) for job in made.jobs) == 128
    assert _balanced(made) < 1.07
    assert made.predicted_samples_per_second >= 0.98 * made.limit_samples_per_second


def _balanced(made):
    """The longest round over the shortest, computing alone."""
    rounds = [job.local_steps * curve(worker)(worker.share) for job in made.jobs for worker in job.workers]
    return max(rounds) / min(rounds)


@pytest.mark.parametrize("strategy", sorted(set(TABLE) - {"solo"}))
def test_every_strategy_carries_the_profile_over(strategy):
    made = plan(profile(MIXED, 128), strategy)
    assert Plan.model_validate_json(made.model_dump_json()) == made
    assert (made.strategy, made.cluster, made.global_batch) == (strategy, "lab", 128)
    assert made.limit_samples_per_second == pytest.approx(800.0)
    assert sum(shares(made)) == 128
    assert all(worker.micro_batch == 16 and worker.threads == 2 for worker in made.workers)
    assert all(worker.solo_samples_per_second for worker in made.workers)
    assert made.reason.endswith(".")


def test_the_price_of_the_plan_becomes_its_prediction():
    priced: list[Plan] = []
    made = plan(
        profile(MIXED, 128), "hybrid", price=lambda candidate: priced.append(candidate) or [700.0, 70.0, 4.0, 3.0]
    )
    assert made.predicted_samples_per_second == 777.0
    assert [worker.predicted_samples_per_second for worker in made.workers] == [700.0, 70.0, 4.0, 3.0]
    assert [job.shares for job in priced[0].jobs] == [job.shares for job in made.jobs]


def test_a_device_that_would_only_slow_the_update_down_is_left_out_and_named():
    made = plan(profile({"a": [100.0], "b": [1.0]}, 8), "allreduce")
    assert [(worker.group, worker.share) for worker in made.workers] == [("a", 8)]
    assert "Left out: b (cuda:0)." in made.reason
    assert made.limit_samples_per_second == pytest.approx(101.0)
    assert "Left out" not in plan(profile({"a": [100.0], "b": [1.0]}, 800), "allreduce").reason


def test_too_small_a_batch_for_equal_shares_is_refused():
    with pytest.raises(ConfigError, match="a global batch of 3 for 4 workers"):
        plan(profile(MIXED, 3), "hybrid")


def test_an_unknown_strategy_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="hybrid"):
        plan(profile(MIXED, 128), "hybird")


@pytest.mark.parametrize(
    ("batch", "fixed", "expected"),
    [(40, 0.0, [20, 20]), (48, 0.0, [28, 20]), (48, 0.1, [28, 20]), (60, 0.0, [30, 30]), (60, 0.1, [30, 30])],
)
def test_c013_a_larger_card_takes_what_the_smaller_one_cannot_hold(batch, fixed, expected):
    made = plan(memory_profile(batch, fixed), "allreduce")
    assert [worker.micro_batch for worker in made.workers] == [28, 20]
    assert shares(made) == expected
    assert ("as far as it holds its share at once" in made.reason) is (batch < 60)


def test_c013_headroom_is_left_and_the_cluster_files_own_limit_stands():
    assert [worker.micro_batch for worker in plan(memory_profile(40, spare=0.0), "allreduce").workers] == [24, 17]
    limited = plan(memory_profile(40, micro_batch=18), "allreduce")
    assert [worker.micro_batch for worker in limited.workers] == [18, 18]


def test_accumulating_is_planned_where_doing_without_would_be_much_slower():
    small, large = memory_profile(32, micro_batch=4), memory_profile(32)
    devices = [small.devices[0], large.devices[1].model_copy(update={"sample_seconds": 0.05, "memory_bytes": None})]
    made = plan(large.model_copy(update={"devices": devices}), "allreduce")
    assert made.workers[0].micro_batch == 4
    assert shares(made) == [27, 5]


def simulated(measured: Profile) -> Price:
    """Prices of the simulator, of updates from the middle of an epoch."""
    return partial(foreseeing._price, measured)


def pair(sync: float, unit: int = 1) -> Profile:
    """C019: speeds 2.8 and 1, a batch of 56, and ``sync`` for each update of both; ``unit`` samples count as one."""
    return profile(
        {"fast": [2.8 * unit], "slow": [1.0 * unit]}, 56 * unit, epoch=56 * unit * 40, size=0, micro_batch=None,
        wire=(1e9, sync / 2),
    )  # fmt: skip


@pytest.mark.parametrize("price", [None, simulated])
def test_c019_both_cards_while_an_update_of_both_is_faster(price):
    measured = pair(4.0, unit=1000)
    made = choose(measured, "allreduce", price and price(measured))
    assert [worker.group for worker in made.workers] == ["fast", "slow"]
    assert 56_000 / made.predicted_samples_per_second == pytest.approx(18.74, rel=1e-3)


@pytest.mark.parametrize("price", [None, simulated])
def test_c019_the_fast_card_alone_where_the_exchange_costs_more_than_it_brings(price):
    measured = pair(6.0)
    made = choose(measured, "allreduce", price and price(measured))
    assert [(worker.group, worker.share) for worker in made.workers] == [("fast", 56)]
    assert 56 / made.predicted_samples_per_second == pytest.approx(20.0)
    assert "Left out: slow (cuda:0). With it an update takes 21 s" in made.reason
    assert "6 s on the wire" in made.reason
    rejected = {other.strategy: other for other in made.alternatives}
    assert rejected["allreduce on all 2 devices"].predicted_samples_per_second == pytest.approx(56 / 21)
    assert rejected["allreduce on all 2 devices"].why.startswith("4.8% slower: 2.667 samples/s against 2.8")


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(1, 100), min_size=1, max_size=6), st.integers(1, 200), st.floats(0, 2), st.floats(0, 1),
)  # fmt: skip
def test_c019_never_slower_than_the_best_single_card(speeds, batch, latency, fixed):
    measured = profile(
        {f"g{i}": [speed] for i, speed in enumerate(speeds)}, batch, wire=(1e6, latency), fixed_seconds=fixed, size=9999
    )
    made, single = plan(measured, "allreduce"), plan(measured, "alone")
    assert made.predicted_samples_per_second >= single.predicted_samples_per_second * (1 - 1e-9)
    assert sum(shares(made)) == batch


def test_a_group_behind_a_slow_wire_is_left_out_though_it_is_not_slow():
    near, far = {"a": [100.0, 100.0], "b": [90.0]}, {"far": [95.0, 95.0]}
    measured = profile({**near, **far}, 100, size=10**7, micro_batch=None)
    slow = Network(ports={"far": Link(bytes_per_second=1e6, latency=0.0)})
    made = choose(measured.model_copy(update={"network": slow}), "allreduce")
    assert [worker.group for worker in made.workers] == ["a", "a", "b"]


def test_a_device_whose_fixed_cost_outlasts_the_update_is_left_out_with_both_numbers():
    measured = profile({"a": [100.0], "b": [100.0]}, 8, micro_batch=None)
    slow = measured.devices[1].model_copy(update={"fixed_seconds": 0.5, "sample_seconds": 0.01})
    made = plan(measured.model_copy(update={"devices": [measured.devices[0], slow]}), "allreduce")
    assert shares(made) == [8]
    assert "One sample takes b (cuda:0) 0.51 s, 0.5 s of it for the batch itself," in made.reason
    assert "the whole update takes the others 0.08 s" in made.reason


def test_every_plan_names_what_it_was_chosen_over():
    made = choose(profile(MIXED, 128, epoch=12_800), "allreduce")
    rates = {other.strategy: other.predicted_samples_per_second for other in made.alternatives}
    assert rates["alone"] == pytest.approx(400.0)
    assert rates["allreduce_even"] == pytest.approx(400.0, rel=0.02)
    assert rates["hybrid"] == pytest.approx(800.0, rel=0.02)
    assert rates["allreduce without c (cuda:1)"] < made.predicted_samples_per_second
    assert all(other.why.endswith(".") and "samples/s against" in other.why for other in made.alternatives)


def test_a_strategy_that_cannot_run_here_is_an_alternative_without_a_rate():
    made = choose(profile(MIXED, 3), "allreduce")
    (even,) = [other for other in made.alternatives if other.strategy == "allreduce_even"]
    assert even.predicted_samples_per_second is None
    assert "a global batch of 3 for 4 workers" in even.why


def test_auto_stays_exact_unless_asynchrony_pays():
    quick = profile(MIXED, 128, epoch=12_800, wire=(1e9, 1e-5))
    assert choose(quick, "auto").strategy == "allreduce"
    slow = profile(MIXED, 128, epoch=12_800, wire=(1e9, 0.1))
    made = choose(slow, "auto")
    assert made.strategy == "hybrid"
    assert made.reason.startswith("hybrid promises most.")
    assert choose(slow, "allreduce").strategy == "allreduce"
    best = max(other.predicted_samples_per_second for other in made.alternatives)
    assert made.predicted_samples_per_second >= best / (1 + WORTH)


def test_a_named_hybrid_keeps_the_files_groups_and_auto_may_not():
    measured = profile({"a": [100.0, 10.0], "b": [100.0, 10.0]}, 12, epoch=12_000, wire=(1e11, 0.0))
    assert [job.name for job in choose(measured, "hybrid").jobs] == ["a", "b"]
    made = choose(measured, "auto")
    assert [job.name for job in made.jobs] == ["a+b-1", "a+b-2"]
    assert [[worker.group for worker in job.workers] for job in made.jobs] == [["a", "b"], ["a", "b"]]
    assert "hybrid" in {other.strategy for other in made.alternatives}


def test_groups_go_on_beside_their_exchanges_with_no_more_steps_than_those_need():
    made = plan(profile(MIXED, 128, epoch=10**6, size=2 * 10**6, wire=(1e8, 0.0)), "hybrid")
    assert 8 <= made.jobs[0].local_steps < 16
    assert "an exchange is over beside them" in made.reason
    slow = profile(MIXED, 128, epoch=10**6, size=10**7, wire=(1e8, 0.0))
    made = plan(slow, "hybrid")
    exchange = 2 * 3 * 10**7 / 1e8
    for job, own in zip(made.jobs, (0.08, 0.16, 0.41), strict=True):
        assert 1 <= job.overlap <= job.local_steps
        assert job.overlap * own >= exchange or job.overlap == job.local_steps
    assert made.predicted_staleness == 1.0
    assert made.grace_seconds >= exchange / 2
    waiting = made.model_copy(update={"jobs": [job.model_copy(update={"overlap": 0}) for job in made.jobs]})
    assert sum(simulated(slow)(waiting)) < 0.75 * sum(simulated(slow)(made))


def test_a_short_epoch_bounds_local_steps():
    made = plan(profile(MIXED, 128, epoch=20_000, size=10**8, wire=(1e8, 0.0)), "hybrid")
    assert 8 <= made.jobs[0].local_steps < 64
    assert "an epoch still has 8 exchanges" in made.reason


def test_pushes_of_groups_in_step_are_one_version_whatever_their_times():
    """Each a version of its own, they would be 2n - 1 versions stale."""
    measured = profile({f"g{n}": [100.0 + 37 * n] for n in range(6)}, 96, epoch=20_000, size=10**6, wire=(1e8, 0.0))
    made = plan(measured, "hybrid")
    stale = [
        metrics.staleness(api.simulate(measured, one, scenario=Scenario(jitter=0.05))).mean
        for one in (made, made.model_copy(update={"grace_seconds": 0.0}))
    ]
    assert stale[0] <= 1.25
    assert stale[1] == pytest.approx(11, abs=1)


def test_a_crowded_server_says_how_many_ports_it_would_take():
    made = plan(profile(MIXED, 128, epoch=1000, size=10**8, wire=(1e8, 0.0)), "hybrid")
    assert made.shards == 1
    assert re.search(r"busy \d+% of the time, over the 70% .* takes 2 ports, and has 1", made.reason)
    assert "ports" not in plan(profile(MIXED, 128), "hybrid").reason


def test_the_most_that_a_split_can_gain_and_the_staleness_stand_in_the_plan():
    exact, stale = (choose(profile(MIXED, 128), strategy) for strategy in ("allreduce", "hybrid"))
    assert exact.most_gain == pytest.approx(0.01 * (400 + 200 + 100 + 100) / 4)
    assert (exact.predicted_staleness, stale.predicted_staleness) == (None, 1.0)


@pytest.mark.parametrize("strategy", ["allreduce", "hybrid"])
def test_each_worker_carries_its_part_of_the_prediction(strategy):
    measured = profile(MIXED, 128, epoch=12_800)
    made = choose(measured, strategy, simulated(measured))
    own = [worker.predicted_samples_per_second for worker in made.workers]
    assert sum(own) == pytest.approx(made.predicted_samples_per_second)
    assert own == pytest.approx([400.0, 200.0, 100.0, 100.0], rel=0.05)


def test_a_device_carries_its_table_and_its_reading_into_the_plan():
    table = (Point(samples=4, seconds=1.0), Point(samples=8, seconds=1.5))
    made = plan(profile({"a": [10.0]}, 8, table=table, loading_seconds=0.1), "allreduce")
    assert (made.workers[0].table, made.workers[0].loading_seconds) == (table, 0.1)
    assert made.predicted_samples_per_second == pytest.approx(8 / 2.3)


@pytest.mark.parametrize("count", [16, 1024])
def test_plans_of_many_devices_share_the_whole_batch(count):
    speeds = {f"g{place}": [10.0 + place % 13] * 8 for place in range(count // 8)}
    measured = profile(speeds, 16 * count, wire=(1e11, 0.0), micro_batch=None)
    made = choose(measured, "allreduce")
    assert (sum(shares(made)), len(made.workers)) == (16 * count, count)
    assert made.predicted_samples_per_second >= 0.95 * made.limit_samples_per_second


def test_the_strategy_that_only_measures_is_no_plan():
    with pytest.raises(ConfigError, match="unknown strategy 'solo'"):
        choose(profile(MIXED, 128), "solo")


@pytest.mark.parametrize(("batch", "epoch"), [(100, 101), (13, 6), (128, 12_800)])
def test_whatever_is_chosen_was_simulated(batch, epoch):
    """Also where an epoch is so short that formulas say nothing."""
    measured = profile({"a": [1000.0], "b": [10.0, 10.0], "c": [900.0]}, batch, epoch=epoch, micro_batch=None)
    price = simulated(measured)
    for strategy in ("allreduce", "hybrid", "auto"):
        made = choose(measured, strategy, price)
        assert made.predicted_samples_per_second == pytest.approx(sum(price(made)))


def test_rounding_is_offered_where_links_hold_a_hybrid_up_and_taken_by_nobody_who_did_not_ask():
    slow = Network(default=Link(bytes_per_second=2e6, latency=0.001))
    held_up = profile(MIXED, 128, epoch=12_800).model_copy(update={"network": slow, "model_bytes": 40_000_000})
    made = choose(held_up, "hybrid")
    offered = {other.strategy: other for other in made.alternatives if "on its links" in other.strategy}
    assert made.wire == "float32"
    assert list(offered) == ["hybrid, bfloat16 on its links", "hybrid, int8 on its links"]
    assert "wire: int8 in its plan takes it" in offered["hybrid, int8 on its links"].why
    rates = [one.predicted_samples_per_second or 0.0 for one in offered.values()]
    assert made.promised < rates[0] < rates[1]
    free = choose(profile(MIXED, 128, epoch=128_000), "hybrid")
    assert not any("on its links" in other.strategy for other in free.alternatives)
