"""A group leader's end of a link to the server."""

from __future__ import annotations

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


class Client:
    """Speaks the messages of ``server.messages`` over one link. Remembers the version it pulled last.

    Every method raises LinkError if the server is gone or silent, and ConfigError if it refuses.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.version = 0

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
        send_header(self._channel, Verb.SNAPSHOT, out.numel())
        samples, epoch, size, ranges, *_ = recv_answer(self._channel)
        self._channel.recv(out)
        return Progress(samples, epoch, size, recv_ranges(self._channel, ranges))

    def lease(self, epoch: int, size: int, want: int, batch: int) -> tuple[Range, int]:
        """The next range of the epoch, empty when all of it is done, and the samples trained so far by all groups.

        Waits while all that is left is leased to others.
        """
        send_header(self._channel, Verb.LEASE, epoch, size, want, batch)
        start, stop, samples, *_ = recv_answer(self._channel)
        return Range(start, stop), samples

    def push(self, delta: Tensor, samples: int, steps: int) -> None:
        """Push what was learned since the last pull (flat float32). No answer: the next pull waits for it anyway."""
        send_header(self._channel, Verb.PUSH, self.version, samples, steps, delta.numel())
        self._channel.send(delta)

    def pull(self, out: Tensor) -> tuple[int, int]:
        """Fill ``out`` (flat float32) with the newest weights.

        Returns:
            The samples they were trained on, and the staleness of this group's last push in versions.
        """
        send_header(self._channel, Verb.PULL, out.numel())
        self.version, samples, staleness, *_ = recv_answer(self._channel)
        self._channel.recv(out)
        return samples, staleness

    def reduce(self, values: Tensor) -> Tensor:
        """Sum ``values`` (float64) over all groups; every group must call it."""
        send_header(self._channel, Verb.REDUCE, values.numel())
        self._channel.send(values)
        recv_answer(self._channel)
        self._channel.recv(values)
        return values

    def leave(self) -> None:
        """Say goodbye; the group's share of what is left goes to the others."""
        send_header(self._channel, Verb.LEAVE)
        self._channel.close()
