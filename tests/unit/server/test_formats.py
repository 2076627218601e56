"""Wire formats: how much rounding leaves out, that it comes later, and that both sides hold the same bits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from paceline.running.virtual.hub import Loopback
from paceline.schema.plan import VALUE_BYTES, Wire, on_wire
from paceline.server import formats

ROUNDING: list[Wire] = ["bfloat16", "int8"]
COUNT = 3 * 256 + 17


class Counting(Loopback):
    """Counts the bytes that are sent."""

    bytes = 0

    def send(self, tensor: Tensor) -> None:
        self.bytes += tensor.numel() * tensor.element_size()
        super().send(tensor)


def values(seed: int, count: int = COUNT) -> Tensor:
    """Of very different sizes, as gradients of different layers are."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator) * torch.logspace(-6, 2, count)


def sent(name: Wire, given_values: Tensor, left: Tensor) -> Tensor:
    channel, out = Loopback(), torch.empty_like(given_values)
    formats.send(channel, name, given_values, left)
    formats.receive(channel, name, out)
    return out


@pytest.mark.parametrize("name", VALUE_BYTES)
def test_as_many_bytes_are_sent_as_plans_count(name: Wire):
    channel, count = Counting(), 1024 * 256
    formats.send(channel, name, values(0, count), torch.zeros(count))
    assert channel.bytes == on_wire(4 * count, name)


@pytest.mark.parametrize("name", ROUNDING)
@given(seed=st.integers(0, 1000))
def test_what_rounding_leaves_out_is_small_and_kept(name: Wire, seed: int):
    given_values, left = values(seed), torch.zeros(COUNT)
    out = sent(name, given_values, left)
    block = torch.stack([piece.abs().max() for piece in given_values.split(256)]).repeat_interleave(256)[:COUNT]
    bound = given_values.abs() / 256 if name == "bfloat16" else block / 127 / 2
    assert bool(((out - given_values).abs() <= bound * 1.001).all())
    torch.testing.assert_close(out + left, given_values)


@pytest.mark.parametrize("name", ROUNDING)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20))
def test_over_many_pushes_nothing_is_lost(name: Wire, seeds: list[int]):
    left = torch.zeros(COUNT)
    arrived = sum((sent(name, values(seed), left).double() for seed in seeds), torch.zeros(COUNT).double())
    pushed = sum((values(seed).double() for seed in seeds), torch.zeros(COUNT).double())
    torch.testing.assert_close(arrived + left, pushed, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ROUNDING)
def test_both_sides_hold_the_same_bits_and_come_to_the_weights(name: Wire):
    held, out = values(1), values(1)
    weights = values(2)
    for _ in range(6):
        channel = Loopback()
        formats.send_newest(channel, name, weights, held)
        formats.receive_newest(channel, name, out)
        assert torch.equal(held, out)
    torch.testing.assert_close(out, weights, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ROUNDING)
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_what_is_not_finite_does_not_become_so(name: Wire, wrong: float):
    bad = values(3)
    bad[5] = wrong
    assert not sent(name, bad, torch.zeros(COUNT))[5].isfinite()


@pytest.mark.parametrize("name", ROUNDING)
def test_more_than_one_piece(name: Wire, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(formats, "PIECE", 512)
    given_values, left = values(4), torch.zeros(COUNT)
    torch.testing.assert_close(sent(name, given_values, left) + left, given_values)
