"""One worker's spans and marks, written to a file of JSON lines as they happen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

from paceline.observation.clock import Clock, monotonic, wall_origin
from paceline.schema.trace import SpanKind

FLUSH_SECONDS = 0.5


class Recorder:
    """Writes what one worker does. Without a path it keeps nothing.

    Lines: a header, then ``["compute", start, stop, samples]`` for spans and ``["@kind", at, values]`` for marks, and
    ``["end"]`` when the worker ended well. Times are seconds on this host's monotonic clock.
    """

    def __init__(self, path: Path | None, header: dict[str, Any], clock: Clock = monotonic) -> None:
        self.clock = clock
        self._file: IO[str] | None = None
        self._flushed = clock()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w")
            self._write({**header, "origin": wall_origin()})

    def span(self, kind: SpanKind, start: float, stop: float, samples: int = 0) -> None:
        """A stretch of time; ``samples`` counts what a compute span trained."""
        self._write([kind, start, stop, samples])

    def mark(self, kind: str, **values: Any) -> None:
        """A moment; ``values`` must be JSON."""
        self._write([f"@{kind}", self.clock(), values])

    def flush(self) -> None:
        """Make what was written so far outlive this process."""
        if self._file is not None:
            self._file.flush()
            self._flushed = self.clock()

    def close(self, complete: bool) -> None:
        """Close the file; ``complete`` says that the worker reached its end."""
        if self._file is None:
            return
        if complete:
            self._write(["end"])
        self._file.close()
        self._file = None

    def _write(self, line: Any) -> None:
        if self._file is None:
            return
        self._file.write(json.dumps(line) + "\n")
        if self.clock() - self._flushed > FLUSH_SECONDS:
            self.flush()
