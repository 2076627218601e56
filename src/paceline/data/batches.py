"""Samples of a map-style dataset, collated into batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, default_collate

from paceline.data.randomness import seed
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
            f"{type(dataset).__name__} has no length",
            expected="a dataset with __len__ and __getitem__, or an IterableDataset",
        ) from None
    if size == 0:
        raise ConfigError(f"{type(dataset).__name__} has no samples", remedy="Check the path to the data.")
    return size


def fetch(
    dataset: Dataset[Any], indices: Sequence[int], collate: Collate = default_collate, key: tuple[int, ...] = ()
) -> Any:
    """The samples at ``indices`` as one batch; uses the dataset's own ``__getitems__`` where it has one.

    With a ``key`` what a sample draws at random depends on that and its index alone; where the dataset gives many
    samples in one call, on the first one's.
    """
    if type(dataset) is TensorDataset and collate is default_collate:  # nothing is random there
        return [tensor[list(indices)] for tensor in dataset.tensors]
    whole: Any = dataset
    while isinstance(whole, Subset):  # which has the call, whether its dataset has it or not
        whole = whole.dataset
    if hasattr(whole, "__getitems__"):
        if key:
            seed(*key, indices[0])
        return collate(dataset.__getitems__(list(indices)))  # type: ignore[attr-defined]
    return collate([_sample(dataset, index, key) for index in indices])


def _sample(dataset: Dataset[Any], index: int, key: tuple[int, ...]) -> Any:
    if key:
        seed(*key, index)
    return dataset[index]


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
