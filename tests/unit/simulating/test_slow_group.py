"""A group of a hybrid that becomes slow: it is leased less, others go on, and it can be told to hold them back."""

from __future__ import annotations

import statistics

import pytest

from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.trace import SpanKind, Trace
from paceline.simulating.interpreter import FREE, simulate
from paceline.simulating.scenario import Scenario, Slow, Workload

BATCH, STEPS, ROUNDS = 10, 8, 60
SLOWED = 10.0  # seconds: a round takes 0.8


def run(factor: float = 5.0, **changes: object) -> Trace:
    """Three groups in step, of which the last one becomes slow."""
    jobs = [
        JobPlan(
            name=name,
            local_steps=STEPS,
            workers=[WorkerPlan(group=name, device="0", threads=1, share=BATCH, solo_samples_per_second=100.0)],
        )
        for name in "abc"
    ]
    made = Plan(strategy="hybrid", cluster="lab", emulation="none", global_batch=3 * BATCH, jobs=jobs)
    size = 3 * BATCH * STEPS * ROUNDS
    scenario = Scenario(slow=(Slow(rank=2, at=SLOWED, factor=factor),))
    return simulate(made.model_copy(update=changes), Workload(epoch_samples=size, network=FREE), scenario)


def leases(trace: Trace, rank: int) -> list[int]:
    """Samples of each of its exchanges, in order."""
    pulls = [mark.values for mark in trace.workers[rank].marks if mark.kind == "pull"]
    return [own["stop"] - own["start"] for own in pulls if own["stop"] > own["start"]]


def staleness(trace: Trace, rank: int) -> list[int]:
    return [mark.values["versions"] for mark in trace.workers[rank].marks if mark.kind == "staleness"]


def waiting(trace: Trace, rank: int, kind: SpanKind = "wait") -> float:
    return sum(span.stop - span.start for span in trace.workers[rank].spans if span.kind == kind)


def end(trace: Trace) -> float:
    return max(worker.spans[-1].stop for worker in trace.workers)


def test_it_gets_what_it_can_train_meanwhile_and_is_as_stale_as_before():
    trace = run()
    assert leases(trace, 2)[0] == BATCH * STEPS
    assert statistics.median(leases(trace, 2)[-10:-2]) <= 2 * BATCH  # 8 / 5 of a step
    assert statistics.median(leases(trace, 0)) == BATCH * STEPS
    assert statistics.median(staleness(trace, 2)[-10:]) <= 3


def test_a_plan_that_must_stay_leaves_it_stale():
    fixed = run(rebalance=False)
    assert set(leases(fixed, 2)[:-2]) == {BATCH * STEPS}
    assert max(staleness(fixed, 2)) >= 8
    assert end(run()) < end(fixed)


def test_every_sample_is_trained_once_whatever_was_leased():
    trace = run()
    assert sum(sum(leases(trace, rank)) for rank in range(3)) == 3 * BATCH * STEPS * ROUNDS


@pytest.mark.parametrize("most", [1, 4])
def test_a_bound_holds_the_others_back_and_says_how_long(most: int):
    free, bound = run(rebalance=False), run(rebalance=False, most_ahead=most)
    assert max(staleness(bound, 2)) <= min(2 * (most + 1), max(staleness(free, 2)) - 1)
    assert waiting(bound, 0) > 10 * max(0.1, waiting(free, 0))
