"""Update rules by themselves: what a series of pushes comes to."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import ConfigError
from paceline.server import rules
from paceline.server.rules.base import PushInfo, Rule
from paceline.server.rules.delayed_nesterov import DelayedNesterov
from paceline.server.rules.merge import Merge
from paceline.server.rules.sgd import Momentum

BATCH = 128


def push(samples: int, steps: int = 1) -> PushInfo:
    return PushInfo(samples=samples, steps=steps, global_batch=BATCH, staleness=0)


def after(rule: Rule, pushes: list[tuple[torch.Tensor, PushInfo]]) -> torch.Tensor:
    weights = torch.zeros(3)
    state = rule.init(weights)
    for delta, info in pushes:
        rule.update(weights, delta.clone(), state, info)
    return weights


def test_a_rule_is_read_with_its_options():
    assert rules.load("merge") == Merge()
    assert rules.load("delayed_nesterov") == DelayedNesterov()
    assert rules.load("delayed_nesterov:momentum=0.5,rate=1") == DelayedNesterov(rate=1.0, momentum=0.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("marge", "unknown rule 'marge'. Did you mean 'merge'"),
        ("merge:rate=1", "unknown option 'rate' of rule merge"),
        ("delayed_nesterov:momentun=0.5", "unknown option 'momentun' .* Did you mean 'momentum'"),
        ("delayed_nesterov:rate", "'rate' of a rule; expected NAME=NUMBER"),
        ("delayed_nesterov:rate=nan", "'rate=nan' of a rule; expected NAME=NUMBER"),
        ("delayed_nesterov:rate=0", "rate=0 of a rule; expected 0.001 to 10"),
        ("delayed_nesterov:momentum=2", "momentum=2 of a rule; expected 0 to 0.999"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(text: str, said: str):
    with pytest.raises(ConfigError, match=said):
        rules.load(text)


def test_a_rule_can_be_checked_without_torch():
    code = "import sys; sys.modules['torch'] = None; from paceline.server import rules; rules.load('delayed_nesterov')"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(st.lists(st.integers(1, 64), min_size=1, max_size=6), st.integers(1, 9))
def test_merge_counts_each_sample_the_same_however_many_steps_it_took(samples: list[int], steps: int):
    delta = torch.tensor([1.0, -2.0, 0.5])
    expected = sum(samples) / BATCH * delta
    merged = after(Merge(), [(delta, push(steps * count, steps)) for count in samples])
    torch.testing.assert_close(merged, expected)


def test_delayed_nesterov_is_nesterov_where_one_push_is_a_round():
    """As torch's SGD(nesterov=True) on pseudo-gradients, which point uphill."""
    generator = torch.Generator().manual_seed(0)
    deltas = [torch.randn(3, generator=generator) for _ in range(5)]
    weights = torch.nn.Parameter(torch.zeros(3))
    sgd = torch.optim.SGD([weights], lr=0.7, momentum=0.9, nesterov=True)
    for delta in deltas:
        weights.grad = -delta
        sgd.step()
    torch.testing.assert_close(after(DelayedNesterov(), [(delta, push(BATCH)) for delta in deltas]), weights.detach())


def test_delayed_nesterov_takes_momentum_once_a_round_and_weighs_groups_by_their_samples():
    rule = DelayedNesterov(rate=0.5, momentum=0.8)
    one, other = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])
    round_ = [(one, push(4 * 96, 4)), (other, push(32))]
    mean = 0.75 * one + 0.25 * other
    torch.testing.assert_close(after(rule, round_[:1]), 0.5 * 0.75 * one)
    first = 0.5 * mean + 0.5 * 0.8 * mean
    torch.testing.assert_close(after(rule, round_), first)
    torch.testing.assert_close(after(rule, 2 * round_), first + 0.5 * mean + 0.5 * 0.8 * (0.8 * mean + mean))


def test_staleness_damps_a_step():
    rule = rules.load("sgd:damping=0.5")
    weights = torch.zeros(1)
    rule.update(weights, torch.ones(1), {}, PushInfo(BATCH, 1, BATCH, staleness=3))
    assert weights.item() == 0.5


@pytest.mark.parametrize(("groups", "beta"), [(1, 0.9), (4, 0.6), (10, 0.0), (100, 0.0)])
def test_momentum_leaves_room_for_what_asynchrony_adds(groups: int, beta: float):
    rule = rules.load(f"momentum:groups={groups}")
    assert isinstance(rule, Momentum)
    assert rule.beta == pytest.approx(beta)


def test_adam_does_nothing_at_a_rate_of_0_and_without_a_push():
    rule, weights = rules.load("adam"), torch.ones(2)
    state = rule.init(weights)
    rule.close(weights, state)
    rule.update(weights, torch.zeros(2), state, push(BATCH))
    rule.close(weights, state)
    assert weights.tolist() == [1.0, 1.0]


@given(st.floats(1e-4, 1.0), st.integers(1, 3))
def test_adams_step_grows_with_the_power_of_its_part_of_the_batch(rate: float, quarters: int):
    """Its first step is of the learning rate's size, whatever the gradient."""
    rule, weights = rules.load("adam:power=0.5"), torch.zeros(1)
    state = rule.init(weights)
    for _ in range(quarters):
        rule.update(weights, torch.full((1,), -rate * 7.0), state, replace(push(BATCH // 4), rate=rate))
    rule.close(weights, state)
    assert weights.item() == pytest.approx(-rate * (quarters / 4) ** 0.5, rel=1e-4)


def test_every_rule_and_option_is_documented():
    page = (Path(__file__).parents[3] / "docs" / "server.md").read_text()
    options = {field.name for name in rules.TABLE for field in fields(rules.load(name))}
    assert [name for name in {*rules.TABLE, *options} if f"`{name}`" not in page] == []
