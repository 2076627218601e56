"""A worker's program in virtual time.

            own compute            the slowest peer          its reduction ends
worker 0    |------ compute ------|.... exchange ....................|  next operation
worker 1    |------ compute -------------------------|.. exchange ...|
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import simpy

from paceline.cost.compute import curve, last_micro_batch
from paceline.cost.network import transfer
from paceline.cost.overlap import Reduction
from paceline.ops import Adopt, Barrier, Compute, Lease, Operation, Pull, Push, Range, Rebalance, Update
from paceline.schema.network import Link
from paceline.schema.plan import JobPlan
from paceline.schema.trace import Mark, Span, SpanKind, WorkerTrace
from paceline.server.ledger import Replica
from paceline.server.rounds import Pulled, Round, Rounds
from paceline.simulating.alike import Alike, DifferError
from paceline.simulating.network import Steps
from paceline.simulating.resources import Beside, Gate, Server, Shares
from paceline.simulating.scenario import Pace

if TYPE_CHECKING:
    from paceline.simulating.interpreter import Simulation

OF_ONE = frozenset({"done", "staleness", "shares"})  # marks of a whole job, or of all that are alike together


class Worker:
    """One worker's program in motion, and the trace it leaves; or those of several that are alike."""

    def __init__(
        self,
        simulation: Simulation,
        job: JobPlan,
        first: int,
        alike: Alike,
        gate: Gate,
        shares: Shares,
        ring: tuple[Link, Reduction],
    ) -> None:
        self.job, self.ranks = job, [first + place for place in alike.places]
        self._plan = job.workers[alike.places[0]]
        self._seconds = curve(self._plan)
        self._simulation, self._clock = simulation, simulation.clock
        self._alike, self._gate, self._shares, (self._wire, self._reduction) = alike, gate, shares, ring
        self._pace = Pace(simulation.scenario, self.ranks[0], self._plan.spread)
        self._program = simulation.strategy.program(alike.member)
        self._ledger, self._leases = Replica(), 0
        self._epoch, self._over = -1, True
        self._started: float | None = None
        self._rounds = Rounds()
        self._link = Beside(self._clock)
        self._pulled: Pulled | None = None
        self._unpushed = 0  # samples trained since the last push
        self._parts: list[Range] = []
        self._uneven: list[tuple[int, list[int]]] = []
        self.updates, self.alive = 0, True
        self.operations: list[Operation] = []
        self.spans: list[Span] = []
        self.marks: list[Mark] = []
        self._runs: dict[type[Any], Callable[[Any], Steps]] = {
            Lease: self._lease,
            Compute: self._compute,
            Update: self._update,
            Rebalance: self._rebalance,
            Push: self._push,
            Pull: self._pull,
            Adopt: self._adopt,
            Barrier: self._barrier,
        }

    def live(self) -> Steps:
        """From the first epoch to the end of the last one, or to its death."""
        try:
            operation = next(self._program)
            while not isinstance(operation, Lease) or self._in_epoch():
                self.operations.append(operation)
                answer = yield from self._runs[type(operation)](operation)
                operation = self._program.send(answer)
            self._gate.leave()
        except simpy.Interrupt:
            self.alive = False
            self._link.stop()

    def count_unpushed(self) -> None:
        """The simulation ends here: what the group has trained counts, though the server has not heard of it."""
        if self._alike.member.leads and self._simulation.server is not None:
            for work in self._rounds.open(self._unpushed):
                self._mark("done", epoch=self._epoch, start=work.start, stop=work.stop)

    def end_epoch(self) -> None:
        """Mark the epoch that this worker is in, if it is in one."""
        if self._started is not None:
            size, now = self._simulation.workload.epoch_samples, self._clock.now
            self._mark("epoch", epoch=self._epoch, start=self._started, stop=now, size=size)
        self._started = None

    def traces(self) -> Iterator[WorkerTrace]:
        """One for each that is alike; what is the same in several is one list."""
        spans: dict[tuple[int, ...], list[Span]] = {}
        others = [mark for mark in self.marks if mark.kind not in OF_ONE] if self._alike.cutter else self.marks
        for number, (rank, place) in enumerate(zip(self.ranks, self._alike.places, strict=True)):
            plan, sizes = self.job.workers[place], tuple(sizes[number] for _, sizes in self._uneven)
            if sizes not in spans:
                spans[sizes] = self._spans_with(sizes)
            marks = others if number else self.marks
            yield WorkerTrace(
                rank, plan.group, plan.device, "simulated", plan.share, spans[sizes], marks, complete=self.alive
            )

    @property
    def _server(self) -> Server:
        if self._simulation.server is None:
            raise RuntimeError("an exchange in a strategy whose layout has no server")
        return self._simulation.server

    def _in_epoch(self) -> bool:
        """Whether there is an epoch to lease from: the running one or, once that is over, the next."""
        if self._over:
            self.end_epoch()
            if self._epoch + 1 == self._simulation.workload.epochs:
                return False
            self._epoch, self._started = self._epoch + 1, self._clock.now
        return True

    def _lease(self, lease: Lease) -> Steps:
        start = self._clock.now
        source = self._own_ledger if self._simulation.server is None else self._server_ledger
        granted = yield from source(lease)
        if self._clock.now > start:
            self._span("wait", start)
        self._over = not granted and not lease.ahead
        return granted

    def _own_ledger(self, lease: Lease) -> Steps:
        yield from ()
        size = self._simulation.workload.epoch_samples
        return self._ledger.lease(self._epoch, size, lease.samples, self._alike.member.batch)

    def _server_ledger(self, lease: Lease) -> Steps:
        number, size = self._leases, self._simulation.workload.epoch_samples
        self._leases += 1
        if self._alike.member.leads:
            yield from self._link.finish()
            yield from self._server.ask(self.job.name, number, lease, self._alike.member.batch, self._epoch, size)
        granted: Range = yield from self._server.hear(self.job.name, number)
        if self._alike.member.leads:
            self._rounds.lease(Round(self._epoch, granted, lease.ahead))
        return granted

    def _compute(self, compute: Compute) -> Steps:
        start, sizes = self._clock.now, self._alike.sizes(compute.part)
        samples = max(sizes)
        if min(sizes) < samples:
            if compute.peers == 1:  # they would go on at different times
                raise DifferError
            self._uneven.append((len(self.spans), sizes))
        self._parts = self._alike.parts(compute.part)
        work = self._seconds(samples)
        took = self._pace.seconds(start, work)
        yield self._clock.timeout(took)
        self._span("compute", start, samples)
        if compute.peers > 1:
            computed = self._clock.now
            hidden = self._seconds(last_micro_batch(self._plan, samples)) / work if work else 1.0
            whole = compute.total == self._alike.member.batch
            self._shares.took(self._alike.places, took / work if whole and work else 0.0)
            until = yield self._gate.arrive(start + self._reduction.seconds(took, hidden * took))
            if until > self._clock.now:
                yield self._clock.timeout(until - self._clock.now)
            self._span("exchange", computed)

    def _update(self, update: Update) -> Steps:
        yield from ()
        self._rounds.update()
        self._unpushed += update.samples
        if self._simulation.server is None:
            for part in self._parts:
                if part:
                    self._mark("done", epoch=self._epoch, start=part.start, stop=part.stop)
        self.updates += 1
        self._simulation.count()

    def _rebalance(self, rebalance: Rebalance) -> Steps:
        yield from ()
        shares, change = self._shares.after(self.updates)
        if change is not None and self._alike.cutter is not None and self._alike.cutter.shares is not shares:
            self._alike.cutter.change(shares)
            self._mark("shares", update=self.updates, **asdict(change))
        return shares

    def _push(self, push: Push) -> Steps:
        if self._alike.member.leads:
            start = self._clock.now
            yield from self._handle()
            if self._clock.now > start:
                self._span("exchange", start)
            self._link.begin(self._send(self._rounds.push().basis))
            self._unpushed = 0

    def _pull(self, pull: Pull) -> Steps:
        yield from ()
        if self._alike.member.leads:
            self._rounds.pull()
            self._link.begin(self._receive())

    def _adopt(self, adopt: Adopt) -> Steps:
        start = self._clock.now
        yield from self._link.finish()
        if self._pulled is not None:
            self._mark("pull", **self._rounds.adopt(self._pulled))
            self._pulled = None
            yield from self._handle()
        if len(self.job.workers) > 1:
            yield self._gate.arrive()
            yield self._clock.timeout(transfer(self._wire, self._simulation.workload.model_bytes))
            if not self._alike.member.leads:
                yield from self._handle()
        self._span("exchange", start)

    def _handle(self) -> Steps:
        """Take what was learned out of the device, or put new weights in."""
        if self._plan.handling_seconds:
            yield self._clock.timeout(self._plan.handling_seconds / 2)

    def _send(self, basis: int) -> Steps:
        staleness = yield from self._server.push(self.job.name, self._plan.group, basis)
        self._rounds.arrived()
        self._mark("staleness", versions=staleness)

    def _receive(self) -> Steps:
        self._pulled = yield from self._server.pull(self.job.name, self._plan.group)

    def _barrier(self, barrier: Barrier) -> Steps:
        start = self._clock.now
        yield self._gate.arrive()
        if self._clock.now > start:
            self._span("wait", start)
        self._mark("measure")

    def _span(self, kind: SpanKind, start: float, samples: int = 0) -> None:
        self.spans.append(Span(kind, start, self._clock.now, samples))

    def _mark(self, kind: str, **values: Any) -> None:
        self.marks.append(Mark(kind, self._clock.now, values))

    def _spans_with(self, sizes: tuple[int, ...]) -> list[Span]:
        """The spans of one that had ``sizes`` samples in the updates where those alike had unequal parts."""
        if not sizes:
            return self.spans
        spans = list(self.spans)
        for (at, _), size in zip(self._uneven, sizes, strict=True):
            if at + 1 >= len(spans):  # the end came in the middle of it, at a place of its own for each
                raise DifferError
            start, computed = spans[at].start, spans[at].start + self._seconds(size)
            spans[at] = Span("compute", start, computed, size)
            spans[at + 1] = Span("exchange", computed, spans[at + 1].stop)
        return spans
