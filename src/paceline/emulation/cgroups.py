"""CPU quotas by control groups, version 1 or 2 (root): everything a worker does is slowed, its communication too.

<root>/paceline-<pid>/w<rank>    cpu.cfs_quota_us / cpu.cfs_period_us   (v1)    cpu.max   (v2)
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

from paceline.errors import LaunchError

LEAST_QUOTA_US = 1_000  # the kernel takes no less
PERIOD_US = 20_000  # short, so that a slow device is slow at every step and not in bursts


class Quotas:
    """The control groups of one run: made at the start, removed at the end.

    Args:
        speeds: per worker, in global rank order, its part of one core.
        root: mount point of the cgroup file systems, a parameter so that tests can use a directory.

    Raises:
        LaunchError: no writable cpu controller.
    """

    def __init__(self, speeds: list[float], root: Path = Path("/sys/fs/cgroup")) -> None:
        self._version2 = (root / "cgroup.controllers").exists()
        self._top = (root if self._version2 else root / "cpu") / f"paceline-{os.getpid()}-{time.monotonic_ns()}"
        self.folders = [self._top / f"w{rank}" for rank in range(len(speeds))]
        try:
            self._make(speeds)
        except OSError as error:
            self.remove()
            raise LaunchError(
                f"cannot make a CPU quota under {self._top.parent}: {error.strerror}",
                expected="root and a writable cpu controller",
                remedy="Use --emulation pacing, which needs neither.",
            ) from error

    def _make(self, speeds: list[float]) -> None:
        self._top.mkdir()
        if self._version2:
            (self._top / "cgroup.subtree_control").write_text("+cpu")
        for folder, speed in zip(self.folders, speeds, strict=True):
            folder.mkdir()
            period = max(PERIOD_US, math.ceil(LEAST_QUOTA_US / speed))
            quota = round(speed * period)
            if self._version2:
                (folder / "cpu.max").write_text(f"{quota} {period}")
            else:
                (folder / "cpu.cfs_period_us").write_text(str(period))
                (folder / "cpu.cfs_quota_us").write_text(str(quota))

    def remove(self) -> None:
        """Remove the groups; their processes must have ended."""
        for folder in [*self.folders, self._top]:
            for _ in range(50):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)  # the kernel lets go of an ended process a moment later
                else:
                    break


def enter(folder: Path) -> None:
    """Put this process, all its threads, under the quota of ``folder``.

    Raises:
        LaunchError: the group is gone or may not be entered.
    """
    try:
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise LaunchError(f"cannot enter the CPU quota {folder}: {error.strerror}", remedy="Run as root.") from error
