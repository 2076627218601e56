"""The loop's batches: training ranges from the executor, evaluation from a fixed cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import Dataset

from paceline.data.batches import Collate, fetch, length
from paceline.data.sampler import evaluation_part, order
from paceline.ops import Compute, Range

if TYPE_CHECKING:
    from paceline.running.run import Run


def training(run: Run, dataset: Dataset[Any], collate: Collate, shuffle: bool) -> Iterator[Any]:
    """This worker's micro-batches of one epoch. The strategy's program moves on between updates."""
    size = length(dataset)
    positions = order(size, run.epoch, run.seed) if shuffle else torch.arange(size)
    run.begin_epoch(size)
    while (compute := run.next_compute()) is not None:
        for part in _micro_batches(run, compute):
            batch = fetch(dataset, positions[part.start : part.stop].tolist(), collate)
            run.begin_batch(part, compute)
            yield to_device(batch, run)
            run.end_batch()
    run.end_epoch(size)


def _micro_batches(run: Run, compute: Compute) -> list[Range]:
    """The part in pieces the device can take. A worker without samples gets one that weighs nothing, so that its loop
    body runs and meets its peers in every collective."""
    if not compute.part:
        start = min(compute.part.start, run.epoch_size - 1)
        return [Range(start, start + 1)]
    return compute.part.chunks(run.place.worker.micro_batch or len(compute.part))


def evaluation(run: Run, dataset: Dataset[Any], collate: Collate) -> Iterator[Any]:
    """This worker's part of an evaluation set: over the cluster each sample once, faster devices take more."""
    workers = run.place.plan.workers
    weights = [worker.solo_samples_per_second or max(worker.share, 1) for worker in workers]
    part = evaluation_part(length(dataset), weights, run.place.rank)
    for piece in part.chunks(run.place.worker.micro_batch or run.global_batch):
        yield to_device(fetch(dataset, range(piece.start, piece.stop), collate), run)


def to_device(batch: Any, run: Run) -> Any:
    """Tensors of a (nested) batch on the worker's device."""
    if hasattr(batch, "to"):
        return batch.to(run.device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: to_device(value, run) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        moved = [to_device(value, run) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch
