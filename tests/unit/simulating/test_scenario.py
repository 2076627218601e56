"""Jitter, slow workers and deaths in virtual time."""

import statistics

import pytest

from paceline.errors import ConfigError
from paceline.observation import metrics
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.simulating.interpreter import FREE, rate, simulate
from paceline.simulating.scenario import Kill, Pace, Scenario, Slow, Workload


def plan(strategy: str, *groups: str, steps: int = 1) -> Plan:
    """Groups of one worker each, a second for their 10 samples; in one job if the strategy has but one."""
    workers = [
        WorkerPlan(group=name, device="cpu", threads=1, share=10, solo_samples_per_second=10.0) for name in groups
    ]
    if strategy == "hybrid":
        jobs = [JobPlan(name=worker.group, workers=[worker], local_steps=steps) for worker in workers]
    else:
        jobs = [JobPlan(name="all", workers=workers)]
    return Plan(strategy=strategy, cluster="lab", emulation="none", global_batch=10 * len(groups), jobs=jobs)


def computes(trace, rank):
    return [span.stop - span.start for span in trace.workers[rank].spans if span.kind == "compute"]


def test_jitter_has_the_mean_and_the_spread_that_were_asked_for():
    drawn = [pace.seconds(0.0, 2.0) for pace in [Pace(Scenario(jitter=0.3), 0, spread=0.0)] for _ in range(4000)]
    assert statistics.mean(drawn) == pytest.approx(2.0, rel=1e-9)
    assert statistics.stdev(drawn) == pytest.approx(0.6, rel=0.03)


def test_jitter_shows_no_luck_in_few_computes_though_their_order_is_drawn():
    pace = Pace(Scenario(jitter=0.5), 0, spread=0.0)
    first, second = ([pace.seconds(0.0, 1.0) for _ in range(50)] for _ in range(2))
    assert statistics.mean(first) == pytest.approx(1.0, rel=1e-9)
    assert first != second
    assert sorted(first) == sorted(second)


def test_jitter_is_the_same_for_a_seed_and_differs_between_seeds_and_workers():
    def run(seed):
        return simulate(plan("allreduce", "a", "b"), Workload(400), Scenario(jitter=0.1, seed=seed))

    assert run(1) == run(1)
    assert computes(run(1), 0) != computes(run(2), 0)
    assert computes(run(1), 0) != computes(run(1), 1)


def test_a_worker_slows_down_in_the_middle_of_a_compute():
    """Half of the third second is done at full speed, the rest takes 5 times as long."""
    trace = simulate(plan("allreduce", "a", "b"), Workload(100, network=FREE), Scenario(slow=(Slow(1, 2.5, 5.0),)))
    assert computes(trace, 0) == [1.0] * 5
    assert computes(trace, 1) == [1.0, 1.0, pytest.approx(3.0), pytest.approx(5.0), pytest.approx(5.0)]


def test_a_worker_can_get_well_again():
    pace = Pace(Scenario(slow=(Slow(0, 1.0, 4.0), Slow(0, 5.0, 1.0))), 0, spread=0.0)
    assert [pace.seconds(start, 2.0) for start in (0.0, 1.0, 6.0)] == [5.0, 5.0, 2.0]


def test_a_dead_groups_samples_are_trained_by_the_others():
    """It dies with an open lease, in the middle of its first compute."""
    trace = simulate(plan("hybrid", "a", "b", "c"), Workload(600, network=FREE), Scenario(kill=(Kill("b", 0.5),)))
    (epoch,) = metrics.epochs(trace)
    assert (epoch.samples, epoch.duplicates, epoch.missing) == (600, 0, 0)
    assert [worker.complete for worker in trace.workers] == [True, False, True]
    assert [mark for mark in trace.workers[1].marks if mark.kind in ("done", "epoch")] == []
    assert rate(trace) == pytest.approx(20.0)


@pytest.mark.parametrize("at", [0.0, 1.0, 1.5, 2.0, 2.5, 7.3])
def test_whenever_a_group_dies_each_sample_counts_once(at):
    """Before, while and after it pushes; with wires on which that takes as long as computing."""
    slow = FREE.model_copy(update={"default": FREE.default.model_copy(update={"bytes_per_second": 20.0})})
    workload = Workload(300, model_bytes=10, network=slow)
    trace = simulate(plan("hybrid", "a", "b", "c", steps=2), workload, Scenario(kill=(Kill("a", at),)))
    (epoch,) = metrics.epochs(trace)
    assert (epoch.samples, epoch.duplicates, epoch.missing) == (300, 0, 0)


def test_updates_are_counted_at_the_first_worker_that_lives():
    trace = simulate(
        plan("hybrid", "a", "b"), Workload(10**6, updates=5, network=FREE), Scenario(kill=(Kill("a", 2.5),))
    )
    assert len(computes(trace, 1)) == 5


def test_all_that_reduce_together_stop_and_the_trace_shows_what_they_had():
    trace = simulate(plan("allreduce", "a", "b"), Workload(200, network=FREE), Scenario(kill=(Kill("b", 3.5),)))
    assert [worker.complete for worker in trace.workers] == [False, False]
    assert metrics.training_seconds(trace) == 3.5
    (epoch,) = metrics.epochs(trace)
    assert (epoch.samples, epoch.missing) == (60, 140)


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        (Scenario(jitter=-0.1), "jitter of -0.1"),
        (Scenario(slow=(Slow(2, 0.0, 2.0),)), "rank 2"),
        (Scenario(slow=(Slow(0, 0.0, 0.0),)), "factor above 0"),
        (Scenario(slow=(Slow(0, -1.0, 2.0),)), "second -1"),
        (Scenario(kill=(Kill("bb", 1.0),)), "Did you mean 'b'"),
        (Scenario(kill=(Kill("b", float("nan")),)), "second nan"),
    ],
)
def test_what_cannot_be_is_refused(scenario, said):
    with pytest.raises(ConfigError, match=said):
        simulate(plan("allreduce", "a", "b"), Workload(100), scenario)
