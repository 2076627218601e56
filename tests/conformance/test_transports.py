"""Every transport of the table carries tensors the same way, and fails the same way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from paceline import tables
from paceline.errors import LaunchError, LinkError
from paceline.transports import TABLE
from paceline.transports.base import Link, Transport

Ends = tuple[Link, Link]


def meet(kind: type[Transport], timeout: float = 10.0, keys: tuple[str, ...] = ("k",)) -> list[Ends]:
    listener = kind.listen("127.0.0.1", 0, timeout)
    dialler = kind.dial("127.0.0.1", listener.port, timeout)
    with ThreadPoolExecutor(2) as pool:
        pairs = []
        for key in keys:
            here, there = pool.submit(listener.open, key), pool.submit(dialler.open, key)
            pairs.append((here.result(), there.result()))
    return pairs


@pytest.fixture(params=sorted(TABLE))
def kind(request: pytest.FixtureRequest) -> type[Transport]:
    return tables.load("transport", TABLE, request.param)


@pytest.fixture
def ends(kind: type[Transport]) -> Iterator[Ends]:
    pair = meet(kind)[0]
    yield pair
    for end in pair:
        end.close()


def both(send: Link, recv: Link, tensor: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(tensor)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send.send, tensor)
        recv.recv(out)
        sent.result()
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8])
@pytest.mark.parametrize("size", [1, 8, 1000, 1_000_003])
def test_what_is_sent_arrives_in_both_directions(ends: Ends, dtype: torch.dtype, size: int) -> None:
    tensor = (torch.arange(size) % 251).to(dtype)
    assert torch.equal(both(ends[0], ends[1], tensor), tensor)
    assert torch.equal(both(ends[1], ends[0], tensor), tensor)


def test_messages_keep_their_order(ends: Ends) -> None:
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(lambda: [ends[0].send(torch.tensor([number])) for number in range(50)])
        out = torch.empty(1, dtype=torch.int64)
        got = []
        for _ in range(50):
            ends[1].recv(out)
            got.append(int(out))
        sent.result()
    assert got == list(range(50))


def test_a_sent_tensor_may_be_changed_at_once(ends: Ends) -> None:
    tensor, out = torch.ones(100_000), torch.empty(100_000)
    with ThreadPoolExecutor(1) as pool:
        got = pool.submit(ends[1].recv, out)
        ends[0].send(tensor)
        tensor.zero_()
        got.result()
    assert out.sum() == 100_000


def test_two_links_do_not_mix(kind: type[Transport]) -> None:
    first, second = meet(kind, keys=("a", "b"))
    with ThreadPoolExecutor(2) as pool:
        sends = [pool.submit(first[0].send, torch.tensor([1])), pool.submit(second[0].send, torch.tensor([2]))]
        out = torch.empty(1, dtype=torch.int64)
        second[1].recv(out)
        assert int(out) == 2
        first[1].recv(out)
        assert int(out) == 1
        for send in sends:
            send.result()


def test_a_closed_peer_is_an_error_and_other_links_go_on(kind: type[Transport]) -> None:
    gone, alive = meet(kind, keys=("gone", "alive"))
    gone[1].close()
    with pytest.raises(LinkError, match=r"gone|closed|silent"):
        gone[0].recv(torch.empty(4))
    tensor = torch.arange(4.0)
    assert torch.equal(both(alive[0], alive[1], tensor), tensor)


def test_a_silent_peer_is_an_error_after_the_limit(kind: type[Transport]) -> None:
    (ends,) = meet(kind, timeout=1.0)
    with pytest.raises(LinkError, match="silent"):
        ends[0].recv(torch.empty(4))


def test_nobody_listening_is_an_error(kind: type[Transport]) -> None:
    listener = kind.listen("127.0.0.1", 0, 5.0)
    listener.close()
    with pytest.raises(LinkError, match="nobody"):
        kind.dial("127.0.0.1", listener.port, timeout=1.0)


def test_a_taken_port_is_an_error(kind: type[Transport]) -> None:
    listener = kind.listen("127.0.0.1", 0, 5.0)
    with pytest.raises(LaunchError, match=f"{listener.port}"):
        kind.listen("127.0.0.1", listener.port, 5.0)
