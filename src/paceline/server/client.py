"""A group leader's end of a link to the server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from torch import Tensor

from paceline.ops import Range
from paceline.server.messages import (
    Channel,
    Progress,
    Verb,
    recv_answer,
    recv_ranges,
    send_header,
    send_ranges,
)
from paceline.server.rounds import Pulled


class Client:
    """Speaks the messages of ``server.messages`` over one link.

    Pushes and pulls go on beside what the caller does, one after another, until ``finish``; the tensors given to them
    are the link's until then. Whatever else is asked waits for them. Every method raises LinkError if the server is
    gone or silent, and ConfigError if it refuses; of a push or a pull ``finish`` or the next request does.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._thread = ThreadPoolExecutor(1, "exchange")
        self._begun: list[Callable[[], Pulled | None]] = []
        self._pulled: Pulled | None = None

    def initialise(self, weights: Tensor, progress: Progress) -> None:
        """Bring the run's initial weights (flat float32), and where it goes on (epoch -1: at the start)."""
        left = progress.left
        send_header(
            self._channel, Verb.INITIAL, weights.numel(), progress.samples, progress.epoch, progress.size, len(left)
        )  # fmt: skip
        self._channel.send(weights)
        send_ranges(self._channel, left)
        recv_answer(self._channel)

    def snapshot(self, out: Tensor) -> Progress:
        """Fill ``out`` (flat float32) with the newest weights, and tell what they were trained on."""
        self._settle()
        send_header(self._channel, Verb.SNAPSHOT, out.numel())
        samples, epoch, size, ranges, *_ = recv_answer(self._channel)
        self._channel.recv(out)
        return Progress(samples, epoch, size, recv_ranges(self._channel, ranges))

    def lease(self, epoch: int, size: int, want: int, batch: int, ahead: bool = False) -> tuple[Range, int]:
        """The next range of the epoch, empty when all of it is done, and the samples trained so far by all groups.

        Waits while all that is left is leased to others, but not ``ahead`` of the push of the lease before: then the
        answer is empty too.
        """
        self._settle()
        send_header(self._channel, Verb.LEASE, epoch, size, want, batch, int(ahead))
        start, stop, samples, *_ = recv_answer(self._channel)
        return Range(start, stop), samples

    def push(self, delta: Tensor, samples: int, steps: int, basis: int) -> None:
        """Begin to push what was learned (flat float32) from the version ``basis``."""
        self._begin(partial(self._push, delta, samples, steps, basis))

    def pull(self, out: Tensor) -> None:
        """Begin to fill ``out`` (flat float32) with the newest weights."""
        self._begin(partial(self._pull, out))

    def finish(self) -> Pulled | None:
        """Wait for all that has begun; returns what the last pull brought, if there was one since."""
        self._settle()
        pulled, self._pulled = self._pulled, None
        return pulled

    def reduce(self, values: Tensor) -> Tensor:
        """Sum ``values`` (float64) over all groups; every group must call it."""
        self._settle()
        send_header(self._channel, Verb.REDUCE, values.numel())
        self._channel.send(values)
        recv_answer(self._channel)
        self._channel.recv(values)
        return values

    def leave(self) -> None:
        """Say goodbye; the group's share of what is left goes to the others."""
        self._settle()
        send_header(self._channel, Verb.LEAVE)
        self._channel.close()

    def _begin(self, work: Callable[[], Pulled | None]) -> None:
        self._begun.append(self._thread.submit(work).result)

    def _settle(self) -> None:
        while self._begun:
            self._pulled = self._begun.pop(0)() or self._pulled

    def _push(self, delta: Tensor, samples: int, steps: int, basis: int) -> None:
        """No answer: the next pull waits for it anyway."""
        send_header(self._channel, Verb.PUSH, basis, samples, steps, delta.numel())
        self._channel.send(delta)

    def _pull(self, out: Tensor) -> Pulled:
        send_header(self._channel, Verb.PULL, out.numel())
        version, samples, staleness, pushes, found, *_ = recv_answer(self._channel)
        self._channel.recv(out)
        return Pulled(version, samples, staleness, pushes, found)
