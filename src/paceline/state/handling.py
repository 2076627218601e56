"""What an exchange with a server takes beside the wires."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from paceline.state.flat import FlatState

ROUNDS = 5


def measure(state: FlatState) -> dict[str, float]:
    """Called by all workers of a probe at once, which disturb one another as those of a run do.

    Returns:
        Seconds: ``handling`` of taking a difference out of the models and putting new weights in, on this worker's
        device; ``serving`` of what a server does with both, on this host's CPU.
    """
    flat, other = torch.zeros(state.size), torch.zeros(state.size)

    def handle() -> None:
        state.read(flat)
        torch.sub(flat, other, out=other)
        state.write(flat)
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def serve() -> None:
        other.add_(flat, alpha=0.5)
        flat.copy_(other)

    return {"handling": _seconds(handle), "serving": _seconds(serve)}


def _seconds(work: Callable[[], None]) -> float:
    work()
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
