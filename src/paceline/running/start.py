"""``paceline.init``."""

from __future__ import annotations

from paceline.launchers import bootstrap
from paceline.running.run import Run
from paceline.running.worker import Worker


def init(*, global_batch: int, seed: int = 0) -> Run:
    """Join whatever launched this process: ``paceline run``, a bare torchrun, or nothing (then alone).

    Args:
        global_batch: samples per update of the whole cluster, whatever the number of workers.
        seed: of the order of samples.

    Raises:
        ConfigError: ``global_batch`` and the plan or the number of workers do not fit together.
        LaunchError: an emulated device could not be set up.
    """
    return Run(Worker(bootstrap.read(), global_batch), global_batch, seed)
