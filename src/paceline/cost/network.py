"""Seconds on the wire."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wire:
    """A link as the simulator sees it. Defaults: gloo on loopback, measured with `paceline bench link`."""

    bytes_per_second: float = 1.2e9
    latency: float = 3e-4

    def transfer(self, size: int) -> float:
        """Seconds for ``size`` bytes in one direction."""
        return self.latency + size / self.bytes_per_second

    def ring(self, size: int, workers: int) -> float:
        """Seconds of a ring all-reduce of ``size`` bytes: each worker sends 2 (n-1)/n of it.

        Source: Patarasuk & Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 2009.
        """
        if workers < 2:
            return 0.0
        return 2 * (workers - 1) * self.latency + 2 * (workers - 1) / workers * size / self.bytes_per_second
