"""The order of exchanges as a trace has it, whoever wrote it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harness
from paceline.errors import ConfigError
from paceline.observation import metrics
from paceline.ops import Range
from paceline.running.virtual.schedule import Course, schedules
from paceline.schema.plan import Plan
from paceline.simulating import interpreter
from paceline.simulating.scenario import Kill, Scenario, Workload

SIZE, EPOCHS = 100, 2


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    jobs = draw(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), min_size=1, max_size=4))
    steps = draw(st.lists(st.integers(1, 4), min_size=len(jobs), max_size=len(jobs)))
    return harness.plan("hybrid", *([harness.worker(share) for share in job] for job in jobs), local_steps=steps)


@settings(deadline=None, max_examples=30)
@given(plans())
def test_each_push_finds_the_version_that_the_one_before_it_made(plan: Plan) -> None:
    trace = interpreter.simulate(plan, Workload(SIZE, EPOCHS, model_bytes=100_000))
    rounds = [exchange for one in schedules(plan, trace) for exchange in one.exchanges]
    pushes = [exchange for exchange in rounds if exchange.work]
    assert sorted(exchange.found for exchange in pushes) == list(range(len(pushes)))
    assert all(exchange.pulled > exchange.found for exchange in pushes)
    for epoch in range(EPOCHS):
        parts = sorted((e.work for e in pushes if e.epoch == epoch), key=lambda part: part.start)
        assert parts[0].start == 0
        assert parts[-1].stop == SIZE
        assert all(one.stop == following.start for one, following in pairwise(parts))
    assert sum(metrics.staleness(trace).histogram.values()) == len(pushes)


def test_updates_begin_when_their_computing_does() -> None:
    plan = harness.plan("allreduce", [harness.worker(4), harness.worker(2)])
    (schedule,) = schedules(plan, interpreter.simulate(plan, Workload(20, 2)))
    assert len(schedule.starts) == 2 * 4  # updates of 6, 6, 6 and 2 samples
    assert schedule.starts == sorted(schedule.starts)
    assert schedule.starts[0] == 0
    assert schedule.stops[0] == schedule.starts[4]


def test_an_epoch_of_another_size_or_one_more_is_refused() -> None:
    plan = harness.plan("alone", [harness.worker(4)])
    course = Course(plan, lambda size, epochs: interpreter.simulate(plan, Workload(size, epochs)))
    course.begin(0, 0, 20, 2)
    with pytest.raises(ConfigError, match="epoch 1 has 21 samples; expected 20"):
        course.begin(0, 1, 21, 2)
    with pytest.raises(ConfigError, match=r"epoch 2 began after run.epochs\(2\)"):
        course.begin(0, 2, 20, 3)


def test_a_group_without_samples_pulls_and_pushes_nothing() -> None:
    plan = harness.plan("hybrid", [harness.worker(4)], [harness.worker(4)])
    one, other = schedules(plan, interpreter.simulate(plan, Workload(4)))
    assert [bool(exchange.work) for exchange in (*one.exchanges, *other.exchanges)].count(True) == 1
    assert one.exchanges[0].work == Range(0, 4)
    assert {one.exchanges[-1].pulled, other.exchanges[-1].pulled} == {1}


def test_a_run_in_which_a_group_dies_is_refused() -> None:
    plan = harness.plan("hybrid", [harness.worker(4, group="a")], [harness.worker(4, group="b")])
    trace = interpreter.simulate(plan, Workload(40), Scenario(kill=(Kill("b", 0.01),)))
    with pytest.raises(ConfigError, match="group 'b' does not live to the end"):
        schedules(plan, trace)
