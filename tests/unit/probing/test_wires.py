"""From what workers measured of the wires to the network that plans go by."""

import pytest

from paceline.probing.network import network, pairs
from paceline.schema.network import Network
from paceline.schema.plan import WorkerPlan
from paceline.schema.trace import Mark, Trace, WorkerTrace

RATE, LATENCY = 1e8, 1e-3


def through(size: int, rate: float = RATE) -> float:
    return LATENCY + size / rate


def ring(size: int, workers: int) -> float:
    return 2 * (workers - 1) * through(size / workers)


def traced(groups: str, rates: dict[tuple[int, int], float] | None = None) -> tuple[Trace, list[WorkerPlan]]:
    """Workers of one-letter groups whose wires are all alike, but for those of ``rates``."""
    workers = [WorkerPlan(group=group, device="cpu", threads=1, share=1) for group in groups]
    traces = []
    for rank, group in enumerate(groups):
        told = {
            "all": [[8, ring(8, len(groups))], [80_000, ring(80_000, len(groups))]],
            "group": [[8, ring(8, n)], [80_000, ring(80_000, n)]] if (n := groups.count(group)) > 1 else None,
            "pairs": [
                [other, 8, through(8, rate), 80_000, through(80_000, rate)]
                for other in range(rank + 1, len(groups))
                for rate in [(rates or {}).get((rank, other), RATE)]
            ],
            "serving": 0.001 * (rank + 1),
        }
        traces.append(WorkerTrace(rank, group, "cpu", "lab1", 1, marks=[Mark("wires", 0.0, told)]))
    return Trace(traces), workers


def same(link) -> tuple[object, object]:
    return pytest.approx(link.bytes_per_second, rel=1e-6), pytest.approx(link.latency, rel=1e-6)


def test_wires_that_are_alike_come_out_as_they_are_whatever_was_measured_on_them():
    found = network(*traced("aab"))
    for link in (found.default, found.across, found.inside["a"], found.ports["a"], found.ports["b"]):
        assert same(link) == (RATE, LATENCY)
    assert set(found.inside) == {"a"}


def test_a_groups_port_is_as_fast_as_the_fastest_of_its_wires_to_others():
    found = network(*traced("abc", {(0, 1): 1e7, (0, 2): 2e7, (1, 2): 5e7}))
    assert {name: round(port.bytes_per_second) for name, port in found.ports.items()} == {"a": 2e7, "b": 5e7, "c": 5e7}


def test_each_pair_of_devices_has_its_wire():
    found = pairs(traced("abc", {(1, 2): 5e7})[0])
    assert {pair.ranks: round(pair.bytes_per_second) for pair in found} == {(0, 1): RATE, (0, 2): RATE, (1, 2): 5e7}


def test_noise_that_makes_more_bytes_faster_makes_no_infinite_wire():
    trace, workers = traced("ab")
    trace.workers[0].marks[0].values["pairs"] = [[1, 8, 0.002, 80_000, 0.001]]
    assert network(trace, workers).default.bytes_per_second == pytest.approx(8e7)


def test_one_worker_has_no_wires():
    assert network(Trace([WorkerTrace(0, "a", "cpu", "lab1", 1)]), traced("a")[1]) == Network()


def test_the_servers_own_work_is_that_of_the_middle_host():
    assert network(*traced("abc")).server_seconds == pytest.approx(0.002)
