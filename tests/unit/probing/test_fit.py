"""A line through measured times, against lines that are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.probing.fit import line
from paceline.schema.profile import Point

SIZES = st.lists(st.integers(1, 1000), min_size=2, max_size=6, unique=True)


def points(*measured: tuple[int, float]) -> list[Point]:
    return [Point(samples=samples, seconds=seconds, count=10) for samples, seconds in measured]


@given(SIZES, st.floats(0, 1), st.floats(1e-4, 1))
def test_points_on_a_line_give_that_line(sizes, fixed, each):
    found = line(points(*((size, fixed + each * size) for size in sizes)))
    if 0.1 * (fixed / max(sizes) + each) < each:  # or the fixed part is more than the fit lets it be
        assert found == (pytest.approx(fixed, abs=1e-6), pytest.approx(each, rel=1e-4, abs=1e-7))


@given(SIZES, st.floats(0, 1), st.floats(1e-3, 1), st.lists(st.floats(0.95, 1.05), min_size=6, max_size=6))
def test_noise_of_5_percent_moves_the_line_by_at_most_twice_that_where_it_was_measured(sizes, fixed, each, noise):
    true = {size: fixed + each * size for size in sizes}
    a, c = line(points(*((size, true[size] * off) for size, off in zip(sizes, noise, strict=False))))
    assert a >= 0
    assert c > 0
    assert min(abs(a + c * size - seconds) / seconds for size, seconds in true.items()) < 0.1


@pytest.mark.parametrize(
    ("measured", "expected"),
    [([(8, 2.0)], (0.0, 0.25)), ([(4, 4.0), (8, 0.8)], None), ([(4, 1.0), (8, 4.0)], None)],
    ids=["one size", "noise: more samples take less time", "noise: a start of less than nothing"],
)
def test_neither_samples_nor_the_start_of_a_batch_become_free_or_less(measured, expected):
    fixed, each = line(points(*measured))
    assert fixed >= 0
    assert each > 0
    assert expected is None or (fixed, each) == expected
