"""Loops that are not five lines: several networks, skipped steps, gradient scalers, clipping, unused parameters."""

from __future__ import annotations

import contextlib
import os
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


def workers(*shares: int, micro_batch: int | None = None) -> list[WorkerPlan]:
    return [harness.worker(share, micro_batch=micro_batch) for share in shares]


def data(size: int, dtype: torch.dtype = torch.float64) -> TensorDataset:
    torch.manual_seed(5)
    return TensorDataset(torch.randn(size, 6, dtype=dtype), torch.randn(size, 1, dtype=dtype))


def one_device(updates: list[list[int]]) -> dict[str, Any]:
    """Adam on one device over updates of these samples only, in plain torch; an empty one makes no step."""
    model, (x, y) = small(), data(32).tensors
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for row in filter(None, updates):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[row]), y[row]).backward()
        optimizer.step()
    return {"weights": {f"0.{name}": weight for name, weight in model.state_dict().items()}}


class Square(nn.Module):
    """Problem Q: one weight w = 1, the loss of a sample is (w x)^2, so the gradient is 2 mean(x^2)."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return (self.w * x).square()


def problem_q(values: list[float], linear: bool = False) -> tuple[float, int]:
    model = Square()
    run = paceline.init(global_batch=len(values), reduction="sum" if linear else "sample-mean")
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.0))
    reductions, real = [], torch.distributed.all_reduce
    gradient = 0.0
    for _ in run.epochs(1):
        for (x,) in run.loader(TensorDataset(torch.tensor(values)), shuffle=False):
            torch.distributed.all_reduce = lambda *a, **k: (reductions.append(1), real(*a, **k))[1]
            run.backward((model.w * x).sum() if linear else model(x).mean())
            torch.distributed.all_reduce = real
            if run._window.last:
                gradient = float(model.w.grad)
            optimizer.step()
            optimizer.zero_grad()
    jobs.done(run)
    return gradient, len(reductions)


@pytest.mark.parametrize(
    ("shares", "values", "expected"),
    [
        ([harness.worker(3), harness.worker(1)], [1, 2, 3, 4], 15.0),  # C001
        ([harness.worker(2), harness.worker(1), harness.worker(1)], [1, 2, 3, 4], 15.0),  # C001, C082
        ([harness.worker(6, micro_batch=2), harness.worker(2)], [1, 2, 3, 4, 5, 6, 7, 8], 51.0),  # C002
    ],
)
def test_samples_weigh_the_same_whoever_has_them(
    crew: Crew, shares: list[WorkerPlan], values: list[float], expected: float
) -> None:
    """C001, C002: unequal batches, and unequal numbers of micro-batches; one all-reduce an update (C004)."""
    for gradient, reductions in crew.run(problem_q, shares, [float(value) for value in values]):
        assert gradient == pytest.approx(expected, abs=1e-6)
        assert reductions == 1


def test_only_the_last_micro_batch_is_reduced_and_that_one_is(crew: Crew) -> None:
    """C004: x = 1 then 2 on rank 0, 3 then 5 on rank 1, summed over micro-batches: 11 over the two workers."""
    for gradient, reductions in crew.run(problem_q, workers(2, 2, micro_batch=1), [1.0, 2.0, 3.0, 5.0], True):
        assert gradient == pytest.approx(11.0)
        assert reductions == 1


def weighted() -> tuple[float, float]:
    valid = [4, 1][int(os.environ["RANK"])]
    model = Square()
    run = paceline.init(global_batch=2, reduction="token-mean")
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.0))
    gradient = reported = 0.0
    for _ in run.epochs(1):
        for _ in run.loader(TensorDataset(torch.zeros(2))):
            loss = model.w.sum() * (1.0 if valid == 4 else 5.0)
            run.backward(loss, weight=valid)
            gradient = float(model.w.grad)
            reported = run.reduce(loss.detach() * valid, valid)
            optimizer.step()
    jobs.done(run)
    return gradient, reported


def test_tokens_weigh_the_same_whoever_has_them(crew: Crew) -> None:
    """C003: 4 tokens of loss 1 and one of loss 5 are 1.8 a token, not 3."""
    for gradient, reported in crew.run(weighted, workers(1, 1)):
        assert gradient == pytest.approx(1.8, abs=1e-6)
        assert reported == pytest.approx(1.8)


def adversaries(size: int, batch: int) -> dict[str, Any]:
    torch.manual_seed(7)
    critic = nn.Sequential(nn.Linear(6, 5, bias=False), nn.SyncBatchNorm(5), nn.Tanh(), nn.Linear(5, 1)).double()
    maker = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 6, bias=False)).double()
    run = paceline.init(global_batch=batch)
    critic, maker, judge, forge = run.setup(
        critic, maker, torch.optim.Adam(critic.parameters(), lr=0.01), torch.optim.Adam(maker.parameters(), lr=0.01)
    )
    for _ in run.epochs(2):
        for x, y in run.loader(data(size)):
            real, fake = critic(x), critic(maker(x).detach())
            run.backward((real - 1).square().mean() + fake.square().mean() + 0 * y.mean())
            judge.step()
            judge.zero_grad()
            run.backward((critic(maker(x)) - 1).square().mean())
            forge.step()
            forge.zero_grad()
            judge.zero_grad()
    return jobs.result(run, critic, maker, seen=run.samples_seen)


def test_two_networks_with_two_forwards_before_one_backward(crew: Crew) -> None:
    """C116: D(real), D(fake), one backward, then the G step with its own optimizer; on one device alike."""
    (one,) = crew.run(adversaries, workers(8), 21, 8, strategy="alone")
    alike(crew.run(adversaries, workers(5, 3), 21, 8), one, 1e-10)


def test_two_networks_in_turn_do_not_go_with_micro_batches(crew: Crew) -> None:
    for error in crew.outcomes(adversaries, workers(4, 4, micro_batch=2), 16, 8, strategy="allreduce"):
        with pytest.raises(ConfigError, match=r"came after a step.*Raise micro_batch"):
            raise error


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.left, self.right = nn.Linear(6, 6), nn.Linear(6, 1), nn.Linear(6, 1)
        self.spare = nn.Linear(1, 1)
        self.note = "the user's own"

    def forward(self, x: Tensor, left: bool) -> Tensor:
        return (self.left if left else self.right)(self.body(x))


def heads(by_rank: bool) -> dict[str, Any]:
    torch.manual_seed(7)
    model = Heads().double()
    run = paceline.init(global_batch=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    model, optimizer = run.setup(model, optimizer)
    assert model.note == "the user's own"
    gradients = []
    for _ in run.epochs(2):
        for number, (x, y) in enumerate(run.loader(data(24))):
            left = run.rank == 0 if by_rank else number % 2 == 0
            run.backward(nn.functional.mse_loss(model(x, left), y))
            gradients.append(None if model.left.weight.grad is None else model.left.weight.grad.clone())
            optimizer.step()
            optimizer.zero_grad()
    return jobs.result(run, model, gradients=gradients, spare=model.spare.weight.grad)


def test_parameters_that_a_step_leaves_out(crew: Crew) -> None:
    """C117: two heads in turn, as on one device, where an unused one is not even decayed."""
    (one,) = crew.run(heads, workers(8), False, strategy="alone")
    results = crew.run(heads, workers(5, 3), False)
    alike(results, one)
    assert [g is None for g in results[0]["gradients"]] == [False, True, False, False, True, False]
    assert results[0]["spare"] is None


def test_parameters_that_one_worker_leaves_out(crew: Crew) -> None:
    """C117: by rank; what a worker does not use counts as zeros."""
    results = crew.run(heads, workers(5, 3), True)
    alike(results)
    assert all(torch.equal(a, b) for a, b in zip(results[0]["gradients"], results[1]["gradients"], strict=True))


def clipped(norm: float) -> float:
    model = Square()
    run = paceline.init(global_batch=2)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.0))
    for _ in run.epochs(1):
        for _ in run.loader(TensorDataset(torch.zeros(2))):
            run.backward(0.8 * model.w.sum())
            said = float(run.clip_grad_norm_(model, norm))
            left = float(model.w.grad)
            optimizer.step()
    jobs.done(run)
    return said, left


def test_the_norm_is_that_of_the_reduced_gradient(crew: Crew) -> None:
    """C119: 0.8 with two workers is 0.8, below a limit of 1."""
    for said, left in crew.run(clipped, workers(1, 1), 1.0):
        assert (said, left) == (pytest.approx(0.8), pytest.approx(0.8))
    for said, left in crew.run(clipped, workers(1, 1), 0.4):
        assert (said, left) == (pytest.approx(0.8), pytest.approx(0.4, rel=1e-5))


def skipping(skips: dict[int, list[int]], size: int, where: str) -> dict[str, Any]:
    mine = skips.get(int(os.environ["RANK"]), [])
    model = small()
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.Adam(model.parameters(), lr=0.05))
    for _ in run.epochs(1):
        for number, (x, y) in enumerate(run.loader(data(size), shuffle=False)):
            if number in mine and where == "before":
                continue
            loss = nn.functional.mse_loss(model(x), y)
            if number in mine:
                continue
            run.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    return jobs.result(run, model, seen=run.samples_seen)


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("skips", [{1: [0]}, {0: [1, 3]}, {0: [2], 1: [2]}, {0: [0], 1: [1]}])
def test_a_step_that_one_worker_skips_keeps_nobody_waiting(crew: Crew, skips: dict[int, list[int]], where: str) -> None:
    """Its samples are left out of the update, as if one device had left them out, and it goes on with the others'
    weights and moments."""
    results = crew.run(skipping, workers(5, 3), skips, 32, where)
    parts = {0: range(5), 1: range(5, 8)}
    rows = [
        [8 * update + at for rank, part in parts.items() if update not in skips.get(rank, []) for at in part]
        for update in range(4)
    ]
    alike(results, one_device(rows), 1e-10)
    assert results[0]["seen"] == 32


def scaled(scales: list[float], bad: dict[int, int], batches: int, micro_batch: bool = False) -> dict[str, Any]:
    rank = int(os.environ["RANK"])
    model = Square()
    scaler = torch.amp.GradScaler("cpu", init_scale=scales[rank], growth_interval=4)
    run = paceline.init(global_batch=4)
    model, optimizer, scaler = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1), scaler)
    history = []
    for _ in run.epochs(1):
        for number, (x,) in enumerate(run.loader(TensorDataset(torch.ones(4 * batches)))):
            loss = (model.w * x).mean()
            if bad.get(rank) == number:
                loss = loss * torch.inf
            run.backward(scaler.scale(loss))
            scaler.unscale_(optimizer)
            run.clip_grad_norm_(model, 10.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            history.append((scaler.get_scale(), scaler._get_growth_tracker()))
    return jobs.result(run, model, history=history)


@pytest.mark.parametrize("micro_batch", [None, 1])
def test_all_workers_have_the_first_ones_scale(crew: Crew, micro_batch: int | None) -> None:
    """C030: 4 on rank 0 and 8 on rank 1, lr 0.1, gradient 1, two updates from w = 1."""
    for result in crew.run(scaled, workers(3, 1, micro_batch=micro_batch), [4.0, 8.0], {}, 2):
        assert result["weights"]["0.w"].item() == pytest.approx(0.80)


def test_the_scale_grows_by_updates_and_not_by_batches(crew: Crew) -> None:
    """C031: one worker sees three times as many micro-batches; scale and growth counter stay equal."""
    first, second = crew.run(scaled, [harness.worker(3, micro_batch=1), harness.worker(1)], [2.0, 2.0], {}, 6)
    assert first["history"][-1] == second["history"][-1] == (4.0, 2)


def test_an_overflow_on_one_worker_skips_the_update_on_all(crew: Crew) -> None:
    for result in crew.run(scaled, workers(3, 1), [8.0, 8.0], {1: 1}, 3):
        assert [scale for scale, _ in result["history"]] == [8.0, 4.0, 4.0]
        assert result["weights"]["0.w"].item() == pytest.approx(0.80)


def rates(rule: str) -> tuple[float, float]:
    model = Square()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=4)
    run = paceline.init(global_batch=40, lr_rule=rule, base_batch=16)
    model, optimizer, scheduler = run.setup(model, optimizer, scheduler)
    first = optimizer.param_groups[0]["lr"]
    for _ in run.epochs(1):
        for (x,) in run.loader(TensorDataset(torch.ones(80))):
            run.backward(model(x).mean())
            optimizer.step()
    jobs.done(run)
    return first, optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize(("rule", "expected"), [("none", 0.02), ("linear", 0.05), ("sqrt", 0.02 * 2.5**0.5)])
@pytest.mark.parametrize("shares", [(25, 15), (20, 20)])
def test_learning_rates_follow_the_global_batch(
    crew: Crew, rule: str, expected: float, shares: tuple[int, int]
) -> None:
    """C041: lr 0.02 at base batch 16, whatever the split of 40; the scheduler goes on from there."""
    for first, last in crew.run(rates, workers(*shares), rule):
        assert first == pytest.approx(expected)
        assert last == pytest.approx(expected / 2)


def schedule() -> list[float]:
    model = Square()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=100)
    run = paceline.init(global_batch=10)
    model, optimizer, scheduler = run.setup(model, optimizer, scheduler)
    seen, counts = [], torch.zeros(100, dtype=torch.int64)
    for _ in run.epochs(10):
        for x, numbers in run.loader(TensorDataset(torch.zeros(100), torch.arange(100))):
            counts[numbers] += 1
            run.backward(model(x).mean())
            optimizer.step()
            scheduler.step()
        seen.append(optimizer.param_groups[0]["lr"])
    jobs.done(run)
    return seen, counts


@pytest.mark.parametrize("shares", [(10,), (7, 3), (4, 3, 3)])
def test_a_schedule_counts_global_updates(crew: Crew, shares: tuple[int, ...]) -> None:
    """C040, C042: 100 samples, 10 an update, 10 epochs: 100 updates, every sample 10 times, on 1, 2, 3 workers."""
    results = crew.run(schedule, workers(*shares))
    for seen, _ in results:
        assert seen == pytest.approx([1 - epoch / 10 for epoch in range(1, 11)])
    assert sum(counts for _, counts in results).tolist() == [10] * 100


def evaluate(size: int) -> tuple[list[int], float]:
    model = nn.Linear(1, 1)
    run = paceline.init(global_batch=10)
    model = run.setup(model)
    seen = [int(v) for (x,) in run.loader(TensorDataset(torch.arange(size)), train=False) for v in x]
    mean = run.reduce(sum(v % 2 for v in seen), len(seen))
    jobs.done(run)
    return seen, mean


@pytest.mark.parametrize("size", [10, 4, 5, 7, 9])
@pytest.mark.parametrize("shares", [(5, 3, 2), (5, 5)])
def test_evaluation_counts_each_sample_once(crew: Crew, size: int, shares: tuple[int, ...]) -> None:
    """C102: 10 samples on shares of 5, 3, 2; C103: an accuracy equal to one device's for sizes that do not divide."""
    results = crew.run(evaluate, workers(*shares), size)
    assert sorted(v for seen, _ in results for v in seen) == list(range(size))
    assert [mean for _, mean in results] == [pytest.approx((size // 2) / size)] * len(shares)


def compiled(size: int, compile: bool) -> dict[str, Any]:
    model = small()
    run = paceline.init(global_batch=8, precision="auto")
    if compile:
        model = torch.compile(model, backend="eager")
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    for _ in run.epochs(1):
        for x, y in run.loader(data(size)):
            with run.autocast():
                loss = nn.functional.mse_loss(model(x), y)
            run.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    return jobs.result(run, run.unwrap(model))


def test_a_compiled_model_trains_alike_and_unwraps(crew: Crew) -> None:
    (one,) = crew.run(compiled, workers(8), 21, False, strategy="alone")
    alike(crew.run(compiled, workers(5, 3), 21, True), one)


def thawing(late: bool) -> dict[str, Any]:
    model = small()
    model[0].requires_grad_(not late)
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    for epoch in run.epochs(2):
        model[0].requires_grad_(epoch == 1)
        for x, y in run.loader(data(21)):
            run.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    return jobs.result(run, model)


def test_a_parameter_may_be_frozen_and_thawed_but_not_come_as_a_surprise(crew: Crew) -> None:
    (one,) = crew.run(thawing, workers(8), False, strategy="alone")
    alike(crew.run(thawing, workers(5, 3), False), one)
    for error in crew.outcomes(thawing, workers(5, 3), True, strategy="allreduce"):
        with pytest.raises(ConfigError, match=r"frozen at run.setup.*Unfreeze before run.setup"):
            raise error


def two_networks(skips: list[tuple[int, int]], apart: bool, size: int, wide: int) -> dict[str, Any]:
    """Two networks with a loss each; ``skips`` (worker, update) leave the second one out."""
    torch.manual_seed(7)
    first = nn.Sequential(nn.Linear(6, wide), nn.Linear(wide, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    second = small()
    run = paceline.init(global_batch=8)
    first, second, one, two = run.setup(
        first, second, torch.optim.SGD(first.parameters(), lr=0.01), torch.optim.Adam(second.parameters(), lr=0.05)
    )
    for _ in run.epochs(1):
        for number, (x, y) in enumerate(run.loader(data(size), shuffle=False)):
            loss = nn.functional.mse_loss(first(x), y)
            if apart and run.rank == 1:
                loss = loss + second(x).mean()
            run.backward(loss)
            one.step()
            one.zero_grad()
            two.zero_grad()
            if (run.rank, number) in skips:
                continue
            run.backward(nn.functional.mse_loss(second(x), y))
            two.step()
            two.zero_grad()
    return jobs.result(run, second, first)


@pytest.mark.parametrize("skips", [[(1, 2)], [(0, 1), (1, 3)], [(0, 2), (1, 2)], []])
def test_a_backward_that_workers_leave_out_keeps_nobody_waiting(crew: Crew, skips: list[tuple[int, int]]) -> None:
    """The second of two, by one worker or by both; its samples are left out of that update."""
    results = crew.run(two_networks, workers(5, 3), skips, False, 32, 8)
    parts = {0: range(5), 1: range(5, 8)}
    rows = [
        [8 * update + at for rank, part in parts.items() if (rank, update) not in skips for at in part]
        for update in range(4)
    ]
    second = [{"weights": {k: v for k, v in r["weights"].items() if k.startswith("0.")}} for r in results]
    alike(second, one_device(rows), 1e-10)
    alike(results)


def test_a_network_that_one_workers_loss_reaches_counts_as_zeros_elsewhere(crew: Crew) -> None:
    alike(crew.run(two_networks, workers(5, 3), [], True, 32, 8))


def test_networks_of_many_buckets_meet_in_order_though_a_worker_has_no_samples(crew: Crew) -> None:
    """The first network fills a bucket before backward ends; the last update has one sample for two workers."""
    (one,) = crew.run(two_networks, workers(8), [], False, 17, 30_000, strategy="alone")
    alike(crew.run(two_networks, workers(5, 3), [], False, 17, 30_000), one, 1e-10)


def cleared_by_hand() -> None:
    model = small()
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in run.epochs(1):
        for x, y in run.loader(data(16)):
            for parameter in model.parameters():
                parameter.grad = None
            run.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
    jobs.done(run)


def test_gradients_that_the_loop_clears_by_hand(crew: Crew) -> None:
    """With micro-batches that is refused: it would train on the last one only."""
    crew.run(cleared_by_hand, workers(5, 3))
    for error in crew.outcomes(cleared_by_hand, workers(4, 4, micro_batch=2), strategy="allreduce"):
        with pytest.raises(ConfigError, match="was changed between two micro-batches"):
            raise error


def one_graph(apart: bool) -> dict[str, Any]:
    model = small()
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in run.epochs(1):
        for x, y in run.loader(data(20)):
            hidden = model[:2](x)
            error, size = nn.functional.mse_loss(model[2](hidden), y), hidden.square().mean()
            if apart:
                run.backward(error, retain_graph=True)
                run.backward(size)
            else:
                run.backward(error + size)
            optimizer.step()
            optimizer.zero_grad()
    return jobs.result(run, model)


def test_two_losses_of_one_graph(crew: Crew) -> None:
    (one,) = crew.run(one_graph, workers(8), False, strategy="alone")
    alike(crew.run(one_graph, workers(5, 3), True), one, 1e-12)


def failing_half_way(wide: int) -> None:
    model = nn.Sequential(nn.Linear(6, wide), nn.Linear(wide, 1))
    run = paceline.init(global_batch=8)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model[0].weight.register_hook(lambda _: (_ for _ in ()).throw(MemoryError("half-way")))
    for _ in run.epochs(1):
        for x, y in run.loader(data(16, torch.float32)):
            with contextlib.suppress(MemoryError):
                run.backward(nn.functional.mse_loss(model(x), y))
            optimizer.zero_grad()


@pytest.mark.parametrize("wide", [4, 200_000])  # nothing has left; a bucket has
def test_a_loop_that_goes_on_after_half_a_backward_is_told_not_to(crew: Crew, wide: int) -> None:
    for error in crew.outcomes(failing_half_way, workers(5, 3), wide, strategy="allreduce"):
        with pytest.raises(ConfigError, match="failed half-way, and the loop went on"):
            raise error


def tokenless(normal: bool) -> dict[str, Any]:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(6, 3), nn.SyncBatchNorm(3) if normal else nn.Tanh(), nn.Linear(3, 1)).double()
    run = paceline.init(global_batch=4, reduction="token-mean")
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in run.epochs(1):
        for x, y in run.loader(data(4), shuffle=False):
            mask = torch.ones_like(y) if run.world_size == 1 or run.rank == 0 else torch.zeros_like(y)
            if run.world_size == 1:
                mask[2:] = 0
            run.backward(((model(x) - y).square() * mask).sum() / mask.sum(), weight=int(mask.sum()))
            optimizer.step()
            optimizer.zero_grad()
    return jobs.result(run, model)


@pytest.mark.parametrize("normal", [False, True])
def test_a_worker_without_tokens_whose_loss_is_no_number_changes_nothing(crew: Crew, normal: bool) -> None:
    (one,) = crew.run(tokenless, workers(4), normal, strategy="alone")
    alike(crew.run(tokenless, workers(2, 2), normal), one)


def loose() -> None:
    model, temperature = nn.Linear(1, 1), nn.Parameter(torch.zeros(1))
    paceline.init(global_batch=2).setup(model, torch.optim.SGD([*model.parameters(), temperature], lr=0.1))


def test_a_parameter_of_no_model_is_refused_where_workers_reduce(crew: Crew) -> None:
    for error in crew.outcomes(loose, workers(1, 1), strategy="allreduce"):
        with pytest.raises(ConfigError, match=r"in none of the models.*nn.ParameterList"):
            raise error


def sparse() -> None:
    model = nn.Embedding(4, 2, sparse=True)
    run = paceline.init(global_batch=2)
    model = run.setup(model)
    for _ in run.epochs(1):
        for (x,) in run.loader(TensorDataset(torch.arange(4))):
            run.backward(model(x).mean())


def test_sparse_gradients_are_refused_in_a_sentence(crew: Crew) -> None:
    for error in crew.outcomes(sparse, workers(1, 1), strategy="allreduce"):
        with pytest.raises(ConfigError, match=r"a gradient is sparse.*sparse=False"):
            raise error
