"""Measures the wires between the workers of a probe, while none of them computes."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

SMALL = 8  # bytes: what latency shows in
MOST, MOST_OF_A_PAIR = 16 << 20, 2 << 20  # bytes that bandwidth is measured on; there are many pairs
ROUNDS = 12


def measure(groups: Sequence[str], size: int, device: torch.device) -> dict[str, Any]:
    """Called by all workers of the default process group at once.

    Args:
        groups: each worker's group, by rank.
        size: bytes of one exchange.
        device: of this worker.

    Returns:
        ``all``: ``[[bytes, seconds], [bytes, seconds]]`` of a small and a large all-reduce over all. ``group``: the
        same inside this worker's group, while the other groups do so too; None for a group of one. ``pairs``: for each
        worker of a higher rank, ``[rank, bytes, seconds, bytes, seconds]``, one way, through host memory.
    """
    rank, sizes = dist.get_rank(), (SMALL, max(2 * SMALL, min(size, MOST)))
    names = list(dict.fromkeys(groups))
    members = {name: [place for place, group in enumerate(groups) if group == name] for name in names}
    subgroups = {name: dist.new_group(ranks) for name, ranks in members.items() if 1 < len(ranks) < len(groups)}
    everyone = _all_reduce(None, sizes, device)
    own = _all_reduce(subgroups[groups[rank]], sizes, device) if groups[rank] in subgroups else None
    dist.barrier()
    pairs = [
        _pair(low, high, min(sizes[1], MOST_OF_A_PAIR)) for low, high in itertools.combinations(range(len(groups)), 2)
    ]
    dist.barrier()
    own = everyone if len(names) == 1 else own
    return {"all": everyone, "group": own, "pairs": [found for found in pairs if found is not None]}


def _all_reduce(group: dist.ProcessGroup | None, sizes: Sequence[int], device: torch.device) -> list[list[float]]:
    return [[size, _timed(lambda tensor: dist.all_reduce(tensor, group=group), size, device)] for size in sizes]


def _pair(low: int, high: int, size: int) -> list[float] | None:
    """Half of the seconds there and back, as the lower rank sees it."""
    rank = dist.get_rank()
    if rank not in (low, high):
        return None

    def there_and_back(tensor: Tensor) -> None:
        for sends in (rank == low, rank != low):
            if sends:
                dist.send(tensor, high if rank == low else low)
            else:
                dist.recv(tensor, high if rank == low else low)

    cpu = torch.device("cpu")
    seconds = [_timed(there_and_back, bytes_, cpu) / 2 for bytes_ in (SMALL, size)]
    return [high, SMALL, seconds[0], size, seconds[1]] if rank == low else None


def _timed(transfer: Callable[[Tensor], None], size: int, device: torch.device) -> float:
    """Seconds, after a first time that opens connections; the lower quartile, as another program's turn on the machine
    is no property of a wire. All workers take part in all rounds."""
    tensor = torch.zeros(size // 4, device=device)
    times = []
    for _ in range(ROUNDS + 1):
        start = time.monotonic()
        transfer(tensor)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.monotonic() - start)
    return statistics.quantiles(times[1:], n=4)[0]
