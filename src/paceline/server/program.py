"""The parameter server: one thread a link, one lock for weights, ledger and membership.

thread of group a   header -> LEASE, PUSH, PULL, REDUCE, ...   (the lock is held only while memory is touched)
thread of group b   header -> ...
                               `---- condition: "something changed" wakes those who wait for a lease or a sum
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from paceline.errors import LinkError, PacelineError
from paceline.ops import Range
from paceline.schema.hello import Hello
from paceline.server import formats, messages
from paceline.server.ledger import Ledger
from paceline.server.messages import OK, Channel, Verb, recv_header, recv_ranges, send_header, send_ranges
from paceline.server.paces import Paces
from paceline.server.rules.base import Rule
from paceline.server.store import Store
from paceline.server.sums import Sums
from paceline.server.window import Window


class ParameterServer:
    """Holds the run's global state and serves each group's link.

    Args:
        rule: what to do with a push.
        groups: how many groups the run starts with; nobody gets a lease before all have joined.
        global_batch: samples of one update of the whole cluster.
        grace: seconds from a first push on in which those of the other groups become one version with it.
        paces: what each group may have of the epoch at a time.
        timeout: seconds that a wait for other groups may last.
        settled: hears of each range of an epoch that is trained.
    """

    def __init__(
        self,
        rule: Rule,
        groups: int,
        global_batch: int,
        timeout: float = 300.0,
        grace: float = 0.0,
        paces: Paces | None = None,
        settled: Callable[[int, Range], None] = lambda epoch, trained: None,
    ) -> None:
        self._changed = threading.Condition()
        self._store = Store(rule, global_batch)
        self._ledger, self._sums = Ledger(), Sums()
        self._awaited = groups
        self._hello: Hello | None = None  # of the first group
        self._alive: dict[str, int] = {}  # group -> its place among the groups
        self._size = 0  # values that each exchanges
        self._window, self._paces = Window(grace), paces or Paces()
        self._pushed: dict[str, tuple[int, int]] = {}  # group -> staleness and pushes found, of its last push
        self._held: dict[str, Tensor] = {}  # group -> what it has pulled, where a pull carries the difference to it
        self._timeout, self._settled = timeout, settled
        self.events: list[dict[str, Any]] = []

    def join(self, group: str, size: int, hello: Hello | None = None, place: int = 0) -> bool:
        """Register a group whose weights have ``size`` values; True if it must bring the initial weights. Of those that
        are here the one with the lowest ``place`` is the main one.

        Raises:
            LinkError: the name is taken, or the group differs from those that are here (its size, its ``hello``).
        """
        with self._changed:
            if group in self._alive:
                raise LinkError(f"group '{group}' has joined already", remedy="Give each group its own name.")
            same = "Run the same recipe with the same arguments everywhere."
            if hello is not None:
                self._hello = self._hello or hello
                if (difference := self._hello.difference(hello)) is not None:
                    raise LinkError(f"the groups differ: {difference}", remedy=same)
            if self._alive and size != self._size:
                said = f"group '{group}' exchanges {size} values"
                raise LinkError(said, expected=f"{self._size}, as the other groups do", remedy=same)
            first = not self._alive and not self._store.ready
            self._alive[group], self._size = place, size
            self._awaited = max(0, self._awaited - 1)
            self._note("join", group)
            return first

    def serve(self, group: str, channel: Channel) -> None:
        """Answer ``group`` until it leaves or is gone. One thread a group."""
        try:
            self._converse(group, channel)
            self._drop(group, "leave", "")
        except Exception as error:  # whatever ended it, the group's samples go back and the others go on
            print(f"group {group}: {error}", file=sys.stderr, flush=True)
            self._drop(group, "lost", str(error))
        finally:
            channel.close()

    @property
    def finished(self) -> bool:
        """All groups have come and gone."""
        with self._changed:
            return not self._awaited and not self._alive

    def changed(self, timeout: float) -> None:
        """Wait until something changes, ``timeout`` seconds at most."""
        with self._changed:
            self._changed.wait(timeout)

    def gave_up(self, group: str) -> None:
        """A group joined but never opened its link."""
        self._drop(group, "lost", "it never opened its link")

    def status(self) -> dict[str, Any]:
        """Membership, version, samples, the ledger and the events so far, as JSON values."""
        with self._changed:
            return {
                "groups": sorted(self._alive),
                "version": self._window.number,
                "pushes": self._store.pushes,
                "samples": self._store.samples,
                "staleness": dict(self._store.staleness),
                "ledger": {"epoch": self._ledger.epoch, "size": self._ledger.size, "done": self._ledger.done},
                "events": self.events,
            }

    def _converse(self, group: str, channel: Channel) -> None:
        buffer = torch.empty(self._size)
        answers: dict[int, Callable[..., None]] = {
            Verb.LEASE: self._lease, Verb.INITIAL: self._initial, Verb.PUSH: self._push, Verb.PULL: self._pull,
            Verb.REDUCE: self._reduce, Verb.SNAPSHOT: self._snapshot,
        }  # fmt: skip
        while True:
            verb, *numbers = recv_header(channel)
            if verb == Verb.LEAVE:
                return
            if verb not in answers:
                raise LinkError(f"group '{group}' sent verb {verb}, which is not one")
            try:
                answers[verb](group, channel, buffer, numbers)
            except LinkError:
                raise
            except PacelineError as error:
                messages.refuse(channel, str(error))

    def _lease(self, group: str, channel: Channel, buffer: Tensor, numbers: list[int]) -> None:
        epoch, size, want, batch, ahead, *_ = numbers
        with self._changed:
            self._wait(lambda: not self._awaited, "all groups to join")
            self._ledger.open(epoch, size)
            self._window.begin(epoch, self._alive)
            want = self._paces.fit(group, want, batch)
            if news := self._paces.news(group, batch):
                self._note("pace", news)
            while (lease := self._granted(group, want, batch, epoch, bool(ahead))) is None and not ahead:
                self._rest(group)
                self._changed.wait(timeout=1.0)
            if lease:
                self._window.train(group)
                if not ahead:
                    self._paces.begin(group, time.monotonic())
            elif not ahead:
                self._rest(group)
            lease = lease or Range(size, size)
            samples, main = self._store.samples, min(self._alive, key=lambda name: self._alive[name]) == group
        send_header(channel, OK, lease.start, lease.stop, samples, int(main))

    def _granted(self, group: str, want: int, batch: int, epoch: int, ahead: bool) -> Range | None:
        if not self._ledger.over and not self._paces.may_begin(group, self._window.training):
            return None
        return self._ledger.take(group, want, batch, epoch, ahead)

    def _initial(self, group: str, channel: Channel, buffer: Tensor, numbers: list[int]) -> None:
        count, samples, epoch, size, ranges, learned, *_ = numbers
        if not 0 <= learned <= count:
            raise LinkError(f"group '{group}' learns {learned} of {count} values")
        channel.recv(self._sized(group, buffer, count))
        left = recv_ranges(channel, ranges)
        with self._changed:
            self._store.initialise(buffer, samples, learned)
            if epoch >= 0:
                self._ledger.open(epoch, size, left)
            self._changed.notify_all()
        send_header(channel, OK)

    def _snapshot(self, group: str, channel: Channel, buffer: Tensor, numbers: list[int]) -> None:
        self._sized(group, buffer, numbers[0])
        with self._changed:
            self._wait(lambda: self._store.ready, "the initial weights")
            weights = self._store.lend()
            samples, ledger, left = self._store.samples, self._ledger, self._ledger.left
            epoch, size = ledger.epoch, ledger.size
        with self._read(weights):
            send_header(channel, OK, samples, epoch, size, len(left))
            channel.send(weights)
            send_ranges(channel, left)

    def _push(self, group: str, channel: Channel, buffer: Tensor, numbers: list[int]) -> None:
        basis, samples, steps, count, wire, rate, *_ = numbers
        formats.receive(channel, self._format(group, wire), self._sized(group, buffer, count))
        with self._changed:
            staleness = self._window.number - basis
            found = self._store.pushes
            self._store.push(buffer, self._window.number, samples, steps, staleness, messages.from_bits(rate))
            self._pushed[group] = staleness, found
            self._window.push(group, time.monotonic())
            self._paces.push(group, samples, time.monotonic())
            if (trained := self._ledger.settle(group)) is not None:
                self._settled(self._ledger.epoch, trained)
            self._changed.notify_all()

    def _pull(self, group: str, channel: Channel, buffer: Tensor, numbers: list[int]) -> None:
        count, wire, holds, *_ = numbers
        self._sized(group, buffer, count)
        name = self._format(group, wire)
        with self._changed:
            self._wait(lambda: self._store.ready, "the initial weights")
            while group in self._window:
                self._changed.wait(max(0.0, self._window.due - time.monotonic()))
                if time.monotonic() >= self._window.due:
                    self._window.close()
                    self._changed.notify_all()
            weights = self._store.lend(self._window.number)
            version, samples, pushes = self._window.number, self._store.samples, self._store.pushes
            staleness, found = self._pushed.get(group, (0, 0))
        with self._read(weights):
            send_header(channel, OK, version, samples, staleness, pushes, found)
            if holds and group in self._held:
                formats.send_newest(channel, name, weights, self._held[group])
                return
            channel.send(weights)
            if name in formats.FORMATS:
                self._held[group] = weights.clone()

    def _reduce(self, group: str, channel: Channel, buffer: Tensor, numbers: list[int]) -> None:
        if not 0 < numbers[0] <= messages.MOST_VALUES:
            raise LinkError(f"group '{group}' reduces {numbers[0]} values", expected=f"1 to {messages.MOST_VALUES}")
        values = torch.empty(numbers[0], dtype=torch.float64)
        channel.recv(values)
        with self._changed:
            mine = self._sums.round
            self._sums.add(group, values)
            self._close_round()
            self._wait(lambda: self._sums.round > mine, "the other groups to reduce")
            total = self._sums.total
        send_header(channel, OK)
        channel.send(total)

    def _rest(self, group: str) -> None:
        """It has nothing to train: no push of it is awaited."""
        if self._window.rest(group):
            self._changed.notify_all()

    def _close_round(self) -> None:
        if not self._awaited and self._sums.close(self._alive.keys()):
            self._changed.notify_all()

    def _drop(self, group: str, kind: str, why: str) -> None:
        with self._changed:
            returned = self._ledger.release(group)
            del self._alive[group]
            self._held.pop(group, None)
            self._window.rest(group)
            self._paces.forget(group)
            back = f"{sum(map(len, returned))} samples returned" if returned else ""
            self._note(kind, ": ".join(filter(None, (group, why, back))))
            self._close_round()
            self._changed.notify_all()

    @contextmanager
    def _read(self, weights: Tensor) -> Iterator[None]:
        """They are sent meanwhile."""
        try:
            yield
        finally:
            with self._changed:
                self._store.give_back(weights)

    def _sized(self, group: str, buffer: Tensor, count: int) -> Tensor:
        if count != buffer.numel():
            raise LinkError(f"group '{group}' announced {count} values", expected=str(buffer.numel()))
        return buffer

    def _format(self, group: str, number: int) -> str:
        if not 0 <= number < len(formats.NAMES):
            raise LinkError(f"group '{group}' named wire format {number}, which is not one")
        return formats.NAMES[number]

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        if not self._changed.wait_for(ready, timeout=self._timeout):
            raise LinkError(f"waited {self._timeout:g} s for {what}", remedy="See the logs of the other groups.")

    def _note(self, kind: str, what: str) -> None:
        self.events.append({"at": time.time(), "kind": kind, "what": what})
        self._changed.notify_all()
