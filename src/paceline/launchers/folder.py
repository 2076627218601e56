"""Names inside a run's folder, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunFolder:
    """``runs/<name>/``: what workers, server and launcher tell one another, and what stays for people."""

    path: Path

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
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def report(self) -> Path:
        return self.path / "report.html"
