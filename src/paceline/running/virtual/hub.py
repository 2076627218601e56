"""The parameter server of a run in virtual time, and a job's end of its link: no wire, but turns."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from paceline.errors import ConfigError
from paceline.ops import Range
from paceline.running.virtual.schedule import Exchange
from paceline.running.virtual.turns import Turns
from paceline.server.client import Client
from paceline.server.messages import Progress
from paceline.server.rules.base import Rule
from paceline.server.store import Store

INITIAL = (-1, 0)  # key of a turn; later the push that finds version v has (v, 1), and a pull of it (v, 0)


class Hub:
    """The server's weights and rule, and how far the epoch is."""

    def __init__(self, rule: Rule, global_batch: int, turns: Turns) -> None:
        self.store, self.turns = Store(rule, global_batch), turns
        self.epoch, self.size, self.done = -1, 0, 0
        self.values: int | None = None

    def join(self, size: int) -> None:
        """A job whose weights have ``size`` values.

        Raises:
            ConfigError: the jobs before it had others.
        """
        if self.values not in (None, size):
            raise ConfigError(
                f"a group exchanges {size} values", expected=f"{self.values}, as the other groups do",
                remedy="Build the same model in every worker.",
            )  # fmt: skip
        self.values = size


class VirtualClient(Client):
    """What a group's leader asks of the server, each answered when the schedule has it."""

    def __init__(self, job: int, hub: Hub, first: int) -> None:
        self._first, self._job, self._hub, self._turns = first, job, hub, hub.turns
        self.version = 0
        self._exchanges: Iterator[Exchange] = iter(())
        self._now: Exchange | None = None

    def follow(self, exchanges: Iterator[Exchange]) -> None:
        """The rounds that will be made."""
        self._exchanges = exchanges

    def initialise(self, weights: Tensor, progress: Progress) -> None:
        self._turns.wait(self._job, INITIAL)
        self._hub.store.initialise(weights)

    def snapshot(self, out: Tensor) -> Progress:
        hub = self._hub
        if hub.done < hub.size:
            raise ConfigError(
                "run.save was called in the training loop of a strategy with a server, in virtual time",
                remedy="Save after the loop.",
            )
        hub.store.copy_to(out)
        return Progress(hub.store.samples, hub.epoch, hub.size, ())

    def lease(self, epoch: int, size: int, want: int, batch: int) -> tuple[Range, int]:
        hub = self._hub
        self._now = next(self._exchanges, None)
        if self._now is None or self._now.epoch != epoch or len(self._now.work) > want:
            raise ConfigError(
                f"a group opened epoch {epoch} while samples of the one before are open",
                remedy="Use run.loader once an epoch, to its end, in every worker.",
            )
        if epoch > hub.epoch:
            hub.epoch, hub.size, hub.done = epoch, size, 0
        return self._now.work, hub.store.samples if self._now.heard is None else self._now.heard

    def push(self, delta: Tensor, samples: int, steps: int) -> None:
        if self._now is None:
            raise RuntimeError("push without a lease")
        self._turns.wait(self._job, (self._now.found, 1))
        self._hub.store.push(delta, samples, steps, self.version)
        self._hub.done += samples

    def pull(self, out: Tensor) -> tuple[int, int]:
        self._turns.wait(self._job, (self._now.pulled if self._now else self._first, 0))
        self.version = self._hub.store.copy_to(out)
        return self._hub.store.samples, 0

    def reduce(self, values: Tensor) -> Tensor:
        return values.copy_(self._turns.gather(self._job, values))

    def leave(self) -> None:
        """There is nobody to say goodbye to."""
