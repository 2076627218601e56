"""The global weights: parameters go where the rule takes them, what is not learned stays between what groups saw."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import ConfigError
from paceline.server.rules.delayed_nesterov import DelayedNesterov
from paceline.server.rules.merge import Merge
from paceline.server.rules.sgd import Momentum, Sgd
from paceline.server.store import Store

BATCH = 8


def weights(store: Store, count: int) -> list[float]:
    lent = store.lend()
    found: list[float] = lent.tolist()
    store.give_back(lent)
    assert len(found) == count
    return found


def test_parameters_move_by_the_difference_and_buffers_towards_the_value():
    store = Store(Merge(), BATCH)
    store.initialise(torch.tensor([1.0, 4.0]), learned=1)
    store.push(torch.tensor([2.0, 8.0]), version=0, samples=4, steps=1, staleness=0)
    assert weights(store, 2) == [1.0 + 0.5 * 2.0, 4.0 + 0.5 * (8.0 - 4.0)]


def test_a_rule_with_momentum_moves_no_buffer_past_what_was_seen():
    store = Store(DelayedNesterov(), BATCH)
    store.initialise(torch.tensor([0.0, 0.0]), learned=1)
    for _ in range(50):
        store.push(torch.tensor([1.0, 1.0]), version=0, samples=8, steps=1, staleness=0)
    moved, seen = weights(store, 2)
    assert moved > 50
    assert seen == 1.0


@given(st.lists(st.tuples(st.floats(0.0, 1e6, width=32), st.integers(1, 64), st.integers(1, 8)), min_size=1))
def test_a_variance_stays_between_those_that_were_seen(pushes: list[tuple[float, int, int]]):
    store = Store(Merge(), BATCH)
    store.initialise(torch.tensor([3.0]), learned=0)
    for value, samples, steps in pushes:
        store.push(torch.tensor([value]), 0, samples * steps, steps, staleness=0)
    seen = [3.0, *(value for value, _, _ in pushes)]
    assert min(seen) * (1 - 1e-5) <= weights(store, 1)[0] <= max(seen) * (1 + 1e-5)


def test_nothing_can_be_pushed_or_pulled_before_the_first_weights():
    store = Store(Merge(), BATCH)
    for use in (lambda: store.push(torch.zeros(1), 0, 1, 1, 0), store.lend):
        with pytest.raises(RuntimeError, match="before the initial weights"):
            use()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_push_that_is_not_finite_is_refused_and_changes_nothing(wrong: float):
    store = Store(Merge(), BATCH)
    store.initialise(torch.tensor([1.0, 4.0]), learned=1)
    with pytest.raises(ConfigError, match=r"not finite, from weights 3\.0 versions old; there, rates over 0\.22 of"):
        store.push(torch.tensor([0.0, wrong]), version=5, samples=4, steps=1, staleness=3)
    assert (weights(store, 2), store.pushes) == ([1.0, 4.0], 0)


def test_the_steps_of_one_version_are_closed_as_one_once_another_begins_or_is_asked_for():
    store = Store(Momentum(momentum=0.5), BATCH)
    store.initialise(torch.zeros(1))
    for version in (0, 0, 1):
        store.push(torch.ones(1), version, samples=4, steps=1, staleness=0)
    assert weights(store, 1) == [1.0]  # half a batch each, closed by the push to version 1
    assert store.lend(version=1).item() == 1.0
    for _ in range(2):
        assert store.lend(version=2).item() == 1.0 + 0.5 * 1.0 + 0.5


def test_weights_that_are_being_read_do_not_change():
    store = Store(Merge(), BATCH)
    store.initialise(torch.zeros(1))
    first, again = store.lend(), store.lend()
    store.push(torch.ones(1), 0, samples=8, steps=1, staleness=0)
    second = store.lend()
    assert (first.item(), again.item(), second.item()) == (0.0, 0.0, 1.0)
    for lent in (first, second, again):
        store.give_back(lent)
    store.push(torch.ones(1), 0, samples=8, steps=1, staleness=0)
    assert second.item() == 2.0  # nobody reads: in place


def delayed(rate: float, updates: int, delay: int = 4) -> float:
    """Where plain steps on a curvature of 1 come from 1, each from weights that are ``delay`` versions old."""
    store = Store(Sgd(), global_batch=1)
    store.initialise(torch.ones(1))
    old = [torch.ones(1)] * (delay + 1)
    for update in range(updates):
        store.push(-rate * old[-1 - delay], update, samples=1, steps=1, staleness=delay)
        lent = store.lend()
        old.append(lent.clone())
        store.give_back(lent)
    return abs(old[-1].item())


def test_c045_a_rate_above_what_the_delay_allows_stops_with_a_sentence_and_one_below_converges():
    """Of 2 sin(pi / (2 (2 * 4 + 1))) = 0.3473."""
    assert delayed(0.30, 1000) < 1e-3
    assert delayed(0.40, 1000) > 1e3
    with pytest.raises(ConfigError, match=r"4\.0 versions old; there, rates over 0\.17 of those"):
        delayed(0.40, 10_000)
