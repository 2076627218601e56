"""Which pushes become one version."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from paceline.server.window import Window

GROUPS = ("a", "b", "c")


def in_training(grace: float = 1.0) -> Window:
    window = Window(grace)
    for group in GROUPS:
        window.train(group)
    return window


def test_without_a_grace_each_push_is_a_version() -> None:
    window = in_training(grace=0.0)
    for number, group in enumerate(("a", "b", "a"), 1):
        window.push(group, 0.0)
        assert window.number == number
        assert group not in window


def test_pushes_of_all_that_train_are_one_version() -> None:
    window = in_training()
    window.push("a", 5.0)
    window.push("c", 5.5)
    assert (window.number, window.due, "a" in window, "b" in window) == (0, 6.0, True, False)
    window.push("b", 5.6)
    assert (window.number, window.due, "a" in window) == (1, math.inf, False)


def test_nobody_waits_for_one_that_missed_a_window_until_it_comes() -> None:
    window = in_training()
    window.push("a", 0.0)
    window.push("b", 0.0)
    window.close()
    window.push("a", 2.0)
    window.push("b", 2.0)
    assert window.number == 2
    window.push("c", 3.0)
    assert (window.number, "c" in window) == (3, False)
    window.push("a", 4.0)
    window.push("b", 4.0)
    assert window.number == 3  # c is in step again, and awaited
    window.push("c", 4.1)
    assert window.number == 4


def test_one_that_is_late_joins_a_window_that_is_open() -> None:
    window = in_training()
    window.push("a", 0.0)
    window.push("b", 0.0)
    window.close()
    window.push("a", 2.0)
    window.push("c", 2.5)
    assert (window.number, "c" in window) == (1, True)
    window.push("b", 2.6)
    assert window.number == 2


def test_one_with_nothing_left_is_not_awaited() -> None:
    window = in_training()
    window.push("a", 0.0)
    assert not window.rest("b")
    assert window.rest("c")
    assert (window.number, "a" in window) == (1, False)


@given(st.lists(st.tuples(st.sampled_from(["train", "rest", "push", "close"]), st.sampled_from(GROUPS)), max_size=60))
def test_a_push_waits_only_while_somebody_in_time_is_missing(deeds: list[tuple[str, str]]) -> None:
    window, training, late = Window(1.0), set[str](), set[str]()
    for deed, group in deeds:
        here = {each for each in GROUPS if each in window}
        if deed == "train":
            window.train(group)
            training.add(group)
        elif deed == "rest":
            window.rest(group)
            training.discard(group)
            late.discard(group)
        elif deed == "push":
            number, alone = window.number, group in late and not here
            window.push(group, 0.0)
            assert not alone or (window.number == number + 1 and group not in window)
            late.discard(group)
        elif here:
            window.close()
            late |= training - here
        if any(each in window for each in GROUPS):
            assert any(each not in window and each not in late for each in training)
            assert window.due < math.inf


def test_a_group_that_has_yet_to_begin_an_epoch_is_awaited() -> None:
    window = Window(1000.0)
    window.begin(0, GROUPS)
    window.train("a")
    window.push("a", 0.0)
    assert "a" in window
    for group in ("b", "c"):
        window.push(group, 0.0)
    assert (window.number, "a" in window) == (1, False)
    for group in GROUPS:
        window.rest(group)
    window.begin(0, GROUPS)  # one that comes late to the same epoch changes nothing
    window.push("a", 0.0)
    assert window.number == 2
