"""Randomness that belongs to samples, not to workers: it is the same whoever draws it, and again after a resume."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch


def seed(*key: int) -> None:
    """Start Python's, numpy's and torch's default generators, on all devices, from ``key``."""
    number = _number(key)
    random.seed(number)
    np.random.seed(number & 0xFFFFFFFF)
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(number)


def _number(key: tuple[int, ...]) -> int:
    text = ",".join(map(str, key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1
