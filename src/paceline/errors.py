"""Every error paceline raises on purpose, and the exit code each one ends a command with.

    PacelineError
    |-- ConfigError          2   a file, a flag or a call that cannot be right as it stands
    |-- LaunchError          3   a process, a port or a device that could not be started
    |-- LinkError            4   a peer that is gone, silent or not allowed in
    |-- WorkerError          5   the recipe raised, or a worker was killed
    `-- StoppedError       130   a person or a scheduler stopped the run

A message is one sentence: where (rank, host, device), what was seen, what was expected; and then what to type next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PacelineError(Exception):
    """Base of all errors meant for people.

    Args:
        seen: what happened, with the value that was seen.
        expected: what should have been there.
        remedy: one thing to type or change next.
        where: rank, host and device, or the file and key.
    """

    exit_code = 1

    def __init__(self, seen: str, *, expected: str = "", remedy: str = "", where: str = "") -> None:
        self.seen, self.expected, self.remedy, self.where = seen, expected, remedy, where
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        text = f"{self.where}: {self.seen}" if self.where else self.seen
        if self.expected:
            text += f"; expected {self.expected}"
        return f"{text}. {self.remedy}".rstrip() if self.remedy else f"{text}."


class ConfigError(PacelineError):
    """A file, a flag or a call that cannot be right as it stands."""

    exit_code = 2


class LaunchError(PacelineError):
    """A process, a port or a device that could not be started."""

    exit_code = 3


class LinkError(PacelineError):
    """A peer that is gone, silent or not allowed in."""

    exit_code = 4


class WorkerError(PacelineError):
    """The recipe raised, or a worker was killed."""

    exit_code = 5


class StoppedError(PacelineError):
    """A person or a scheduler stopped the run."""

    exit_code = 130


def nearest(word: str, known: Iterable[str]) -> str:
    """``"Did you mean 'x'?"`` for the known word closest to ``word``, or the list of known words."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(known)}."
