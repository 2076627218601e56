"""What a transport is: a place where two sides meet under a key and get a link that carries tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from torch import Tensor
from typing_extensions import Self

Side = Literal[0, 1]  # 0 listens (the server), 1 dials (a group's leader)


class Link(ABC):
    """One ordered connection between two sides. Both sides know dtype and size of what comes next.

    Every method raises LinkError if the peer is gone or stays silent for longer than the transport's limit.
    """

    @abstractmethod
    def send(self, tensor: Tensor) -> None:
        """Hand a contiguous CPU tensor to the peer; returns when the tensor may be changed again."""

    @abstractmethod
    def recv(self, tensor: Tensor) -> None:
        """Fill ``tensor`` with what the peer sent; dtype and size must match."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the link; the peer's next call raises."""


class Transport(ABC):
    """One side's end of the meeting place."""

    port: int

    @classmethod
    @abstractmethod
    def listen(cls, host: str, port: int, timeout: float) -> Self:
        """Open the meeting place; port 0 takes a free one, found in ``port``.

        Raises:
            LaunchError: the port is taken.
        """

    @classmethod
    @abstractmethod
    def dial(cls, host: str, port: int, timeout: float) -> Self:
        """Reach a meeting place. ``timeout``: seconds that any one wait may last.

        Raises:
            LinkError: nobody listens there.
        """

    @abstractmethod
    def open(self, key: str) -> Link:
        """The link called ``key``; returns once the other side opened it too."""

    @abstractmethod
    def close(self) -> None:
        """Leave the meeting place; open links live on."""
