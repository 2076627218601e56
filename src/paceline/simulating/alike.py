"""Workers of a job as their programs see them, those that cannot differ taken together: with 10,000 devices the same
update would else be gone through 10,000 times."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from paceline.ops import Range
from paceline.schema.plan import JobPlan
from paceline.simulating.scenario import Scenario
from paceline.strategies.base import Layout, Member


class DifferError(Exception):
    """Workers that were taken for alike are not."""


class Cutter:
    """Cuts an update's samples into the shares of all peers, once for all of them."""

    def __init__(self, shares: tuple[int, ...]) -> None:
        self.shares, self.batch = shares, sum(shares)
        self.work = Range(0, 0)
        self._starts = [0, *accumulate(shares)]
        self._pieces: list[Range] | None = None
        self._planned = True

    def change(self, shares: tuple[int, ...]) -> None:
        """Cut the next update into these shares, of which peers that are alike may have unequal ones."""
        self.shares, self._starts, self._planned = shares, [0, *accumulate(shares)], False
        self.work, self._pieces = Range(0, 0), None

    def take(self, work: Range) -> None:
        """What is cut from now on."""
        if work != self.work:
            self.work = work
            self._pieces = None if len(work) == self.batch else work.cut(self.shares)

    @property
    def whole(self) -> bool:
        """Whether each peer has the share that was planned."""
        return self._planned and self._pieces is None

    def piece(self, place: int) -> Range:
        """Of the peer at ``place``."""
        if self._pieces is not None:
            return self._pieces[place]
        return Range(self.work.start + self._starts[place], self.work.start + self._starts[place + 1])


@dataclass(frozen=True, slots=True)
class Peer(Member):
    """A member that shares with its peers what is the same for all. It stands for others too, so its program may ask
    where it stands only through ``leads`` and ``part``."""

    batch: int = 0
    cutter: Cutter = field(default_factory=lambda: Cutter(()))

    def part(self, work: Range) -> Range:
        self.cutter.take(work)
        return self.cutter.piece(self.position)


@dataclass(frozen=True, slots=True)
class Alike:
    """The workers at ``places`` of a job, whose programs take the same steps at the same times.

    They have one worker's times, share and group. A leader, and a worker that a scenario touches, stand alone.
    ``cutter``: for workers that reduce together. ``runs``: the first and the last of places that follow one another.
    """

    places: tuple[int, ...]
    member: Member
    cutter: Cutter | None
    runs: list[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        starts = [place for before, place in pairwise((-2, *self.places)) if place > before + 1]
        stops = [place for place, after in pairwise((*self.places, self.places[-1] + 2)) if after > place + 1]
        object.__setattr__(self, "runs", list(zip(starts, stops, strict=True)))

    def sizes(self, own: Range) -> list[int]:
        """Samples of each in an update of which the first one trains ``own``; one number if all have as many.

        Raises:
            DifferError: that is not what it was asked to cut last.
        """
        if self.cutter is None or len(self.places) == 1:
            return [len(own)]
        if self.cutter.piece(self.places[0]) != own:
            raise DifferError
        return [len(own)] if self.cutter.whole else [len(self.cutter.piece(place)) for place in self.places]

    def parts(self, own: Range) -> list[Range]:
        """What they train of that update, neighbours joined."""
        if self.cutter is None or len(self.places) == 1:
            return [own]
        return [Range(self.cutter.piece(first).start, self.cutter.piece(last).stop) for first, last in self.runs]


def alike(layout: Layout, job: JobPlan, scenario: Scenario, first: int, merge: bool) -> list[Alike]:
    """The workers of ``job``, in the order of their first places.

    Args:
        first: global rank of the worker at place 0.
        merge: take like ones together; else each is by itself.
    """
    all_lead = layout.server and not layout.reduces
    kinds: dict[tuple[str, int], list[int]] = {}
    for place, worker in enumerate(job.workers):
        own = not merge or all_lead or (layout.reduces and place == 0) or scenario.touches(first + place, worker.spread)
        kind = worker.model_dump_json(exclude={"device", "uuid", "name"})
        kinds.setdefault((kind, place if own else -1), []).append(place)
    if not layout.reduces:
        return [
            Alike(tuple(places), Member((job.workers[places[0]].share,), 0, job.local_steps, job.overlap), None)
            for places in kinds.values()
        ]
    cutter = Cutter(job.shares)
    return [
        Alike(tuple(places), Peer(job.shares, places[0], job.local_steps, job.overlap, cutter.batch, cutter), cutter)
        for places in kinds.values()
    ]
