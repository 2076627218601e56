"""How far a run is, in samples: a small file that the main worker keeps fresh and the launcher shows."""

from __future__ import annotations

import json
from pathlib import Path

from paceline.observation.clock import Clock, monotonic
from paceline.schema.record import write_atomically

EVERY_SECONDS = 0.5


class Progress:
    """Writes ``{"samples", "total", "seconds", "before"}`` at most twice a second; without a path, nothing."""

    def __init__(self, path: Path | None, clock: Clock = monotonic) -> None:
        self._path, self._clock = path, clock
        self._written = -EVERY_SECONDS

    def show(self, samples: int, total: int, seconds: float, before: int = 0) -> None:
        """``samples`` of ``total`` (0: nobody knows) are trained over the whole cluster, all but the first ``before``
        in ``seconds`` of training."""
        now = self._clock()
        if self._path is None or samples == 0 or now - self._written < EVERY_SECONDS:
            return
        self._written = now
        write_atomically(
            self._path, json.dumps({"samples": samples, "total": total, "seconds": seconds, "before": before})
        )


def line(path: Path) -> str | None:
    """The progress file as one line of text with an estimate of what is left, or None if there is none yet."""
    try:
        state = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError):
        return None
    samples, total, seconds = state["samples"], state["total"], state["seconds"]
    rate = (samples - state["before"]) / seconds if seconds > 0 else 0.0
    speed = f"{rate:,.0f} samples/s"
    if not total or not rate:  # a stream has no total, a run that has just begun no rate
        return f"{samples:,} samples  {speed}"
    left = (total - samples) / rate
    return f"{samples:,}/{total:,} samples ({100 * samples / total:.0f} %)  {speed}  {left:,.0f} s left"
