"""Seconds of computing."""

from __future__ import annotations


def seconds(samples: int, samples_per_second: float) -> float:
    """Forward, backward and the optimizer's part for ``samples`` samples on a device of that solo speed."""
    return samples / samples_per_second
