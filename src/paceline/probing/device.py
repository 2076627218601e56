"""What accelerators this host has."""

from __future__ import annotations

import torch


def accelerators() -> list[str]:
    """Torch names of the accelerators of this host, in torch's order: ``["cuda:0", ...]``, empty without any."""
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
