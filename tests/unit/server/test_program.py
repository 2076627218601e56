"""The server's conversation with its groups, over the shipped memory transport and real threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from paceline.errors import ConfigError, LinkError
from paceline.ops import Range
from paceline.server.client import Client
from paceline.server.messages import Progress, Verb, send_header
from paceline.server.paces import Paces
from paceline.server.program import ParameterServer
from paceline.server.rules.merge import Merge
from paceline.transports.base import Link
from paceline.transports.memory import MemoryTransport

SIZE = 6


class Hall:
    """A server and a way to join it."""

    def __init__(self, groups: int, timeout: float = 10.0, grace: float = 0.0, paces: Paces | None = None) -> None:
        self.settled: list[tuple[int, Range]] = []
        note = lambda *told: self.settled.append(told)  # noqa: E731
        self.server = ParameterServer(Merge(), groups, 8, timeout, grace, paces, note)
        self.listener = MemoryTransport.listen("", 0, timeout)
        self.timeout = timeout
        self.links: dict[str, Link] = {}
        self.threads: dict[str, threading.Thread] = {}

    def close(self) -> None:
        for link in self.links.values():
            link.close()
        self.listener.close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """The server does nothing meanwhile."""
        with self.server._changed:
            yield

    def join(self, group: str, wire: str = "float32", place: int = 0) -> Client:
        first = self.server.join(group, SIZE, place=place)
        with ThreadPoolExecutor(1) as pool:
            here = pool.submit(self.listener.open, group)
            self.links[group] = MemoryTransport.dial("", self.listener.port, self.timeout).open(group)
        self.threads[group] = threading.Thread(target=self.server.serve, args=(group, here.result()), daemon=True)
        self.threads[group].start()
        client = Client(self.links[group], wire)
        if first:
            client.initialise(torch.zeros(SIZE), Progress(0, -1, 0, ()), SIZE)
        return client


def pulled(client: Client, out: Tensor) -> tuple[int, int]:
    """Samples and staleness."""
    client.pull(out)
    answer = client.finish()
    assert answer is not None
    return answer.samples, answer.staleness


@pytest.fixture
def hall() -> Iterator[Hall]:
    made = Hall(groups=2)
    yield made
    made.close()


def test_first_group_brings_the_weights_and_the_others_take_them(hall: Hall) -> None:
    a, out = hall.join("a"), torch.empty(SIZE)
    a.push(torch.full((SIZE,), 8.0), samples=8, steps=1, basis=0)
    pulled(a, out)
    assert pulled(hall.join("b"), out.zero_()) == (8, 0)
    assert torch.equal(out, torch.full((SIZE,), 8.0))


def test_a_push_weighs_its_samples_per_step_against_the_global_batch(hall: Hall) -> None:
    a, out = hall.join("a"), torch.empty(SIZE)
    a.push(torch.ones(SIZE), samples=6, steps=3, basis=0)  # 2 samples a step of 8: a quarter
    pulled(a, out)
    assert torch.allclose(out, torch.full((SIZE,), 0.25))


@pytest.mark.parametrize("wire", ["bfloat16", "int8"])
def test_groups_that_round_learn_from_each_other_and_nothing_is_lost(hall: Hall, wire: str) -> None:
    a, b = hall.join("a", wire), hall.join("b")
    exact, rounded, delta = torch.zeros(SIZE), torch.zeros(SIZE), torch.linspace(-1.0, 1.3, SIZE)
    pulled(a, rounded)
    for round in range(1, 20):
        for client in (a, b):
            client.push(delta.clone(), samples=4, steps=1, basis=2 * round - 2)
        pulled(a, rounded)
        pulled(b, exact)
    pulled(a, rounded)
    torch.testing.assert_close(exact, 19 * delta, rtol=0, atol=0.02)  # a push can leave out so much, in all
    torch.testing.assert_close(rounded, exact, rtol=0, atol=0.02)
    assert not torch.equal(rounded, exact)


def test_a_group_that_names_no_wire_format_is_dropped(hall: Hall) -> None:
    a = hall.join("a")
    hall.join("b")
    send_header(hall.links["a"], Verb.PULL, SIZE, 7)
    hall.threads["a"].join(10)
    assert "named wire format 7" in str(hall.server.events[-1]["what"])
    assert a is not None


def leased(client: Client, samples: int) -> None:
    client.lease(0, 64, samples, 4)


def both(one: Callable[[], object], other: Callable[[], object]) -> list[Any]:
    """What they return, at the same time."""
    with ThreadPoolExecutor(2) as pool:
        return [begun.result(10) for begun in (pool.submit(one), pool.submit(other))]


@pytest.fixture
def patient() -> Iterator[Hall]:
    """A hall with a server that merges pushes as long as it takes."""
    made = Hall(groups=2, grace=1000.0)
    yield made
    made.close()


def test_pushes_within_the_grace_are_one_version(patient: Hall) -> None:
    a, b = patient.join("a"), patient.join("b")
    for round in range(3):
        both(partial(leased, a, 4), partial(leased, b, 4))
        for client, learned in ((a, 2.0), (b, 4.0)):
            client.push(torch.full((SIZE,), learned), samples=4, steps=1, basis=round)
        outs = torch.empty(SIZE), torch.empty(SIZE)
        answers = both(partial(pulled, a, outs[0]), partial(pulled, b, outs[1]))
        assert answers == [(8 * (round + 1), 0)] * 2
        assert torch.equal(outs[0], torch.full((SIZE,), 3.0 * (round + 1)))
        assert torch.equal(*outs)
    assert patient.server.status()["version"] == 3


def test_c047_after_each_of_300_rounds_both_hold_the_same_bits_however_late_one_is(patient: Hall) -> None:
    """What is pushed are whole numbers, so the order of sums does not count."""
    a, b = patient.join("a"), patient.join("b")
    outs, drawn, expected = (torch.empty(SIZE), torch.empty(SIZE)), torch.Generator().manual_seed(0), torch.zeros(SIZE)

    def round_of(client: Client, delta: Tensor, out: Tensor, round: int) -> None:
        for _ in range(int(torch.randint(0, 2000, (), generator=drawn))):
            pass  # late
        client.lease(0, 8 * 300, 4, 4)
        client.push(delta, samples=4, steps=1, basis=round)
        pulled(client, out)

    for round in range(300):
        deltas = [2.0 * torch.randint(-9, 9, (SIZE,), generator=drawn) for _ in range(2)]
        expected += (deltas[0] + deltas[1]) / 2
        first, second = partial(round_of, a, deltas[0], outs[0], round), partial(round_of, b, deltas[1], outs[1], round)
        both(first, second)
        assert torch.equal(*outs)
        assert torch.equal(outs[0], expected)


@pytest.mark.parametrize("ends", ["leaves", "dies"])
def test_a_group_that_is_gone_is_not_awaited(patient: Hall, ends: str) -> None:
    a, b = patient.join("a"), patient.join("b")
    both(partial(leased, a, 4), partial(leased, b, 4))
    a.push(torch.ones(SIZE), samples=4, steps=1, basis=0)
    a.pull(torch.empty(SIZE))
    if ends == "leaves":
        b.leave()
    else:
        patient.links["b"].close()
    answer = a.finish()
    assert answer is not None
    assert (answer.version, answer.staleness) == (1, 0)


def test_a_group_that_is_later_than_the_grace_is_not_awaited_and_its_push_counts() -> None:
    hall, out = Hall(groups=2, grace=0.01), torch.empty(SIZE)
    a, b = hall.join("a"), hall.join("b")
    both(partial(leased, a, 4), partial(leased, b, 4))
    a.push(torch.full((SIZE,), 2.0), samples=4, steps=1, basis=0)
    assert pulled(a, out) == (4, 0)
    b.push(torch.full((SIZE,), 4.0), samples=4, steps=1, basis=0)
    assert pulled(b, out) == (8, 1)
    assert torch.equal(out, torch.full((SIZE,), 3.0))
    hall.close()


def test_a_group_with_nothing_left_to_train_is_not_awaited(patient: Hall) -> None:
    a, b, out = patient.join("a"), patient.join("b"), torch.empty(SIZE)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(a.lease, 0, 4, 4, 4)
        second = pool.submit(b.lease, 0, 4, 4, 4)  # all samples are with a
        assert first.result(10)[0] == Range(0, 4)
        a.push(torch.ones(SIZE), samples=4, steps=1, basis=0)
        assert pulled(a, out) == (4, 0)
        assert not second.result(10)[0]


def test_staleness_counts_the_versions_since_the_one_that_was_learned_from(hall: Hall) -> None:
    a, b, out, delta = hall.join("a"), hall.join("b"), torch.empty(SIZE), torch.zeros(SIZE)
    pulled(a, out)
    pulled(b, out)
    a.push(delta, 4, 1, 0)
    assert pulled(a, out) == (4, 0)
    b.push(delta, 4, 1, 0)
    assert pulled(b, out) == (8, 1)
    a.push(delta, 4, 1, basis=1)
    assert pulled(a, out) == (12, 1)
    assert hall.server.status()["staleness"] == {0: 1, 1: 2}


def test_leases_cover_the_epoch_once_and_the_last_waits_for_the_others(hall: Hall) -> None:
    a, b, delta = hall.join("a"), hall.join("b"), torch.zeros(SIZE)
    first, _ = a.lease(0, 8, want=4, batch=4)
    second, _ = b.lease(0, 8, want=4, batch=4)
    assert [first, second] == [Range(0, 4), Range(4, 8)]
    a.push(delta, 4, 1, 0)
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(a.lease, 0, 8, 4, 4)
        b.push(delta, 4, 1, 0)
        assert not end.result()[0]
    assert hall.server.status()["ledger"] == {"epoch": 0, "size": 8, "done": 8}


def test_the_lease_of_a_lost_group_goes_to_the_others(hall: Hall) -> None:
    a, b, delta = hall.join("a"), hall.join("b"), torch.zeros(SIZE)
    a.lease(0, 8, want=4, batch=4)
    b.lease(0, 8, want=4, batch=4)
    a.push(delta, 4, 1, 0)
    hall.links["b"].close()
    again, _ = a.lease(0, 8, want=4, batch=4)
    assert again == Range(4, 8)
    assert [event["kind"] for event in hall.server.status()["events"]] == ["join", "join", "lost"]


def test_the_first_group_that_is_left_is_the_main_one(hall: Hall) -> None:
    first, second = hall.join("b", place=0), hall.join("a", place=1)
    for client in (second, first):
        client.lease(0, 64, want=4, batch=4)
    assert (first.main, second.main) == (True, False)
    hall.links["b"].close()
    hall.threads["b"].join(10)
    second.push(torch.zeros(SIZE), 4, 1, 0)
    second.lease(0, 64, want=4, batch=4)
    assert second.main


def test_nobody_gets_a_lease_before_all_groups_have_joined(hall: Hall) -> None:
    a = hall.join("a")
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(a.lease, 0, 8, 4, 4)
        assert not early.done()
        hall.join("b")
        assert early.result()[0] == Range(0, 4)


def test_a_group_that_is_ahead_is_held_back_until_another_pushes() -> None:
    hall = Hall(groups=2, paces=Paces(most=1))
    a, b, delta = hall.join("a"), hall.join("b"), torch.zeros(SIZE)
    both(partial(leased, a, 4), partial(leased, b, 4))
    a.push(delta, 4, 1, 0)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(a.lease, 0, 64, 4, 4)
        assert not held.done()
        b.push(delta, 4, 1, 0)
        assert held.result(10)[0] == Range(8, 12)
    hall.close()


def test_reduce_sums_over_groups_round_after_round(hall: Hall) -> None:
    a, b = hall.join("a"), hall.join("b")
    with ThreadPoolExecutor(2) as pool:
        for number in range(20):
            sums = [
                pool.submit(client.reduce, torch.tensor([number, own], dtype=torch.float64))
                for client, own in ((a, 1.0), (b, 2.0))
            ]
            assert [future.result().tolist() for future in sums] == [[2.0 * number, 3.0]] * 2


def test_reduce_goes_on_without_a_group_that_left(hall: Hall) -> None:
    a, b = hall.join("a"), hall.join("b")
    with ThreadPoolExecutor(1) as pool:
        sums = pool.submit(a.reduce, torch.ones(1, dtype=torch.float64))
        b.leave()
        assert sums.result().tolist() == [1.0]


def test_the_server_is_finished_when_all_have_come_and_gone(hall: Hall) -> None:
    assert not hall.server.finished
    for name in "ab":
        hall.join(name).leave()
        hall.threads[name].join(10)
    assert hall.server.finished


def test_a_second_group_of_the_same_name_is_refused(hall: Hall) -> None:
    hall.join("a")
    with pytest.raises(LinkError, match="joined already"):
        hall.server.join("a", SIZE)


def test_a_model_of_another_size_is_refused(hall: Hall) -> None:
    hall.join("a")
    with pytest.raises(LinkError, match="exchanges 7 values; expected 6"):
        hall.server.join("b", 7)


def test_another_dataset_size_is_refused_with_a_sentence(hall: Hall) -> None:
    a, b = hall.join("a"), hall.join("b")
    a.lease(0, 8, want=4, batch=4)
    with pytest.raises(ConfigError, match="with 9 samples; expected 8"):
        b.lease(0, 9, want=4, batch=4)
    assert b.lease(0, 8, want=4, batch=4)[0] == Range(4, 8)


@pytest.mark.parametrize("numbers", [(99,), (Verb.PUSH, 0, 1, 1, 10**15), (Verb.REDUCE, 10**9), (Verb.PULL, 3)])
def test_nonsense_ends_the_link_and_takes_no_memory(hall: Hall, numbers: tuple[int, ...]) -> None:
    hall.join("a")
    send_header(hall.links["a"], *numbers)
    hall.threads["a"].join(10)
    assert not hall.threads["a"].is_alive()
    assert hall.server.status()["groups"] == []


def test_a_group_that_is_late_to_hear_of_an_epochs_end_gets_nothing_of_the_next(hall: Hall) -> None:
    a, b, delta = hall.join("a"), hall.join("b"), torch.zeros(SIZE)
    a.lease(0, 4, want=4, batch=4)
    a.push(delta, 4, 1, 0)
    assert not a.lease(0, 4, want=4, batch=4)[0]
    assert a.lease(1, 4, want=4, batch=4)[0] == Range(0, 4)
    assert not b.lease(0, 4, want=4, batch=4)[0]


def test_a_push_and_a_pull_go_on_beside_what_the_group_does_and_other_requests_wait_for_them(hall: Hall) -> None:
    a, b, out = hall.join("a"), hall.join("b"), torch.zeros(SIZE)
    a.lease(0, 16, want=4, batch=4)
    with hall.held():
        a.push(torch.full((SIZE,), 2.0), 4, 1, basis=0)
        a.pull(out)
        assert not out.any()  # and this thread was not held up
    ahead, samples = a.lease(0, 16, want=4, batch=4)
    assert (ahead, samples) == (Range(4, 8), 4)
    assert out.all()
    answer = a.finish()
    assert answer is not None
    assert (answer.version, answer.samples, answer.staleness) == (1, 4, 0)
    assert a.finish() is None
    assert b.lease(0, 16, want=4, batch=4)[0] == Range(8, 12)


def test_a_group_may_lease_once_ahead_and_gets_nothing_ahead_that_others_hold(hall: Hall) -> None:
    a, b = hall.join("a"), hall.join("b")
    assert a.lease(0, 12, want=4, batch=4)[0] == Range(0, 4)
    assert b.lease(0, 12, want=4, batch=4)[0] == Range(4, 8)
    assert a.lease(0, 12, want=4, batch=4, ahead=True)[0] == Range(8, 12)
    assert not b.lease(0, 12, want=4, batch=4, ahead=True)[0]
    with pytest.raises(ConfigError, match="asked for more samples before it pushed 8"):
        a.lease(0, 12, want=4, batch=4, ahead=True)


def test_what_was_pushed_is_told_with_its_place_in_the_epoch(hall: Hall) -> None:
    a, _ = hall.join("a"), hall.join("b")
    a.lease(0, 8, want=4, batch=4)
    assert hall.settled == []
    a.push(torch.zeros(SIZE), 4, 1, basis=0)
    pulled(a, torch.empty(SIZE))
    assert hall.settled == [(0, Range(0, 4))]
