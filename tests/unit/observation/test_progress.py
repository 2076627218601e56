from __future__ import annotations

from pathlib import Path

import pytest

import harness
from paceline.observation import metrics, progress
from paceline.observation.progress import Progress
from paceline.simulating.interpreter import simulate
from paceline.simulating.scenario import Workload


def test_the_line_tells_samples_rate_and_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    Progress(path).show(2_000, 10_000, seconds=4.0)
    assert progress.line(path) == "2,000/10,000 samples (20 %)  500 samples/s  16 s left"


def test_it_writes_at_most_twice_a_second(tmp_path: Path) -> None:
    now = 0.0
    path = tmp_path / "progress.json"
    shown = Progress(path, clock=lambda: now)
    shown.show(1, 10, 1.0)
    now = 0.4
    shown.show(2, 10, 1.0)
    assert "1/10" in str(progress.line(path))
    now = 0.6
    shown.show(3, 10, 1.0)
    assert "3/10" in str(progress.line(path))


def test_before_anything_is_known_there_is_no_line(tmp_path: Path) -> None:
    assert progress.line(tmp_path / "progress.json") is None
    Progress(tmp_path / "p.json").show(0, 10, 0.0)
    assert progress.line(tmp_path / "p.json") is None


def test_a_stream_has_no_total(tmp_path: Path) -> None:
    Progress(tmp_path / "p.json").show(2_000, 0, seconds=4.0)
    assert progress.line(tmp_path / "p.json") == "2,000 samples  500 samples/s"


def test_the_rate_of_a_resumed_run_is_its_own(tmp_path: Path) -> None:
    Progress(tmp_path / "p.json").show(7_000, 10_000, seconds=4.0, before=5_000)
    assert progress.line(tmp_path / "p.json") == "7,000/10,000 samples (70 %)  500 samples/s  6 s left"
    Progress(tmp_path / "q.json").show(5_000, 10_000, seconds=0.0, before=5_000)
    assert progress.line(tmp_path / "q.json") == "5,000 samples  0 samples/s"


@pytest.mark.parametrize("workers", [1, 2])
def test_c020_the_line_says_samples_per_second_and_after_20_percent_when_the_epoch_ends(
    tmp_path: Path, workers: int
) -> None:
    """10 ms of simulated work a sample, on one worker and on two that share each update."""
    plan = harness.plan("allreduce", [harness.worker(1).model_copy(update={"share": 16}) for _ in range(workers)])
    trace = simulate(plan, Workload(epoch_samples=6400))
    ((start, stop),) = metrics.stretches(trace)
    ends = [mark.at for mark in trace.workers[0].marks if mark.kind == "done"]
    fifth = ends[len(ends) // 5 - 1] - start
    Progress(tmp_path / "p.json").show(6400 // 5, 6400, fifth)
    words = str(progress.line(tmp_path / "p.json")).split()
    assert words[:3] == ["1,280/6,400", "samples", "(20"]
    assert float(words[4]) == pytest.approx(100 * workers, rel=0.1)
    assert words[5] == "samples/s"
    assert float(words[6]) == pytest.approx(stop - start - fifth, rel=0.1)
    assert "step" not in " ".join(words)
