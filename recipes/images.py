"""The two data sets of the recipes as tensors: normalised float32 images, one channel, and int64 labels."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import TensorDataset

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
UNSIGNED_BYTE = 0x08


class DataError(Exception):
    """A data set that is not there or not whole, in one sentence."""


def load(name: str, folder: Path | None = None) -> tuple[TensorDataset, TensorDataset]:
    """The training set and the test set of ``digits`` or ``fashion-mnist``.

    Args:
        name: which of the two.
        folder: where the files of ``fashion-mnist`` are; ``digits`` comes with scikit-learn.

    Raises:
        DataError: a file is missing or broken.
    """
    return _digits() if name == "digits" else _fashion_mnist(folder or FASHION_MNIST)


def _digits() -> tuple[TensorDataset, TensorDataset]:
    """1797 images of 8x8, always split into the same 1437 and 360."""
    digits = load_digits()
    images = _normalised(torch.from_numpy(digits.images).float(), mean=4.88, deviation=6.02)
    labels = torch.from_numpy(digits.target).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:1437], order[1437:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def _fashion_mnist(folder: Path) -> tuple[TensorDataset, TensorDataset]:
    """70000 images of 28x28: 60000 to train on, 10000 to test on."""
    parts = []
    for part in ("train", "t10k"):
        images = read_idx(folder / f"{part}-images-idx3-ubyte.gz", dimensions=3)
        labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", dimensions=1)
        if len(images) != len(labels):
            raise DataError(f"{folder} holds {len(images)} {part} images but {len(labels)} labels: fetch it again.")
        parts.append(TensorDataset(_normalised(images.float(), mean=72.9, deviation=90.0), labels.long()))
    return parts[0], parts[1]


def _normalised(images: Tensor, mean: float, deviation: float) -> Tensor:
    return ((images - mean) / deviation).unsqueeze(1)


def read_idx(path: Path, dimensions: int) -> Tensor:
    """The bytes of a gzipped idx file as a tensor: two zeros, type, dimensions, each size as 4 bytes, then the values.

    Raises:
        DataError: the file is missing, is not gzip, is not idx of that many dimensions, or is cut short.
    """
    try:
        content = gzip.decompress(path.read_bytes())
    except FileNotFoundError:
        raise DataError(
            f"{path} is missing: install the Debian package dataset-fashion-mnist, "
            "or name the folder that holds the four idx .gz files with --data-dir."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked ({error}): fetch it again.") from error
    start = 4 + 4 * dimensions
    magic = bytes([0, 0, UNSIGNED_BYTE, dimensions])
    if len(content) < start or not content.startswith(magic):
        raise DataError(f"{path} starts with '{content[:4].hex()}' where such a file starts with '{magic.hex()}'.")
    sizes = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    values = np.frombuffer(content, np.uint8, offset=start)
    if len(values) != math.prod(sizes):
        raise DataError(f"{path} holds {len(values)} values where its header says {sizes}: fetch it again.")
    return torch.from_numpy(values.reshape(sizes).copy())
