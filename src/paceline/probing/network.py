"""The wires as a probe measured them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from paceline.schema.network import Link, Network
from paceline.schema.plan import WorkerPlan
from paceline.schema.profile import Pair
from paceline.schema.trace import Mark, Trace


def network(trace: Trace, workers: Sequence[WorkerPlan]) -> Network:
    """What plans go by: of all-reduces the wire that a ring would have to be made of to take as long, and of each
    group's port the fastest of its wires to other groups."""
    marks = dict(_marks(trace))
    if not marks:
        return Network()
    groups = [worker.group for worker in workers]
    inside = {
        group: _of_a_ring(mark.values["group"], groups.count(group))
        for rank, mark in marks.items()
        if mark.values["group"] and groups.index(group := groups[rank]) == rank
    }
    found = pairs(trace)
    ports = {}
    for group in dict.fromkeys(groups):
        own = [pair for pair in found if (groups[pair.ranks[0]] == group) != (groups[pair.ranks[1]] == group)]
        if own:
            fastest = max(own, key=lambda pair: pair.bytes_per_second)
            ports[group] = Link(bytes_per_second=fastest.bytes_per_second, latency=fastest.latency)
    usual = sorted(found, key=lambda pair: pair.bytes_per_second)[len(found) // 2]
    default = Link(bytes_per_second=usual.bytes_per_second, latency=usual.latency)
    return Network(
        default=default,
        inside=inside,
        ports=ports,
        across=_of_a_ring(marks[0].values["all"], len(groups)),
        server_seconds=statistics.median(mark.values["serving"] for mark in marks.values()),
    )


def pairs(trace: Trace) -> tuple[Pair, ...]:
    """The wires between devices."""
    return tuple(
        Pair(ranks=(rank, int(other)), **_line(*points).model_dump())
        for rank, mark in _marks(trace)
        for other, *points in mark.values["pairs"]
    )


def _marks(trace: Trace) -> Iterator[tuple[int, Mark]]:
    return ((worker.rank, mark) for worker in trace.workers for mark in worker.marks if mark.kind == "wires")


def _of_a_ring(points: Sequence[Sequence[float]], workers: int) -> Link:
    """The wire of which ``2 (n - 1)`` steps of an n-th of the bytes take as long as was measured."""
    steps = 2 * (workers - 1)
    (small, first), (large, second) = points
    return _line(small / workers, first / steps, large / workers, second / steps)


def _line(small: float, first: float, large: float, second: float) -> Link:
    """Latency and bandwidth through two transfers; without a latency where noise hides it."""
    if second <= first or large <= small:
        return Link(bytes_per_second=large / second, latency=0.0)
    rate = (large - small) / (second - first)
    return Link(bytes_per_second=rate, latency=max(first - small / rate, 0.0))
