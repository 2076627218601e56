"""Runs a strategy's programs in virtual time: an operation becomes seconds, and simpy is the clock.

            own compute            the slowest peer          the ring ends
worker 0    |------ compute ------|.... exchange ....................|  next operation
worker 1    |------ compute -------------------------|.. exchange ...|
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy

from paceline.cost.compute import seconds
from paceline.cost.network import Wire
from paceline.ops import Barrier, Broadcast, Compute, Lease, Operation, Pull, Push, Range, Update
from paceline.schema.plan import JobPlan, Plan
from paceline.schema.trace import Mark, Span, SpanKind, Trace, WorkerTrace
from paceline.server.ledger import Replica
from paceline.simulating.resources import Gate, Server, Steps, members
from paceline.strategies import base
from paceline.strategies.base import Member

FREE_WIRE = Wire(bytes_per_second=float("inf"), latency=0.0)


def simulate(
    plan: Plan,
    epoch_samples: int,
    epochs: int = 1,
    wire: Wire = Wire(),  # noqa: B008  frozen
    model_bytes: int = 0,
    updates: int | None = None,
) -> Trace:
    """What a run of ``plan`` would leave behind.

    Args:
        plan: with a solo speed for every worker.
        epoch_samples: samples of one epoch.
        epochs: how many of them.
        wire: the links inside a group and to the server.
        model_bytes: bytes of one exchange.
        updates: stop after that many updates of worker 0, in the middle of an epoch if need be.

    Raises:
        ConfigError: the plan has no speeds.
    """
    simulation = _Simulation(plan, epoch_samples, epochs, wire, model_bytes, updates)
    simulation.run()
    return Trace([worker.trace for worker in simulation.workers], simulated=True)


def operations(plan: Plan, epoch_samples: int, epochs: int = 1) -> list[list[Operation]]:
    """The operations that each worker executes, in global rank order, on a wire that costs nothing.

    Raises:
        ConfigError: the plan has no speeds.
    """
    simulation = _Simulation(plan, epoch_samples, epochs, FREE_WIRE, 0, None)
    simulation.run()
    return [worker.operations for worker in simulation.workers]


def rate(trace: Trace) -> float:
    """Samples/s of all workers from the first start to the last stop of an epoch; 0 if no time passed."""
    marks = [mark.values for worker in trace.workers for mark in worker.marks if mark.kind == "epoch"]
    samples = sum(span.samples for worker in trace.workers for span in worker.spans)
    if not samples or not marks:
        return 0.0
    start, stop = min(mark["start"] for mark in marks), max(mark["stop"] for mark in marks)
    return samples / float(stop - start)


class _Simulation:
    """One plan in virtual time: the clock, the server if there is one, and the workers in global rank order."""

    def __init__(
        self, plan: Plan, epoch_samples: int, epochs: int, wire: Wire, model_bytes: int, updates: int | None
    ) -> None:
        self.epoch_samples, self.epochs, self.updates = epoch_samples, epochs, updates
        self.wire, self.model_bytes = wire, model_bytes
        self.clock = simpy.Environment()
        self.enough = self.clock.event()
        self.strategy = base.get(plan.strategy)
        layout = self.strategy.layout
        self.server = Server(self.clock, wire, model_bytes) if layout.server else None
        self.workers: list[_Worker] = []
        for job in plan.jobs:
            gate = Gate(self.clock, len(job.workers))
            for place, member in enumerate(members(layout, job)):
                self.workers.append(_Worker(self, job, place, gate, member))

    def run(self) -> None:
        """Until all workers are through, or worker 0 has made enough updates."""
        through = self.clock.all_of([self.clock.process(worker.live()) for worker in self.workers])
        self.clock.run(until=self.clock.any_of([through, self.enough]))
        for worker in self.workers:
            worker.end_epoch()


class _Worker:
    """One worker's program in motion, and the trace it leaves."""

    def __init__(self, simulation: _Simulation, job: JobPlan, place: int, gate: Gate, member: Member) -> None:
        plan = job.workers[place]
        self._rank = len(simulation.workers)
        self._plan = plan
        seconds(plan, samples=0)  # a worker that was not measured is refused before the clock starts
        self._simulation, self._clock = simulation, simulation.clock
        self._job, self._gate, self._member = job.name, gate, member
        self._program = simulation.strategy.program(member)
        self._ledger, self._leases = Replica(), 0
        self._epoch, self._over = -1, True
        self._started: float | None = None
        self._updates, self._pulled, self._leased = 0, 0, Range(0, 0)
        self._parts: list[Range] = []
        self.operations: list[Operation] = []
        self.trace = WorkerTrace(self._rank, plan.group, plan.device, "simulated", plan.share)
        self._runs: dict[type[Any], Callable[[Any], Steps]] = {
            Lease: self._lease,
            Compute: self._compute,
            Update: self._update,
            Push: self._push,
            Pull: self._pull,
            Broadcast: self._broadcast,
            Barrier: self._barrier,
        }

    def live(self) -> Steps:
        """From the first epoch to the end of the last one."""
        operation = next(self._program)
        while not isinstance(operation, Lease) or self._in_epoch():
            self.operations.append(operation)
            answer = yield from self._runs[type(operation)](operation)
            operation = self._program.send(answer)
        self._gate.leave()

    def end_epoch(self) -> None:
        """Mark the epoch that this worker is in, if it is in one."""
        if self._started is not None:
            size, now = self._simulation.epoch_samples, self._clock.now
            self._mark("epoch", epoch=self._epoch, start=self._started, stop=now, size=size)
        self._started = None

    @property
    def _server(self) -> Server:
        if self._simulation.server is None:
            raise RuntimeError("an exchange in a strategy whose layout has no server")
        return self._simulation.server

    def _in_epoch(self) -> bool:
        """Whether there is an epoch to lease from: the running one or, once that is over, the next."""
        if self._over:
            self.end_epoch()
            if self._epoch + 1 == self._simulation.epochs:
                return False
            self._epoch, self._started = self._epoch + 1, self._clock.now
        return True

    def _lease(self, lease: Lease) -> Steps:
        start = self._clock.now
        source = self._own_ledger if self._simulation.server is None else self._server_ledger
        granted = yield from source(lease.samples)
        if self._clock.now > start:
            self._span("wait", start)
        self._over, self._leased = not granted, granted
        return granted

    def _own_ledger(self, want: int) -> Steps:
        yield from ()
        return self._ledger.lease(self._epoch, self._simulation.epoch_samples, want, self._member.batch)

    def _server_ledger(self, want: int) -> Steps:
        number, size = self._leases, self._simulation.epoch_samples
        self._leases += 1
        if self._member.leads:
            yield from self._server.ask(self._job, number, want, self._member.batch, self._epoch, size)
        return (yield from self._server.hear(self._job, number))

    def _compute(self, compute: Compute) -> Steps:
        start = self._clock.now
        self._parts.append(compute.part)
        yield self._clock.timeout(seconds(self._plan, len(compute.part)))
        self._span("compute", start, len(compute.part))
        if compute.peers > 1:
            start = self._clock.now
            yield self._gate.arrive()
            yield self._clock.timeout(self._simulation.wire.ring(self._simulation.model_bytes, compute.peers))
            self._span("exchange", start)

    def _update(self, update: Update) -> Steps:
        yield from ()
        if self._simulation.server is None:
            self._settle()
        self._updates += 1
        if self._rank == 0 and self._updates == self._simulation.updates:
            self._simulation.enough.succeed()

    def _push(self, push: Push) -> Steps:
        start = self._clock.now
        staleness = yield from self._server.push(self._job, self._pulled)
        self._mark("staleness", versions=staleness)
        self._span("exchange", start)

    def _pull(self, pull: Pull) -> Steps:
        start = self._clock.now
        self._pulled = yield from self._server.pull()
        leased = {"epoch": self._epoch, "start": self._leased.start, "stop": self._leased.stop}
        self._mark("pull", version=self._pulled, **leased)
        self._span("exchange", start)

    def _broadcast(self, broadcast: Broadcast) -> Steps:
        if self._gate.parties > 1:
            start = self._clock.now
            yield self._gate.arrive()
            yield self._clock.timeout(self._simulation.wire.transfer(self._simulation.model_bytes))
            self._span("exchange", start)
        self._settle()

    def _barrier(self, barrier: Barrier) -> Steps:
        start = self._clock.now
        yield self._gate.arrive()
        if self._clock.now > start:
            self._span("wait", start)
        self._mark("measure")

    def _settle(self) -> None:
        for part in self._parts:
            if part:
                self._mark("done", epoch=self._epoch, start=part.start, stop=part.stop)
        self._parts = []

    def _span(self, kind: SpanKind, start: float, samples: int = 0) -> None:
        self.trace.spans.append(Span(kind, start, self._clock.now, samples))

    def _mark(self, kind: str, **values: Any) -> None:
        self.trace.marks.append(Mark(kind, self._clock.now, values))
