"""Micro-batches that are halved until they fit, over injected limits of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from paceline.errors import WorkerError
from paceline.launchers import failures
from paceline.launchers.fitting import attempt_until_it_fits
from paceline.launchers.folder import RunFolder
from paceline.schema.plan import Plan


class Fleet:
    """Workers that hold at most so many samples at once; an attempt ends as a run does whose first worker fails."""

    def __init__(self, folder: Path, limits: list[int]) -> None:
        self.folder, self.limits, self.said = RunFolder(folder), limits, []

    def attempt(self, plan: Plan) -> list[int]:
        sizes = [worker.micro_batch or worker.share for worker in plan.workers]
        for rank, (size, limit) in enumerate(zip(sizes, self.limits, strict=True)):
            if size > limit:
                error = MemoryError("no room")
                failures.write_down(self.folder.errors, (0, rank), error, f"rank {rank}", size)
                raise WorkerError("a worker failed")
            (self.folder.errors / f"0-{rank}.json").unlink(missing_ok=True)
        return sizes

    def fit(self, shares: list[int]) -> list[int]:
        plan = harness.plan("allreduce", [harness.worker(share) for share in shares])
        return attempt_until_it_fits(self.attempt, plan, self.folder, self.said.append)


def test_what_fits_is_found_within_a_factor_of_two(tmp_path: Path) -> None:
    """C015: limits of 6 and 11 samples on two ranks. Attempts are processes of their own, so the state of nothing that
    lives on is touched."""
    fleet = Fleet(tmp_path, [6, 11])
    assert fleet.fit([16, 16]) == [4, 8]
    assert fleet.said == [
        "rank 0 of job 'job0' (cpu) ran out of memory with 16 samples at once; with 8 now, from the start.",
        "rank 0 of job 'job0' (cpu) ran out of memory with 8 samples at once; with 4 now, from the start.",
        "rank 1 of job 'job0' (cpu) ran out of memory with 16 samples at once; with 8 now, from the start.",
    ]


def test_what_fits_is_left_alone(tmp_path: Path) -> None:
    assert Fleet(tmp_path, [16, 3]).fit([16, 3]) == [16, 3]


def test_a_device_without_room_for_one_sample_ends_it(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="a worker failed"):
        Fleet(tmp_path, [4, 0]).fit([4, 4])
