"""Transfers that share wires: each wire's bytes/s go to the transfers on it by max-min fairness.

wire of 3        a: |== 1 ==|== 1.5 ==|            a and b are on the wire of 3 together, b and c on the wire of 1.5
wire of 1.5      b: |== 1 ==|                      a gets what b, held back elsewhere, does not use
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any, Literal

import simpy

from paceline.cost.network import Way

Steps = Generator[simpy.Event, Any, Any]  # a stretch of virtual time
Wire = tuple[str, Literal["in", "out"]]  # one direction of it
TOGETHER = 1e-12  # transfers whose ends lie closer than this part of what is left of them end together


class _Flow:
    """Bytes on their way."""

    def __init__(self, wires: list[Wire], size: float, done: simpy.Event) -> None:
        self.wires, self.left, self.rate, self.done = wires, size, 0.0, done


class Wires:
    """All wires of a cluster. Rates are dealt anew whenever a transfer begins or ends.

    Source: progressive filling, Bertsekas & Gallager, Data Networks, 1992, 6.5.2.
    """

    def __init__(self, clock: simpy.Environment) -> None:
        self._clock = clock
        self._rates: dict[Wire, float] = {}
        self._flows: dict[_Flow, None] = {}  # in the order in which they began
        self._moved_at = 0.0
        self._deals, self._to_deal = 0, False

    def transfer(self, way: Way, direction: Literal["in", "out"], size: int) -> Steps:
        """Send ``size`` bytes; takes the way's latency and, for the bytes, as long as others leave room for."""
        if way.latency:
            yield self._clock.timeout(way.latency)
        wires: list[Wire] = [(name, direction) for name, rate in way.wires if rate < float("inf")]
        if not wires or not size:
            return
        self._rates.update(((name, direction), rate) for name, rate in way.wires)
        flow = _Flow(wires, size, self._clock.event())
        self._flows[flow] = None
        self._deal_soon()
        try:
            yield flow.done
        finally:
            if self._flows.pop(flow, flow) is None:  # its sender died
                self._deal_soon()

    def _deal_soon(self) -> None:
        """Once for all that begins or ends at this moment."""
        if not self._to_deal:
            self._to_deal = True
            self._clock.timeout(0).callbacks.append(self._deal)

    def _deal(self, _: simpy.Event) -> None:
        self._to_deal = False
        self._move()
        self._deals += 1
        if not self._flows:
            return
        self._fill()
        ends = {flow: flow.left / flow.rate for flow in self._flows}
        first = min(ends.values())
        ended = [flow for flow, seconds in ends.items() if seconds <= first * (1 + TOGETHER)]
        self._clock.timeout(first).callbacks.append(partial(self._end, self._deals, ended))

    def _end(self, deal: int, ended: list[_Flow], _: simpy.Event) -> None:
        if deal != self._deals:
            return  # rates have changed since
        self._move()
        for flow in ended:
            if flow in self._flows:
                del self._flows[flow]
                flow.done.succeed()
        self._deal_soon()

    def _move(self) -> None:
        """Bytes that have gone since rates were dealt."""
        seconds, self._moved_at = self._clock.now - self._moved_at, self._clock.now
        for flow in self._flows:
            flow.left = max(0.0, flow.left - flow.rate * seconds)

    def _fill(self) -> None:
        """The wire that can give least gives that to each on it; they leave the others' wires; and so on."""
        on: dict[Wire, list[_Flow]] = {}
        for flow in self._flows:
            flow.rate = 0.0
            for wire in flow.wires:
                on.setdefault(wire, []).append(flow)
        room = {wire: self._rates[wire] for wire in on}
        waiting = {wire: len(flows) for wire, flows in on.items()}
        while waiting:
            tight = min(waiting, key=lambda wire: room[wire] / waiting[wire])
            share = room[tight] / waiting[tight]
            for flow in on[tight]:
                if flow.rate:
                    continue
                flow.rate = share
                for wire in flow.wires:
                    room[wire] -= share
                    waiting[wire] -= 1
            waiting = {wire: count for wire, count in waiting.items() if count}
