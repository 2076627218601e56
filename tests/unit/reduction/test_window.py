from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.reduction.window import UpdateCounter, Window, keep_gradients, step_in


def ready() -> tuple[nn.Linear, torch.optim.SGD]:
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    return model, torch.optim.SGD(model.parameters(), lr=1.0)


@pytest.mark.parametrize("by_model", [False, True])
@pytest.mark.parametrize("zero_first", [False, True])
def test_micro_batches_add_up_to_one_update_wherever_the_loop_zeroes(zero_first: bool, by_model: bool) -> None:
    (model, optimizer), window = ready(), Window()
    step_in(optimizer, window)
    keep_gradients(model, window)
    zeroed = model if by_model else optimizer
    for expected in (0.25, -0.5):
        for number in range(3):
            window.begin(samples=1, first=number == 0, last=number == 2)
            if zero_first:
                zeroed.zero_grad()
            window.differentiating()
            model(torch.ones(1, 1)).sum().mul(0.25).backward()
            window.reduced = window.last  # as run.backward has it
            optimizer.step()
            if not zero_first:
                zeroed.zero_grad()
        assert model.weight.item() == expected
    assert zero_first or model.weight.grad is None


def test_without_micro_batches_zero_grad_always_acts() -> None:
    """A loop with two optimizers drops what one loss left in the other's gradients."""
    (model, optimizer), window = ready(), Window()
    step_in(optimizer, window)
    window.begin(samples=3, first=True, last=True)
    window.differentiating()
    model(torch.ones(1, 1)).sum().backward()
    optimizer.zero_grad()
    assert model.weight.grad is None


def test_outside_the_loader_an_optimizer_acts_at_once() -> None:
    (model, optimizer), window = ready(), Window()
    step_in(optimizer, window)
    window.begin(1, first=True, last=False)
    window.end()
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    assert model.weight.item() == 0.0


def test_a_scheduler_made_before_or_after_keeps_working_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for made_after in (False, True):
            (model, optimizer), window = ready(), Window()
            if made_after:
                step_in(optimizer, window)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
            if not made_after:
                step_in(optimizer, window)
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
            scheduler.step()
            assert optimizer.param_groups[0]["lr"] == 0.5


def test_a_scheduler_counts_global_updates_whoever_calls_it() -> None:
    """LinearLR from 1 to 0 over 100 updates stands at 0.75, 0.5 and 0 after 25, 50 and 100."""
    _, optimizer = ready()
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=100)
    window = Window()
    counter = UpdateCounter(scheduler, 10, window)
    window.begin(10, first=True, last=True)
    optimizer.step()
    rates = []
    for updates in (25, 50, 100):
        for _ in range(7):
            scheduler.step()
        counter.advance(updates * 10)
        rates.append(round(optimizer.param_groups[0]["lr"], 9))
    assert rates == [0.75, 0.5, 0.0]


def test_a_partial_update_counts_as_one() -> None:
    _, optimizer = ready()
    counter = UpdateCounter(torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5), 10, Window())
    optimizer.step()
    counter.advance(11)
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_a_scheduler_that_the_loop_steps_by_epochs_is_refused() -> None:
    _, optimizer = ready()
    scheduler, window = torch.optim.lr_scheduler.StepLR(optimizer, 1), Window()
    UpdateCounter(scheduler, 10, window)
    window.begin(10, first=True, last=True)
    scheduler.step()
    window.end()
    with pytest.raises(ConfigError, match=r"outside the training loop.*Leave a scheduler that counts epochs out"):
        scheduler.step()


def test_an_optimizer_that_calls_backward_in_a_closure_may_step() -> None:
    model = nn.Linear(1, 1, bias=False)
    optimizer, window = torch.optim.LBFGS(model.parameters(), max_iter=1), Window()
    step_in(optimizer, window)
    window.begin(1, first=True, last=True)

    def closure() -> torch.Tensor:
        loss = model(torch.ones(1, 1)).square().sum()
        window.differentiating()
        loss.backward()
        return loss

    before = model.weight.item()
    optimizer.step(closure)
    assert model.weight.item() != before
