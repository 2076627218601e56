"""The operations a strategy's program is made of. Frozen, and free of tensors and of seconds.

Two interpreters run them: ``running.executor`` with tensors, ``simulating.interpreter`` with seconds.
Two have an answer, which the interpreter sends back into the program: ``Lease`` a ``Range``, ``Rebalance`` the shares.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Range:
    """Positions ``start <= p < stop`` of one epoch's global order of samples."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def chunks(self, size: int) -> list[Range]:
        """This range in pieces of ``size`` samples, the last one possibly smaller."""
        return [Range(at, min(at + size, self.stop)) for at in range(self.start, self.stop, size)]

    def cut(self, shares: Sequence[int]) -> list[Range]:
        """One piece per share, in order, whole samples, none left over.

        When the range holds exactly ``sum(shares)`` samples each piece is its share; a smaller range
        (the end of an epoch) is cut in the same proportions by largest remainder, lower index first.
        """
        total = sum(shares)
        sizes = [len(self) * share // total for share in shares]
        by_remainder = sorted(range(len(shares)), key=lambda i: (-(len(self) * shares[i] % total), i))
        for i in by_remainder[: len(self) - sum(sizes)]:
            sizes[i] += 1
        pieces, at = [], self.start
        for size in sizes:
            pieces.append(Range(at, at + size))
            at += size
        return pieces


@dataclass(frozen=True, slots=True)
class Lease:
    """Ask for the next ``samples`` of the epoch. Answer: a ``Range``, empty once the epoch is used up.

    ``ahead``: before what was leased last is pushed; empty too if all that is left is leased.
    """

    samples: int
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class Compute:
    """Forward and backward over ``part``; gradients are reduced over the ``peers`` as their buckets fill.

    ``total`` is the number of samples of this update over all peers, so each loss weighs ``len(part) / total``.
    """

    part: Range
    total: int
    peers: int


@dataclass(frozen=True, slots=True)
class Update:
    """The optimizers have stepped on ``samples`` samples (over all peers)."""

    samples: int


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Look whether the shares still fit what the workers are measured to take. Answer: the shares from now on."""


@dataclass(frozen=True, slots=True)
class Push:
    """The leader begins to send the server what the group learned over ``samples`` samples in ``steps`` local steps."""

    samples: int
    steps: int


@dataclass(frozen=True, slots=True)
class Pull:
    """The leader begins to fetch the newest weights from the server, behind what it pushes."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """The group waits for its push and pull, and goes on from those weights and what it has learned since the push."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Wait until every worker of the job is here; measuring starts now."""


Operation = Lease | Compute | Update | Rebalance | Push | Pull | Adopt | Barrier
Program = Generator[Operation, Any, None]
