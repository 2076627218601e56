"""The server's conversation with its groups, over the shipped memory transport and real threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from paceline.errors import ConfigError, LinkError
from paceline.ops import Range
from paceline.server.client import Client
from paceline.server.messages import Progress, Verb, send_header
from paceline.server.program import ParameterServer
from paceline.server.rules.merge import Merge
from paceline.transports.base import Link
from paceline.transports.memory import MemoryTransport

SIZE = 6


class Hall:
    """A server and a way to join it."""

    def __init__(self, groups: int, timeout: float = 10.0) -> None:
        self.server = ParameterServer(Merge(), groups, global_batch=8, timeout=timeout)
        self.listener = MemoryTransport.listen("", 0, timeout)
        self.timeout = timeout
        self.links: dict[str, Link] = {}
        self.threads: dict[str, threading.Thread] = {}

    def join(self, group: str) -> Client:
        first = self.server.join(group, SIZE)
        with ThreadPoolExecutor(1) as pool:
            here = pool.submit(self.listener.open, group)
            self.links[group] = MemoryTransport.dial("", self.listener.port, self.timeout).open(group)
        self.threads[group] = threading.Thread(target=self.server.serve, args=(group, here.result()), daemon=True)
        self.threads[group].start()
        client = Client(self.links[group])
        if first:
            client.initialise(torch.zeros(SIZE), Progress(0, -1, 0, ()))
        return client


@pytest.fixture
def hall() -> Iterator[Hall]:
    made = Hall(groups=2)
    yield made
    for link in made.links.values():
        link.close()
    made.listener.close()


def test_first_group_brings_the_weights_and_the_others_take_them(hall: Hall) -> None:
    a, out = hall.join("a"), torch.empty(SIZE)
    a.push(torch.full((SIZE,), 8.0), samples=8, steps=1)
    a.pull(out)
    assert hall.join("b").pull(out.zero_()) == (8, 0)
    assert torch.equal(out, torch.full((SIZE,), 8.0))


def test_a_push_weighs_its_samples_per_step_against_the_global_batch(hall: Hall) -> None:
    a, out = hall.join("a"), torch.empty(SIZE)
    a.push(torch.ones(SIZE), samples=6, steps=3)  # 2 samples a step of 8: a quarter
    a.pull(out)
    assert torch.allclose(out, torch.full((SIZE,), 0.25))


def test_staleness_counts_the_versions_between_pull_and_push(hall: Hall) -> None:
    a, b, out, delta = hall.join("a"), hall.join("b"), torch.empty(SIZE), torch.zeros(SIZE)
    a.pull(out)
    b.pull(out)
    a.push(delta, 4, 1)
    assert a.pull(out) == (4, 0)
    b.push(delta, 4, 1)
    assert b.pull(out) == (8, 1)
    a.push(delta, 4, 1)
    assert a.pull(out) == (12, 1)
    assert hall.server.status()["staleness"] == {0: 1, 1: 2}


def test_leases_cover_the_epoch_once_and_the_last_waits_for_the_others(hall: Hall) -> None:
    a, b, delta = hall.join("a"), hall.join("b"), torch.zeros(SIZE)
    first, _ = a.lease(0, 8, want=4, batch=4)
    second, _ = b.lease(0, 8, want=4, batch=4)
    assert [first, second] == [Range(0, 4), Range(4, 8)]
    a.push(delta, 4, 1)
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(a.lease, 0, 8, 4, 4)
        b.push(delta, 4, 1)
        assert not end.result()[0]
    assert hall.server.status()["ledger"] == {"epoch": 0, "size": 8, "done": 8}


def test_the_lease_of_a_lost_group_goes_to_the_others(hall: Hall) -> None:
    a, b, delta = hall.join("a"), hall.join("b"), torch.zeros(SIZE)
    a.lease(0, 8, want=4, batch=4)
    b.lease(0, 8, want=4, batch=4)
    a.push(delta, 4, 1)
    hall.links["b"].close()
    again, _ = a.lease(0, 8, want=4, batch=4)
    assert again == Range(4, 8)
    assert [event["kind"] for event in hall.server.status()["events"]] == ["join", "join", "lost"]


def test_nobody_gets_a_lease_before_all_groups_have_joined(hall: Hall) -> None:
    a = hall.join("a")
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(a.lease, 0, 8, 4, 4)
        assert not early.done()
        hall.join("b")
        assert early.result()[0] == Range(0, 4)


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
    a.push(delta, 4, 1)
    assert not a.lease(0, 4, want=4, batch=4)[0]
    assert a.lease(1, 4, want=4, batch=4)[0] == Range(0, 4)
    assert not b.lease(0, 4, want=4, batch=4)[0]
