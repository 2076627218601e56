"""Samples of a map-style dataset, collated into batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from paceline.errors import ConfigError

Collate = Callable[[list[Any]], Any]


def length(dataset: Dataset[Any]) -> int:
    """Number of samples.

    Raises:
        ConfigError: the dataset has no length, or no samples, or is a DataLoader.
    """
    if isinstance(dataset, DataLoader):
        raise ConfigError(
            "run.loader was given a DataLoader", expected="its dataset",
            remedy="Write run.loader(dataset): paceline cuts the batches itself.",
        )  # fmt: skip
    try:
        size = len(dataset)  # type: ignore[arg-type]
    except TypeError:
        raise ConfigError(
            f"{type(dataset).__name__} has no length", expected="a map-style dataset with __len__ and __getitem__"
        ) from None
    if size == 0:
        raise ConfigError(f"{type(dataset).__name__} has no samples", remedy="Check the path to the data.")
    return size


def fetch(dataset: Dataset[Any], indices: Sequence[int], collate: Collate = default_collate) -> Any:
    """The samples at ``indices`` as one batch; uses the dataset's own ``__getitems__`` where it has one."""
    together = getattr(dataset, "__getitems__", None)
    samples = together(list(indices)) if together is not None else [dataset[index] for index in indices]
    return collate(samples)


def to_device(batch: Any, device: torch.device) -> Any:
    """Tensors of a (nested) batch on ``device``; anything else as it is."""
    if hasattr(batch, "to"):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        moved = [to_device(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch
