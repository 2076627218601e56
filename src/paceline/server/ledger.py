"""The account of one run's samples: which positions of the epoch's order are taken, done, or given back.

       take             settle
free --------> leased --------> done          an epoch is over when all of it is done
  ^               |
  +---- release --+   (its group died)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from paceline.errors import ConfigError
from paceline.ops import Range

HOLDER = "all"  # the only one in a replica


class Ledger:
    """Hands out each position of each epoch once. Not thread-safe; the caller holds a lock.

    Groups take turns about equally often. What is left of an epoch for its last turn is given out in proportion to what
    they ask for, so that fast and slow groups end together.
    """

    def __init__(self) -> None:
        self.epoch = -1
        self.size = 0
        self.done = 0
        self._free: list[Range] = []
        self._leases: dict[str, list[Range]] = {}  # those of a group in the order in which it trains them
        self._wants: dict[str, int] = {}
        self._asked: set[str] = set()  # groups that got a lease in this turn

    def open(self, epoch: int, size: int, left: Sequence[Range] | None = None) -> None:
        """Start ``epoch`` of ``size`` samples; opening the running epoch or one before it does nothing.

        Groups leave an epoch one by one, so the first may open the next while others have yet to hear of the end.
        ``left``: what is still to be trained, where a part of the epoch is done already.

        Raises:
            ConfigError: another size than the other groups see, or an epoch that starts before the last one is over.
        """
        if epoch < self.epoch or (epoch == self.epoch and size == self.size):
            return
        if epoch == self.epoch:
            raise ConfigError(
                f"a group opened epoch {epoch} with {size} samples",
                expected=f"{self.size}, as the other groups have",
                remedy="Give every group the same dataset.",
            )
        if not self.over:
            raise ConfigError(
                f"a group opened epoch {epoch} while epoch {self.epoch} has {self.size - self.done} samples open",
                remedy="Use run.loader once an epoch, to its end, in every worker.",
            )
        self._free = [part for part in ([Range(0, size)] if left is None else left) if part]
        self.epoch, self.size, self.done = epoch, size, size - sum(map(len, self._free))
        self._leases.clear()
        self._asked.clear()

    @property
    def left(self) -> list[Range]:
        """What is not done: free or leased, joined and in order."""
        joined: list[Range] = []
        for part in sorted([*self._free, *chain.from_iterable(self._leases.values())], key=lambda part: part.start):
            if joined and joined[-1].stop == part.start:
                joined[-1] = Range(joined[-1].start, part.stop)
            else:
                joined.append(part)
        return joined

    @property
    def over(self) -> bool:
        """Every sample of the epoch is done."""
        return self.done == self.size

    def take(self, group: str, want: int, batch: int, epoch: int, ahead: bool = False) -> Range | None:
        """A lease of at most ``want`` samples of ``epoch``, in whole batches of ``batch`` where the epoch allows.

        Args:
            group: who asks.
            want: the most samples it would take.
            batch: samples of its update.
            epoch: the one the group is in, which may be over while another group has begun the next.
            ahead: the group may have one open lease.

        Returns:
            The range; an empty one if the epoch is over; ``None`` if all that is left is leased: a
            group's death would free it again, so ask again later.

        Raises:
            ConfigError: the group has more open leases than that.
        """
        if len(open_ones := self._leases.get(group, [])) > ahead:
            raise ConfigError(
                f"group '{group}' asked for more samples before it pushed {sum(map(len, open_ones))}",
                remedy="A strategy's program must push what it leased before its next Lease.",
            )
        self._wants[group] = want
        if epoch < self.epoch or self.over:
            return Range(self.size, self.size)
        if not self._free:
            return None
        size = min(want, -(-self._part(group, want) // batch) * batch)
        first = self._free[0]
        lease = Range(first.start, min(first.start + size, first.stop))
        self._free[0] = Range(lease.stop, first.stop)
        if not self._free[0]:
            self._free.pop(0)
        self._leases.setdefault(group, []).append(lease)
        return lease

    def _part(self, group: str, want: int) -> int:
        """All of ``want`` if there is enough for all groups that have yet to ask in this turn, or else its part."""
        if group in self._asked:
            self._asked.clear()
        left = sum(map(len, self._free))
        asking = sum(own for name, own in self._wants.items() if name not in self._asked)
        self._asked.add(group)
        return want if left >= asking else -(-left * want // asking)

    def settle(self, group: str) -> Range | None:
        """The group's oldest lease is trained and counts; returns it."""
        open_ones = self._leases.get(group)
        if not open_ones:
            return None
        lease = open_ones.pop(0)
        self.done += len(lease)
        return lease

    def release(self, group: str) -> list[Range]:
        """The group is gone: its open leases, returned here, are free again."""
        self._wants.pop(group, None)
        leases = self._leases.pop(group, [])
        self._free[:0] = leases
        return leases


class Replica:
    """A ledger for strategies without a server: every worker holds the same one and asks it the same questions, so no
    message is needed."""

    def __init__(self, samples: int = 0) -> None:
        self._ledger = Ledger()
        self.samples = samples

    @property
    def left(self) -> list[Range]:
        """What of the epoch is not trained, with the open lease."""
        return self._ledger.left

    def resume(self, epoch: int, size: int, left: Sequence[Range]) -> None:
        """Begin in the middle of an epoch."""
        self._ledger.open(epoch, size, left)

    def lease(self, epoch: int, size: int, want: int, batch: int) -> Range:
        """The next range of the epoch; the one before it counts as trained."""
        self.settle()
        self._ledger.open(epoch, size)
        granted = self._ledger.take(HOLDER, want, batch, epoch)
        return granted if granted is not None else Range(size, size)

    def settle(self) -> None:
        """The last lease is trained and counts."""
        settled = self._ledger.settle(HOLDER)
        self.samples += len(settled) if settled else 0


class Offers:
    """The same for one epoch of streams: a lease is what the workers say they have ready, whatever was asked for."""

    def __init__(self, samples: int) -> None:
        self.counts: Sequence[int] = ()
        self._lease = Range(0, 0)
        self.samples = samples

    @property
    def reached(self) -> int:
        """Samples of the epoch so far, with the running lease."""
        return self._lease.stop

    def offer(self, counts: Sequence[int]) -> None:
        """How many samples each worker has for the next update."""
        self.counts = counts

    def lease(self, epoch: int, size: int, want: int, batch: int) -> Range:
        """The next range; the one before it counts as trained."""
        self.settle()
        self._lease = Range(self._lease.stop, self._lease.stop + sum(self.counts))
        return self._lease

    def part(self, position: int) -> Range:
        """What the worker at ``position`` offered of the running lease."""
        start = self._lease.start + sum(self.counts[:position])
        return Range(start, start + self.counts[position])

    def settle(self) -> None:
        """The last lease is trained and counts."""
        self.samples += len(self._lease)
        self._lease = Range(self._lease.stop, self._lease.stop)
