"""A group leader's end of a link to the server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from torch import Tensor

from paceline.ops import Range
from paceline.server import formats
from paceline.server.messages import (
    Channel,
    Progress,
    Verb,
    bits,
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

    def __init__(self, channel: Channel, wire: str = "float32") -> None:
        self._channel, self._wire = channel, wire
        self._left = torch.zeros(0)  # of the pushes before, by rounding
        self._holds = False  # what was pulled before
        self.main = False  # the group is the first of those that are left, as of its last lease
        self._thread = ThreadPoolExecutor(1, "exchange")
        self._begun: list[Callable[[], Pulled | None]] = []
        self._pulled: Pulled | None = None

    def initialise(self, weights: Tensor, progress: Progress, learned: int) -> None:
        """Bring the run's initial weights (flat float32, ``learned`` parameters and then buffers), and where it goes on
        (epoch -1: at the start)."""
        count, left = weights.numel(), progress.left
        numbers = progress.samples, progress.epoch, progress.size, len(left), learned
        send_header(self._channel, Verb.INITIAL, count, *numbers)
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
        start, stop, samples, main, *_ = recv_answer(self._channel)
        self.main = bool(main)
        return Range(start, stop), samples

    def push(self, delta: Tensor, samples: int, steps: int, basis: int, rate: float = 0.0) -> None:
        """Begin to push what was learned from the version ``basis`` (flat float32: differences of parameters, buffers
        as they are); see ``server.formats`` for how. ``rate``: of a step of plain SGD."""
        self._begin(partial(self._push, delta, samples, steps, basis, rate))

    def pull(self, out: Tensor) -> None:
        """Begin to fill ``out`` (flat float32) with the newest weights; it must hold what was pulled before."""
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

    def _push(self, delta: Tensor, samples: int, steps: int, basis: int, rate: float) -> None:
        """No answer: the next pull waits for it anyway."""
        wire = formats.NAMES.index(self._wire)
        send_header(self._channel, Verb.PUSH, basis, samples, steps, delta.numel(), wire, bits(rate))
        formats.send(self._channel, self._wire, delta, self._rest(delta))

    def _pull(self, out: Tensor) -> Pulled:
        wire = formats.NAMES.index(self._wire)
        send_header(self._channel, Verb.PULL, out.numel(), wire, int(self._holds))
        version, samples, staleness, pushes, found, *_ = recv_answer(self._channel)
        if wire and self._holds:
            formats.receive_newest(self._channel, self._wire, out)
        else:
            self._channel.recv(out)
        self._holds = True
        return Pulled(version, samples, staleness, pushes, found)

    def _rest(self, delta: Tensor) -> Tensor:
        if self._wire in formats.FORMATS and not len(self._left):
            self._left = torch.zeros_like(delta)
        return self._left
