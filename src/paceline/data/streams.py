"""Samples that come one after another, of a number nobody knows before: each worker's own, in its own order.

An update is what the workers have ready. Each looks one portion ahead and says how much that is, so that all know
when the last one is through, and nobody waits for a worker that has nothing left.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from torch.utils.data import Dataset, IterableDataset

from paceline.data.batches import Collate, fetch

Make = Callable[[Sequence[Any], tuple[int, ...]], Any]


class Stream:
    """One worker's portions, each the samples of one update.

    Args:
        opened: begins from the start.
        make: a list of what ``opened`` yields, and the key of what is random in it -> a batch.
    """

    def __init__(self, opened: Callable[[], Iterator[list[Any]]], make: Make) -> None:
        self._opened, self.make = opened, make
        self._portions: Iterator[list[Any]] = iter(())
        self.ahead: list[Any] = []
        self.spare: list[Any] = []  # one item to go through the motions with once there is nothing left

    def restart(self) -> None:
        """Go back to the start, with the first portion ahead."""
        self._portions = filter(None, self._opened())
        self.take()

    def take(self) -> list[Any]:
        """The portion that was ahead; the next one is ahead then, or an empty list."""
        now, self.ahead = self.ahead, next(self._portions, [])
        self.spare = (self.ahead or now or self.spare)[-1:]
        return now

    @property
    def checksum(self) -> int:
        """Of the portion ahead, as it prints; 0 if there is none."""
        return zlib.crc32(repr(self.ahead).encode()) if self.ahead else 0


def of_iterable(dataset: IterableDataset[Any], size: int, collate: Collate) -> Stream:
    """Portions of ``size`` samples of an iterable dataset, the last one possibly smaller."""

    def opened() -> Iterator[list[Any]]:
        samples = iter(dataset)
        while portion := list(itertools.islice(samples, size)):
            yield portion

    return Stream(opened, lambda portion, _: collate(list(portion)))


def of_sampler(dataset: Dataset[Any], batches: Iterable[Sequence[int]], collate: Collate) -> Stream:
    """A map-style dataset in the user's own batches of indices, in their order."""
    return Stream(lambda: map(list, batches), lambda indices, key: fetch(dataset, indices, collate, key))
