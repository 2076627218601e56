"""Child processes with their output, and a way to end every last one of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from paceline.errors import LaunchError
from paceline.launchers.bootstrap import ID, JOB, RANK

KILL_SECONDS = 5.0
LAST_SECONDS = 3.0  # for the server and what has started the workers, once those are through


class Child:
    """One child in its own session, so that a Ctrl-C at the terminal reaches it only through its parent.

    Standard output goes to ``show`` line by line and to ``<logs>/<name>.out``; standard error to ``<logs>/<name>.err``.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], logs: Path, show: Callable[[str], None]
    ) -> None:
        self.name = name
        self.errors = logs / f"{name}.err"
        logs.mkdir(parents=True, exist_ok=True)
        try:
            with self.errors.open("w") as errors:
                self._process = subprocess.Popen(
                    list(command),
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                )
        except OSError as error:
            raise LaunchError(f"cannot start {command[0]}: {error.strerror}", remedy="Is it installed?") from error
        self._pump = threading.Thread(target=self._copy, args=(logs / f"{name}.out", show), daemon=True)
        self._pump.start()

    @property
    def code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def drained(self) -> None:
        """Wait until all its output has been shown."""
        self._pump.join(timeout=5.0)

    def _copy(self, path: Path, show: Callable[[str], None]) -> None:
        source: IO[str] | None = self._process.stdout
        if source is None:
            return
        with contextlib.suppress(OSError), path.open("w", buffering=1) as log:
            for line in source:  # to the end, come what may: a full disk or a closed pipe must not stop the workers
                for write in (log.write, lambda text: show(text.rstrip("\n"))):
                    with contextlib.suppress(OSError, ValueError):
                        write(line)


def members(run_id: str, job: int | None = None) -> list[psutil.Process]:
    """Every process of a run, or of one of its jobs, but this one, however deep and whoever its parent is now: found by
    its environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            told = process.environ() if process.pid != os.getpid() else {}
            if told.get(ID) == run_id and (job is None or told.get(JOB) == str(job)):
                found.append(process)
    return found


def end_members(
    run_id: str, grace: float = 0.0, hurry: Callable[[], bool] = lambda: False, job: int | None = None
) -> None:
    """End every process of a run and wait until none is left.

    Workers are asked by SIGTERM, so that they can save what they have; all others (the server, what starts workers,
    what workers have started) end once those are through. Where there is no worker, nobody is asked.

    Args:
        run_id: the run.
        job: only this job of it.
        grace: seconds between SIGTERM and SIGKILL.
        hurry: asked now and then; True ends the grace at once.

    Raises:
        LaunchError: some cannot be killed; names them.
    """
    start = time.monotonic()
    asked: set[int] = set()
    while alive := [process for process in members(run_id, job) if _runs(process)]:
        seconds = time.monotonic() - start
        if seconds > grace + KILL_SECONDS:
            raise LaunchError(f"processes {[process.pid for process in alive]} do not end", remedy="kill -9 them.")
        workers = [process for process in alive if _is_worker(process)]
        if seconds >= grace or hurry() or not (workers or asked):
            _signal(alive, signal.SIGKILL)
        else:
            _signal([worker for worker in workers if worker.pid not in asked], signal.SIGTERM)
            asked.update(worker.pid for worker in workers)
            if not workers:
                grace = min(grace, seconds + LAST_SECONDS)
        psutil.wait_procs(alive, timeout=0.2)


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _is_worker(process: psutil.Process) -> bool:
    """It has a rank, and its parent has none; a worker's own children have inherited theirs."""
    try:
        parent = process.parent()
        return RANK in process.environ() and (parent is None or RANK not in parent.environ())
    except psutil.Error:
        return False


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
