"""Workers that run out at different times, or leave something out: never a wait, and nothing counted wrongly."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import harness
import jobs
import paceline
from crew import Crew


class Numbers(IterableDataset):
    """Consecutive numbers, no length."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop

    def __iter__(self) -> Iterator[Tensor]:
        return (torch.tensor([float(number)]) for number in range(self.start, self.stop))


class Line(nn.Module):
    """``w x`` with w = 0: the gradient of a mean of ``2 w`` is 2 whatever the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return 2 * self.w * torch.ones_like(x)


def gradients_of_own_batches(batches: list[list[list[int]]]) -> tuple[list[float], list[int], int]:
    mine = batches[int(os.environ["RANK"])]
    data = TensorDataset(torch.arange(13.0).unsqueeze(1))
    model = Line()
    run = paceline.init(global_batch=4)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.0))
    gradients, drawn = [], []
    for _ in run.epochs(2):
        for (x,) in run.loader(data, batch_sampler=mine):
            run.backward(model(x).mean())
            gradients.append(float(model.w.grad))
            drawn.append([int(number) for number in x])
            optimizer.step()
            optimizer.zero_grad()
    jobs.done(run)
    return gradients, drawn, run.samples_seen


def test_a_worker_with_fewer_batches_leaves_the_last_gradient_right(crew: Crew) -> None:
    """C008: 3 batches on rank 0, 2 on rank 1; the gradient of step 3 is 2, not half of it."""
    results = crew.run(gradients_of_own_batches, [harness.worker(2)] * 2, [[[0], [1], [2]], [[3], [4]]])
    for gradients, _, seen in results:
        assert gradients == [2.0] * 6
        assert seen == 10


def test_batches_of_the_users_own_sampler_come_once_and_in_order(crew: Crew) -> None:
    """C010: batches of 5, 1, 3 on rank 0 and of 2, 2 on rank 1."""
    own = [[[0, 1, 2, 3, 4], [5], [8, 7, 6]], [[9, 10], [12, 11]]]
    (_, first, seen), (_, second, _) = crew.run(gradients_of_own_batches, [harness.worker(2)] * 2, own)
    assert first == own[0] * 2
    assert second[:2] == own[1]
    assert second[2:3] == [[11, 11]]  # goes through the motions, weighs nothing
    assert seen == 26


def iterate(spans: list[tuple[int, int]], batch: int) -> dict[str, Any]:
    numbers = Numbers(*spans[int(os.environ["RANK"])])
    model = nn.Linear(1, 1).double()
    nn.init.ones_(model.weight)
    nn.init.zeros_(model.bias)
    run = paceline.init(global_batch=batch)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    values = []
    for _ in run.epochs(1):
        for x in run.loader(numbers):
            run.backward(model(x.double()).square().mean())
            optimizer.step()
            optimizer.zero_grad()
        values = [float(v) for x in run.loader(numbers, train=False) for v in x]
    mean = run.reduce(sum(values), len(values))
    return jobs.result(run, model, seen=run.samples_seen, mean=mean, count=len(values))


def test_iterable_data_of_unequal_length_trains_and_validates_to_the_end(crew: Crew) -> None:
    """C009: 7 and 4 samples without a length, batch 2."""
    results = crew.run(iterate, [harness.worker(2)] * 2, [(0, 7), (7, 11)], 4)
    assert [result["mean"] for result in results] == [5.0, 5.0]
    assert sum(result["count"] for result in results) == 11
    assert [result["seen"] for result in results] == [11, 11]
    assert torch.equal(results[0]["weights"]["0.weight"], results[1]["weights"]["0.weight"])


def broken_off(batch: int) -> int:
    run = paceline.init(global_batch=batch)
    model = Line()
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.0))
    for _ in run.epochs(2):
        for number, x in enumerate(run.loader(Numbers(0, 100))):
            run.backward(model(x).mean())
            optimizer.step()
            if number == 2:
                break
    jobs.done(run)
    return run.samples_seen


def test_an_epoch_of_streams_that_is_broken_off_counts_its_last_update(crew: Crew) -> None:
    """3 updates of 4 samples, an epoch; the last one of all is the loop's own until it asks for another batch."""
    assert crew.run(broken_off, [harness.worker(3), harness.worker(1)], 4) == [20, 20]


def test_a_worker_whose_stream_is_empty_goes_through_the_motions(crew: Crew) -> None:
    (one,) = crew.run(iterate, [harness.worker(3)], [(0, 5)], 3, strategy="alone")
    results = crew.run(iterate, [harness.worker(1), harness.worker(3), harness.worker(2)], [(0, 0), (0, 5), (0, 0)], 6)
    for result in results:
        assert torch.allclose(result["weights"]["0.weight"], one["weights"]["0.weight"], rtol=1e-12)
        assert result["seen"] == 5


def hear(spans: list[tuple[int, int]]) -> str:
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        iterate(spans, 4)
    return heard.getvalue()


def test_streams_that_begin_alike_are_named(crew: Crew) -> None:
    """C104: every worker was given all of the data."""
    first, second = crew.run(hear, [harness.worker(2)] * 2, [(0, 7), (0, 7)])
    assert "several workers' streams begin with the same samples" in first
    assert second == ""


class Shouting(Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[int, Tensor]:
        return index, torch.tensor([float(index)])


def disjoint() -> list[list[int]]:
    model = nn.Linear(1, 1)
    run = paceline.init(global_batch=4, seed=3)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.0))
    drawn = []
    for _ in run.epochs(1):
        for indices, x in run.loader(Shouting()):
            run.backward(model(x).mean())
            optimizer.step()
            drawn.append(indices.tolist())
    jobs.done(run)
    return drawn


def test_workers_draw_disjoint_samples_in_each_update(crew: Crew) -> None:
    """C104: two workers, shuffled."""
    first, second = crew.run(disjoint, [harness.worker(3), harness.worker(1)])
    for mine, others in zip(first, second, strict=True):
        assert not set(mine) & set(others)
    assert sorted(index for part in first + second for index in part) == list(range(12))
