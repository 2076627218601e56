"""A link is a process group of two over gloo, made on its own prefix of a TCP store.

The death of a peer is an exception at once, other links do not notice, and a newcomer makes a new link at any time.
"""

from __future__ import annotations

import datetime
import socket
from typing import Any

from torch import Tensor
from torch.distributed import PrefixStore, ProcessGroupGloo, TCPStore  # type: ignore[attr-defined]
from typing_extensions import Self

from paceline import ports
from paceline.errors import LinkError
from paceline.transports.base import Link, Side, Transport


class PairLink(Link):
    """Sends and receives on a process group of two."""

    def __init__(self, group: ProcessGroupGloo, side: Side, key: str) -> None:
        self._group: ProcessGroupGloo | None = group
        self._side, self._peer, self._key = side, 1 - side, key

    def send(self, tensor: Tensor) -> None:
        self._run("send", tensor)

    def recv(self, tensor: Tensor) -> None:
        self._run("recv", tensor)

    def close(self) -> None:
        self._group = None  # the sockets go with the group

    def _run(self, verb: str, tensor: Tensor) -> None:
        if self._group is None:
            raise LinkError(f"link '{self._key}' is closed")
        try:
            getattr(self._group, verb)([tensor], self._peer, 0).wait()
        except RuntimeError as error:
            raise _translated(error, self._key) from error


class PairTransport(Transport):
    """Meets at a TCP store that listens on one address only."""

    def __init__(self, store: TCPStore, host: str, side: Side, timeout: float) -> None:
        self._store, self._host, self._side = store, host, side
        self._timeout = datetime.timedelta(seconds=timeout)
        self.port = store.port

    @classmethod
    def listen(cls, host: str, port: int, timeout: float) -> Self:
        door = ports.listen(host, port)
        port = door.getsockname()[1]
        return cls(_store(host, port, timeout, listen_fd=door.detach()), host, 0, timeout)

    @classmethod
    def dial(cls, host: str, port: int, timeout: float) -> Self:
        try:
            return cls(_store(host, port, timeout), host, 1, timeout)
        except (RuntimeError, TimeoutError) as error:
            raise LinkError(f"nobody answers on {host}:{port}", remedy="Is `paceline serve` running there?") from error

    def open(self, key: str) -> Link:
        options = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
        options._timeout = self._timeout
        options._devices = [ProcessGroupGloo.create_device(hostname=self._interface())]
        try:
            group = ProcessGroupGloo(PrefixStore(key, self._store), self._side, 2, options)
        except RuntimeError as error:
            raise _translated(error, key) from error
        return PairLink(group, self._side, key)

    def close(self) -> None:
        del self._store

    def _interface(self) -> str:
        """This host's address on the way to the meeting place."""
        if self._side == 0:
            return self._host
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((self._host, self.port))
            return str(probe.getsockname()[0])


def _store(host: str, port: int, timeout: float, listen_fd: int | None = None) -> TCPStore:
    options: dict[str, Any] = {} if listen_fd is None else {"master_listen_fd": listen_fd}
    return TCPStore(
        host, port, None, listen_fd is not None, datetime.timedelta(seconds=timeout), wait_for_workers=False, **options
    )


def _translated(error: RuntimeError, key: str) -> LinkError:
    text = str(error)
    if "imed out" in text or "timeout" in text.lower():
        return LinkError(f"the peer of link '{key}' was silent for too long", remedy="Is it still running?")
    return LinkError(f"the peer of link '{key}' is gone", remedy="See its log for why it ended.")
