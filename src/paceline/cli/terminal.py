"""What a person sees while a run goes on: its lines, and how far it is."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TextIO

from rich.console import Console, RenderableType

from paceline.api import Watcher
from paceline.observation import progress

PLAIN_SECONDS = 10.0  # between progress lines where there is no terminal


class Terminal:
    """Lines to ``lines``; progress to standard error, in place on a terminal and as plain lines elsewhere."""

    def __init__(self, lines: TextIO = sys.stdout) -> None:
        self._lines = lines
        self._lock = threading.Lock()
        self._live = sys.stderr.isatty()
        self._shown = ""
        self._at = time.monotonic()

    @property
    def watcher(self) -> Watcher:
        return Watcher(show=self.say, tick=self._tick)

    @property
    def quiet(self) -> Watcher:
        """For runs whose own lines are of no interest."""
        return Watcher(show=lambda line: None)

    def say(self, line: str) -> None:
        """Print one line, above the progress line if there is one."""
        with self._lock:
            self._wipe()
            print(line, file=self._lines, flush=True)

    def table(self, table: RenderableType) -> None:
        """Print a table as wide as the terminal, or 100 columns wide elsewhere."""
        with self._lock:
            self._wipe()
            console = Console(file=self._lines, width=None if self._lines.isatty() else 100)
            console.print(table)

    def done(self) -> None:
        """Nothing is running any more."""
        with self._lock:
            self._wipe()

    def _tick(self, path: Path) -> None:
        line = progress.line(path)
        if line is None or line == self._shown:
            return
        with self._lock:
            if self._live:
                self._wipe()
                print(line, end="", file=sys.stderr, flush=True)
                self._shown = line
            elif time.monotonic() - self._at > PLAIN_SECONDS:
                self._at, self._shown = time.monotonic(), line
                print(line, file=sys.stderr, flush=True)

    def _wipe(self) -> None:
        if self._live and self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = ""
