"""How weights cross a link: as they are, rounded to bfloat16, or as 8-bit integers with a scale for each block of them.

Nothing is lost for good by rounding. What a push leaves out is added to the next one (error feedback: Seide et al.,
Interspeech 2014; Karimireddy et al., ICML 2019). A pull carries the difference to what the group has, rounded; what it
leaves out is in the next difference, and at the server the weights are never rounded.

    push   delta + left -> rounded -> server         left  = delta + left - rounded
    pull   newest - held -> rounded -> group         held += rounded, on both sides: the same bits
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from paceline.schema.plan import BLOCK, VALUE_BYTES
from paceline.server.messages import Channel

PIECE = 1 << 20  # values that are rounded and sent at once: the next are rounded while these are on their way


class Format(ABC):
    """One way to round flat float32 values. What is not finite does not become so."""

    @abstractmethod
    def encode(self, values: Tensor) -> Sequence[Tensor]:
        """What is sent for ``values``."""

    @abstractmethod
    def empty(self, count: int) -> Sequence[Tensor]:
        """Room for what is sent for ``count`` values."""

    @abstractmethod
    def decode(self, packet: Sequence[Tensor]) -> Tensor:
        """What the other side reads, as flat float32."""


class BFloat16(Format):
    """8 bits of exponent, 7 of fraction: a 256th of the value is lost at most."""

    def encode(self, values: Tensor) -> Sequence[Tensor]:
        return [values.bfloat16()]

    def empty(self, count: int) -> Sequence[Tensor]:
        return [torch.empty(count, dtype=torch.bfloat16)]

    def decode(self, packet: Sequence[Tensor]) -> Tensor:
        return packet[0].float()


class Int8(Format):
    """Blocks of values in steps of a 127th of the largest of them."""

    def encode(self, values: Tensor) -> Sequence[Tensor]:
        blocks = pad(values, (0, -len(values) % BLOCK)).view(-1, BLOCK)
        scales = blocks.abs().amax(1) / 127
        steps = blocks / torch.where(scales == 0, 1.0, scales).unsqueeze(1)
        return [scales, steps.round_().to(torch.int8).flatten()[: len(values)]]

    def empty(self, count: int) -> Sequence[Tensor]:
        return [torch.empty(-(-count // BLOCK)), torch.empty(count, dtype=torch.int8)]

    def decode(self, packet: Sequence[Tensor]) -> Tensor:
        scales, steps = packet
        return steps.float().mul_(scales.repeat_interleave(BLOCK)[: len(steps)])


NAMES = tuple(VALUE_BYTES)  # a format's place here is how headers call it
FORMATS: dict[str, Format] = {"bfloat16": BFloat16(), "int8": Int8()}  # float32 is sent as it is


def send(channel: Channel, name: str, values: Tensor, left: Tensor) -> None:
    """Send ``values`` in the format ``name``, with what was ``left`` out before; ``left`` becomes what is now."""
    if name not in FORMATS:
        channel.send(values)
        return
    form = FORMATS[name]
    for piece, rest in zip(torch.split(values, PIECE), torch.split(left, PIECE), strict=True):
        packet = form.encode(rest.add_(piece))
        for part in packet:
            channel.send(part)
        rest.sub_(form.decode(packet))


def receive(channel: Channel, name: str, out: Tensor) -> None:
    """Fill ``out`` with what ``send`` sends in the same format."""
    if name not in FORMATS:
        channel.recv(out)
        return
    for piece in torch.split(out, PIECE):
        piece.copy_(_received(channel, FORMATS[name], len(piece)))


def send_newest(channel: Channel, name: str, weights: Tensor, held: Tensor) -> None:
    """Send ``weights`` to a side that has ``held`` of them, which becomes what it has then."""
    form = FORMATS[name]
    for piece, has in zip(torch.split(weights, PIECE), torch.split(held, PIECE), strict=True):
        packet = form.encode(piece - has)
        for part in packet:
            channel.send(part)
        has.add_(form.decode(packet))


def receive_newest(channel: Channel, name: str, held: Tensor) -> None:
    """Bring ``held`` up to date with what ``send_newest`` sends."""
    for piece in torch.split(held, PIECE):
        piece.add_(_received(channel, FORMATS[name], len(piece)))


def _received(channel: Channel, form: Format, count: int) -> Tensor:
    packet = form.empty(count)
    for part in packet:
        channel.recv(part)
    return form.decode(packet)
