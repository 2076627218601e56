"""Ranges: cutting one among shares and chunking it lose no sample, invent none and keep the order."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.ops import Compute, Lease, Range

unhurried = settings(deadline=None)
starts = st.integers(0, 10**6)
lengths = st.integers(0, 5000)
shares = st.lists(st.integers(0, 300), min_size=1, max_size=9).filter(any)


def positions(pieces: list[Range]) -> list[int]:
    return [position for piece in pieces for position in range(piece.start, piece.stop)]


@unhurried
@given(starts, lengths, shares)
def test_a_cut_gives_one_piece_a_share_that_together_are_the_range_in_order(start, length, shares):
    pieces = Range(start, start + length).cut(shares)
    assert len(pieces) == len(shares)
    assert positions(pieces) == list(range(start, start + length))


@unhurried
@given(starts, shares)
def test_a_whole_update_is_cut_into_exactly_the_shares(start, shares):
    pieces = Range(start, start + sum(shares)).cut(shares)
    assert [len(piece) for piece in pieces] == shares


@unhurried
@given(lengths, shares)
def test_a_smaller_range_is_cut_in_proportion_to_less_than_one_sample(length, shares):
    for piece, share in zip(Range(0, length).cut(shares), shares, strict=True):
        assert abs(len(piece) * sum(shares) - length * share) < sum(shares)


@unhurried
@given(lengths, shares)
def test_a_worker_with_no_share_gets_no_sample(length, shares):
    pieces = Range(0, length).cut([0, *shares, 0])
    assert len(pieces[0]) == len(pieces[-1]) == 0


def test_what_is_left_over_goes_to_the_largest_remainder_and_then_to_the_lower_index():
    assert [len(piece) for piece in Range(0, 7).cut([5, 3, 2])] == [4, 2, 1]  # 3.5 2.1 1.4
    assert [len(piece) for piece in Range(0, 2).cut([1, 1, 1, 1])] == [1, 1, 0, 0]


def test_an_empty_range_is_false_and_is_cut_into_empty_pieces():
    empty = Range(9, 9)
    assert not empty
    assert empty.cut([3, 1]) == [empty, empty]
    assert empty.chunks(4) == []


@unhurried
@given(starts, lengths, st.integers(1, 400))
def test_chunks_are_the_range_in_order_and_only_the_last_may_be_smaller(start, length, size):
    chunks = Range(start, start + length).chunks(size)
    assert positions(chunks) == list(range(start, start + length))
    assert all(len(chunk) == size for chunk in chunks[:-1])
    assert all(0 < len(chunk) <= size for chunk in chunks)


@pytest.mark.parametrize(
    ("operation", "field"), [(Range(0, 1), "stop"), (Lease(4), "samples"), (Compute(Range(0, 1), 1, 1), "total")]
)
def test_operations_are_frozen(operation, field):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(operation, field, 7)
