"""A process of a run does not outlive its launcher, even one that was killed without a word."""

from __future__ import annotations

import os
import sys
import threading
import time

import psutil

from paceline.errors import LinkError

LOOK_SECONDS = 1.0


def end_with(launcher: int) -> None:
    """End this process within about a second of the death of process ``launcher``."""
    try:
        process = psutil.Process(launcher)
    except psutil.NoSuchProcess:
        _end(launcher)
        return

    def watch() -> None:
        while _runs(process):
            time.sleep(LOOK_SECONDS)
        _end(launcher)

    threading.Thread(target=watch, daemon=True).start()


def _runs(process: psutil.Process) -> bool:
    """Alive and not a zombie; compares the start time too, so a number used again does not fool it."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _end(launcher: int) -> None:
    print(f"error: the launcher (process {launcher}) is gone; ending too.", file=sys.stderr, flush=True)
    os._exit(LinkError.exit_code)  # from a thread, nothing less ends a process that sits in a collective
