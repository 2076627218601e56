"""What simulated workers share: their gate, the cuts of their updates, and the server with its link and ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import simpy

from paceline.cost.network import transfer
from paceline.ops import Range
from paceline.schema.network import Link
from paceline.schema.plan import JobPlan
from paceline.server.ledger import Ledger
from paceline.strategies.base import Layout, Member

Steps = Generator[simpy.Event, Any, Any]  # a stretch of virtual time


class Gate:
    """Opens each time all of its parties are in front of it."""

    def __init__(self, clock: simpy.Environment, parties: int) -> None:
        self._clock, self.parties = clock, parties
        self._opens, self._here = clock.event(), 0

    def arrive(self) -> simpy.Event:
        """Be in front of it; the event happens when it opens."""
        opens = self._opens
        self._here += 1
        self._open_if_complete()
        return opens

    def leave(self) -> None:
        """One party will not come any more."""
        self.parties -= 1
        self._open_if_complete()

    def _open_if_complete(self) -> None:
        if 0 < self._here == self.parties:
            self._opens.succeed()
            self._opens, self._here = self._clock.event(), 0


class Server:
    """The parameter server's part in time: one link, one way each way, and one ledger for all groups.

    The k-th lease of a group is asked for by its leader and heard by all of its members.
    """

    def __init__(self, clock: simpy.Environment, wire: Link, model_bytes: int) -> None:
        self._clock, self._seconds = clock, transfer(wire, model_bytes)
        self._inward, self._outward = simpy.Resource(clock), simpy.Resource(clock)
        self._ledger = Ledger()
        self._changed = clock.event()
        self._answers: dict[tuple[str, int], simpy.Event] = defaultdict(clock.event)
        self.version = 0

    def ask(self, group: str, number: int, want: int, batch: int, epoch: int, size: int) -> Steps:
        """Take the group's lease ``number``; waits while all that is left is leased to others."""
        self._ledger.open(epoch, size)
        while (granted := self._ledger.take(group, want, batch, epoch)) is None:
            yield self._changed
        self._answers[group, number].succeed(granted)

    def hear(self, group: str, number: int) -> Generator[simpy.Event, Any, Range]:
        """The group's lease ``number``."""
        granted: Range = yield self._answers[group, number]
        return granted

    def push(self, group: str, pulled: int) -> Generator[simpy.Event, Any, int]:
        """Send what was learned since version ``pulled``; returns its staleness."""
        with self._inward.request() as turn:
            yield turn
            yield self._clock.timeout(self._seconds)
        staleness = self.version - pulled
        self.version += 1
        self._ledger.settle(group)
        self._changed.succeed()
        self._changed = self._clock.event()
        return staleness

    def pull(self) -> Generator[simpy.Event, Any, int]:
        """Receive the newest weights; returns their version."""
        with self._outward.request() as turn:
            yield turn
            version = self.version
            yield self._clock.timeout(self._seconds)
        return version


@dataclass(frozen=True, slots=True)
class Peer(Member):
    """A member that shares with its peers what is the same for all: with n of them, n sums and n cuts of n shares
    would make one update of 10,000 devices take minutes."""

    batch: int = 0
    cuts: dict[Range, list[Range]] = field(default_factory=dict)

    def part(self, work: Range) -> Range:
        if work not in self.cuts:
            self.cuts.clear()
            self.cuts[work] = work.cut(self.shares)
        return self.cuts[work][self.position]


def members(layout: Layout, job: JobPlan) -> list[Member]:
    """The workers of ``job``, as their programs see them."""
    if not layout.reduces:
        return [Member((worker.share,), 0, job.local_steps) for worker in job.workers]
    shares, batch, cuts = job.shares, sum(job.shares), dict[Range, list[Range]]()
    return [Peer(shares, place, job.local_steps, batch, cuts) for place in range(len(shares))]
