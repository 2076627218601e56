"""The time of a batch: a line, stairs of accumulation, and what was measured in between."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cost.compute import curve, seconds
from paceline.errors import ConfigError
from paceline.schema.plan import WorkerPlan
from paceline.schema.profile import Point

SECONDS = st.floats(1e-4, 1e3)


def worker(**values) -> WorkerPlan:
    return WorkerPlan(
        group="a",
        device="cpu",
        threads=1,
        share=0,
        **{"solo_samples_per_second": 10.0, "sample_seconds": 0.1, **values},
    )


def points(*pairs: tuple[int, float]) -> tuple[Point, ...]:
    return tuple(Point(samples=samples, seconds=spent) for samples, spent in pairs)


def test_a_batch_takes_a_fixed_part_and_a_part_for_each_sample():
    own = worker(fixed_seconds=0.5)
    assert [seconds(own, samples) for samples in (0, 1, 10)] == pytest.approx([0.0, 0.6, 1.5])
    assert seconds(worker(sample_seconds=None), 5) == pytest.approx(0.5)


def test_each_micro_batch_pays_the_fixed_part():
    own = worker(fixed_seconds=0.5, micro_batch=4)
    assert [seconds(own, samples) for samples in (4, 5, 8, 9)] == pytest.approx([0.9, 1.5, 1.8, 2.4])


def test_between_measured_batches_lies_their_line():
    own = worker(table=points((10, 2.0), (20, 4.0)))
    assert [seconds(own, samples) for samples in (10, 15, 20)] == pytest.approx([2.0, 3.0, 4.0])
    assert seconds(own, 0) == 0.0


def test_below_them_lies_the_line_from_the_fixed_part_and_above_them_each_sample_adds_its_part():
    table = points((10, 2.0), (20, 4.0))
    assert seconds(worker(table=table), 5) == pytest.approx(1.0)
    assert seconds(worker(fixed_seconds=1.0, table=table), 5) == pytest.approx(1.5)
    assert seconds(worker(fixed_seconds=9.0, table=table), 5) == pytest.approx(2.0)
    assert seconds(worker(table=table), 100) == pytest.approx(4.0 + 80 * 0.1)


def test_micro_batches_are_looked_up_by_their_own_size_and_larger_measurements_say_nothing():
    own = worker(micro_batch=10, table=points((5, 1.0), (10, 1.5), (40, 99.0)))
    assert [seconds(own, samples) for samples in (5, 10, 20, 25)] == pytest.approx([1.0, 1.5, 3.0, 4.0])


def test_reading_comes_on_top_for_every_sample():
    assert seconds(worker(loading_seconds=0.3), 10) == pytest.approx(4.0)
    assert seconds(worker(loading_seconds=0.3, micro_batch=5, table=points((5, 1.0))), 10) == pytest.approx(5.0)


@given(
    st.lists(st.tuples(st.integers(1, 40), SECONDS), max_size=5, unique_by=lambda point: point[0]),
    st.none() | st.integers(1, 20),
    st.floats(0, 10),
    SECONDS,
    st.floats(0, 1),
)
def test_more_samples_never_take_less_time(table, cap, fixed, each, loading):
    own = curve(
        worker(
            table=points(*sorted(table)), micro_batch=cap, fixed_seconds=fixed, sample_seconds=each,
            loading_seconds=loading,
        )
    )  # fmt: skip
    assert all(less <= more * (1 + 1e-9) for less, more in pairwise(map(own, range(60))))


def test_a_worker_that_was_not_measured_is_refused():
    with pytest.raises(ConfigError, match="has no speed") as refused:
        seconds(worker(solo_samples_per_second=None), 1)
    assert "paceline probe" in refused.value.remedy
