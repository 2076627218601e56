"""Workers that slow down in a simulated run of allreduce: shares follow, as in a real one."""

from __future__ import annotations

import itertools
import statistics

import pytest

from paceline.observation import metrics
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.trace import Mark, Trace
from paceline.simulating.interpreter import FREE, simulate
from paceline.simulating.scenario import Scenario, Slow, Workload

SPEEDS = (400.0, 200.0, 100.0, 100.0)
SHARES = (128, 64, 32, 32)  # an update takes 0.32 s
SLOWED = 40  # the first update in which rank 0 is slow all along


def plan(strategy: str = "allreduce") -> Plan:
    workers = [
        WorkerPlan(group="g", device="cpu", threads=1, share=share, solo_samples_per_second=speed)
        for speed, share in zip(SPEEDS, SHARES, strict=True)
    ]
    jobs = [JobPlan(name="all", workers=workers)]
    return Plan(strategy=strategy, cluster="lab", emulation="none", global_batch=sum(SHARES), jobs=jobs)


def run(scenario: Scenario, updates: int = 120, strategy: str = "allreduce") -> Trace:
    return simulate(plan(strategy), Workload(epoch_samples=sum(SHARES) * updates, network=FREE), scenario)


def update_seconds(trace: Trace) -> list[float]:
    starts = [span.start for span in trace.workers[0].spans if span.kind == "compute"]
    return [after - before for before, after in itertools.pairwise(starts)]


def changes(trace: Trace) -> list[Mark]:
    return [mark for worker in trace.workers for mark in worker.marks if mark.kind == "shares"]


SLOW = Scenario(slow=(Slow(rank=0, at=0.32 * SLOWED - 0.1, factor=5.0),))


def test_a_worker_slowed_5_times_in_mid_run_is_back_at_95_percent_of_the_new_bound_in_20_updates():
    bound = sum(SHARES) / (SPEEDS[0] / 5 + sum(SPEEDS[1:]))
    took = update_seconds(run(SLOW))
    assert took[SLOWED - 2] == pytest.approx(0.32)
    assert took[SLOWED] == pytest.approx(5 * 0.32)
    assert all(seconds <= bound / 0.95 for seconds in took[SLOWED + 20 :])


def test_equal_shares_stay_equal_shares():
    took = update_seconds(run(SLOW, strategy="allreduce_even"))
    assert took[-1] == pytest.approx(took[SLOWED])


def test_the_change_is_marked_once_with_its_reason_and_every_sample_is_trained_once():
    trace = run(SLOW)
    (change,) = changes(trace)
    assert change.values["before"] == SHARES
    assert sum(change.values["shares"]) == sum(SHARES)
    assert change.values["slowness"] == pytest.approx((5.0, 1.0, 1.0, 1.0))
    assert SLOWED <= change.values["update"] <= SLOWED + 5
    (epoch,) = metrics.epochs(trace)
    assert (epoch.duplicates, epoch.missing) == (0, 0)


def test_jitter_of_a_tenth_changes_hardly_anything_in_1000_updates_and_costs_nothing():
    jitter = Scenario(jitter=0.1, seed=3)
    following, still = run(jitter, 1000), run(jitter, 1000, "allreduce_even")
    assert len(changes(following)) <= 2
    assert statistics.fmean(update_seconds(following)) <= 1.01 * statistics.fmean(update_seconds(still))
