"""A process of a run does not outlive its launcher, even one that was killed without a word."""

from __future__ import annotations

import os
import sys
import threading
import time

import psutil

LOOK_SECONDS = 1.0
EXIT_CODE = 4


def end_with(launcher: int) -> None:
    """End this process within about a second of the death of process ``launcher``."""
    try:
        process = psutil.Process(launcher)
    except psutil.NoSuchProcess:
        _end(launcher)
        return

    def watch() -> None:
        while process.is_running():  # compares the start time too, so a reused number does not fool it
            time.sleep(LOOK_SECONDS)
        _end(launcher)

    threading.Thread(target=watch, daemon=True).start()


def _end(launcher: int) -> None:
    print(f"error: the launcher (process {launcher}) is gone; ending too.", file=sys.stderr, flush=True)
    os._exit(EXIT_CODE)  # from a thread, nothing less ends a process that sits in a collective
