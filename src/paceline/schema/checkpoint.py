"""What a checkpoint says of itself: its completion mark, and what `paceline inspect` shows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paceline.schema.record import Record
from paceline.schema.settings import Settings

Count = Annotated[int, Field(ge=0)]
MARK = "state.json"  # the file that says that a folder is a checkpoint


class State(Record):
    """``state.json``: where the training stood when the folder ``data`` beside it was written.

    ``updates``: what schedulers have counted. ``left``: ranges [from, to) of the epoch's order that are still to be
    trained, of its ``epoch_size`` samples (0 before the first loader, and for streams). ``finished``: the epoch is over
    and the loop has left it. ``settings`` are what ``init`` was told. ``data`` is filled in by ``state.disk.save``.
    ``models`` and ``optimizers`` are class names; ``saved_at`` is ISO time.
    """

    version: Literal[1] = 1
    data: Annotated[str, Field(pattern=r"^(data-[0-9a-f]{32})?$")] = ""
    samples_seen: Count
    updates: Count
    epoch: Count
    epoch_size: Count
    left: list[tuple[Count, Count]]
    finished: bool
    settings: Settings
    strategy: str
    plan_hash: str
    versions: dict[str, str]
    saved_at: str
    models: list[str]
    optimizers: list[str]
    parameters: Count

    @property
    def samples_left(self) -> int:
        return sum(end - start for start, end in self.left)


class Part(Record):
    """The tensors of one model (parameters and buffers) or of one optimizer; ``values`` are their elements."""

    name: str
    tensors: int
    values: int
    bytes: int
    dtypes: list[str]


class Contents(Record):
    """A checkpoint that was read to its end."""

    state: State
    models: list[Part]
    optimizers: list[Part]
