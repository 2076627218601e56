"""Links between threads of one process: the fake that ships, honest about closed peers and silent ones."""

from __future__ import annotations

import itertools
import queue
import threading
from typing import ClassVar

from torch import Tensor
from typing_extensions import Self

from paceline.errors import LaunchError, LinkError
from paceline.transports.base import Link, Side, Transport

Box = queue.Queue["Tensor | None"]  # None: the sender closed


class MemoryLink(Link):
    """Two queues, one a direction."""

    def __init__(self, outbox: Box, inbox: Box, timeout: float) -> None:
        self._outbox, self._inbox, self._timeout = outbox, inbox, timeout
        self._gone = False

    def send(self, tensor: Tensor) -> None:
        if self._gone:
            raise LinkError("the peer closed the link", remedy="Start the run again.")
        self._outbox.put(tensor.clone())

    def recv(self, tensor: Tensor) -> None:
        try:
            sent = None if self._gone else self._inbox.get(timeout=self._timeout)
        except queue.Empty:
            raise LinkError(f"the peer was silent for {self._timeout:g} s", remedy="Is it still running?") from None
        if sent is None:
            self._gone = True
            raise LinkError("the peer closed the link", remedy="Start the run again.")
        if sent.dtype != tensor.dtype or sent.numel() != tensor.numel():
            raise LinkError(
                f"the peer sent {sent.numel()} values of {sent.dtype}", expected=f"{tensor.numel()} of {tensor.dtype}"
            )
        tensor.copy_(sent.view_as(tensor))

    def close(self) -> None:
        self._gone = True
        self._outbox.put(None)


class _Hall:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.boxes: dict[str, tuple[Box, Box]] = {}
        self.arrived: dict[str, list[threading.Event]] = {}

    def meet(self, key: str) -> tuple[tuple[Box, Box], list[threading.Event]]:
        with self.lock:
            boxes = self.boxes.setdefault(key, (queue.Queue(), queue.Queue()))
            return boxes, self.arrived.setdefault(key, [threading.Event(), threading.Event()])


class MemoryTransport(Transport):
    """Meets in a hall of this process, found by its port number."""

    _halls: ClassVar[dict[int, _Hall]] = {}
    _ports: ClassVar[itertools.count[int]] = itertools.count(1)

    def __init__(self, port: int, side: Side, timeout: float) -> None:
        self.port, self._side, self._timeout = port, side, timeout
        self._hall = self._halls[port]

    @classmethod
    def listen(cls, host: str, port: int, timeout: float) -> Self:
        port = port or next(cls._ports)
        if port in cls._halls:
            raise LaunchError(f"port {port} is in use", remedy="Choose another port, or 0 for a free one.")
        cls._halls[port] = _Hall()
        return cls(port, 0, timeout)

    @classmethod
    def dial(cls, host: str, port: int, timeout: float) -> Self:
        if port not in cls._halls:
            raise LinkError(f"nobody listens on {host}:{port}", remedy="Start the server first.")
        return cls(port, 1, timeout)

    def open(self, key: str) -> Link:
        boxes, arrived = self._hall.meet(key)
        arrived[self._side].set()
        if not arrived[1 - self._side].wait(self._timeout):
            raise LinkError(f"the other side did not open '{key}' within {self._timeout:g} s")
        return MemoryLink(boxes[self._side], boxes[1 - self._side], self._timeout)

    def close(self) -> None:
        if self._side == 0:
            self._halls.pop(self.port, None)
