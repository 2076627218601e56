"""Shares that change in mid-run change nothing else: weights, the order of samples, and that each is trained once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import harness
import jobs
import paceline
from crew import Crew
from paceline.schema.plan import WorkerPlan

SIZE, BATCH, EPOCHS = 8 * 20 + 3, 8, 2


def slowing(batch_norm: bool = False) -> dict[str, Any]:
    """Rank 1 says that from its 5th update on it takes five times as long, and from the 25th on no longer."""
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(SIZE, 6).double(), torch.randn(SIZE, 1).double(), torch.arange(SIZE))
    model = jobs.network(torch.float64, batch_norm)
    run = paceline.init(global_batch=BATCH)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5))
    updates: list[tuple[list[int], int]] = []
    run._loop.watch.slowness = lambda samples: 5.0 if run.rank == 1 and 5 <= len(updates) < 25 else 1.0
    for epoch in run.epochs(EPOCHS):
        mine: list[int] = []
        updates.append((mine, epoch))
        for x, y, ids in run.loader(data):
            if run._window.first:
                mine = []
                updates.append((mine, epoch))
            mine += ids[: run.samples].tolist()
            run.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    return jobs.result(run, model, updates=updates, shares=run._worker.executor.shares)


def epochs_of(results: list[dict[str, Any]]) -> list[list[int]]:
    """The samples of each epoch in the order of updates, and inside an update of ranks."""
    drawn: list[list[int]] = [[] for _ in range(EPOCHS)]
    for parts in zip(*(result["updates"] for result in results), strict=True):
        for part, epoch in parts:
            drawn[epoch] += part
    return drawn


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_shares_follow_a_worker_that_slows_down_and_recovers_and_training_is_that_of_one_device(
    crew: Crew, micro_batch: int | None
) -> None:
    workers: list[WorkerPlan] = [harness.worker(share, micro_batch=micro_batch) for share in (3, 3, 2)]
    workers = [own.model_copy(update={"solo_samples_per_second": 100.0}) for own in workers]
    results = crew.run(slowing, workers, fixed=False)
    (one,) = crew.run(slowing, [harness.worker(BATCH)], strategy="alone")
    jobs.alike(results, one)
    assert epochs_of(results) == epochs_of([one])
    assert [sorted(drawn) for drawn in epochs_of(results)] == [list(range(SIZE))] * EPOCHS
    sizes = [[len(part) for part, _ in result["updates"]] for result in results]
    assert sizes[1][12] == 1, "the slow worker keeps a sample"
    assert sizes[0][12] > 3
    assert {result["shares"] for result in results} == {results[0]["shares"]}
    assert results[0]["shares"][1] == 3, "it has recovered"


def test_a_batch_norm_over_all_workers_waits_in_forward_and_keeps_the_shares(crew: Crew) -> None:
    workers = [harness.worker(share) for share in (3, 3, 2)]
    for result, worker in zip(crew.run(slowing, workers, True, fixed=False), workers, strict=True):
        assert {len(part) for part, _ in result["updates"][:20] if part} == {worker.share}


def burning() -> dict[str, Any]:
    """Each sample costs some work, on rank 1 five times as much from the 15th update on. Nobody tells anybody."""
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(1600, 6).double(), torch.randn(1600, 1).double())
    model = jobs.network(torch.float64)
    run = paceline.init(global_batch=32)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5))
    for _ in run.epochs(1):
        for number, (x, y) in enumerate(run.loader(data)):
            for _ in range(5 if run.rank == 1 and number >= 15 else 1):
                for _ in range(len(x)):
                    torch.ones(128, 256) @ torch.ones(256, 256)
            run.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    return jobs.result(run, model, shares=run._worker.executor.shares)


def test_shares_follow_the_measured_times_of_an_emulated_worker_that_slows_down(crew: Crew) -> None:
    workers = [harness.worker(16, speed=0.5) for _ in range(2)]
    results = crew.run(burning, workers, emulation="pacing", fixed=False)
    (one,) = crew.run(burning, [harness.worker(32)], strategy="alone")
    jobs.alike(results, one)
    fast, slow = results[0]["shares"]
    assert fast + slow == 32
    assert fast >= 2 * slow
    assert results[1]["shares"] == (fast, slow)
