"""Seconds of computing."""

from __future__ import annotations

from paceline.errors import ConfigError
from paceline.schema.plan import WorkerPlan


def seconds(worker: WorkerPlan, samples: int) -> float:
    """One update of ``samples`` samples on this worker: a fixed part for each micro-batch and a part for each sample.

    ``t(b) = ceil(b / m) a + c b`` with micro-batches of at most ``m``; 0 for no samples.

    Raises:
        ConfigError: the worker was not measured.
    """
    if worker.solo_samples_per_second is None:
        raise ConfigError(
            f"group '{worker.group}', {worker.device} has no speed in the plan",
            remedy="Make the plan from a profile: paceline probe, then paceline plan.",
        )
    per_sample = worker.sample_seconds or 1 / worker.solo_samples_per_second
    micro_batches = -(-samples // (worker.micro_batch or max(samples, 1)))
    return micro_batches * worker.fixed_seconds + samples * per_sample
