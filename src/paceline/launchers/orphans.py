"""A process of a run does not outlive its launcher, even one that was killed without a word."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

import psutil

from paceline.errors import LaunchError, LinkError
from paceline.launchers.bootstrap import Launch
from paceline.launchers.processes import end_members

LOOK_SECONDS = 1.0


def end_with_launcher(launch: Launch) -> None:
    """End this process and all others of its run within about a second of the launcher's death; nothing to do without
    a launcher on this host."""
    if launch.launcher is None:
        return
    try:
        process = psutil.Process(launch.launcher)
    except psutil.NoSuchProcess:
        _end(launch)
        return

    def watch() -> None:
        while _runs(process):
            time.sleep(LOOK_SECONDS)
        _end(launch)

    threading.Thread(target=watch, daemon=True).start()


def _runs(process: psutil.Process) -> bool:
    """Alive and not a zombie; compares the start time too, so a number used again does not fool it."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _end(launch: Launch) -> None:
    print(f"error: the launcher (process {launch.launcher}) is gone; ending too.", file=sys.stderr, flush=True)
    with contextlib.suppress(LaunchError):
        end_members(launch.run_id)  # also what a recipe has started, which watches nobody
    os._exit(LinkError.exit_code)  # from a thread, nothing less ends a process that sits in a collective
