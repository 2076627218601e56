"""A group's rounds with the server: what it leases, trains and pushes, and which weights come back for it.

lease        update ...       push          pull          adopt
Round -----> its basis -----> on its way -----------------> told
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from paceline.ops import Range


@dataclass(frozen=True, slots=True)
class Round:
    """``work``: of ``epoch``, leased ``ahead`` or not, when the group had ``heard`` that all of them had trained so
    many samples. ``basis``: the version of the weights that its oldest update was computed from."""

    epoch: int
    work: Range
    ahead: bool = False
    heard: int | None = None
    basis: int = 0


@dataclass(frozen=True, slots=True)
class Pulled:
    """Weights of ``version`` with so many ``pushes`` in them, trained on ``samples`` samples. The group's last push
    ``found`` so many there, and was ``staleness`` versions old."""

    version: int
    samples: int
    staleness: int
    pushes: int
    found: int


class Rounds:
    """Those of one group. ``version``: of the weights that it adopted last."""

    def __init__(self) -> None:
        self.version = 0
        self._leased: deque[Round] = deque()
        self._basis: int | None = None
        self._out: Round | None = None
        self._pushing: Range | None = None

    def lease(self, leased: Round) -> None:
        """The group has an answer; an empty one to a question ahead is none."""
        if leased.work or not leased.ahead:
            self._leased.append(leased)

    def update(self) -> None:
        """It has made an update."""
        if self._basis is None:
            self._basis = self.version

    def push(self) -> Round:
        """What it has trained is on its way."""
        basis, self._basis = self.version if self._basis is None else self._basis, None
        self._out = replace(self._leased.popleft(), basis=basis)
        self._pushing = self._out.work
        return self._out

    def arrived(self) -> None:
        """The server has the push."""
        self._pushing = None

    def open(self, trained: int) -> list[Range]:
        """What is trained and not at the server: the push on its way, and ``trained`` samples of the next round."""
        found = [self._pushing] if self._pushing is not None else []
        if trained:
            start = self._leased[0].work.start
            found.append(Range(start, start + trained))
        return found

    def pull(self) -> None:
        """So are the newest weights, after a push or without one."""
        if self._out is None:
            self._out = self._leased.popleft() if self._leased else Round(-1, Range(0, 0))

    def adopt(self, pulled: Pulled) -> dict[str, Any]:
        """It goes on from what it has pulled. Returns what a trace says of it."""
        out, self._out = self._out or Round(-1, Range(0, 0)), None
        self.version = pulled.version
        return {
            "version": pulled.version,
            "pushes": pulled.pushes,
            "epoch": out.epoch,
            "start": out.work.start,
            "stop": out.work.stop,
            "ahead": out.ahead,
            "heard": out.heard,
            "found": pulled.found,
            "staleness": pulled.staleness,
        }
