"""Transfers that share wires: who gets how much, and when each is done."""

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cost.network import Way
from paceline.simulating.network import Wires

NAMES = "abc"


def ends(rates: dict[str, float], transfers: list[tuple[float, str, int]], latency: float = 0.0) -> list[float]:
    """When each transfer (start, the wires it passes, bytes) is done."""
    clock = simpy.Environment()
    wires, done = Wires(clock), [0.0] * len(transfers)

    def send(number: int, start: float, names: str, size: int):
        yield clock.timeout(start)
        yield from wires.transfer(Way(tuple((name, rates[name]) for name in names), latency), "out", size)
        done[number] = clock.now

    for number, transfer in enumerate(transfers):
        clock.process(send(number, *transfer))
    clock.run()
    return done


def test_one_transfer_has_the_narrowest_of_its_wires_and_pays_the_latency_once():
    assert ends({"a": 10, "b": 2}, [(0, "ab", 20)], latency=0.5) == [10.5]


def test_two_share_a_wire_and_one_has_it_all_when_the_other_is_done():
    assert ends({"a": 10}, [(0, "a", 20), (0, "a", 60)]) == [4.0, 8.0]


def test_a_newcomer_slows_what_is_under_way():
    assert ends({"a": 10}, [(0, "a", 40), (2, "a", 40)]) == [6.0, 8.0]


def test_what_one_cannot_use_goes_to_the_others():
    """On a wire of 9, one is held to 1 by another wire; the two others get 4 each."""
    assert ends({"a": 9, "b": 1}, [(0, "ab", 10), (0, "a", 40), (0, "a", 40)]) == pytest.approx([10.0, 10.0, 10.0])


def test_the_two_directions_of_a_wire_do_not_meet():
    clock = simpy.Environment()
    wires = Wires(clock)
    way = Way((("a", 1.0),), 0.0)
    both = [clock.process(wires.transfer(way, direction, 5)) for direction in ("in", "out")]
    clock.run(until=clock.all_of(both))
    assert clock.now == 5.0


def test_nothing_to_send_and_endless_wires_take_the_latency_only():
    assert ends({"a": 1}, [(0, "a", 0)], latency=2.0) == [2.0]
    assert ends({"a": float("inf")}, [(0, "a", 10)], latency=2.0) == [2.0]


def test_a_sender_that_dies_leaves_its_part_to_the_others():
    clock = simpy.Environment()
    wires, way = Wires(clock), Way((("a", 10.0),), 0.0)

    def doomed():
        try:
            yield from wires.transfer(way, "in", 100)
        except simpy.Interrupt:
            return

    def kill(process):
        yield clock.timeout(4)
        process.interrupt()

    clock.process(kill(clock.process(doomed())))
    other = clock.process(wires.transfer(way, "in", 60))
    clock.run(until=other)
    assert clock.now == 8.0


transfers = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(["a", "b", "c", "ab", "bc", "abc"]), st.integers(1, 100)),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(st.tuples(*[st.integers(1, 20)] * 3), transfers)
def test_no_wire_carries_more_than_it_can_and_the_last_byte_waits_for_a_full_wire(widths, sent):
    """The bounds of every schedule that wastes nothing: each alone, and all of a wire's bytes since its first start."""
    rates = dict(zip(NAMES, widths, strict=True))
    done = ends(rates, sent)
    for (start, names, size), end in zip(sent, done, strict=True):
        assert end - start >= size / min(rates[name] for name in names) * (1 - 1e-9)
    for name in NAMES:
        own = [(start, size, end) for (start, names, size), end in zip(sent, done, strict=True) if name in names]
        if own:
            busy = max(end for _, _, end in own) - min(start for start, _, _ in own)
            assert sum(size for _, size, _ in own) <= rates[name] * busy * (1 + 1e-9)
    assert max(done) <= 20 + sum(size / min(rates[name] for name in names) for _, names, size in sent) * (1 + 1e-9)


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(1, 100))
def test_equal_transfers_on_one_wire_end_together(count, size):
    assert ends({"a": 7}, [(0, "a", size)] * count) == pytest.approx([count * size / 7] * count)
