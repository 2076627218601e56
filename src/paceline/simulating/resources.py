"""What simulated workers share: their gate, their shares of an update, and the server with its ways and its ledger."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Generator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import simpy

from paceline.cost.network import to_server
from paceline.cost.rebalance import Balancer, Change
from paceline.ops import Lease, Range
from paceline.schema.network import Network
from paceline.schema.plan import JobPlan, Plan, on_wire
from paceline.schema.trace import Mark
from paceline.server.ledger import Ledger
from paceline.server.paces import Paces
from paceline.server.rounds import Pulled
from paceline.server.window import Window
from paceline.simulating.network import Steps, Wires


class Gate:
    """Opens each time all of its parties are in front of it."""

    def __init__(self, clock: simpy.Environment, parties: int) -> None:
        self._clock, self.parties = clock, parties
        self._opens, self._here, self._until = clock.event(), 0, 0.0

    def arrive(self, until: float = 0.0) -> simpy.Event:
        """Be in front of it. The event happens when it opens; its value is the latest ``until`` of all parties."""
        opens = self._opens
        self._here += 1
        self._until = max(self._until, until)
        self._open_if_complete()
        return opens

    def leave(self) -> None:
        """One party will not come any more."""
        self.parties -= 1
        self._open_if_complete()

    def _open_if_complete(self) -> None:
        if 0 < self._here == self.parties:
            self._opens.succeed(self._until)
            self._opens, self._here, self._until = self._clock.event(), 0, 0.0


class Beside:
    """What goes on beside a worker's program on its link to the server, one after another."""

    def __init__(self, clock: simpy.Environment) -> None:
        self._clock = clock
        self._waiting: deque[Steps] = deque()
        self._process: simpy.Process | None = None

    def begin(self, work: Steps) -> None:
        """Do it once all is done that has begun before."""
        self._waiting.append(work)
        if self._process is None or not self._process.is_alive:
            self._process = self._clock.process(self._work())

    def finish(self) -> Steps:
        """Wait for all that has begun."""
        if self._process is not None:
            yield self._process

    def stop(self) -> None:
        """The worker has died."""
        if self._process is not None and self._process.is_alive:
            self._process.interrupt()

    def _work(self) -> Steps:
        try:
            while self._waiting:
                yield from self._waiting.popleft()
        except simpy.Interrupt:
            return


class Shares:
    """The present shares of a job. After each update all of its workers look at them, the first to come for all."""

    def __init__(self, job: JobPlan, fixed: bool) -> None:
        self._job, self._fixed, self._updates = job, fixed, 0
        self._slowness = np.zeros(len(job.workers))

    def took(self, places: Sequence[int], slowness: float) -> None:
        """The workers at ``places`` took so many times what is planned; 0 where that says nothing."""
        self._slowness[list(places)] = slowness

    def after(self, update: int) -> tuple[tuple[int, ...], Change | None]:
        """The shares after that many updates, and what has changed since the last one."""
        if update > self._updates:
            self._updates, self._change = update, self._balancer.observe(self._slowness)
        return self._balancer.shares, self._change

    @cached_property
    def _balancer(self) -> Balancer:
        return Balancer(self._job.workers, self._fixed)


class Server:
    """The parameter server's part in time: the ways to it, and one ledger for all groups.

    The k-th lease of a job is asked for by its leader and heard by all of its members. A job is known by its name.
    """

    def __init__(self, clock: simpy.Environment, network: Network, plan: Plan, model_bytes: int) -> None:
        self._clock, self._network, self._shards = clock, network, plan.shards
        self._bytes = on_wire(model_bytes, plan.wire)
        self._wires = Wires(clock)
        self._ledger, self._alive = Ledger(), {job.name for job in plan.jobs}
        self._changed, self._lock = clock.event(), simpy.Resource(clock)
        self._answers: dict[tuple[str, int], simpy.Event] = defaultdict(clock.event)
        self._window, self._paces = Window(plan.grace_seconds), Paces(not plan.rebalance, plan.most_ahead)
        self._pushed: dict[str, tuple[int, int]] = {}  # job -> staleness and pushes found, of its last push
        self._samples = self._pushes = 0
        self.marks: list[Mark] = []

    def ask(self, job: str, number: int, lease: Lease, batch: int, epoch: int, size: int) -> Steps:
        """Take the job's lease ``number``; waits while all that is left is leased, unless it asks ahead."""
        self._ledger.open(epoch, size)
        self._window.begin(epoch, self._alive)
        want = self._paces.fit(job, lease.samples, batch)
        while (granted := self._granted(job, want, batch, epoch, lease.ahead)) is None and not lease.ahead:
            self._rest(job)
            yield self._changed
        if granted:
            self._window.train(job)
            if not lease.ahead:
                self._paces.begin(job, self._clock.now)
        elif not lease.ahead:
            self._rest(job)
        self._answers[job, number].succeed(granted or Range(size, size))

    def _granted(self, job: str, want: int, batch: int, epoch: int, ahead: bool) -> Range | None:
        if not self._ledger.over and not self._paces.may_begin(job, self._window.training):
            return None
        return self._ledger.take(job, want, batch, epoch, ahead)

    def hear(self, job: str, number: int) -> Generator[simpy.Event, Any, Range]:
        """The job's lease ``number``."""
        granted: Range = yield self._answers[job, number]
        return granted

    def push(self, job: str, group: str, basis: int) -> Generator[simpy.Event, Any, int]:
        """Send what was learned from version ``basis`` from the leader's ``group``; returns its staleness."""
        yield from self._wires.transfer(to_server(self._network, group, self._shards), "in", self._bytes)
        yield from self._work()
        staleness = self._window.number - basis
        self._pushed[job] = staleness, self._pushes
        self._pushes += 1
        self._window.push(job, self._clock.now)
        if (work := self._ledger.settle(job)) is not None:
            self._paces.push(job, len(work), self._clock.now)
            values = {"epoch": self._ledger.epoch, "start": work.start, "stop": work.stop}
            self.marks.append(Mark("done", self._clock.now, values))
            self._samples += len(work)
        self._change()
        return staleness

    def pull(self, job: str, group: str) -> Generator[simpy.Event, Any, Pulled]:
        """Receive the weights that are newest when asked for, or once the window is closed that the job's push is in;
        returns what they are."""
        yield from self._work()
        while job in self._window:
            due = self._clock.timeout(self._window.due - self._clock.now)
            yield self._changed | due
            if due.processed and job in self._window:
                self._window.close()
                self._change()
        staleness, found = self._pushed.get(job, (0, 0))
        pulled = Pulled(self._window.number, self._samples, staleness, self._pushes, found)
        yield from self._wires.transfer(to_server(self._network, group, self._shards), "out", self._bytes)
        return pulled

    def _work(self) -> Steps:
        """The server's own part of a push or a pull."""
        if self._network.server_seconds:
            with self._lock.request() as turn:
                yield turn
                yield self._clock.timeout(self._network.server_seconds / 2)

    def lose(self, job: str) -> None:
        """The job is dead: what it has leased is free again."""
        self._ledger.release(job)
        self._alive.discard(job)
        self._window.rest(job)
        self._paces.forget(job)
        self._change()

    def _rest(self, job: str) -> None:
        """It has nothing to train: no push of it is awaited."""
        if self._window.rest(job):
            self._change()

    def _change(self) -> None:
        self._changed.succeed()
        self._changed = self._clock.event()
