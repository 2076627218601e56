"""A plan whose workers run out of memory, attempted again with smaller micro-batches.

What a backward that failed half-way has left goes with its process. The next attempt begins before the update that
failed, where its worker could still save that state, and else where the last attempt did: no sample is lost or counted
twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from paceline.errors import WorkerError
from paceline.launchers import failures
from paceline.launchers.folder import RunFolder
from paceline.schema.plan import Plan

Result = TypeVar("Result")
Attempt = Callable[[Plan], Result]


def attempt_until_it_fits(
    attempt: Attempt[Result], made: Plan, folder: RunFolder, show: Callable[[str], None]
) -> Result:
    """Attempt a plan, and as often as a worker runs out of memory, one that halves what it takes at once.

    Args:
        attempt: runs a plan.
        folder: the run's.
        show: told of each new attempt.

    Raises:
        WorkerError: another reason ended the run, or a device has no room for one sample.
    """
    while True:
        before = folder.saved
        try:
            return attempt(made)
        except WorkerError:
            found = failures.overfull(folder.errors)
            if found is None:
                raise
        job, rank, samples = found
        made = made.with_micro_batch(job, rank, samples // 2)
        if folder.saved != before:
            made = made.model_copy(update={"resume": str(folder.checkpoint.absolute())})
        who = f"rank {rank} of job '{made.jobs[job].name}' ({made.jobs[job].workers[rank].device})"
        where = f"on from {made.resume}" if made.resume else "from the start"
        show(f"{who} ran out of memory with {samples} samples at once; with {samples // 2} now, {where}.")
