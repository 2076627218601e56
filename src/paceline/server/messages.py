"""What crosses a link: a header of eight int64 each way, then at most one tensor whose size the header gives.

request  [verb, seven numbers]                    payload
LEASE    epoch, size, want, batch, ahead
INITIAL  count, samples, epoch, size, ranges,     float32[count], the first group's weights, of which the first
         learned                                  ``learned`` are parameters
PUSH     basis, samples, steps, count, format,   count values: of parameters the difference, else as it is
         rate (the bits of a float64)
PULL     count, format, holds
REDUCE   count                                   float64[count], to be summed over the groups
SNAPSHOT count
LEAVE

answer   [status, seven numbers]                  payload
LEASE    start, stop, samples, main
PUSH     none: the next PULL waits for it anyway
PULL     version, samples, staleness, pushes,    float32[count], the weights; in a rounding format, for a group that
         found                                   holds what it has pulled before, the rounded difference to that
REDUCE                                           float64[count], the sums
SNAPSHOT samples, epoch, size, ranges            float32[count], the weights
INITIAL and the answer to SNAPSHOT go on with int64[ranges, 2]: what is left of the epoch (none if epoch is -1)
format: as numbered in ``server.formats``
status 1: refused; then the length of            uint8[length], a sentence
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import torch
from torch import Tensor

from paceline.errors import ConfigError, LinkError
from paceline.ops import Range

HEADER = 8
OK, REFUSED = 0, 1
MOST_VALUES = 64  # of one REDUCE
MOST_RANGES = 1 << 20


class Verb(IntEnum):
    """What a group's leader asks for."""

    LEASE = 1
    INITIAL = 2
    PUSH = 3
    PULL = 4
    REDUCE = 5
    LEAVE = 6
    SNAPSHOT = 7


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: ``samples`` trained in all; of ``epoch`` with ``size`` samples, these parts are ``left``."""

    samples: int
    epoch: int
    size: int
    left: Sequence[Range]


class Channel(Protocol):
    """What the messages need of a link (see ``transports.base.Link``)."""

    def send(self, tensor: Tensor) -> None: ...
    def recv(self, tensor: Tensor) -> None: ...
    def close(self) -> None: ...


def send_header(channel: Channel, first: int, *numbers: int) -> None:
    """Send ``first`` (a verb or a status) and up to seven numbers."""
    header = torch.zeros(HEADER, dtype=torch.int64)
    header[: 1 + len(numbers)] = torch.tensor([first, *numbers])
    channel.send(header)


def recv_header(channel: Channel) -> list[int]:
    """The next header, eight integers."""
    header = torch.empty(HEADER, dtype=torch.int64)
    channel.recv(header)
    return [int(number) for number in header]


def bits(number: float) -> int:
    """A float64 as an integer of a header."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def from_bits(number: int) -> float:
    """What ``bits`` were of."""
    return float(struct.unpack("<d", struct.pack("<q", number))[0])


def send_ranges(channel: Channel, ranges: Sequence[Range]) -> None:
    """Send ranges whose number the other side knows."""
    if ranges:
        channel.send(torch.tensor([[part.start, part.stop] for part in ranges], dtype=torch.int64))


def recv_ranges(channel: Channel, count: int) -> list[Range]:
    """``count`` ranges.

    Raises:
        LinkError: a number that cannot be.
    """
    if not 0 <= count <= MOST_RANGES:
        raise LinkError(f"the other side announced {count} ranges", expected=f"at most {MOST_RANGES}")
    numbers = torch.empty(count, 2, dtype=torch.int64)
    if count:
        channel.recv(numbers)
    return [Range(start, stop) for start, stop in numbers.tolist()]


def refuse(channel: Channel, sentence: str) -> None:
    """Answer that the request cannot be met, and why."""
    text = torch.tensor(list(sentence.encode()), dtype=torch.uint8)
    send_header(channel, REFUSED, text.numel())
    channel.send(text)


def recv_answer(channel: Channel) -> list[int]:
    """The seven numbers of an answer.

    Raises:
        ConfigError: the server refused; carries its sentence.
    """
    status, *numbers = recv_header(channel)
    if status != OK:
        text = torch.empty(numbers[0], dtype=torch.uint8)
        channel.recv(text)
        raise ConfigError(f"the server refused: {bytes(text.tolist()).decode().rstrip('.')}")
    return numbers
