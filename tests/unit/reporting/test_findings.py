"""Who is slow, and by what: on traces worked out by hand, and of real workers with a delay in one of them (C021)."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import Dataset

import harness
import paceline
from crew import Crew
from jobs import done
from paceline.observation.merge import merge
from paceline.reporting.findings import findings
from paceline.reporting.summary import summarise
from paceline.schema.plan import Plan
from paceline.schema.summary import Finding
from paceline.schema.trace import Mark, Span, Trace, WorkerTrace

DELAY = 0.05


class Points(Dataset[tuple[Tensor, Tensor]]):
    """Reading a batch takes a while."""

    def __init__(self, delay: float) -> None:
        self._delay = delay

    def __len__(self) -> int:
        return 480

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, Tensor]]:
        time.sleep(self._delay)
        return [(torch.full((6,), float(index)), torch.zeros(1)) for index in indices]


def delayed(cause: str) -> None:
    """Rank 1 takes 50 ms longer in each update."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    run = paceline.init(global_batch=24)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.0))
    late, plain = run.rank == 1, dist.all_reduce
    if late and cause == "compute":
        model.register_forward_hook(lambda *_: time.sleep(DELAY))

    def slow(*args: Any, **options: Any) -> Any:
        time.sleep(DELAY)
        return plain(*args, **options)

    try:
        dist.all_reduce = slow if late and cause == "link" else plain
        for _ in run.epochs(1):
            for x, y in run.loader(Points(DELAY if late and cause == "data" else 0.0)):
                run.backward(nn.functional.mse_loss(model(x), y))
                optimizer.step()
                optimizer.zero_grad()
    finally:
        dist.all_reduce = plain
    done(run)


@pytest.mark.parametrize("cause", ["data", "compute", "link"])
def test_c021_50_ms_in_rank_1_are_found_there_with_their_cause(crew: Crew, cause: str) -> None:
    workers = [harness.worker(8) for _ in range(3)]
    crew.run(delayed, workers, cause)
    plan, trace = Plan.read(crew.folder / "plan.json"), merge(crew.folder / "traces")
    first = summarise(trace, plan, "paceline run recipe.py", [], {}).findings[0]
    assert (first.rank, first.cause) == (1, cause)
    assert first.what.startswith("rank 1 (g, cpu) on ")
    assert "Next: " in first.what


def worker(rank: int, spans: list[tuple[str, float]], samples: int = 8, updates: int = 4) -> WorkerTrace:
    """As many updates of these kinds and lengths."""
    made, at = [], 0.0
    for _ in range(updates):
        for place, (kind, seconds) in enumerate(spans):
            made.append(Span(kind, at, at + seconds, samples if place == len(spans) - 1 else 0))
            at += seconds
    mark = Mark("epoch", at, {"epoch": 0, "start": 0.0, "stop": at, "size": samples * updates})
    return WorkerTrace(rank, "g", "cpu", "host-a", samples, made, [mark])


def found(*workers: WorkerTrace, solo: float | None = None, loading: float = 0.0) -> list[Finding]:
    planned = [
        harness.worker(8).model_copy(update={"solo_samples_per_second": solo, "loading_seconds": loading})
        for _ in workers
    ]
    return findings(Trace(list(workers)), harness.plan("allreduce", planned), together=True)


def usual(rank: int, exchange: float = 0.01, **other: float) -> WorkerTrace:
    seconds = {"load": 0.01, "compute": 0.079, "send": 0.001} | other
    return worker(rank, [*seconds.items(), ("exchange", exchange), ("compute", 0.001)])


def test_devices_that_do_what_was_expected_are_not_named():
    assert found(usual(0), usual(1), solo=100.0) == []


def test_a_device_is_held_against_its_plan_also_where_all_are_slow():
    names = [(one.rank, one.cause) for one in found(usual(0), usual(1), solo=200.0)]
    assert names == [(0, "compute"), (1, "compute")]
    assert found(usual(0), usual(1)) == []


def test_reading_is_held_against_the_plan_where_it_was_measured():
    assert found(usual(0, load=0.05), usual(1, load=0.05)) == []
    assert [one.cause for one in found(usual(0, load=0.05), usual(1, load=0.05), loading=0.001)] == ["data", "data"]


def test_the_sentence_has_the_figures_of_a_mean_update():
    (one,) = found(usual(0, exchange=0.06), usual(1, load=0.06))
    assert one == Finding(
        rank=1,
        cause="data",
        what="rank 1 (g, cpu) on host-a waits for its data: 60 ms of each update of 151 ms, expected 10 ms. "
        "Next: read less for each sample, or keep decoded samples in memory or on a local disk.",
    )


def test_a_delay_of_less_than_a_tenth_of_an_update_is_not_worth_a_word():
    assert found(usual(0), usual(1, load=0.018)) == []


def test_the_worst_comes_first_and_of_many_only_the_worst_are_named():
    late = [usual(rank, load=0.05 + 0.01 * rank) for rank in range(6)]
    assert [one.rank for one in found(*[usual(rank) for rank in range(6, 14)], *late)] == [5, 4, 3]


def test_a_worker_without_samples_is_not_held_against_anything():
    assert found(usual(0), worker(1, [("load", 0.5), ("compute", 0.5)], samples=0)) == []
