"""Many workers' files, one trace on one time axis; and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paceline.errors import ConfigError, WorkerError
from paceline.schema.trace import Mark, Span, Trace, WorkerTrace

SERVER = "server.jsonl"


def merge(folder: Path) -> Trace:
    """Read every ``*.jsonl`` of ``folder``; times become seconds since the earliest span or mark.

    A line cut short by a kill ends that worker's trace, which is then not complete.

    Raises:
        WorkerError: no worker wrote anything.
        ConfigError: a file is no trace.
    """
    files = {path.name: lines for path in sorted(folder.glob("*.jsonl")) if (lines := _lines(path))}
    try:
        return _merged(files, folder)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"a trace in {folder} is damaged", remedy="Run it again.") from error


def write(trace: Trace, folder: Path) -> None:
    """Leave ``trace`` in ``folder`` as its workers would have, for ``merge`` to read."""
    folder.mkdir(parents=True, exist_ok=True)
    for worker in trace.workers:
        header = {"rank": worker.rank, "group": worker.group, "name": worker.name, "host": worker.host}
        header |= {"share": worker.share, "origin": 0.0, "simulated": trace.simulated}
        spans = [[span.kind, span.start, span.stop, span.samples] for span in worker.spans]
        marks = [[f"@{mark.kind}", mark.at, mark.values] for mark in worker.marks]
        lines = [header, *spans, *marks, *([["end"]] if worker.complete else [])]
        _write(folder / f"{worker.rank:05d}.jsonl", lines)
    if trace.server:
        marks = [[f"@{mark.kind}", mark.at, mark.values] for mark in trace.server]
        _write(folder / SERVER, [{"origin": 0.0, "simulated": trace.simulated}, *marks])


def _write(path: Path, lines: list[Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _merged(files: dict[str, list[Any]], folder: Path) -> Trace:
    if not files.keys() - {SERVER}:
        raise WorkerError(
            f"no worker left a trace in {folder}",
            remedy="Does the recipe call paceline.init and loop over run.loader? See the logs beside that folder.",
        )
    simulated = [lines[0].pop("simulated", False) for lines in files.values()]
    every = files.values()
    zero = min((line[1] + lines[0]["origin"] for lines in every for line in lines[1:] if len(line) > 1), default=0.0)
    header, *told = files.pop(SERVER, [{"origin": zero}])
    server = [_mark(line, header["origin"] - zero) for line in told]
    workers = [_worker(lines, zero) for lines in files.values()]
    return Trace(sorted(workers, key=lambda worker: worker.rank), all(simulated), server)


def _lines(path: Path) -> list[Any]:
    lines = []
    for text in path.read_text(errors="replace").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    if lines and not (isinstance(lines[0], dict) and all(isinstance(line, list) for line in lines[1:])):
        raise ConfigError(f"{path} is no trace", remedy="Run it again.")
    return lines


def _worker(lines: list[Any], zero: float) -> WorkerTrace:
    header, body = dict(lines[0]), lines[1:]
    shift = header.pop("origin") - zero
    complete = bool(body) and body[-1] == ["end"]
    spans, marks = [], []
    for line in body:
        if line[0].startswith("@"):
            marks.append(_mark(line, shift))
        elif line[0] != "end":
            spans.append(Span(line[0], line[1] + shift, line[2] + shift, line[3]))
    return WorkerTrace(**header, spans=spans, marks=marks, complete=complete)


def _mark(line: list[Any], shift: float) -> Mark:
    kind, at, values = line
    if kind == "@epoch":
        values = {**values, "start": values["start"] + shift, "stop": values["stop"] + shift}
    return Mark(kind[1:], at + shift, values)
