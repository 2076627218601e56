"""The parameter server of a run in virtual time, and a job's end of its link: no wire, but turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from paceline.errors import ConfigError
from paceline.ops import Range
from paceline.running.virtual.schedule import Exchange
from paceline.running.virtual.turns import Turns
from paceline.server import formats
from paceline.server.client import Client
from paceline.server.messages import Progress
from paceline.server.rounds import Pulled
from paceline.server.rules.base import Rule
from paceline.server.store import Store

INITIAL = (-1, 0)  # key of a turn; later the push that finds n pushes has (n, 1), and a pull of them (n, 0)


class Hub:
    """The server's weights and rule."""

    def __init__(self, rule: Rule, global_batch: int, turns: Turns) -> None:
        self.store, self.turns = Store(rule, global_batch), turns
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
    """What a group's leader asks of the server, each answered when the schedule has it; a push and the pull behind it
    at the latest moment, ``finish``: until then nobody can see that they are late."""

    def __init__(self, job: int, hub: Hub, first: int, wire: str) -> None:
        super().__init__(Loopback(), wire)
        self._job, self._hub, self._turns = job, hub, hub.turns
        self._held = torch.zeros(0)
        self.main = job == 0
        self._coming: deque[Exchange] = deque()
        self._leased: deque[Exchange] = deque()
        self._now = Exchange(-1, Range(0, 0), 0, first)

    def follow(self, exchanges: Sequence[Exchange]) -> None:
        """The rounds that will be made."""
        self._coming = deque(exchanges)

    def initialise(self, weights: Tensor, progress: Progress, learned: int) -> None:
        self._turns.wait(self._job, INITIAL)
        self._hub.store.initialise(weights, learned=learned)

    def lease(self, epoch: int, size: int, want: int, batch: int, ahead: bool = False) -> tuple[Range, int]:
        hub = self._hub
        if ahead and self._coming and not self._coming[0].ahead:
            return Range(size, size), hub.store.samples
        if not self._coming or self._coming[0].epoch != epoch or len(self._coming[0].work) > want:
            raise ConfigError(
                f"a group opened epoch {epoch} while samples of the one before are open",
                remedy="Use run.loader once an epoch, to its end, in every worker.",
            )
        exchange = self._coming.popleft()
        self._leased.append(exchange)
        return exchange.work, hub.store.samples if exchange.heard is None else exchange.heard

    def push(self, delta: Tensor, samples: int, steps: int, basis: int, rate: float = 0.0) -> None:
        self._now = self._leased.popleft()
        super().push(delta, samples, steps, basis, rate)

    def pull(self, out: Tensor) -> None:
        if not self._begun and self._leased:
            self._now = self._leased.popleft()
        super().pull(out)

    def reduce(self, values: Tensor) -> Tensor:
        self._settle()
        return values.copy_(self._turns.gather(self._job, values))

    def leave(self) -> None:
        """There is nobody to say goodbye to."""

    def _begin(self, work: Callable[[], Pulled | None]) -> None:
        self._begun.append(work)

    def _push(self, delta: Tensor, samples: int, steps: int, basis: int, rate: float) -> None:
        self._turns.wait(self._job, (self._now.found, 1))
        formats.send(self._channel, self._wire, delta, self._rest(delta))
        formats.receive(self._channel, self._wire, delta)
        stale = self._now.staleness
        self._hub.store.push(delta, basis + stale, samples, steps, stale, rate)

    def _pull(self, out: Tensor) -> Pulled:
        self._turns.wait(self._job, (self._now.pulled, 0))
        now, store = self._now, self._hub.store
        newest = store.lend(now.version)
        out.copy_(newest)
        store.give_back(newest)
        if self._wire in formats.FORMATS:
            self._round(out)
        return Pulled(now.version, store.samples, now.staleness, now.pulled, now.found)

    def _round(self, newest: Tensor) -> None:
        """Make of the newest weights what the group has of them after a pull."""
        if not len(self._held):
            self._held = newest.clone()
        formats.send_newest(Loopback(), self._wire, newest, self._held)
        newest.copy_(self._held)


class Loopback:
    """A link to oneself."""

    def __init__(self) -> None:
        self._sent: deque[Tensor] = deque()

    def send(self, tensor: Tensor) -> None:
        self._sent.append(tensor.clone())

    def recv(self, tensor: Tensor) -> None:
        tensor.copy_(self._sent.popleft())

    def close(self) -> None:
        self._sent.clear()
