"""The jobs' threads run one at a time, in an order that no clock decides."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from paceline.running.virtual.belongings import Belongings

Key = tuple[int, int]  # what is less comes first
FIRST: Key = (-2, 0)


class Ended(BaseException):
    """Unwinds a job's thread after the run has failed elsewhere."""


class Turns:
    """Passes the turn between the threads of ``jobs`` jobs; each takes what it has of the process with it."""

    def __init__(self, jobs: int, belongings: Belongings) -> None:
        self._belongings = belongings
        self._doors = [threading.Semaphore(0) for _ in range(jobs)]
        self._here = set(range(jobs))  # jobs that have not left
        self._keys: dict[int, Key] = dict.fromkeys(range(jobs), FIRST)  # of those that wait for their turn
        self._given: dict[int, Tensor] = {}  # of those that wait for a sum
        self._sum = torch.zeros(0)
        self.failure: BaseException | None = None

    def open(self) -> None:
        """Let the first job begin."""
        self._next()

    def begin(self, job: int) -> None:
        """The first thing that a job's thread does."""
        self._enter(job)

    def wait(self, job: int, key: Key) -> None:
        """Let those go first whose key is less."""
        self._keys[job] = key
        self._pass_on(job)

    def gather(self, job: int, values: Tensor) -> Tensor:
        """The sum of ``values`` over all jobs that have not left; waits until all of them are here."""
        self._given[job] = values.clone()
        self._sum_up()
        self._pass_on(job)
        return self._sum

    def check(self) -> None:
        """Raises Ended if the run has failed."""
        if self.failure is not None:
            raise Ended

    def leave(self, job: int, failure: BaseException | None) -> None:
        """The last thing that a job's thread does, with what ended it."""
        self._here.discard(job)
        self._belongings.take_off(job)
        if failure is not None:
            self.fail(failure)
        self._sum_up()
        self._next()

    def fail(self, failure: BaseException) -> None:
        """End all jobs; the first failure counts."""
        self.failure = self.failure or failure
        self._keys.update(dict.fromkeys(self._given, FIRST))
        self._given = {}

    def _sum_up(self) -> None:
        if self._given and self._given.keys() == self._here:
            self._sum = torch.stack([self._given[job] for job in sorted(self._given)]).sum(0)
            self._keys.update(dict.fromkeys(self._given, FIRST))
            self._given = {}

    def _pass_on(self, job: int) -> None:
        self._belongings.take_off(job)
        self._next()
        self._enter(job)

    def _next(self) -> None:
        if self._keys:
            following = min(self._keys, key=lambda job: (self._keys[job], job))
            del self._keys[following]
            self._doors[following].release()

    def _enter(self, job: int) -> None:
        self._doors[job].acquire()
        self._belongings.put_on(job)
        self.check()
