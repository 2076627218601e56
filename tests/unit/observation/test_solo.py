"""How long a probed worker took, by the size of its updates."""

import pytest

from paceline.errors import WorkerError
from paceline.observation.solo import timing
from paceline.schema.trace import Mark, Span, WorkerTrace


def worker(spans: list[Span], marks: list[Mark]) -> WorkerTrace:
    return WorkerTrace(0, "g", "cpu", "lab1", 8, spans=spans, marks=marks)


def solo(*updates: tuple[int, float], reading: float = 0.0) -> WorkerTrace:
    """A worker that trains (samples, seconds) one after the other, a slow one first, before measuring starts."""
    spans, at = [Span("compute", 0.0, 2.0, 100)], 2.0
    for samples, seconds in updates:
        spans += [Span("compute", at, at + 0.9 * seconds, samples), Span("load", at + seconds, at + seconds + reading)]
        at += seconds + reading
    return worker(spans, [Mark("measure", 2.0, {})])


def points(trace: WorkerTrace) -> dict[int, float]:
    return {point.samples: pytest.approx(point.seconds) for point in timing(trace).points}


def test_each_size_of_update_after_the_measure_mark_is_a_point():
    assert points(solo((8, 9.0), (2, 3.0), (8, 9.0), (2, 3.2), (8, 1.0))) == {2: 3.1, 8: 9.0}


def test_the_time_of_reading_is_apart():
    found = timing(solo((8, 9.0), (8, 9.0), (8, 9.0), reading=4.0))
    assert [point.seconds for point in found.points] == [pytest.approx(9.0)]
    assert found.loading_seconds == pytest.approx(0.5)


def test_one_update_among_many_that_another_program_held_up_does_not_count():
    assert points(solo(*[(8, 1.0)] * 4, (8, 10.0), (8, 1.0), (8, 1.0))) == {8: 1.0}


def test_a_size_that_was_seen_once_among_many_is_left_out():
    assert points(solo(*[(8, 1.0)] * 5, (3, 7.0), (8, 1.0))) == {8: 1.0}


def test_spread_is_relative_to_the_mean_of_each_size():
    assert timing(solo((8, 1.0), (2, 5.0), (8, 1.0), (2, 5.0), (8, 1.0), (2, 5.0), (8, 1.0))).spread == pytest.approx(
        0.0
    )
    assert timing(solo((8, 0.9), (8, 1.1), (8, 0.9), (8, 1.1), (8, 1.0))).spread == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("spans", "marks"),
    [
        ([Span("compute", 0.0, 1.0, 4)], []),
        ([Span("compute", 0.0, 1.0, 4)], [Mark("measure", 2.0, {})]),
        ([Span("wait", 3.0, 4.0)], [Mark("measure", 2.0, {})]),
        ([Span("compute", 2.0, 3.0, 4)], [Mark("measure", 2.0, {})]),
    ],
    ids=["no mark", "nothing after it", "nothing computed", "no second update to end the first"],
)
def test_a_probe_that_was_too_short_says_so(spans: list[Span], marks: list[Mark]):
    with pytest.raises(WorkerError, match=r"rank 0 .*too short.*Use a longer --probe-seconds\."):
        timing(worker(spans, marks))
