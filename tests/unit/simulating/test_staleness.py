"""How old the weights are that groups of very different speed learn from, and that all of them contribute."""

from __future__ import annotations

from paceline import api
from paceline.schema.network import Link, Network
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.trace import Trace
from paceline.simulating.interpreter import FREE, simulate
from paceline.simulating.scenario import Workload
from profiles import profile

BATCH = 10


def run(seconds: tuple[float, float], updates: int) -> Trace:
    """Two groups that meet the server after each update, and wait for it."""
    jobs = [
        JobPlan(
            name=name,
            workers=[WorkerPlan(group=name, device="0", threads=1, share=BATCH, solo_samples_per_second=BATCH / own)],
        )
        for name, own in zip(("fast", "slow"), seconds, strict=True)
    ]
    made = Plan(
        strategy="hybrid", cluster="lab", emulation="none", global_batch=2 * BATCH, jobs=jobs, rebalance=False
    )  # fmt: skip
    return simulate(made, Workload(updates * BATCH, network=FREE))


def staleness(trace: Trace, rank: int) -> list[int]:
    return [mark.values["versions"] for mark in trace.workers[rank].marks if mark.kind == "staleness"]


def test_c046_the_slow_group_is_four_versions_behind_and_the_fast_one_meets_it_once_in_four():
    trace = run((1.0, 4.0), updates=100)
    assert set(staleness(trace, 1)[1:]) == {4}  # but for the first, where it is a tie who comes first
    assert staleness(trace, 0)[:40] == [0, 0, 0, 1] * 10


def test_c048_a_group_that_is_ten_times_slower_contributes_though_a_pull_takes_two_of_its_steps():
    """As it is planned: it goes on beside its exchange."""
    measured = profile({"fast": [10.0], "slow": [1.0]}, 20, epoch=100_000)
    step = 10 / 1.0  # seconds of its half of the batch
    network = Network(default=FREE.default, ports={"slow": Link(bytes_per_second=1e6 / (2 * step), latency=0.0)})
    known = measured.model_copy(update={"network": network, "model_bytes": 1_000_000})
    trace = api.simulate(known, api.plan(known, "hybrid"))
    until = 0.9 * min(worker.spans[-1].stop for worker in trace.workers)
    done = [sum(span.samples for span in worker.spans if span.stop <= until) for worker in trace.workers]
    assert done[1] / sum(done) >= 0.5 / 11
