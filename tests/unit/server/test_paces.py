"""Leases that follow what groups are measured to take."""

from __future__ import annotations

import pytest

from paceline.server.paces import KEPT, LATE, Paces

BATCH = 4


class Run:
    """Groups that want 32 samples a round, and how long one takes them."""

    def __init__(self, seconds: dict[str, float], fixed: bool = False) -> None:
        self.paces, self.now = Paces(fixed), 0.0
        self.seconds = seconds

    def rounds(self, count: int) -> dict[str, int]:
        """What each is given after so many rounds."""
        given = dict.fromkeys(self.seconds, 0)
        for _ in range(count):
            self.now += 1000.0
            for group, seconds in self.seconds.items():
                given[group] = self.paces.fit(group, 32, BATCH)
                self.paces.begin(group, self.now)
                self.paces.push(group, given[group], self.now + seconds * given[group] / 32)
        return {group: self.paces.fit(group, 32, BATCH) for group in self.seconds}


def test_groups_in_step_get_what_they_ask_for():
    assert Run({"a": 1.0, "b": 1.0 + 0.9 * (LATE - 1)}).rounds(10) == {"a": 32, "b": 32}


@pytest.mark.parametrize(("slower", "given"), [(2.0, 16), (5.0, 4), (100.0, BATCH)])
def test_a_group_that_is_slower_gets_what_it_trains_meanwhile_and_all_again_once_it_is_not(slower: float, given: int):
    run = Run({"a": 1.0, "b": 1.0, "late": 1.0})
    assert run.rounds(KEPT)["late"] == 32
    run.seconds["late"] = slower
    assert run.rounds(KEPT) == {"a": 32, "b": 32, "late": given}
    assert run.rounds(5 * KEPT) == {"a": 32, "b": 32, "late": given}
    run.seconds["late"] = 1.0
    assert run.rounds(KEPT)["late"] == 32


def test_what_changed_is_told_once():
    run = Run({"a": 1.0, "b": 1.0})
    assert run.rounds(KEPT) == {"a": 32, "b": 32}
    assert run.paces.news("b", BATCH) == ""
    run.seconds["b"] = 4.0
    run.rounds(KEPT)
    assert run.paces.news("b", BATCH) == "b makes 2 of 8 updates between exchanges from here on"
    assert run.paces.news("b", BATCH) == run.paces.news("a", BATCH) == ""
    run.seconds["b"] = 1.0
    run.rounds(KEPT)
    assert run.paces.news("b", BATCH) == "b makes 8 of 8 updates between exchanges from here on"


def test_some_slow_rounds_are_no_reason():
    run = Run({"a": 1.0, "b": 1.0})
    run.rounds(KEPT)
    run.seconds["b"] = 50.0
    assert run.rounds(KEPT // 2)["b"] == 32


def test_rounds_at_the_bound_change_nothing_to_and_fro():
    run, changes = Run({"a": 1.0, "b": LATE}), 0
    for round in range(100):
        run.seconds["b"] = LATE * (1 + 0.1 * (-1) ** (round // 7))
        run.rounds(1)
        changes += bool(run.paces.news("b", BATCH))
    assert changes <= 1


def test_a_plan_of_which_nothing_may_change_is_kept():
    assert Run({"a": 1.0, "b": 9.0}, fixed=True).rounds(KEPT) == {"a": 32, "b": 32}


def test_one_group_alone_and_one_whose_others_are_gone_have_nobody_to_be_late_for():
    assert Run({"a": 9.0}).rounds(KEPT) == {"a": 32}
    run = Run({"a": 1.0, "b": 9.0})
    assert run.rounds(KEPT)["b"] < 32
    run.paces.forget("a")
    assert run.paces.fit("b", 32, BATCH) == 32


def test_time_between_a_push_and_the_next_begin_is_nobodys():
    """Groups evaluate between epochs, each as long as it takes."""
    paces = Paces()
    for round in range(KEPT):
        for group, pause in (("a", 1.0), ("b", 500.0)):
            begin = 1000.0 * round + pause
            paces.begin(group, begin)
            paces.push(group, 32, begin + 1.0)
    assert paces.fit("b", 32, BATCH) == 32


def test_a_group_that_is_too_far_ahead_waits_for_those_that_train():
    paces = Paces(most=2)
    everyone = {"a", "b"}
    for _ in range(2):
        assert paces.may_begin("a", everyone)
        paces.push("a", 32, 1.0)
    assert not paces.may_begin("a", everyone)
    assert paces.may_begin("a", {"a"})  # b has nothing to do
    paces.push("b", 32, 1.0)
    assert paces.may_begin("a", everyone)


def test_a_newcomer_holds_nobody_back():
    paces = Paces(most=1)
    for _ in range(5):
        paces.push("a", 32, 1.0)
    assert paces.may_begin("a", {"a", "new"})
    assert all(Paces().may_begin("a", {"a", "b"}) for _ in range(3))
