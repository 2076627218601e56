"""What a strategy is: a layout the planner fills in, and a program that both interpreters run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from paceline import tables
from paceline.ops import Program, Range
from paceline.strategies import TABLE


@dataclass(frozen=True, slots=True)
class Layout:
    """What the planner needs to know to give each worker its part.

    devices: all of them, or only the fastest.
    jobs: one torchrun job for all workers, or one per group, or one per device.
    shares: of the global batch, ``even`` or in proportion to ``speed``.
    reduces: the workers of a job sum their gradients.
    server: groups meet at a parameter server.
    gradients: they push steps of plain SGD, and the server has the optimizer; else the difference they have made.
    in_step: the server waits for the push of each of them.
    """

    devices: Literal["all", "fastest"] = "all"
    jobs: Literal["one", "groups", "devices"] = "one"
    shares: Literal["even", "speed"] = "even"
    reduces: bool = True
    server: bool = False
    gradients: bool = False
    in_step: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """One worker as its program sees it.

    ``shares``: samples of one update for each worker that reduces with this one.
    ``position``: this worker's place among them.
    ``local_steps``: updates between two exchanges with the server.
    ``overlap``: those of them that are made while an exchange is on its way; 0: its group waits for it.
    """

    shares: tuple[int, ...]
    position: int
    local_steps: int = 1
    overlap: int = 0

    @property
    def batch(self) -> int:
        """Samples of one update, over all that reduce together."""
        return sum(self.shares)

    @property
    def leads(self) -> bool:
        return self.position == 0

    def with_shares(self, shares: tuple[int, ...]) -> Self:
        """The same worker, where an update is cut otherwise."""
        return self if shares is self.shares else replace(self, shares=shares)

    def part(self, work: Range) -> Range:
        """This worker's piece of one update's samples."""
        return work.cut(self.shares)[self.position]


class Strategy(ABC):
    """One way of training together. Stateless: all state lives in the program's own frame."""

    about: ClassVar[str]
    layout: ClassVar[Layout]
    baseline: ClassVar[bool] = False  # made to compare with; nobody is offered it

    @abstractmethod
    def program(self, me: Member) -> Program:
        """One worker's endless part; the interpreter closes it after the last epoch."""


def get(name: str) -> Strategy:
    """The strategy called ``name``.

    Raises:
        ConfigError: no such strategy.
    """
    strategy: Strategy = tables.load("strategy", TABLE, name)()
    return strategy
