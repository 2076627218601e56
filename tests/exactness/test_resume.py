"""A run that stops and goes on, with other workers, trains as one that never stopped (design, promise 2)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import harness
import jobs
import paceline
from crew import UNSHRUNK, Crew
from paceline.errors import ConfigError
from paceline.schema.plan import WorkerPlan
from paceline.state import disk

G, SIZE, EPOCHS = 8, 27, 5  # 4 updates an epoch, the last of 3 samples


def numbered(size: int) -> TensorDataset:
    torch.manual_seed(5)
    return TensorDataset(
        torch.arange(size), torch.randn(size, 6, dtype=torch.float64), torch.randn(size, 1, dtype=torch.float64)
    )


def train(start: str | None, save: str | None, stop_after: int | None, kind: str = "sgd") -> dict[str, Any]:
    """Train from ``start``; in update ``stop_after``, counted from the beginning, save and leave."""
    data, model = numbered(SIZE), jobs.network(torch.float64)
    optimizer = {
        "sgd": lambda: torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9),
        "adam": lambda: torch.optim.Adam(model.parameters(), lr=0.05),
    }[kind]()
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=20)
    run = paceline.init(global_batch=G, seed=4)
    model, optimizer, scheduler = run.setup(model, optimizer, scheduler)
    if start:
        run.load(start)
    drawn: list[int] = []
    last = -1
    for epoch in run.epochs(EPOCHS):
        for numbers, x, y in run.loader(data):
            drawn += [100 * epoch + int(number) for number in numbers] if run._window.samples else []
            run.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
            if run._window.last and stop_after and run._loop.progress().samples >= stop_after:
                run.save(save)
                last = run._loop.progress().samples
                return jobs.result(run, model, drawn=drawn, seen=last)
            optimizer.zero_grad()
        if save and stop_after is None:
            run.save(save)
    state = optimizer.state_dict()["state"]
    moments = {f"{i}.{key}": value for i, entry in state.items() for key, value in entry.items()}
    lr = optimizer.param_groups[0]["lr"]
    return jobs.result(run, model, drawn=drawn, seen=run.samples_seen, moments=moments, lr=lr)


def workers(*shares: int, micro_batch: int | None = None) -> list[WorkerPlan]:
    return [harness.worker(share, micro_batch=micro_batch) for share in shares]


def close(result: dict[str, Any], expected: dict[str, Any], tolerance: float = 1e-10) -> None:
    for name, weight in expected["weights"].items():
        assert torch.allclose(result["weights"][name], weight, rtol=tolerance, atol=tolerance), name
    assert result["lr"] == pytest.approx(expected["lr"])


def test_one_two_and_uneven_workers_end_alike(crew: Crew) -> None:
    """C108: 1, 2 (4+4) and 2 (6+2) workers, float64, 20 updates."""
    (one,) = crew.run(train, workers(8), None, None, None, strategy="alone")
    for shares in ((4, 4), (6, 2)):
        for result in crew.run(train, workers(*shares), None, None, None):
            close(result, one)


splits = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(
    lambda parts: [max(1, part * G // sum(parts)) for part in parts]
)


@settings(max_examples=15, deadline=None, phases=UNSHRUNK)
@given(st.integers(1, EPOCHS * SIZE - 1), splits, splits)
def test_stopped_anywhere_and_resumed_by_other_workers(
    crew: Crew, tmp_path_factory: pytest.TempPathFactory, samples: int, before: list[int], after: list[int]
) -> None:
    """C062, C065: saved by some, loaded by more or fewer; the sequence of samples goes on where it was."""
    before[0] += G - sum(before)
    after[0] += G - sum(after)
    path = str(tmp_path_factory.mktemp("saved") / "last")
    (one,) = crew.run(train, workers(8), None, None, None, strategy="alone")
    first = crew.run(train, workers(*before), None, path, samples)
    second = crew.run(train, workers(*after), path, None, None)
    for result in second:
        close(result, one)
    drawn = [number for result in (*first, *second) for number in result["drawn"]]
    assert sorted(drawn) == [100 * epoch + number for epoch in range(EPOCHS) for number in range(SIZE)]
    assert second[0]["seen"] == EPOCHS * SIZE
    assert set(one["drawn"][: first[0]["seen"]]) == {number for result in first for number in result["drawn"]}


@pytest.mark.parametrize("after", [(8,), (3, 5), (2, 2, 2, 2)])
def test_adam_goes_on_with_its_moments_on_any_number_of_workers(
    crew: Crew, tmp_path: Path, after: tuple[int, ...]
) -> None:
    """C060: saved with 3 ranks (5+2+1)."""
    (one,) = crew.run(train, workers(8), None, None, None, "adam", strategy="alone")
    crew.run(train, workers(5, 2, 1), None, str(tmp_path / "last"), 40, "adam")
    for result in crew.run(train, workers(*after), str(tmp_path / "last"), None, None, "adam"):
        close(result, one)
        for name, moment in one["moments"].items():
            assert torch.allclose(result["moments"][name], moment, rtol=1e-6), name


def test_micro_batches_change_nothing_of_it(crew: Crew, tmp_path: Path) -> None:
    (one,) = crew.run(train, workers(8), None, None, None, strategy="alone")
    crew.run(train, workers(5, 3, micro_batch=2), None, str(tmp_path / "last"), 50)
    for result in crew.run(train, workers(2, 6, micro_batch=4), str(tmp_path / "last"), None, None):
        close(result, one)


def test_saved_between_epochs_it_goes_on_with_the_next(crew: Crew, tmp_path: Path) -> None:
    crew.run(train, workers(5, 3), None, str(tmp_path / "last"), None)
    state, _ = disk.load(tmp_path / "last")
    assert (state.epoch, state.finished, state.left, state.samples_seen) == (4, True, [], EPOCHS * SIZE)
    (result,) = crew.run(train, workers(8), str(tmp_path / "last"), None, None, strategy="alone")
    assert result["drawn"] == []


def other_settings(path: str, **different: Any) -> None:
    model = jobs.network(torch.float64)
    run = paceline.init(**{"global_batch": G, "seed": 4, **different})
    model, _ = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9))
    try:
        run.load(path)
        for _ in run.epochs(EPOCHS):
            list(run.loader(numbered(SIZE + 1)))
    finally:
        jobs.done(run)


def other_seed(path: str) -> None:
    other_settings(path, seed=5)


@pytest.mark.parametrize(
    ("job", "said"),
    [(other_seed, r"seed=4; expected 5.*paceline.init\(seed=4\)"), (other_settings, "3 schedulers|1 sch")],
)
def test_what_does_not_fit_is_refused_on_every_worker(crew: Crew, tmp_path: Path, job: Any, said: str) -> None:
    crew.run(train, workers(5, 3), None, str(tmp_path / "last"), 16)
    for error in crew.outcomes(job, workers(4, 4), str(tmp_path / "last"), strategy="allreduce"):
        with pytest.raises(ConfigError, match=said):
            raise error


class Noisy(Dataset):
    """Each sample draws a number of its own."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, float(torch.rand(()))


def draw(seed: int) -> dict[int, float]:
    model = nn.Linear(1, 1)
    run = paceline.init(global_batch=8, seed=seed)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.0))
    drawn = {}
    for _ in run.epochs(1):
        for indices, numbers in run.loader(Noisy()):
            drawn |= dict(zip(indices.tolist(), numbers.tolist(), strict=True))
            run.backward(model(numbers.float().unsqueeze(1)).mean())
            optimizer.step()
    jobs.done(run)
    return drawn


def test_what_a_sample_draws_belongs_to_the_sample(crew: Crew) -> None:
    """C107: distinct over samples, the same again, whoever draws it."""
    results = [
        {k: v for part in crew.run(draw, plan, seed) for k, v in part.items()}
        for plan, seed in ((workers(4, 4), 1), (workers(5, 2, 1), 1), (workers(4, 4), 2))
    ]
    assert len(set(results[0].values())) == 32
    assert results[0] == results[1]
    assert not set(results[0].values()) & set(results[2].values())


def masks(start: str | None, save: str | None) -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 1)).double()
    run = paceline.init(global_batch=G, seed=4)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.05))
    if start:
        run.load(start)
    losses = []
    for epoch in run.epochs(2):
        for _, x, y in run.loader(numbered(24)):
            loss = nn.functional.mse_loss(model(x), y)
            losses.append(float(loss.detach()))
            run.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if save and epoch == 0:
            run.save(save)
    return jobs.result(run, model, losses=losses, rank=os.environ["RANK"])


def test_dropout_goes_on_as_if_nothing_had_happened(crew: Crew, tmp_path: Path) -> None:
    """C061: no state of a random generator is saved; on the same split the loss curve is the same."""
    whole = crew.run(masks, workers(5, 3), None, str(tmp_path / "last"))
    resumed = crew.run(masks, workers(5, 3), str(tmp_path / "last"), None)
    for before, after in zip(whole, resumed, strict=True):
        assert after["losses"] == before["losses"][3:]
    assert crew.run(masks, workers(2, 3, 3), str(tmp_path / "last"), None)[0]["losses"]


def private(folders: list[str], start: bool) -> dict[str, Any]:
    mine = folders[int(os.environ["RANK"])] + "/last"
    return train(mine, None, None) if start else train(None, mine, 40)


def test_workers_with_folders_of_their_own_save_and_load(crew: Crew, tmp_path: Path) -> None:
    """C066: no shared disk. The main worker's folder holds all of it, the other's is never taken for a checkpoint, and
    the others get it from the main worker."""
    folders = [str(tmp_path / name) for name in "ab"]
    (one,) = crew.run(train, workers(8), None, None, None, strategy="alone")
    crew.run(private, workers(5, 3), folders, False)
    disk.load(tmp_path / "a" / "last")
    with pytest.raises(ConfigError, match="holds no checkpoint"):
        disk.load(tmp_path / "b" / "last")
    for result in crew.run(private, workers(3, 5), folders, True):
        close(result, one)


def break_off(path: str) -> None:
    model = jobs.network(torch.float64)
    run = paceline.init(global_batch=G, seed=4)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9))
    for _ in run.epochs(1):
        for number, (_, x, y) in enumerate(run.loader(numbered(SIZE))):
            run.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
            if number == 1:
                break
    run.save(path)
    jobs.done(run)


def test_a_loop_that_was_broken_off_has_trained_its_last_update(crew: Crew, tmp_path: Path) -> None:
    crew.run(break_off, workers(5, 3), str(tmp_path / "last"))
    state, _ = disk.load(tmp_path / "last")
    assert (state.samples_seen, state.left) == (16, [(16, SIZE)])
