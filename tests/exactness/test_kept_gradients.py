"""What an earlier backward has left in the gradients stays what it is, whatever comes after and whoever skips it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import harness
import jobs
import paceline
from crew import Crew
from jobs import alike, small
from paceline.errors import ConfigError
from paceline.schema.plan import WorkerPlan


def data(size: int = 32) -> TensorDataset:
    torch.manual_seed(3)
    x, y = torch.randn(size, 6), torch.randn(size, 1)
    return TensorDataset(torch.arange(size), x.double(), y.double())


def tokens(ids: Tensor) -> Tensor:
    return 1.0 + ids % 3


def loss_of(model: nn.Module, ids: Tensor, x: Tensor, y: Tensor, reduction: str) -> Tensor:
    losses = (model(x) - y).square().flatten()
    if reduction == "sample-mean":
        return losses.mean()
    return (losses * tokens(ids)).sum() / tokens(ids).sum()


def keeping(every: int, reduction: Any, skips: list[int]) -> dict[str, Any]:
    """A step in every ``every``-th update of 8; batches that begin with a sample of ``skips`` are left out."""
    model = small()
    run = paceline.init(global_batch=8, reduction=reduction)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    for _ in run.epochs(1):
        for ids, x, y in run.loader(data(), shuffle=False):
            if int(ids[0]) in skips:
                continue
            loss = loss_of(model, ids, x, y, reduction)
            run.backward(loss, weight=float(tokens(ids).sum()) if reduction == "token-mean" else None)
            if int(ids[0]) // 8 % every == every - 1:
                optimizer.step()
                optimizer.zero_grad()
    return jobs.result(run, model)


def one_device(every: int, reduction: str, left_out: list[int]) -> dict[str, Any]:
    """The same in plain torch, without the samples ``left_out``."""
    model, (_, x, y) = small(), data().tensors
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for update in range(4):
        ids = torch.tensor([i for i in range(8 * update, 8 * update + 8) if i not in left_out], dtype=torch.int64)
        if not len(ids):
            continue
        loss_of(model, ids, x[ids], y[ids], reduction).backward()
        if update % every == every - 1:
            optimizer.step()
            optimizer.zero_grad()
    return {"weights": {f"0.{name}": weight for name, weight in model.state_dict().items()}}


def workers(*shares: int, micro_batch: int | None = None) -> list[WorkerPlan]:
    """Only the last one takes its share in pieces."""
    sizes = [None] * (len(shares) - 1) + [micro_batch]
    return [harness.worker(share, micro_batch=size) for share, size in zip(shares, sizes, strict=True)]


@pytest.mark.parametrize("reduction", ["sample-mean", "token-mean"])
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize(
    ("shares", "micro_batch", "skips", "left_out"),
    [
        ((5, 3), None, [], []),
        ((5, 3), None, [13], [13, 14, 15]),  # the second worker in a step
        ((5, 3), None, [16], [16, 17, 18, 19, 20]),  # the first one before a step, for every second
        ((5, 3), 2, [15], [13, 14, 15]),  # the last micro-batch: with it goes what the first one has added up
        ((8,), None, [8], range(8, 16)),
        ((8,), 3, [14], range(8, 16)),
        ((8,), 3, [], []),
    ],
)
def test_what_is_left_of_an_earlier_update_is_not_weighed_again(
    crew: Crew, shares: tuple[int, ...], micro_batch: int | None, skips: list[int], left_out: list[int],
    every: int, reduction: str,
) -> None:  # fmt: skip
    strategy = "allreduce" if len(shares) > 1 else "alone"
    results = crew.run(keeping, workers(*shares, micro_batch=micro_batch), every, reduction, skips, strategy=strategy)
    alike(results, one_device(every, reduction, list(left_out)), 1e-10)


def twice(skips: list[int]) -> dict[str, Any]:
    """Two losses of one model in an update; batches that begin with a sample of ``skips`` leave out the second."""
    model = small()
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in run.epochs(1):
        for ids, x, y in run.loader(data(), shuffle=False):
            run.backward(nn.functional.mse_loss(model(x), y))
            if int(ids[0]) in skips:
                continue
            run.backward(model[0](x).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    return jobs.result(run, model)


def test_a_second_loss_that_one_worker_leaves_out_changes_nothing_of_the_first(crew: Crew) -> None:
    model, (_, x, y) = small(), data().tensors
    for update in range(4):
        rows = range(8 * update, 8 * update + 8)
        second = rows[:5] if update == 2 else rows
        loss = nn.functional.mse_loss(model(x[rows]), y[rows]) + model[0](x[second]).square().mean()
        for parameter, gradient in zip(
            model.parameters(), torch.autograd.grad(loss, [*model.parameters()]), strict=True
        ):
            parameter.data -= 0.1 * gradient
    reference = {"weights": {f"0.{name}": weight for name, weight in model.state_dict().items()}}
    alike(crew.run(twice, workers(5, 3), [21]), reference, 1e-10)


def guarded(halves: bool) -> dict[str, Any]:
    """Updates whose norm is too large are dropped by ``zero_grad``; gradients are halved by hand, in new tensors."""
    model = small()
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    dropped = 0
    for _ in run.epochs(1):
        for number, (_, x, y) in enumerate(run.loader(data(), shuffle=False)):
            run.backward(nn.functional.mse_loss(model(x), y))
            norm = run.clip_grad_norm_(model, 100.0)
            if norm > 1.5:
                dropped += 1
                optimizer.zero_grad()
                continue
            if halves and number % 2 == 0:
                for parameter in model.parameters():
                    parameter.grad = parameter.grad * 0.5
                continue
            optimizer.step()
            optimizer.zero_grad()
    return jobs.result(run, model, dropped=dropped)


@pytest.mark.parametrize(("halves", "micro_batch"), [(True, None), (False, 2)])
def test_what_all_workers_do_to_the_gradient_of_the_update_holds(
    crew: Crew, halves: bool, micro_batch: int | None
) -> None:
    (one,) = crew.run(guarded, workers(8), halves, strategy="alone")
    assert 0 < one["dropped"] < 4
    alike(crew.run(guarded, workers(4, 4, micro_batch=micro_batch), halves), one, 1e-10)
    alike(crew.run(guarded, workers(8, micro_batch=micro_batch), halves, strategy="alone"), one, 1e-10)


def by_batches() -> None:
    model = small()
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in run.epochs(2):
        for number, (_, x, y) in enumerate(run.loader(data())):
            run.backward(nn.functional.mse_loss(model(x), y))
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()


def test_a_step_every_second_batch_is_refused_where_workers_have_different_numbers_of_them(crew: Crew) -> None:
    for error in crew.outcomes(by_batches, workers(4, 4, micro_batch=2), strategy="allreduce"):
        with pytest.raises(ConfigError, match=r"have stepped in .* updates.*by run.samples_seen, not by batches"):
            raise error


def cleared_in_between() -> None:
    model = small()
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _, x, y in run.loader(data()):
        run.backward(nn.functional.mse_loss(model(x), y))
        optimizer.zero_grad()
        run.backward(model(x).mean())


def stepping_inside() -> None:
    model = small()
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model[0].weight.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    for _, x, y in run.loader(data()):
        run.backward(nn.functional.mse_loss(model(x), y))


def summing_up() -> None:
    model = small()
    run = paceline.init(global_batch=8)
    model = run.setup(model)
    for _, x, y in run.loader(data()):
        run.backward(nn.functional.mse_loss(model(x), y))
        run.reduce(1.0, 1.0)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (cleared_in_between, "came after a zero_grad in one batch"),
        (stepping_inside, r"optimizer.step\(\) was called inside run.backward"),
        (summing_up, "workers take different numbers of micro-batches"),
    ],
)
def test_what_micro_batches_would_make_wrong_is_refused(crew: Crew, job: Any, said: str) -> None:
    errors = crew.outcomes(job, workers(4, 4, micro_batch=2), strategy="allreduce")
    assert [error for error in errors if isinstance(error, ConfigError) and re.search(said, str(error))], errors


def frozen_with_a_past() -> dict[str, Any]:
    model = small()
    model(torch.ones(1, 6).double()).sum().backward()
    model[0].requires_grad_(False)
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.SGD(model[2].parameters(), lr=0.1))
    optimizer.zero_grad()
    seen = 0
    for _ in run.epochs(1):
        for _, x, y in run.loader(data(9)):
            run.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
            seen += run.samples
    return jobs.result(run, model, seen=run.reduce(seen, 1) * run.world_size)


def test_a_layer_that_was_frozen_with_a_gradient_trains_no_more(crew: Crew) -> None:
    """Nine samples in updates of 8: the idle worker counts none in the last one."""
    (one,) = crew.run(frozen_with_a_past, workers(8), strategy="alone")
    results = crew.run(frozen_with_a_past, workers(5, 3))
    alike(results, one, 1e-10)
    assert [result["seen"] for result in results] == [9, 9]


def uneven_calls() -> None:
    model = small()
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in run.epochs(1):
        for number, (_, x, y) in enumerate(run.loader(data())):
            run.backward(nn.functional.mse_loss(model(x), y))
            if number == 1 and run.rank == 0:
                run.backward(model(x).mean())
            optimizer.step()
            optimizer.zero_grad()


def test_a_backward_that_only_one_worker_ever_makes_is_named_and_not_added_to_another_update(crew: Crew) -> None:
    for error in crew.outcomes(uneven_calls, workers(5, 3), strategy="allreduce"):
        with pytest.raises(ConfigError, match=r"different numbers of run.backward calls.*run.backward\(0 \* loss\)"):
            raise error


def in_the_first_piece() -> dict[str, Any]:
    """The second network is in the first micro-batch of each share only."""
    first, second = small(), small(8)
    run = paceline.init(global_batch=8)
    parameters = [*first.parameters(), *second.parameters()]
    first, second, optimizer = run.setup(first, second, torch.optim.SGD(parameters, lr=0.1))
    for _ in run.epochs(1):
        for ids, x, y in run.loader(data(), shuffle=False):
            loss = nn.functional.mse_loss(first(x), y)
            run.backward(loss + second(x).square().mean() if int(ids[0]) % 4 == 0 else loss)
            optimizer.step()
            optimizer.zero_grad()
    return jobs.result(run, first, second)


def test_a_network_that_only_an_earlier_micro_batch_reaches_is_summed_too(crew: Crew) -> None:
    first, second, (_, x, y) = small(), small(8), data().tensors
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    for update in range(4):
        rows = range(8 * update, 8 * update + 8)
        reached = [row for row in rows if row % 4 < 2]
        (nn.functional.mse_loss(first(x[rows]), y[rows]) + second(x[reached]).square().mean() / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
    models = enumerate((first, second))
    reference = {"weights": {f"{at}.{name}": w for at, model in models for name, w in model.state_dict().items()}}
    pieces = [harness.worker(4, micro_batch=2)] * 2
    alike(crew.run(in_the_first_piece, pieces), reference, 1e-10)
