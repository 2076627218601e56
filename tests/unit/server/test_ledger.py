"""The ledger under random walks of groups that lease, push, die, come back and move on to the next epoch."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from paceline.errors import ConfigError
from paceline.ops import Range
from paceline.server.ledger import Ledger

GROUPS = st.sampled_from("abc")
WANTS = {"a": 12, "b": 6, "c": 3}
BATCH = 3


class Walk(RuleBasedStateMachine):
    """A ledger beside a list that says of each position: free, done, or which group has it."""

    @initialize(size=st.integers(1, 60))
    def start(self, size: int) -> None:
        self.size, self.ledger = size, Ledger()
        self.running, self.state = 0, ["free"] * size
        self.at = dict.fromkeys(WANTS, 0)  # the epoch each group is in
        self.held: dict[str, list[Range]] = {}
        self.seams: set[int] = set()  # where ranges that were given back end

    @rule(group=GROUPS, ahead=st.booleans())
    def ask(self, group: str, ahead: bool) -> None:
        if len(self.held.get(group, [])) > ahead:
            return
        self.ledger.open(self.at[group], self.size)
        if self.at[group] > self.running:
            assert set(self.state) == {"done"}
            self.running, self.state = self.at[group], ["free"] * self.size
        granted = self.ledger.take(group, WANTS[group], BATCH, self.at[group], ahead)
        if granted is None:
            assert "free" not in self.state
            assert self.held
        elif not granted:
            assert self.at[group] < self.running or set(self.state) == {"done"}
            self.at[group] += 1
        else:
            self._lease(group, granted)

    def _lease(self, group: str, granted: Range) -> None:
        assert self.at[group] == self.running
        assert len(granted) <= WANTS[group]
        assert set(self.state[granted.start : granted.stop]) == {"free"}
        goes_on = self.state[granted.stop : granted.stop + 1] == ["free"] and granted.stop not in self.seams
        assert len(granted) % BATCH == 0 or not goes_on
        self.state[granted.start : granted.stop] = [group] * len(granted)
        self.held.setdefault(group, []).append(granted)

    @precondition(lambda self: self.held)
    @rule(group=GROUPS)
    def push(self, group: str) -> None:
        open_ones = self.held.get(group, [])
        held = open_ones.pop(0) if open_ones else None
        if not open_ones:
            self.held.pop(group, None)
        assert self.ledger.settle(group) == held
        if held:
            self.state[held.start : held.stop] = ["done"] * len(held)

    @rule(group=GROUPS)
    def die(self, group: str) -> None:
        open_ones = self.held.pop(group, [])
        assert self.ledger.release(group) == open_ones
        for held in open_ones:
            self.state[held.start : held.stop] = ["free"] * len(held)
            self.seams.add(held.stop)

    @invariant()
    def counts_what_is_done(self) -> None:
        if hasattr(self, "state"):
            assert self.ledger.done == (self.state.count("done") if self.ledger.epoch >= 0 else 0)

    def teardown(self) -> None:
        """Whatever happened, the epoch can be brought to its end, once for each group."""
        if not hasattr(self, "state"):
            return
        last = max(*self.at.values(), self.running)
        for _ in range(200):
            for group in WANTS:
                self.push(group)
                self.push(group)
                if self.at[group] <= last:
                    self.ask(group, False)
        assert set(self.at.values()) == {last + 1}
        assert set(self.state) == {"done"}


Walk.TestCase.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)
TestWalk = Walk.TestCase


def opened(size: int) -> Ledger:
    ledger = Ledger()
    ledger.open(0, size)
    return ledger


def test_the_tail_is_shared_in_proportion_to_what_groups_ask_for():
    """Of 20 left the first group, two thirds of all that is asked for, gets 14, rounded up to whole batches of 4."""
    ledger, sizes = opened(116), []
    for group, want in 3 * [("a", 32), ("b", 16)]:
        granted = ledger.take(group, want, 4, epoch=0)
        ledger.settle(group)
        sizes.append(len(granted or ()))
    assert sizes == [32, 16, 32, 16, 16, 4]
    assert ledger.over


def test_a_turn_that_has_begun_goes_on_with_what_is_enough_for_the_rest_of_it():
    ledger, sizes = opened(96), []
    for group, want in [("a", 32), ("b", 16), ("a", 32), ("b", 16)]:
        sizes.append(len(ledger.take(group, want, 4, epoch=0) or ()))
        ledger.settle(group)
    assert sizes == [32, 16, 32, 16]
    assert ledger.over


def test_a_group_that_left_gives_its_part_of_the_tail_to_the_others():
    ledger, sizes = opened(40), []
    ledger.take("b", 8, 1, epoch=0)
    ledger.release("b")
    for _ in range(5):
        sizes.append(len(ledger.take("a", 8, 1, epoch=0) or ()))
        ledger.settle("a")
    assert sizes == [8] * 5


def test_a_returned_lease_goes_out_again():
    ledger = opened(10)
    assert ledger.take("a", 4, 1, epoch=0) == Range(0, 4)
    assert ledger.release("a") == [Range(0, 4)]
    assert ledger.take("b", 4, 1, epoch=0) == Range(0, 4)


def test_a_group_waits_while_others_hold_what_is_left():
    ledger = opened(4)
    assert ledger.take("a", 4, 1, epoch=0) == Range(0, 4)
    assert ledger.take("b", 4, 1, epoch=0) is None
    ledger.settle("a")
    assert ledger.take("b", 4, 1, epoch=0) == Range(4, 4)


def test_a_late_group_hears_of_the_end_after_another_began_the_next_epoch():
    """Without its epoch in the question it would be given samples of the next one, or be refused."""
    ledger = opened(4)
    assert ledger.take("a", 4, 1, epoch=0) == Range(0, 4)
    assert ledger.take("late", 4, 1, epoch=0) is None
    ledger.settle("a")
    assert not ledger.take("a", 4, 1, epoch=0)
    ledger.open(1, 4)
    assert ledger.take("a", 2, 1, epoch=1) == Range(0, 2)
    ledger.open(0, 4)
    assert not ledger.take("late", 4, 1, epoch=0)
    assert ledger.take("late", 2, 1, epoch=1) == Range(2, 4)


def test_a_second_lease_before_the_first_is_pushed_is_refused():
    ledger = opened(8)
    ledger.take("a", 4, 1, epoch=0)
    with pytest.raises(ConfigError, match="group 'a' asked for more samples before it pushed 4"):
        ledger.take("a", 4, 1, epoch=0)


def test_groups_with_another_dataset_are_refused():
    with pytest.raises(ConfigError, match="opened epoch 0 with 9 samples; expected 8"):
        opened(8).open(0, 9)


def test_an_epoch_cannot_start_before_the_last_one_is_over():
    with pytest.raises(ConfigError, match="opened epoch 1 while epoch 0 has 8 samples open"):
        opened(8).open(1, 8)


def test_an_empty_epoch_is_over_at_once():
    ledger = opened(0)
    assert ledger.over
    assert ledger.take("a", 4, 1, epoch=0) == Range(0, 0)
