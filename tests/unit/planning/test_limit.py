"""The limit: no split passes it, and where times are straight lines one reaches it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cost.compute import seconds
from paceline.planning import devices, search
from paceline.planning.limit import limit
from paceline.schema.profile import DeviceProfile, Point, Profile
from profiles import profile

TIMES = st.floats(1e-4, 1e2)


@st.composite
def device(draw: st.DrawFn) -> DeviceProfile:
    sizes = sorted(draw(st.sets(st.integers(1, 60), max_size=4)))
    return DeviceProfile(
        group="a",
        device="cpu",
        speed=None,
        threads=1,
        batch=8,
        samples_per_second=1.0,
        micro_batch=draw(st.none() | st.integers(1, 40)),
        fixed_seconds=draw(st.just(0.0) | TIMES),
        sample_seconds=draw(TIMES),
        loading_seconds=draw(st.just(0.0) | TIMES),
        table=tuple(Point(samples=size, seconds=draw(TIMES)) for size in sizes),
    )


def of(members: list[DeviceProfile], batch: int) -> Profile:
    return profile({"a": [1.0]}, batch).model_copy(update={"devices": members})


def reached(members: list[DeviceProfile], shares: list[int]) -> float:
    pairs = zip(map(devices.worker, members), shares, strict=True)
    return sum(share / seconds(worker, share) for worker, share in pairs if share)


SPLITS = st.lists(st.tuples(device(), st.integers(0, 80)), min_size=1, max_size=6)


@given(SPLITS.filter(lambda split: any(share for _, share in split)))
def test_no_split_passes_it(found: list[tuple[DeviceProfile, int]]):
    members, shares = [own for own, _ in found], [share for _, share in found]
    assert reached(members, shares) <= limit(of(members, sum(shares))) * (1 + 1e-9)


@given(st.lists(st.tuples(TIMES, TIMES), min_size=2, max_size=2), st.integers(1, 100))
def test_straight_lines_reach_it(lines: list[tuple[float, float]], batch: int):
    (a0, c0), (a1, c1) = lines
    members = [
        own.model_copy(update={"fixed_seconds": a, "sample_seconds": c, "micro_batch": None})
        for (a, c), own in zip(lines, profile({"a": [1.0, 1.0]}, batch).devices, strict=True)
    ]
    parts = (batch * place / 20_000 for place in range(20_001))
    best = max(b / (a0 + c0 * b) + (batch - b) / (a1 + c1 * (batch - b)) for b in parts)
    assert limit(of(members, batch)) == pytest.approx(best, rel=1e-3)


def test_devices_without_fixed_costs_add_up():
    assert limit(profile({"a": [400.0], "b": [100.0, 50.0]}, 64)) == pytest.approx(550.0)


def test_a_measured_batch_that_beats_the_fitted_line_counts():
    """40 samples in 0.3 s, where the line says 0.4 s."""
    own = profile({"a": [100.0]}, 40, table=(Point(samples=40, seconds=0.3),), sample_seconds=0.01, micro_batch=None)
    assert limit(own) == pytest.approx(40 / 0.3)
    assert search.plan(own, "allreduce").predicted_samples_per_second <= limit(own) * (1 + 1e-9)


def test_a_micro_batch_bounds_what_a_large_batch_can_gain():
    own = profile({"a": [100.0]}, 1000, fixed_seconds=0.1, sample_seconds=0.01, micro_batch=10)
    assert limit(own) == pytest.approx(10 / 0.2)
