"""When a reduction that overlaps backward is done: against the recursion, and in the cases that are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cost import overlap
from paceline.cost.network import ring
from paceline.cost.overlap import FORWARD, Reduction, buckets, reduction
from paceline.reduction import buckets as real
from paceline.schema.network import Link

MIB = 1 << 20
SLOW = Link(bytes_per_second=MIB, latency=0.0)


def recursion(ready: list[list[float]], taus: list[float]) -> float:
    """D_k = max(D_{k-1}, max_i r_ik) + tau_k."""
    done = 0.0
    for k, tau in enumerate(taus):
        done = max(done, *(peer[k] for peer in ready)) + tau
    return done


@given(
    st.integers(0, 200 * MIB),
    st.integers(2, 9),
    st.floats(1e5, 1e10),
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=4),
)
def test_the_end_is_that_of_the_recursion(size, workers, rate, peers):
    """Each peer starts at its own time and computes its own time."""
    link = Link(bytes_per_second=rate, latency=1e-3)
    made = reduction(size, workers, link)
    taus = [ring(link, one, workers) for one in buckets(size)]
    ready = [[start + full * compute for full in made.full] for start, compute in peers]
    assert max(start + made.seconds(compute) for start, compute in peers) == pytest.approx(recursion(ready, taus))


def test_buckets_are_as_large_as_those_of_the_reducer():
    assert (overlap.FIRST_BYTES, overlap.MORE_BYTES) == (real.FIRST_BYTES, real.MORE_BYTES)
    assert list(buckets(60 * MIB)) == [MIB, 25 * MIB, 25 * MIB, 9 * MIB]
    assert list(buckets(MIB)) == [MIB]
    assert list(buckets(0)) == [0]


def test_buckets_fill_evenly_over_backward_and_the_last_one_at_its_end():
    assert reduction(2 * MIB, 2, SLOW).full == pytest.approx((FORWARD + (1 - FORWARD) / 2, 1.0))


def test_a_long_backward_hides_all_but_the_last_bucket():
    """26 MiB over two peers is 26 s on this wire; the last bucket, 25 s of them, leaves when backward ends."""
    assert reduction(26 * MIB, 2, SLOW).seconds(3000.0) == pytest.approx(3025.0)


def test_a_slow_wire_starts_with_the_first_bucket_and_is_busy_from_there():
    first = FORWARD + (1 - FORWARD) / 26
    assert reduction(26 * MIB, 2, SLOW).seconds(0.3) == pytest.approx(0.3 * first + 26.0)


def test_only_the_last_micro_batch_hides_anything():
    made = reduction(26 * MIB, 2, SLOW)
    assert made.seconds(12.0, last=3.0) == pytest.approx(9.0 + made.seconds(3.0))


def test_nothing_to_compute_leaves_the_ring_alone():
    assert reduction(26 * MIB, 2, SLOW).seconds(0.0) == pytest.approx(26.0)
    assert reduction(26 * MIB, 1, SLOW) == Reduction(pytest.approx((FORWARD + (1 - FORWARD) / 26, 1.0)), (0.0, 0.0))


def test_of_a_huge_model_several_buckets_count_as_one_and_nothing_is_lost():
    for size in (10**12, 10**15):
        assert sum(buckets(size)) == size
        assert len(buckets(size)) <= 1002
    coarse, taus = reduction(10**12, 4, SLOW), [ring(SLOW, one, 4) for one in buckets(10**12)]
    assert coarse.left[0] == pytest.approx(sum(taus))
