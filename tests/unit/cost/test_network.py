"""Wires: which ones a transfer passes, and how long a ring takes on the slowest of its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cost.network import ring, slowest, to_server, transfer
from paceline.schema.network import Between, Link, Network

FAST, MIDDLE, SLOW = (Link(bytes_per_second=rate, latency=1 / rate) for rate in (100.0, 10.0, 1.0))


def wire(one: str, other: str, link: Link) -> Between:
    return Between(groups=(one, other), **link.model_dump())


@given(st.integers(2, 50), st.integers(0, 10**9))
def test_a_ring_takes_two_rounds_of_equal_pieces(workers, size):
    """Each worker sends 2 (n-1)/n of the bytes, and no ring is faster than that."""
    link = Link(bytes_per_second=1e6, latency=0.0)
    assert ring(link, size, workers) == pytest.approx(2 * (workers - 1) / workers * size / 1e6)


def test_a_ring_of_one_is_free_and_each_step_of_others_pays_the_latency():
    assert ring(MIDDLE, 10, 1) == 0.0
    assert ring(MIDDLE, 0, 3) == pytest.approx(4 * 0.1)


def test_a_transfer_pays_its_latency_once():
    assert transfer(MIDDLE, 30) == pytest.approx(0.1 + 3.0)


def test_a_ring_inside_a_group_knows_only_the_wires_inside():
    network = Network(default=MIDDLE, inside={"a": FAST}, ports={"a": SLOW})
    assert slowest(network, ["a", "a"]) == FAST
    assert slowest(network, ["b", "b"]) == MIDDLE


def test_a_ring_over_groups_is_as_fast_as_its_slowest_wire_and_the_order_decides_which_it_has():
    """a-b and c-a are fast; only a ring with d beside b crosses the slow wire."""
    network = Network(default=FAST, between=(wire("b", "d", SLOW), wire("c", "d", MIDDLE)))
    assert slowest(network, ["a", "a", "b", "c", "d"]) == MIDDLE
    assert slowest(network, ["a", "b", "d", "c"]) == SLOW


def test_what_an_all_reduce_over_all_was_measured_to_take_says_more_than_its_wires():
    network = Network(default=FAST, ports={"a": SLOW}, inside={"a": FAST}, across=MIDDLE)
    assert slowest(network, ["a", "b"]) == MIDDLE
    assert slowest(network, ["a", "a"]) == FAST


def test_a_groups_own_port_bounds_its_way_to_others():
    network = Network(default=FAST, ports={"b": SLOW})
    assert slowest(network, ["a", "c"]) == FAST
    assert slowest(network, ["a", "b"]) == SLOW


def test_a_wire_that_is_named_says_more_than_the_default():
    assert slowest(Network(default=SLOW, between=(wire("a", "b", FAST),)), ["a", "b"]) == FAST


def test_the_way_to_the_server_is_port_wire_port():
    network = Network(default=FAST, ports={"b": MIDDLE}, between=(wire("b", "a", SLOW),), server=FAST, server_at="a")
    assert to_server(network, "b").wires == (("b", 10.0), ("b to a", 1.0), ("the server", 100.0))
    assert to_server(network, "b").link == SLOW


def test_the_group_where_the_server_stands_has_only_the_servers_port():
    network = Network(default=SLOW, between=(wire("b", "a", SLOW),), server=FAST, server_at="a")
    assert to_server(network, "a").wires == (("the server", 100.0),)
    assert to_server(network, "a").latency == FAST.latency


def test_without_a_word_a_group_and_the_server_have_a_default_port_each():
    assert to_server(Network(default=MIDDLE), "a").wires == (("a", 10.0), ("the server", 10.0))


def test_shards_widen_the_servers_port():
    assert to_server(Network(default=MIDDLE), "a", shards=3).wires[-1] == ("the server", 30.0)
