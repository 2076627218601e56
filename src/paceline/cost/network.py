"""Seconds on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.schema.network import Link, Network


@dataclass(frozen=True, slots=True)
class Way:
    """What a transfer passes, in order: wires by name, each carrying so many bytes/s in one direction, shared by all
    transfers on it. ``latency``: the largest of its wires', added once."""

    wires: tuple[tuple[str, float], ...]
    latency: float

    @property
    def link(self) -> Link:
        """The way with nobody else on it."""
        return Link(bytes_per_second=min(rate for _, rate in self.wires), latency=self.latency)


def transfer(link: Link, size: int) -> float:
    """Seconds for ``size`` bytes in one direction."""
    return link.latency + size / link.bytes_per_second


def ring(link: Link, size: int, workers: int) -> float:
    """Seconds of a ring all-reduce of ``size`` bytes over ``link``, its slowest wire: 2 (n-1) steps of size/n bytes.

    Source: Patarasuk & Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 2009.
    """
    if workers < 2:
        return 0.0
    return 2 * (workers - 1) * (link.latency + size / workers / link.bytes_per_second)


def slowest(network: Network, groups: Sequence[str]) -> Link:
    """The narrowest and the longest of a ring's wires; of one over several groups what was measured, if it was.

    Args:
        groups: of each worker, in the order of the ring, which goes back from the last to the first.
    """
    if network.across is not None and len(set(groups)) > 1:
        return network.across
    links = [_direct(network, *pair) for pair in dict.fromkeys(zip(groups, [*groups[1:], groups[0]], strict=True))]
    return Link(
        bytes_per_second=min(link.bytes_per_second for link in links), latency=max(link.latency for link in links)
    )


def to_server(network: Network, group: str, shards: int = 1) -> Way:
    """From a group to the parameter server; the way back passes the same wires in the other direction.

    Each transfer is cut evenly over the shards' ports, which therefore carry together what one port of so many times
    the width would.
    """
    wires: list[tuple[str, Link]] = []
    if network.server_at != group:
        wires = _between(network, group, network.server_at)
        if group in network.ports or not wires:
            wires = [(group, network.ports.get(group, network.default)), *wires]
    port = network.server or network.default
    rates = [*((name, link.bytes_per_second) for name, link in wires), ("the server", shards * port.bytes_per_second)]
    return Way(tuple(rates), max(link.latency for link in [port, *(link for _, link in wires)]))


def _direct(network: Network, one: str, other: str) -> Link:
    """Between two devices of these groups, with nobody else on the way."""
    if one == other:
        return network.inside.get(one, network.default)
    said = [link for _, link in _between(network, one, other)]
    said += [network.ports[name] for name in (one, other) if name in network.ports]
    links = said or [network.default]
    return Link(
        bytes_per_second=min(link.bytes_per_second for link in links), latency=max(link.latency for link in links)
    )


def _between(network: Network, one: str, other: str | None) -> list[tuple[str, Link]]:
    """The wire between two groups, if the network names it."""
    return [
        (f"{wire.groups[0]} to {wire.groups[1]}", wire) for wire in network.between if set(wire.groups) == {one, other}
    ]
