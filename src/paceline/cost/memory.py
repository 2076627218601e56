"""Bytes on a device."""

from __future__ import annotations

HEADROOM = 0.1  # of a device's memory: what the allocator cannot use, and buffers of collectives


def cap(memory: float, fixed: float, per_sample: float, headroom: float = HEADROOM) -> int:
    """Samples that a device holds at once: 1 at least, for it has trained before it was measured.

    Args:
        memory: bytes of the device.
        fixed: bytes that are there between two updates: weights, the optimizer's state.
        per_sample: bytes that each sample of a micro-batch adds at the peak.
        headroom: part of ``memory`` to leave free.
    """
    return max(1, int(((1 - headroom) * memory - fixed) // per_sample))


def needed(fixed: float, per_sample: float, samples: int) -> float:
    """Bytes at the peak of a micro-batch of so many samples."""
    return fixed + samples * per_sample
