"""Names inside a run's folder, in one place."""

from __future__ import annotations

import fcntl
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from paceline.errors import ConfigError
from paceline.schema.checkpoint import MARK

_held: dict[Path, IO[str]] = {}  # locks of this process; the kernel lets go of them when it ends, however it ends


@dataclass(frozen=True, slots=True)
class RunFolder:
    """``runs/<name>/``: what workers, server and launcher tell one another, and what stays for people."""

    path: Path

    def claim(self, checkpoint: Path | None = None) -> None:
        """Take the folder for a run of this process: what an earlier one left there goes, anything else is refused.

        Args:
            checkpoint: the one that the run goes on from.

        Raises:
            ConfigError: it holds files and no run's lock file, or another run is writing to it, or one that was stopped
                there waits to go on.
        """
        lock = self.path.resolve() / ".paceline"
        if self.path.exists() and not lock.exists() and any(self.path.iterdir()):
            raise ConfigError(f"{self.path} holds files that are not a run's", remedy="Choose another --out.")
        self.path.mkdir(parents=True, exist_ok=True)
        if lock not in _held:
            file = lock.open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                raise ConfigError(f"another run is writing to {self.path}", remedy="Choose another --out.") from None
            _held[lock] = file
            self._end_earlier(checkpoint)
            self.probe.clear()
        self.clear()

    def _end_earlier(self, checkpoint: Path | None) -> None:
        """The checkpoint of an earlier run goes with it, if that was finished or is not wanted by this one."""
        if not self.saved or (checkpoint is not None and checkpoint.resolve() == self.checkpoint.resolve()):
            return
        if not self.summary.exists():
            raise ConfigError(
                f"{self.path} holds the checkpoint of a run that was stopped",
                remedy=f"Go on with --resume {self.path}, choose another --out, or remove {self.checkpoint}.",
            )
        shutil.rmtree(self.checkpoint)

    def clear(self) -> None:
        """Remove what a run wrote, but not its profile nor its probe, which may have been made for the next."""
        for file in (self.plan, self.summary, self.report, self.progress, self.server, self.events):
            file.unlink(missing_ok=True)
        for part in (self.traces, self.errors, self.logs):
            shutil.rmtree(part, ignore_errors=True)

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def server(self) -> Path:
        return self.path / "server.json"

    @property
    def events(self) -> Path:
        """Joins and leaves, as the server saw them."""
        return self.path / "events.json"

    @property
    def progress(self) -> Path:
        return self.path / "progress.json"

    @property
    def traces(self) -> Path:
        return self.path / "traces"

    @property
    def errors(self) -> Path:
        return self.path / "errors"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def profile(self) -> Path:
        return self.path / "profile.json"

    @property
    def probe(self) -> RunFolder:
        """The probe that came before the run."""
        return RunFolder(self.path / "probe")

    @property
    def checkpoint(self) -> Path:
        """Where a run that is stopped saves itself. An earlier run's stays until then."""
        return self.path / "checkpoint"

    @property
    def saved(self) -> str:
        """The mark of the checkpoint there, which each save makes another; empty without one."""
        mark = self.checkpoint / MARK
        return mark.read_text() if mark.exists() else ""

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def report(self) -> Path:
        return self.path / "report.html"
