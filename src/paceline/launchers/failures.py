"""Why a job ended badly, in one sentence: what its workers wrote down, or else what torchrun saw."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from paceline.errors import WorkerError
from paceline.launchers.folder import RunFolder
from paceline.schema.record import write_atomically

INSTALLED = (str(Path(__file__).parents[1]), sys.prefix, sys.base_prefix, "<")  # no line of these is the user's

END = b'["end"]\n'  # of a worker's trace
_ASK = "If nobody did that, look for the out-of-memory killer in `dmesg`; then start the run again."


def out_of_memory(error: BaseException) -> bool:
    """Whether a device or the host had no memory left. Known by name, as torch is not imported here."""
    text = str(error)
    words = ("can't allocate memory", "out of memory")
    return type(error).__name__ in ("OutOfMemoryError", "MemoryError") or (
        isinstance(error, RuntimeError) and any(word in text for word in words)
    )


def lost_peer(kind: str, message: str) -> bool:
    """An error, by the name of its type and what it says, that only says that a peer is gone."""
    phrases = ("gloo", "Connection closed by peer", "Connection reset by peer")
    kinds = ("LinkError", "DistBackendError", "DistNetworkError")
    return kind in kinds or any(phrase in message for phrase in phrases)


def write_down(errors: Path, worker: tuple[int, int], error: BaseException, where: str, samples: int) -> None:
    """Note the exception that ends a worker.

    Args:
        worker: its job and rank there.
        where: the same for people.
        samples: of the micro-batch it was at, 0 for none.
    """
    record = {
        "at": time.time(),
        "where": where,
        "type": type(error).__name__,
        "message": str(error).strip().partition("\n")[0][:500],
        "line": line(error),
        "exit_code": getattr(error, "exit_code", None),
        "too_many_samples": samples if out_of_memory(error) else 0,
        "traceback": "".join(traceback.format_exception(error)),
    }
    job, rank = worker
    record |= {"job": job, "rank": rank}
    write_atomically(errors / f"{job}-{rank}.json", json.dumps(record, indent=2))


def line(error: BaseException) -> str:
    """The last line of the user's own that it went through, as ``file:number``."""
    every = list(traceback.extract_tb(error.__traceback__))
    frames = [frame for frame in every if not frame.filename.startswith(INSTALLED)] or every
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def forget(errors: Path, job: int) -> None:
    """A job's death was accepted: its records are no reason for what fails later."""
    for record in errors.glob(f"{job}-*.json"):
        record.unlink()


def raised(errors: Path) -> dict[str, Any] | None:
    """The root cause among the exceptions written down: the earliest that is not just a lost peer's echo."""
    records: list[dict[str, Any]] = [json.loads(path.read_text()) for path in sorted(errors.glob("*.json"))]
    if not records:
        return None
    return min(records, key=lambda record: (_echo(record), record["at"]))


def unfinished(traces: Path, ranks: range) -> int | None:
    """The first of these workers that has begun a trace and has not ended it."""
    for rank in ranks:
        path = traces / f"{rank:05d}.jsonl"
        if path.exists() and path.read_bytes()[-len(END) :] != END:
            return rank
    return None


def overfull(errors: Path) -> tuple[int, int, int] | None:
    """Job and rank of the worker whose lack of memory ended the run, and the samples it had at once; None if another
    reason did, or it had a single one."""
    record = raised(errors)
    if record is None or record["too_many_samples"] < 2:
        return None
    return record["job"], record["rank"], record["too_many_samples"]


def killed(errors: Path) -> list[tuple[int, int]]:
    """(rank, signal) of workers that torchrun saw die by a signal other than its own SIGTERM, root cause first."""
    pairs = re.findall(r"rank\s+: (\d+) .*\n\s+exitcode\s+: (-?\d+)", errors.read_text(errors="replace"))
    deaths = [(int(rank), -int(code)) for rank, code in pairs if int(code) < 0]
    return [death for death in reversed(deaths) if death[1] != signal.SIGTERM]


def explain(folder: RunFolder, name: str, code: int, errors: Path) -> WorkerError:
    """The sentence for a job ``name`` that ended with ``code``."""
    record = raised(folder.errors)
    if record is not None and not _echo(record):
        said = record["message"].rstrip(".")
        ours = record["type"] == WorkerError.__name__
        remedy = f"The whole traceback is in {errors}."
        if record["too_many_samples"]:
            remedy = f"One sample is too many for this device: leave it out. {remedy}"
        error = WorkerError(
            said if ours else f"the recipe raised {record['type']}: {said} ({record['line']})",
            where=record["where"],
            remedy=remedy,
        )
        error.exit_code = record["exit_code"] or WorkerError.exit_code
        return error
    if code < 0:
        return WorkerError(f"torchrun of job '{name}' was killed by {signal.Signals(-code).name}", remedy=_ASK)
    deaths = killed(errors)
    if deaths:
        rank, number = deaths[0]
        return WorkerError(
            f"rank {rank} of job '{name}' was killed by {signal.Signals(number).name}",
            remedy=_ASK,
        )
    if record is not None:
        error = WorkerError(f"{record['type']}: {record['message']}", where=record["where"], remedy=f"See {errors}.")
        error.exit_code = record["exit_code"] or WorkerError.exit_code
        return error
    if code == 0:
        return WorkerError(
            f"a worker of job '{name}' ended in the middle of an epoch, as if all was well",
            remedy="Does the recipe call os._exit, or end before its loops do?",
        )
    said = _last_words(errors)
    quoted = f" after it said: {said.rstrip('.')}" if said else ""
    return WorkerError(f"job '{name}' ended with exit code {code}{quoted}", remedy=f"See {errors}.")


def _last_words(errors: Path) -> str:
    """The last line on standard error before torchrun's own report."""
    own = re.split(r"^E\d{4} ", errors.read_text(errors="replace"), maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line.strip() for line in own.splitlines() if line.strip() and not re.match(r"W\d{4} |\*+$", line)]
    return lines[-1][:300] if lines else ""


def _echo(record: dict[str, Any]) -> bool:
    return lost_peer(record["type"], record["message"])
