"""Workers that are alike are gone through once: nothing in the trace may tell."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.observation import metrics
from paceline.ops import Compute, Lease, Program, Update
from paceline.schema.network import Link, Network
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.trace import Trace
from paceline.simulating import interpreter
from paceline.simulating.interpreter import Simulation, simulate
from paceline.simulating.scenario import Kill, Scenario, Slow, Workload
from paceline.strategies import TABLE, base
from paceline.strategies.base import Layout, Member, Strategy

CALM, SLOWED, DEADLY = Scenario(), Scenario(slow=(Slow(0, 1.0, 3.0),)), Scenario(kill=(Kill("g0", 4.0),))
SLOW_WIRE = Network(default=Link(bytes_per_second=1e4, latency=1e-3))


class Ahead(Strategy):
    """Local steps that nobody waits for: with unequal parts, like workers drift apart."""

    about = "never together"
    layout = Layout(shares="even")

    def program(self, me: Member) -> Program:
        while True:
            work = yield Lease(2 * me.batch)
            for step in work.chunks(me.batch):
                yield Compute(me.part(step), total=len(step), peers=1)
                yield Update(len(step))


def job(name: str, kinds: list[tuple[float, int]], local_steps: int = 1) -> JobPlan:
    """Workers of (speed, share); only the speeds make them different."""
    workers = [
        WorkerPlan(
            group=name, device=str(place), threads=1, share=share, solo_samples_per_second=speed, micro_batch=3,
            sample_seconds=1 / speed, fixed_seconds=0.01,
        )
        for place, (speed, share) in enumerate(kinds)
    ]  # fmt: skip
    return JobPlan(name=name, workers=workers, local_steps=local_steps, overlap=local_steps // 2)


def made(strategy: str, *jobs: JobPlan) -> Plan:
    batch = sum(sum(job.shares) for job in jobs)
    return Plan(strategy=strategy, cluster="lab", emulation="none", global_batch=batch, jobs=list(jobs))


def one_by_one(plan: Plan, workload: Workload, scenario: Scenario) -> Trace:
    return Simulation(plan, workload, scenario, merge=False).run()


def same(merged: Trace, single: Trace) -> None:
    """All but who of those alike says what is done."""
    for one, other in zip(merged.workers, single.workers, strict=True):
        assert (one.rank, one.name, one.share, one.spans, one.complete) == (
            other.rank, other.name, other.share, other.spans, other.complete,
        )  # fmt: skip
        for kind in ("epoch", "measure", "staleness"):
            assert [mark for mark in one.marks if mark.kind == kind] == [
                mark for mark in other.marks if mark.kind == kind
            ]
    assert metrics.epochs(merged) == metrics.epochs(single)
    assert interpreter.rate(merged) == interpreter.rate(single)


kinds = st.lists(st.tuples(st.sampled_from([2.0, 5.0]), st.integers(1, 4)), min_size=1, max_size=7)


@pytest.mark.parametrize("strategy", sorted(TABLE))
@settings(deadline=None, max_examples=30)
@given(st.data())
def test_a_merged_trace_is_that_of_each_worker_by_itself(strategy, data):
    groups = data.draw(st.integers(1, 3)) if base.get(strategy).layout.jobs == "groups" else 1
    plan = made(strategy, *(job(f"g{i}", data.draw(kinds), data.draw(st.integers(1, 3))) for i in range(groups)))
    workload = Workload(data.draw(st.integers(1, 80)), 2, model_bytes=2000, network=SLOW_WIRE)
    scenario = data.draw(
        st.sampled_from([Scenario(), Scenario(slow=(Slow(0, 1.0, 3.0),)), Scenario(kill=(Kill("g0", 4.0),))])
    )
    same(simulate(plan, workload, scenario), one_by_one(plan, workload, scenario))


def test_like_workers_share_their_lists_and_unlike_ones_do_not():
    plan = made("allreduce", job("g", [(5.0, 5)] * 4 + [(2.0, 2)] * 2))
    spans = [id(worker.spans) for worker in simulate(plan, Workload(2400)).workers]
    assert len(set(spans)) == 3  # the leader, the other fast ones, the slow ones
    assert len(set(spans[1:4])) == len(set(spans[4:])) == 1


def test_a_worker_that_a_scenario_touches_is_by_itself():
    plan = made("allreduce", job("g", [(5.0, 2)] * 6))
    slowed = simulate(plan, Workload(600), Scenario(slow=(Slow(3, 0.0, 2.0),)))
    assert len({id(worker.spans) for worker in slowed.workers}) == 3
    jittered = simulate(plan, Workload(600), Scenario(jitter=0.1))
    assert len({id(worker.spans) for worker in jittered.workers}) == 6


def test_unequal_parts_of_like_workers_are_told_apart():
    """Of the last 5 samples three workers get 2, 2 and 1."""
    trace = simulate(made("allreduce", job("g", [(5.0, 3)] * 4)), Workload(12 + 6))
    last = [[span.samples for span in worker.spans if span.kind == "compute"][-1] for worker in trace.workers]
    assert last == [2, 2, 1, 1]


def test_like_workers_that_would_drift_apart_are_not_merged(monkeypatch):
    monkeypatch.setitem(TABLE, "ahead", f"{__name__}:Ahead")
    plan, workload = made("ahead", job("g", [(5.0, 3)] * 4)), Workload(12 + 6)
    same(simulate(plan, workload), one_by_one(plan, workload, CALM))
    assert len({id(worker.spans) for worker in simulate(plan, workload).workers}) == 4
