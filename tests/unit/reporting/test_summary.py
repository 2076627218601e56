"""A run's figures, worked out by hand from two workers and two updates."""

from __future__ import annotations

import dataclasses
import math

import pytest

from paceline.reporting.summary import reduces_together, summarise
from paceline.schema.plan import Plan
from paceline.schema.summary import DeviceSummary, Event, Summary
from paceline.schema.trace import Mark, Span, Trace, WorkerTrace


def of(trace: Trace, plan: Plan, events: list[Event] | None = None) -> Summary:
    return summarise(trace, plan, "paceline run recipe.py", events or [], {"paceline": "0.1.0"})


def parts(device: DeviceSummary) -> tuple[float, ...]:
    return device.busy, device.loading, device.waiting, device.exchanging


def test_figures_of_a_whole_run(trace: Trace, plan: Plan):
    summary = of(trace, plan)
    assert (summary.strategy, summary.cluster, summary.emulation, summary.emulated) == (
        "allreduce",
        "two",
        "pacing",
        True,
    )
    assert (summary.samples, summary.seconds, summary.samples_per_second) == (16, 10.0, 1.6)
    assert summary.fraction_of_limit == 0.5
    assert summary.prediction_error == 0.25
    assert summary.accuracy == 0.875
    assert [(epoch.samples, epoch.duplicates, epoch.missing) for epoch in summary.epochs] == [(16, 0, 0)]
    assert (summary.command, summary.versions) == ("paceline run recipe.py", {"paceline": "0.1.0"})


def test_figures_of_each_device(trace: Trace, plan: Plan):
    fast, slow = of(trace, plan).devices
    assert (fast.rank, fast.group, fast.name, fast.share, fast.samples) == (0, "fast", "cpu:0", 4, 8)
    assert (fast.samples_per_second, fast.solo_samples_per_second) == (0.8, 2.0)
    assert parts(fast) == pytest.approx((0.4, 0.05, 0.45, 0.1))
    assert parts(slow) == pytest.approx((0.8, 0.1, 0.0, 0.1))


def test_what_was_predicted_stands_beside_what_was_reached(trace: Trace, plan: Plan):
    summary = of(trace, plan)
    assert [device.predicted_samples_per_second for device in summary.devices] == [0.9, 0.9]
    assert summary.most_gain == 1.5


def test_waits_of_a_server_strategy_are_taken_as_recorded(trace: Trace, plan: Plan):
    fast = of(trace, plan.model_copy(update={"strategy": "hybrid"})).devices[0]
    assert parts(fast) == pytest.approx((0.4, 0.05, 0.0, 0.55))


@pytest.mark.parametrize(
    ("strategy", "together"),
    [("allreduce", True), ("allreduce_even", True), ("hybrid", False), ("alone", False), ("of tomorrow", False)],
)
def test_which_strategies_reduce_together(strategy: str, together: bool):
    assert reduces_together(strategy) is together


def test_work_done_twice_lifts_no_rate(trace: Trace, plan: Plan):
    again = Mark("done", 11.0, {"epoch": 0, "start": 0, "stop": 4})
    worker = dataclasses.replace(trace.workers[0], marks=[*trace.workers[0].marks, again])
    summary = of(Trace([worker, trace.workers[1]]), plan)
    assert (summary.samples, summary.epochs[0].duplicates) == (16, 4)


def test_a_run_without_a_finished_epoch_has_figures_of_nothing(plan: Plan):
    cut_short = WorkerTrace(0, "fast", "cpu:0", "host-a", 4, [Span("compute", 0.0, 1.0, 4)], [], complete=False)
    summary = of(Trace([cut_short]), plan)
    assert (summary.samples, summary.seconds, summary.samples_per_second) == (0, 0.0, 0.0)
    assert summary.fraction_of_limit == 0.0
    assert (summary.prediction_error, summary.accuracy, summary.epochs) == (None, None, [])


def test_a_worker_that_died_still_shows_what_it_did(trace: Trace, plan: Plan):
    spans = trace.workers[1].spans[:2]
    dead = dataclasses.replace(trace.workers[1], spans=spans, marks=[], complete=False)
    summary = of(Trace([trace.workers[0], dead]), plan)
    assert [device.samples for device in summary.devices] == [8, 4]
    assert summary.epochs[0].missing == 8


def test_no_limit_and_no_prediction_leave_the_ratios_out(trace: Trace, plan: Plan):
    bare = plan.model_copy(update={"limit_samples_per_second": None, "predicted_samples_per_second": None})
    summary = of(trace, bare)
    assert (summary.fraction_of_limit, summary.prediction_error) == (None, None)


def test_a_worker_the_plan_does_not_know_has_no_solo_speed(trace: Trace, plan: Plan):
    stranger = dataclasses.replace(trace.workers[1], rank=7)
    assert of(Trace([trace.workers[0], stranger]), plan).devices[1].solo_samples_per_second is None


def test_events_are_put_in_order_of_time(trace: Trace, plan: Plan):
    late, early = Event(at=9.0, kind="fault", what="b"), Event(at=1.0, kind="join", what="a")
    assert of(trace, plan, [late, early]).events == [early, late]


def test_a_summary_is_written_and_read_back_whole(trace: Trace, plan: Plan, tmp_path):
    summary = of(trace, plan)
    summary.write(tmp_path / "summary.json")
    assert Summary.read(tmp_path / "summary.json") == summary


def test_a_run_that_diverged_has_an_accuracy_that_is_no_number(trace: Trace, plan: Plan, tmp_path):
    marks = [*trace.workers[0].marks, Mark("log", 14.0, {"samples": 16, "accuracy": math.nan})]
    summary = of(Trace([dataclasses.replace(trace.workers[0], marks=marks)]), plan)
    summary.write(tmp_path / "summary.json")
    assert Summary.read(tmp_path / "summary.json").accuracy is None


def changed(before: list[int], shares: list[int], slowness: list[float]) -> Mark:
    values = {"update": 44, "before": before, "shares": shares, "gain": 0.64, "slowness": slowness}
    return Mark("shares", 7.0, values)


def test_a_change_of_shares_is_an_event_with_its_reason(trace: Trace, plan: Plan):
    marks = [*trace.workers[0].marks, changed([4, 4], [6, 2], [1.0, 4.96])]
    (event,) = of(Trace([dataclasses.replace(trace.workers[0], marks=marks), trace.workers[1]]), plan).events
    assert (event.at, event.kind) == (7.0, "replan")
    assert event.what == (
        "update 44: shares 4, 4 -> 6, 2, as rank 1 takes 5 times its planned seconds; an update's computing is to be "
        "64 % faster"
    )
