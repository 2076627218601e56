"""Equal shares, and local steps in proportion to speed."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.errors import ConfigError
from paceline.ops import Range


def even(batch: int, workers: int) -> list[int]:
    """Equal shares of ``batch``; what is left over goes to the first workers, one sample each.

    Raises:
        ConfigError: fewer samples than workers.
    """
    if batch < workers:
        raise ConfigError(
            f"a share that cannot be met: a global batch of {batch} for {workers} workers",
            expected="at least one sample for each worker",
            remedy=f"Raise the global batch to {workers} or more, or start at most {max(batch, 1)} workers.",
        )
    return [len(part) for part in Range(0, batch).cut([1] * workers)]


def local_steps(speeds: Sequence[float], most: int = 8) -> list[int]:
    """Updates of each group between two exchanges, so that all exchange about equally often.

    Args:
        speeds: updates/s of each group.
        most: updates of the fastest group.
    """
    fastest = max(speeds)
    return [max(1, round(most * speed / fastest)) for speed in speeds]
