from __future__ import annotations

from pathlib import Path

from paceline.observation import progress
from paceline.observation.progress import Progress


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
