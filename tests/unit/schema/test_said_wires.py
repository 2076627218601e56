"""Wires that a cluster file says, over those that were measured."""

from pathlib import Path

from paceline import api
from paceline.schema.network import Between, Link, Network

MEASURED = Network(
    default=Link(bytes_per_second=5e8, latency=1e-3),
    inside={"a": Link(bytes_per_second=3e9), "b": Link(bytes_per_second=2e9)},
    ports={"b": Link(bytes_per_second=1e8, latency=2e-3)},
    across=Link(bytes_per_second=7e7),
    server=Link(bytes_per_second=9e8),
)


def test_what_is_not_said_of_a_wire_is_as_it_was_measured():
    said = Network.model_validate({"default": {"bytes_per_second": 1e7}, "inside": {"a": {"latency": 0.5}}})
    found = said.over(MEASURED)
    assert found.default == Link(bytes_per_second=1e7, latency=1e-3)
    assert found.inside == {"a": Link(bytes_per_second=3e9, latency=0.5), "b": MEASURED.inside["b"]}
    assert (found.ports, found.server) == (MEASURED.ports, MEASURED.server)


def test_a_ring_that_was_measured_says_nothing_about_wires_that_are_said():
    assert Network(server_at="a").over(MEASURED).across == MEASURED.across
    assert Network(between=(Between(groups=("a", "b")),)).over(MEASURED).across is None
    assert Network(ports={"a": Link()}).over(MEASURED).across is None


def test_another_way_of_emulating_leaves_unsaid_what_was_not_said(tmp_path: Path):
    file = tmp_path / "lab.yaml"
    file.write_text(
        "version: 1\nname: lab\nemulation: pacing\nnetwork: {inside: {a: {bytes_per_second: 1.0e+6}}}\n"
        "groups:\n  - {name: a, speed: 0.5}\n  - {name: b, speed: 0.5}\n"
    )
    network = api.cluster(file, "cgroups").network
    assert network is not None
    assert network.over(MEASURED).default == MEASURED.default
    assert network.over(MEASURED).across == MEASURED.across
