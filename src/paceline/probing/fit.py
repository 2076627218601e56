"""A line through measured times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.schema.profile import Point

LEAST_PART = 0.1  # of a sample's whole cost that more samples must add: noise must not make a batch free


def line(points: Sequence[Point]) -> tuple[float, float]:
    """``(a, c)`` of ``t(b) = a + c b`` with the least relative squares, neither of them below 0.

    Each point is a mean without outliers already; relative, because what is asked of it is a rate.

    Args:
        points: at least one, with different numbers of samples.
    """
    b = np.array([point.samples for point in points], dtype=float)
    t = np.array([point.seconds for point in points])
    w = np.array([point.count for point in points]) / t**2
    whole = t[b.argmax()] / b.max()
    mean_b, mean_t = np.average(b, weights=w), np.average(t, weights=w)
    spread = (w * (b - mean_b) ** 2).sum()
    slope = (w * (b - mean_b) * (t - mean_t)).sum() / spread if spread > 0 else whole
    slope = max(slope, LEAST_PART * whole)
    if slope * mean_b > mean_t:
        return 0.0, float((w * b * t).sum() / (w * b * b).sum())  # the best line through 0
    return float(mean_t - slope * mean_b), float(slope)
