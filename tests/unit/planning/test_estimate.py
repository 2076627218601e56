"""The planner's formulas against the simulator, and the bounds on local steps and ports."""

import pytest

from paceline.api import foreseeing
from paceline.planning.estimate import FULL, rates, server_load, shards
from paceline.planning.search import plan
from paceline.schema.network import Link, Network
from profiles import MIXED, profile

WIRES = [(1.2e9, 3e-4), (1e8, 1e-3), (1e7, 0.0)]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("strategy", ["allreduce", "allreduce_even", "alone"])
def test_exact_strategies_reach_what_the_formula_says_within_one_percent(strategy, wire):
    measured = profile(MIXED, 128, epoch=128 * 50, size=4 * 10**6, wire=wire, fixed_seconds=0.01)
    made = plan(measured, strategy)
    assert sum(foreseeing._price(measured, made)) == pytest.approx(sum(rates(measured, made)), rel=0.01)


@pytest.mark.parametrize("wire", WIRES)
def test_groups_reach_what_the_formula_says_but_for_the_end_of_the_epoch(wire):
    measured = profile(MIXED, 128, epoch=128 * 800, size=4 * 10**6, wire=wire)
    made = plan(measured, "hybrid")
    crowded = wire == WIRES[-1]  # groups that share a busy port neither keep in step nor out of it
    near = pytest.approx(sum(rates(measured, made)), rel=0.08 if crowded else 0.03)
    assert sum(foreseeing._price(measured, made)) == near


def test_a_servers_load_is_its_bytes_over_its_port_and_tells_the_ports_it_needs():
    measured = profile({"a": [100.0], "b": [100.0]}, 200, size=10**6, wire=(float("inf"), 0.0), epoch=10**6)
    narrow = measured.model_copy(update={"network": Network(server=Link(bytes_per_second=1e6, latency=0.0))})
    made = plan(measured, "hybrid")
    exchanges = 2 / made.jobs[0].local_steps
    assert server_load(measured, made) == 0.0
    assert server_load(narrow, made) == pytest.approx(exchanges, rel=0.3)
    assert [shards(load) for load in (0.0, FULL, 1.0, 7.0)] == [1, 1, 2, 10]
