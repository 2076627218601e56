"""Runs a strategy's program with tensors: an operation becomes torch, here and nowhere else.

loader asks ----> Lease, Compute ----> the user's forward, backward, step
   ^                                              |
   `---- Update, Rebalance, Push, Pull, Adopt <------'   (when the loop asks for its next batch)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import torch
import torch.distributed as dist

from paceline.cost.rebalance import Balancer
from paceline.errors import LinkError
from paceline.observation.recorder import Recorder
from paceline.ops import Adopt, Barrier, Compute, Lease, Operation, Program, Pull, Push, Range, Rebalance, Update
from paceline.reduction.window import UpdateCounter
from paceline.running.sources import ServerSource
from paceline.server.ledger import Offers, Replica
from paceline.server.messages import Progress
from paceline.server.rounds import Round, Rounds
from paceline.state.flat import FlatState
from paceline.state.plain import PlainSteps
from paceline.strategies.base import Member

Source = Replica | Offers | ServerSource


class Executor:
    """One worker's program in motion. It rests on ``Compute`` while the user's loop works.

    Args:
        program: the strategy's generator for this worker.
        member: this worker as its program sees it.
        source: answers leases; a ``ServerSource`` also takes pushes and gives weights.
        recorder: gets every span and mark.
        distributed: the job has more than one worker.
        balancer: holds the present shares of those that reduce together.
    """

    def __init__(
        self,
        program: Program,
        member: Member,
        source: Source,
        recorder: Recorder,
        distributed: bool,
        balancer: Balancer,
    ) -> None:
        self._program, self._batch, self._source = program, member.batch, source
        self._recorder, self._distributed, self._position = recorder, distributed, member.position
        self._balancer, self._updates = balancer, 0
        self.slowness: Sequence[float] = ()  # of each worker, as they told one another in the latest update
        self._next: Operation = next(program)
        self.epoch, self._size = -1, 0
        self._over = self._resting = False
        self._rounds, self._overlaps = Rounds(), member.overlap > 0
        self._unheard = self._unpushed = 0  # samples trained since all groups' were heard of, and since the last push
        self._part = Range(0, 0)  # of the update that runs
        self.measured_since: float | None = None
        self.stopping = False  # ask for no more samples
        self.at_barrier: Callable[[], None] = lambda: None  # while nobody computes
        self._state: FlatState | None = None
        self._pulled = self._scratch = self._sent = torch.zeros(0)
        self.counters: list[UpdateCounter] = []
        self._steps: PlainSteps | None = None
        self._runs: dict[type[Any], Callable[[Any], Range | tuple[int, ...] | None]] = {
            Lease: self._lease,
            Update: self._update,
            Rebalance: self._rebalance,
            Push: self._push,
            Pull: self._pull,
            Adopt: self._adopt,
            Barrier: self._barrier,
        }

    @property
    def samples_seen(self) -> int:
        """Samples trained by the whole cluster, as far as this worker knows."""
        return self._source.samples + self._unheard

    @property
    def shares(self) -> tuple[int, ...]:
        """Samples of an update for each worker of the job."""
        return self._balancer.shares

    @property
    def training(self) -> bool:
        """An epoch has begun and is not over."""
        return self.epoch >= 0 and not self._over

    def attach(self, state: FlatState, counters: Sequence[UpdateCounter], steps: PlainSteps | None = None) -> None:
        """The models that exchanges carry, the schedulers that count updates, and the steps to push in place of what
        the models have changed by."""
        self._state, self.counters, self._steps = state, list(counters), steps
        if isinstance(self._source, ServerSource):
            self._pulled, self._scratch = torch.zeros(state.size), torch.zeros(state.size)
            self._sent = torch.zeros(state.size if self._overlaps else 0)

    def start_from_server(self, initialise: bool, progress: Progress) -> None:
        """Bring the first weights to the server, or take them from it, and give them to the whole group."""
        state, source = self._models()
        if initialise and source.client is not None:
            source.client.initialise(state.read(self._scratch), progress, state.learned)
        self._pull(Pull())
        self._adopt(Adopt())

    def resume(self, samples: int) -> None:
        """Count on from ``samples`` samples."""
        self._source.samples = samples

    def begin_epoch(self, epoch: int, size: int, left: Sequence[Range] | None = None) -> None:
        """The loop starts an epoch of ``size`` samples, or goes on with what is ``left`` of it."""
        self.epoch, self._size, self._over = epoch, size, False
        if isinstance(self._source, Offers):
            self._source = Replica(self._source.samples)
        if left is not None and isinstance(self._source, Replica):
            self._source.resume(epoch, size, left)

    def begin_stream(self, epoch: int) -> Offers:
        """The loop starts an epoch of streams; it must offer what each worker has before each update."""
        self._wind_up()
        self.epoch, self._size, self._over = epoch, 0, False
        self._source = offers = Offers(self._source.samples)
        return offers

    def _wind_up(self) -> None:
        """An epoch of streams may have been broken off; account for its last update."""
        if self._resting:
            self._resting = False
            self._next = self._program.send(None)
        while not isinstance(self._next, Lease):
            self._next = self._program.send(self._runs[type(self._next)](self._next))
        self._settle_own()

    def next_compute(self) -> Compute | None:
        """Run the program up to its next ``Compute``; None once the epoch is over."""
        if self._resting:
            self._resting = False
            self._next = self._program.send(None)
        while not self._ends_before(operation := self._next):
            if isinstance(operation, Compute):
                if isinstance(self._source, Offers):
                    operation = replace(operation, part=self._source.part(self._position))
                self._part = operation.part
                self._resting = True
                return operation
            self._next = self._program.send(self._runs[type(operation)](operation))
        self._settle_own()
        return None

    def _settle_own(self) -> None:
        """Without a server, what was leased last counts as soon as it is trained."""
        if not isinstance(self._source, ServerSource):
            self._source.settle()
            self._unheard = self._unpushed = 0

    @property
    def left(self) -> Sequence[Range]:
        """What is not trained of the epoch, as far as this worker knows by itself, with the running update."""
        return self._source.left if isinstance(self._source, Replica) else ()

    def _ends_before(self, operation: Operation) -> bool:
        """The epoch is over, or no more samples are wanted, and what was leased is done with."""
        return isinstance(operation, Lease) and not operation.ahead and (self._over or self.stopping)

    def _lease(self, lease: Lease) -> Range:
        if lease.ahead and self.stopping:
            return Range(0, 0)
        if not isinstance(self._source, ServerSource):
            granted = self._source.lease(self.epoch, self._size, lease.samples, self._batch)
            self._unpushed = 0
        else:
            start = self._recorder.clock()
            granted = self._source.lease(self.epoch, self._size, lease.samples, self._batch, lease.ahead)
            self._recorder.span("wait", start, self._recorder.clock())
            self._rounds.lease(Round(self.epoch, granted, lease.ahead, self._source.samples))
        self._unheard = self._unpushed
        self._over = not granted and not lease.ahead
        return granted

    def _update(self, update: Update) -> None:
        self._unheard += update.samples
        self._unpushed += update.samples
        if isinstance(self._source, ServerSource):
            self._rounds.update()
        elif self._part:
            self._recorder.mark("done", epoch=self.epoch, start=self._part.start, stop=self._part.stop)
            self._recorder.flush()  # what counts must not be lost with this process
        for counter in self.counters:
            counter.advance(self.samples_seen)

    def _rebalance(self, rebalance: Rebalance) -> tuple[int, ...]:
        self._updates += 1
        change = self._balancer.observe(self.slowness)
        if change is not None and self._position == 0:
            self._recorder.mark("shares", update=self._updates, **asdict(change))
        return self.shares

    def _push(self, push: Push) -> None:
        state, source = self._models()
        self._unpushed = 0
        if source.client is None:
            return
        start = self._recorder.clock()
        delta = state.read(self._scratch)
        if self._overlaps:
            self._sent.copy_(delta)
        learned = delta[: state.learned]
        if self._steps is not None:
            self._steps.take(learned)
        else:
            learned.sub_(self._pulled[: state.learned])
        rate = self._steps.rate if self._steps is not None else 0.0
        source.client.push(delta, push.samples, push.steps, self._rounds.push().basis, rate)
        self._recorder.span("exchange", start, self._recorder.clock())

    def _pull(self, pull: Pull) -> None:
        _, source = self._models()
        if source.client is not None:
            self._rounds.pull()
            source.client.pull(self._pulled)

    def _adopt(self, adopt: Adopt) -> None:
        state, source = self._models()
        start = self._recorder.clock()
        if source.client is not None and (pulled := source.client.finish()) is not None:
            told = self._rounds.adopt(pulled)
            if told["start"] < told["stop"]:
                self._recorder.mark("staleness", versions=pulled.staleness)
            self._recorder.mark("pull", **told)
            source.samples, self._unheard = pulled.samples, self._unpushed
            if self._unpushed:
                state.add(self._sent.neg_().add_(self._pulled))
            else:
                state.write(self._pulled)
        if self._distributed:
            newest = state.read(self._scratch) if self._unpushed else self._pulled
            source.share(newest)
            state.write(newest)
        if self._distributed and self._unpushed:
            self._unheard = self._unpushed
            source.samples = source.told(source.samples)
        self._recorder.span("exchange", start, self._recorder.clock())
        self._recorder.flush()

    def _barrier(self, barrier: Barrier) -> None:
        if self._distributed:
            dist.barrier()
            self.at_barrier()
        self.measured_since = self._recorder.clock()
        self._recorder.mark("measure")

    @contextmanager
    def newest_weights(self) -> Iterator[Progress]:
        """The models hold the server's newest weights meanwhile; yields what those were trained on.

        Raises:
            LinkError: this worker has no link.
        """
        state, source = self._models()
        if source.client is None:
            raise LinkError("only a group's leader can ask the server for a checkpoint")
        own, newest = torch.empty(state.size), torch.empty(state.size)
        state.read(own)
        progress = source.client.snapshot(newest)
        state.write(newest)
        try:
            yield progress
        finally:
            state.write(own)

    def _models(self) -> tuple[FlatState, ServerSource]:
        if self._state is None or not isinstance(self._source, ServerSource):
            raise RuntimeError("an exchange without models or server")
        return self._state, self._source
