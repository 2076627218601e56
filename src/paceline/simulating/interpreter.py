"""Runs a strategy's programs in virtual time: an operation becomes seconds, and simpy is the clock."""

from __future__ import annotations

import simpy

from paceline.cost.network import slowest
from paceline.cost.overlap import reduction
from paceline.observation import metrics
from paceline.ops import Operation
from paceline.schema.network import Link, Network
from paceline.schema.plan import JobPlan, Plan
from paceline.schema.trace import Trace
from paceline.simulating.alike import DifferError, alike
from paceline.simulating.network import Steps
from paceline.simulating.resources import Gate, Server, Shares
from paceline.simulating.scenario import Kill, Scenario, Workload
from paceline.simulating.workers import Worker
from paceline.strategies import base

FREE = Network(default=Link(bytes_per_second=float("inf"), latency=0.0))


def simulate(plan: Plan, workload: Workload, scenario: Scenario = Scenario()) -> Trace:  # noqa: B008  frozen
    """What a run of ``plan`` would leave behind.

    Workers that cannot differ are gone through once, and share the lists of their traces. In a trace that a death cut
    short the dead are not complete.

    Args:
        plan: with a solo speed for every worker.
        workload: what it trains on, and over which wires.
        scenario: jitter and faults.

    Raises:
        ConfigError: the plan has no speeds, or the scenario names a worker or a group that it does not have.
    """
    scenario.check(plan)
    try:
        return Simulation(plan, workload, scenario, merge=True).run()
    except DifferError:
        return Simulation(plan, workload, scenario, merge=False).run()


def operations(plan: Plan, epoch_samples: int, epochs: int = 1) -> list[list[Operation]]:
    """The operations that each worker executes, in global rank order, on wires that cost nothing.

    Raises:
        ConfigError: the plan has no speeds.
    """
    workload = Workload(epoch_samples, epochs, network=FREE)
    simulation = Simulation(plan, workload, Scenario(), merge=False)
    simulation.run()
    return [worker.operations for worker in simulation.workers]


def rate(trace: Trace) -> float:
    """Samples/s of all workers while they trained; 0 if no time passed."""
    spans = {id(worker.spans): worker.spans for worker in trace.workers}  # of workers that are alike one list
    trained = {key: sum(span.samples for span in some) for key, some in spans.items()}
    passed = metrics.training_seconds(trace)
    return sum(trained[id(worker.spans)] for worker in trace.workers) / passed if passed else 0.0


class Simulation:
    """One plan in virtual time: the clock, the server if there is one, and the workers."""

    def __init__(self, plan: Plan, workload: Workload, scenario: Scenario, merge: bool) -> None:
        self.plan, self.workload, self.scenario = plan, workload, scenario
        self.clock = simpy.Environment()
        self.strategy = base.get(plan.strategy)
        server = self.strategy.layout.server
        network, size = workload.network, workload.model_bytes
        self.server = Server(self.clock, network, plan, size) if server else None
        self.workers: list[Worker] = []
        first = 0
        for job in plan.jobs:
            self.workers += self._workers(job, first, merge)
            first += len(job.workers)
        self._enough = self.clock.event()
        self._watched = 0

    def run(self) -> Trace:
        """Until all workers are through or dead, or the first living one has made enough updates.

        Raises:
            DifferError: workers that were taken for alike are not.
        """
        lives = [self.clock.process(worker.live()) for worker in self.workers]
        for kill in self.scenario.kill:
            self.clock.process(self._die(kill, lives))
        self.clock.run(until=self.clock.any_of([self.clock.all_of(lives), self._enough]))
        survivors = [worker for worker in self.workers if worker.alive]
        for worker in survivors:
            worker.count_unpushed()
        for worker in survivors or self.workers:  # where all died, the trace shows what they had
            worker.end_epoch()
        traces = [trace for worker in self.workers for trace in worker.traces()]
        told = self.server.marks if self.server is not None else []
        return Trace(sorted(traces, key=lambda trace: trace.rank), simulated=True, server=told)

    def count(self) -> None:
        """Stop if the first worker that lives has made enough updates."""
        most = self.workload.updates
        if most is not None and self.workers[self._watched].updates >= most and not self._enough.triggered:
            self._enough.succeed()

    def _workers(self, job: JobPlan, first: int, merge: bool) -> list[Worker]:
        layout, size = self.strategy.layout, self.workload.model_bytes
        wire = slowest(self.workload.network, [worker.group for worker in job.workers])
        ring = wire, reduction(size, len(job.workers), wire)
        likes = alike(layout, job, self.scenario, first, merge)
        gate, shares = Gate(self.clock, len(likes)), Shares(job, fixed=not self.plan.rebalance)
        return [Worker(self, job, first, one, gate, shares, ring) for one in likes]

    def _die(self, kill: Kill, lives: list[simpy.Process]) -> Steps:
        """Stop the jobs with a worker of that group; a lease that was not pushed returns, one that was counts."""
        yield self.clock.timeout(kill.at)
        dying = [
            (worker, life)
            for worker, life in zip(self.workers, lives, strict=True)
            if life.is_alive and any(member.group == kill.group for member in worker.job.workers)
        ]
        for name in dict.fromkeys(worker.job.name for worker, _ in dying):
            if self.server is not None:
                self.server.lose(name)
        for worker, life in dying:
            worker.alive = False
            life.interrupt()
        self._watched = next((place for place, worker in enumerate(self.workers) if worker.alive), self._watched)
        self.count()
