"""The figures read off a trace, on traces small enough to work out by hand, and coverage against brute force."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from paceline.observation import metrics
from paceline.schema.summary import EpochSummary, Staleness
from paceline.schema.trace import Mark, Span, SpanKind, Trace, WorkerTrace


def worker(rank: int = 0, spans: list[Span] | None = None, marks: list[Mark] | None = None) -> WorkerTrace:
    return WorkerTrace(rank, "g", f"cpu:{rank}", "host-a", 4, spans or [], marks or [])


def epoch(number: int, start: float, stop: float, size: int = 8) -> Mark:
    return Mark("epoch", stop, {"epoch": number, "start": start, "stop": stop, "size": size})


def done(number: int, start: int, stop: int) -> Mark:
    return Mark("done", 0.0, {"epoch": number, "start": start, "stop": stop})


def test_training_time_runs_from_the_first_start_to_the_last_stop_of_each_epoch():
    trace = Trace(
        [worker(0, marks=[epoch(0, 1.0, 3.0), epoch(1, 5.0, 6.0)]), worker(1, marks=[epoch(0, 1.5, 3.5)])],
    )
    assert metrics.stretches(trace) == [(1.0, 3.5), (5.0, 6.0)]
    assert metrics.training_seconds(trace) == 3.5


def test_time_in_which_two_epochs_overlap_counts_once():
    trace = Trace([worker(0, marks=[epoch(0, 0.0, 4.0)]), worker(1, marks=[epoch(1, 3.0, 5.0)])])
    assert metrics.training_seconds(trace) == 5.0


def test_no_epoch_gives_no_training_and_empty_figures():
    trace = Trace([worker(spans=[Span("compute", 0.0, 1.0, 4)], marks=[done(0, 0, 4)])])
    assert metrics.training_seconds(trace) == 0.0
    assert metrics.usage(trace, together=True) == [metrics.Usage(0, 0.0, 0.0, 0.0)]
    assert metrics.epochs(trace) == []


def test_what_was_trained_before_a_resume_counts_once_its_epoch_is_finished():
    before = Mark("before", 0.0, {"epoch": 0, "start": 0, "stop": 5})
    assert metrics.samples_before(Trace([worker(marks=[before])])) == 0
    assert metrics.samples_before(Trace([worker(marks=[before, epoch(0, 0.0, 1.0)])])) == 5


def test_an_epoch_of_no_length_divides_by_nothing():
    trace = Trace([worker(spans=[Span("compute", 1.0, 1.0, 4)], marks=[epoch(0, 1.0, 1.0)])])
    assert metrics.usage(trace, together=False) == [metrics.Usage(0, 0.0, 0.0, 0.0)]


def test_spans_outside_training_do_not_count_and_a_span_is_cut_at_the_end():
    spans = [
        Span("compute", 0.0, 1.0, 100),
        Span("compute", 1.0, 2.0, 4),
        Span("wait", 4.5, 6.0),
        Span("compute", 7.0, 8.0, 100),
    ]
    [used] = metrics.usage(Trace([worker(spans=spans, marks=[epoch(0, 1.0, 5.0)])]), together=False)
    assert used == metrics.Usage(4, busy=0.25, waiting=0.125, exchanging=0.0)


def two_that_reduce() -> Trace:
    marks = [epoch(0, 0.0, 10.0)]
    fast = [
        Span("compute", 0.0, 1.0, 4),
        Span("exchange", 1.0, 5.0),
        Span("compute", 5.0, 9.0, 4),
        Span("exchange", 9.0, 10.0),
    ]
    slow = [
        Span("compute", 0.0, 4.0, 4),
        Span("exchange", 4.0, 5.0),
        Span("compute", 5.0, 7.0, 4),
        Span("exchange", 7.0, 10.0),
    ]
    return Trace([worker(0, fast, marks), worker(1, slow, marks)])


def test_reading_data_and_sending_have_their_parts_and_a_worker_that_sends_late_does_not_wait():
    """The second one's all-reduce call takes 3 s to begin; the first one's sum is only late."""
    marks = [epoch(0, 0.0, 10.0)]
    first = [Span("load", 0.0, 1.0), Span("compute", 1.0, 5.0, 4), Span("send", 5.0, 5.5), Span("exchange", 5.5, 10.0)]
    second = [Span("load", 0.0, 2.0), Span("compute", 2.0, 5.0, 4), Span("send", 5.0, 8.0), Span("exchange", 8.0, 10.0)]
    assert metrics.usage(Trace([worker(0, first, marks), worker(1, second, marks)]), together=True) == [
        metrics.Usage(4, busy=0.4, loading=0.1, waiting=0.25, exchanging=0.25),
        metrics.Usage(4, busy=0.3, loading=0.2, waiting=0.0, exchanging=0.5),
    ]


def test_of_workers_that_reduce_together_the_shortest_exchange_of_each_update_is_the_transfer():
    assert metrics.usage(two_that_reduce(), together=True) == [
        metrics.Usage(8, busy=0.5, waiting=0.3, exchanging=0.2),
        metrics.Usage(8, busy=0.6, waiting=0.2, exchanging=0.2),
    ]


def test_exchanges_of_workers_that_do_not_reduce_together_stay_whole():
    fast, slow = metrics.usage(two_that_reduce(), together=False)
    assert (fast.waiting, fast.exchanging) == (0.0, 0.5)
    assert (slow.waiting, slow.exchanging) == (0.0, 0.4)


def test_the_wait_comes_before_the_transfer():
    spans = metrics.training_only(two_that_reduce(), together=True).workers[0].spans
    assert [(s.kind, s.start, s.stop) for s in spans[1:3]] == [("wait", 1.0, 4.0), ("exchange", 4.0, 5.0)]


def test_a_worker_that_died_counts_until_then_and_spoils_no_later_update():
    marks = [epoch(0, 0.0, 10.0)]
    alive = [Span("compute", 0.0, 1.0, 4), Span("exchange", 1.0, 3.0), Span("exchange", 4.0, 7.0)]
    trace = Trace([worker(0, alive, marks), worker(1, [Span("compute", 0.0, 2.0, 4), Span("exchange", 2.0, 3.0)])])
    first, dead = metrics.usage(trace, together=True)
    assert first == metrics.Usage(4, busy=0.1, waiting=0.1, exchanging=0.4)
    assert dead == metrics.Usage(4, busy=0.2, waiting=0.0, exchanging=0.1)


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(get_args(SpanKind)), st.integers(0, 9)), max_size=12),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_the_parts_never_exceed_the_whole(rows: list[list[tuple[str, int]]], together: bool):
    workers = []
    for rank, row in enumerate(rows):
        at, spans = 0, []
        for kind, length in row:
            spans.append(Span(kind, at, at + length))
            at += length
        workers.append(worker(rank, spans, [epoch(0, 0, at)]))
    for used in metrics.usage(Trace(workers), together):
        assert min(used.busy, used.loading, used.waiting, used.exchanging) >= 0
        assert used.busy + used.loading + used.waiting + used.exchanging <= 1 + 1e-9


@given(st.integers(0, 30).flatmap(lambda size: st.tuples(st.just(size), ranges_within(size))))
def test_coverage_agrees_with_counting_every_position(case: tuple[int, list[tuple[int, int]]]):
    size, ranges = case
    counts = [0] * size
    for start, stop in ranges:
        for position in range(start, stop):
            counts[position] += 1
    marks = [done(3, start, stop) for start, stop in ranges]
    half = len(marks) // 2
    trace = Trace([worker(0, marks=[*marks[:half], epoch(3, 0.0, 1.0, size)]), worker(1, marks=marks[half:])])
    assert metrics.epochs(trace) == [
        EpochSummary(
            epoch=3,
            samples=sum(counts),
            duplicates=sum(count - 1 for count in counts if count > 1),
            missing=counts.count(0),
        )
    ]


def ranges_within(size: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    pair = st.tuples(st.integers(0, size), st.integers(0, size)).map(lambda ends: (min(ends), max(ends)))
    return st.lists(pair, max_size=12)


def test_each_epoch_is_counted_by_itself():
    marks = [done(1, 0, 8), epoch(1, 2.0, 3.0), done(0, 0, 4), done(0, 2, 6), epoch(0, 0.0, 1.0)]
    assert metrics.epochs(Trace([worker(marks=marks)])) == [
        EpochSummary(epoch=0, samples=8, duplicates=2, missing=2),
        EpochSummary(epoch=1, samples=8, duplicates=0, missing=0),
    ]


def test_staleness_over_all_workers():
    seen = [[0, 2], [2, 4]]
    trace = Trace([worker(marks=[Mark("staleness", 0.0, {"versions": v}) for v in row]) for row in seen])
    assert metrics.staleness(trace) == Staleness(mean=2.0, max=4, histogram={0: 1, 2: 2, 4: 1}, groups={"g": 2.0})


def test_no_push_no_staleness():
    assert metrics.staleness(Trace([worker()])) == Staleness(mean=0.0, max=0, histogram={})


def test_a_curve_counts_training_time_and_leaves_other_names_out():
    logs = [
        Mark("log", 3.0, {"samples": 8, "accuracy": 0.5}),
        Mark("log", 3.5, {"samples": 8, "loss": 1.0}),
        Mark("log", 7.0, {"samples": 16, "accuracy": 0.75}),
    ]
    trace = Trace([worker(marks=[epoch(0, 1.0, 2.0), epoch(1, 4.0, 6.0), *logs]), worker(1, marks=logs[:1])])
    assert metrics.curve(trace) == [metrics.Point(1.0, 8, 0.5), metrics.Point(3.0, 16, 0.75)]
    assert metrics.curve(trace, "perplexity") == []


def test_a_value_logged_within_an_epoch_stands_at_that_moment():
    trace = Trace([worker(marks=[Mark("log", 2.5, {"samples": 4, "accuracy": 0.5}), epoch(0, 1.0, 5.0)])])
    assert metrics.curve(trace) == [metrics.Point(1.5, 4, 0.5)]
