"""The run of one worker alone, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import paceline
from paceline.errors import ConfigError
from paceline.launchers.bootstrap import read
from paceline.running.run import Run
from paceline.running.worker import Worker
from paceline.schema.settings import Settings
from paceline.state import disk


@pytest.fixture
def run() -> Run:
    settings = Settings(global_batch=4, seed=1)
    return Run(Worker(read({}), settings), settings)


def data(size: int = 10) -> TensorDataset:
    return TensorDataset(torch.arange(float(size)).unsqueeze(1))


def set_up(run: Run) -> tuple[nn.Linear, torch.optim.SGD]:
    model = nn.Linear(1, 1)
    return run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))


def test_an_epoch_gives_each_sample_once_in_a_new_order(run: Run) -> None:
    set_up(run)
    orders = [[int(value) for (x,) in run.loader(data()) for value in x] for _ in run.epochs(2)]
    assert [sorted(order) for order in orders] == [list(range(10))] * 2
    assert orders[0] != orders[1] != list(range(10))
    assert run.samples_seen == 20


def test_batches_are_the_global_batch_and_a_last_part(run: Run) -> None:
    set_up(run)
    assert [len(x) for (x,) in run.loader(data())] == [4, 4, 2]


def test_evaluation_keeps_the_order_and_counts_nothing(run: Run) -> None:
    set_up(run)
    assert [int(v) for (x,) in run.loader(data(), train=False) for v in x] == list(range(10))
    assert run.samples_seen == 0


def test_reduce_is_a_ratio_of_sums(run: Run) -> None:
    assert run.reduce(torch.tensor(5), 6) == pytest.approx(5 / 6)
    assert torch.tensor(run.reduce(0, 0)).isnan()


def test_save_writes_a_checkpoint_and_replaces_the_old_one(run: Run, tmp_path: Path) -> None:
    model, _ = set_up(run)
    for _ in range(2):
        run.save(tmp_path / "last")
    state, saved = disk.load(tmp_path / "last")
    assert torch.equal(saved.tensors["model.0.weight"], model.weight)
    assert (state.settings.global_batch, state.settings.seed, state.models, state.parameters) == (4, 1, ["Linear"], 2)
    assert sorted(path.name for path in (tmp_path / "last").iterdir()) == [state.data, "state.json"]


def test_save_leaves_other_files_of_the_folder_alone(run: Run, tmp_path: Path) -> None:
    set_up(run)
    (tmp_path / "thesis.tex").write_text("years")
    run.save(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years"


def test_models_optimizers_and_schedulers_come_back_in_order(run: Run) -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    assert run.setup(scheduler, model, optimizer) == (scheduler, model, optimizer)


def test_a_float_of_each_kind_of_batch_reaches_the_loop(run: Run) -> None:
    set_up(run)

    class Named(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> dict[str, object]:
            return {"x": torch.tensor([index]), "name": f"n{index}"}

    (batch,) = run.loader(Named())
    assert sorted(batch) == ["name", "x"]
    assert len(batch["name"]) == 4


def plateau() -> torch.optim.lr_scheduler.ReduceLROnPlateau:
    return torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1))


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda run: list(run.loader(data())), "before run.setup"),
        (lambda run: run.setup(), "no model"),
        (lambda run: run.setup(nn.Linear(1, 1), "adam"), "given a str"),
        (lambda run: run.setup(nn.Linear(1, 1), plateau()), "follows a metric"),
        (lambda run: (set_up(run), set_up(run)), "twice"),
        (lambda run: run.backward(torch.ones(1)), "outside run.loader"),
        (lambda run: (set_up(run), list(run.loader(i for i in range(3)))), "generator has no length"),
        (lambda run: (set_up(run), list(run.loader(data(0)))), "has no samples"),
        (lambda run: (set_up(run), list(run.loader(DataLoader(data())))), r"given a DataLoader.*run.loader\(dataset\)"),
        (lambda run: (set_up(run), [next(run.loader(data())) for _ in run.epochs(2)]), "to its end"),
        (lambda run: (set_up(run), [list(run.loader(data())) for _ in range(2)]), "run.epochs"),
    ],
)
def test_a_wrong_call_is_a_sentence(run: Run, act: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        act(run)  # type: ignore[operator]


@pytest.mark.parametrize("batch", [0, -3])
def test_a_global_batch_below_one_is_refused(batch: int) -> None:
    with pytest.raises(ConfigError, match="global_batch"):
        paceline.init(global_batch=batch)
