"""Which pushes are one version of the weights: those of groups in step, within a grace time of the first.

group a   push ......... pull           all that are awaited have pushed: the window closes, and each of them pulls
group b       push ..... pull           the same version, from which it goes on: nobody is stale
group c            push  pull
group d   ---------------------- push   it missed the window by more than the grace: its push is a version of its
                                        own, for which nobody waits, and with the next one it is in step again
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set


class Window:
    """Who is in the open window and for whom it is kept open. Not thread-safe; the caller holds a lock.

    ``grace``: seconds from the first push of a window on; 0: each push is a version. ``number``: of the open window.
    """

    def __init__(self, grace: float) -> None:
        self.grace = grace
        self.number = 0
        self.due = math.inf  # when it closes, whoever is missing
        self._epoch = -1
        self._training: set[str] = set()
        self._late: set[str] = set()
        self._here: set[str] = set()

    def __contains__(self, group: str) -> bool:
        """Its push is in the open window."""
        return group in self._here

    def begin(self, epoch: int, groups: Iterable[str]) -> None:
        """All of ``groups`` go through ``epoch``, also those that have yet to ask for their first samples of it."""
        if epoch > self._epoch:
            self._epoch = epoch
            self._training |= set(groups)

    @property
    def training(self) -> Set[str]:
        """Groups that have samples, or will ask for some."""
        return self._training

    def train(self, group: str) -> None:
        """It has got samples, so there will be a push."""
        self._training.add(group)

    def rest(self, group: str) -> bool:
        """It has none left, or is gone; returns whether that closes the window."""
        self._training.discard(group)
        self._late.discard(group)
        return self._close_if_complete()

    def push(self, group: str, now: float) -> None:
        """Its push is in the weights. That of one that comes late and finds no window open is a version at once: the
        others are in the middle of their work, and to wait for them would only make it later."""
        late = group in self._late
        self._late.discard(group)
        if not self._here:
            if late:
                self.number += 1
                return
            self.due = now + self.grace
        self._here.add(group)
        self._close_if_complete()

    def close(self) -> None:
        """What is here is a version; nobody waits for those that are missing until they come."""
        self._late |= self._training - self._here
        self._here.clear()
        self.number += 1
        self.due = math.inf

    def _close_if_complete(self) -> bool:
        complete = bool(self._here) and (not self.grace or self._training - self._late <= self._here)
        if complete:
            self.close()
        return complete
