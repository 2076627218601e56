from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.errors import WorkerError
from paceline.observation.merge import SERVER, merge, write
from paceline.observation.recorder import Recorder

HEADER = {"group": "g", "name": "cpu", "host": "box", "share": 4}


def record(path: Path, rank: int, complete: bool = True) -> None:
    recorder = Recorder(path, {"rank": rank, **HEADER}, clock=lambda: 10.0)
    recorder.span("compute", 10.0, 12.0, 4)
    recorder.mark("epoch", epoch=0, start=10.0, stop=12.0, size=4)
    recorder.close(complete)


def test_what_is_recorded_is_merged_in_rank_order_on_one_axis(tmp_path: Path) -> None:
    record(tmp_path / "b.jsonl", 0)
    record(tmp_path / "a.jsonl", 1, complete=False)
    trace = merge(tmp_path)
    assert [worker.rank for worker in trace.workers] == [0, 1]
    assert [worker.complete for worker in trace.workers] == [True, False]
    first = trace.workers[0]
    assert first.spans[0].stop - first.spans[0].start == pytest.approx(2.0)
    assert first.spans[0].samples == 4
    assert first.marks[0].values["stop"] == pytest.approx(first.spans[0].stop)


def test_hosts_with_other_clocks_share_the_axis(tmp_path: Path) -> None:
    for rank, zero in ((0, 1000.0), (1, 5000.0)):  # the same wall moment, monotonic clocks 4000 s apart
        lines = [{"rank": rank, **HEADER, "origin": 9000.0 - zero}, ["compute", zero + 1, zero + 2, 4], ["end"]]
        (tmp_path / f"{rank}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    spans = [worker.spans[0] for worker in merge(tmp_path).workers]
    assert spans[0].start == spans[1].start == 0.0


def test_a_line_cut_by_a_kill_ends_that_workers_trace(tmp_path: Path) -> None:
    record(tmp_path / "0.jsonl", 0)
    whole = (tmp_path / "0.jsonl").read_text()
    (tmp_path / "0.jsonl").write_text(whole[: whole.index("@epoch") + 3])
    worker = merge(tmp_path).workers[0]
    assert (len(worker.spans), len(worker.marks), worker.complete) == (1, 0, False)


def test_the_servers_marks_are_no_workers_and_outlive_a_round_trip(tmp_path: Path) -> None:
    record(tmp_path / "0.jsonl", 0)
    server = Recorder(tmp_path / SERVER, {})
    server.mark("done", epoch=0, start=0, stop=8)
    server.close(complete=False)
    trace = merge(tmp_path)
    assert [worker.rank for worker in trace.workers] == [0]
    assert [(mark.kind, mark.values) for mark in trace.server] == [("done", {"epoch": 0, "start": 0, "stop": 8})]
    write(trace, tmp_path / "again")
    assert merge(tmp_path / "again") == trace


def test_no_traces_at_all_says_what_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"paceline\.init"):
        merge(tmp_path)


def test_without_a_path_nothing_is_kept(tmp_path: Path) -> None:
    recorder = Recorder(None, {})
    recorder.span("wait", 0.0, 1.0)
    recorder.close(complete=True)
    assert list(tmp_path.iterdir()) == []
