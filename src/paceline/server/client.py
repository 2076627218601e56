"""A group leader's end of a link to the server."""

from __future__ import annotations

from torch import Tensor

from paceline.ops import Range
from paceline.server.messages import Channel, Verb, recv_answer, send_header


class Client:
    """Speaks the messages of ``server.messages`` over one link. Remembers the version it pulled last.

    Every method raises LinkError if the server is gone or silent, and ConfigError if it refuses.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.version = 0

    def initialise(self, weights: Tensor) -> None:
        """Bring the run's initial weights (flat float32)."""
        send_header(self._channel, Verb.INITIAL, weights.numel())
        self._channel.send(weights)
        recv_answer(self._channel)

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
