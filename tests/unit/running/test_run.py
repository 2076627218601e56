"""The run of one worker alone, in this process."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import paceline
from paceline.errors import ConfigError, LinkError
from paceline.launchers.bootstrap import Launch, read
from paceline.running import membership, worker
from paceline.running.membership import Place
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


def again(settings: Settings, **plan: object) -> Run:
    """Another run, with some of its plan changed."""

    def changed(launch: Launch, batch: int) -> Place:
        place = membership.take_place(launch, batch)
        return replace(place, plan=place.plan.model_copy(update=plan))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "take_place", changed)
        return Run(Worker(read({}), settings), settings)


def trained(run: Run, epochs: int) -> list[list[int]]:
    """The samples of each epoch that is left."""
    return [sorted(int(value) for (x,) in run.loader(data()) for value in x) for _ in run.epochs(epochs)]


def test_a_checkpoint_from_before_an_epochs_first_batch_does_not_lose_that_epoch(run: Run, tmp_path: Path) -> None:
    set_up(run)
    for epoch in run.epochs(2):
        run.save(tmp_path / str(epoch))
        list(run.loader(data()))
    for epoch in (0, 1):
        later = again(run.settings)
        set_up(later)
        later.load(tmp_path / str(epoch))
        assert trained(later, 2) == [list(range(10))] * (2 - epoch)


def test_a_resumed_run_that_saves_before_it_trains_is_still_where_it_was(run: Run, tmp_path: Path) -> None:
    set_up(run)
    for _ in run.epochs(1):
        loader = run.loader(data(), shuffle=False)
        next(loader)
        next(loader)
        run.save(tmp_path / "middle")
    for folder in ("middle", "again"):
        later = again(run.settings)
        set_up(later)
        later.load(tmp_path / folder)
        later.save(tmp_path / "again")
        assert later.samples_seen == 4
        assert len(trained(later, 1)[0]) == 6


def test_what_the_command_line_goes_on_from_comes_before_the_scripts_own(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(run)
    run.save(tmp_path / "old")
    for _ in run.epochs(1):
        list(run.loader(data()))
    run.save(tmp_path / "new")
    later = again(run.settings, resume=str(tmp_path / "new"))
    set_up(later)
    later.load(tmp_path / "old")
    assert later.samples_seen == 10
    said = capsys.readouterr().out
    assert "going on in epoch 1, after 10 samples" in said
    assert "run.load" in said
    with pytest.raises(ConfigError, match=r"epochs 0 to 0 behind it, and run.epochs was given 1.*whole command"):
        list(later.epochs(1))
    assert trained(later, 2) == [list(range(10))]


def test_a_probe_of_a_short_stream_begins_it_again_and_again(run: Run) -> None:
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[torch.Tensor]:
            return (torch.ones(1) for _ in range(6))

    probe = again(run.settings, strategy="solo", probe_seconds=0.2)
    set_up(probe)
    sizes: list[int] = []
    with contextlib.suppress(SystemExit):
        sizes.extend(len(x) for x in probe.loader(Stream()))
    assert sizes[:8] == [4, 2] * 4
    assert set(sizes) == {4, 2}
    assert abs(sizes.count(4) - sizes.count(2)) <= 1


def test_after_a_stop_only_the_loss_of_a_peer_is_kept_quiet(run: Run) -> None:
    set_up(run)
    rescue = run._worker.rescue
    assert not rescue(LinkError("the peer is gone"))
    run._request.number = signal.SIGTERM
    assert rescue(LinkError("the peer is gone"))
    assert not rescue(ValueError("no such label"))


def test_a_probe_knows_that_it_is_one_and_saves_nothing(run: Run, tmp_path: Path) -> None:
    assert not run.probing
    probe = again(run.settings, probe_seconds=1.0)
    set_up(probe)
    probe.save(tmp_path / "trained")
    assert probe.probing
    assert not (tmp_path / "trained").exists()


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


def stray(run: Run, model: nn.Module) -> None:
    for (x,) in run.loader(data()):
        model(x).sum().backward()


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
        (lambda run: stray(run, set_up(run)[0]), r"expected run.backward"),
        (lambda run: (set_up(run)[0].add_module("late", nn.Linear(1, 1)), list(run.loader(data()))), "'late.weight'"),
    ],
)
def test_a_wrong_call_is_a_sentence(run: Run, act: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        act(run)  # type: ignore[operator]


@pytest.mark.parametrize("batch", [0, -3])
def test_a_global_batch_below_one_is_refused(batch: int) -> None:
    with pytest.raises(ConfigError, match="global_batch"):
        paceline.init(global_batch=batch)
