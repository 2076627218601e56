"""What paceline costs on equal devices: the same work by its loop and by a hand-written DistributedDataParallel loop.

paceline bench overhead

Two workers, one core each, no emulation. Both loops run in the same processes in turn, so drift of the machine hits
both. Bar: the median of hand-written time / paceline time, pair by pair, is at least 0.99.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import paceline
from paceline.launchers import bootstrap
from paceline.launchers.folder import RunFolder
from paceline.launchers.supervisor import Supervisor
from paceline.schema.plan import JobPlan, Plan, WorkerPlan

WORKERS, SHARE = 2, 32
BAR = 0.99


def main() -> None:
    quick = "--quick" in sys.argv
    updates, pairs = (10, 5) if quick else (25, 24)
    worker = WorkerPlan(group="g", device="cpu", threads=1, share=SHARE)
    plan = Plan(
        strategy="allreduce_even", cluster="two cores", emulation="none", global_batch=WORKERS * SHARE,
        jobs=[JobPlan(name="all", workers=[worker] * WORKERS)],
    )  # fmt: skip
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        recipe = (Path(__file__), (str(updates), str(pairs)))
        Supervisor(plan, RunFolder(Path(folder)), recipe, server=False, show=lines.append).run()
    ratios = sorted(json.loads(lines[-1]))
    median = statistics.median(ratios)
    quarters = statistics.quantiles(ratios, n=4)
    print(f"{len(ratios)} pairs of {updates} updates: paceline reaches {median:.4f} of a hand-written loop's speed")
    print(f"overhead ratio={median:.4f} quartiles={quarters[0]:.4f}..{quarters[2]:.4f} bar={BAR}")
    sys.exit(0 if median >= BAR else 1)


def work() -> None:
    """One worker: both loops in turn, pair after pair."""
    updates, pairs = int(sys.argv[1]), int(sys.argv[2])
    torch.manual_seed(0)
    size = updates * WORKERS * SHARE
    data = TensorDataset(torch.randn(size, 1, 28, 28), torch.randint(0, 10, (size,)))
    run = paceline.init(global_batch=WORKERS * SHARE)
    mine = model()
    my_optimizer = torch.optim.SGD(mine.parameters(), lr=0.01, momentum=0.9)
    mine, my_optimizer = run.setup(mine, my_optimizer)
    plain = DistributedDataParallel(model(), gradient_as_bucket_view=True)  # as paceline does
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01, momentum=0.9)
    part = range(dist.get_rank(), size, WORKERS)
    loader = DataLoader(data, batch_size=SHARE, sampler=part)
    ratios = []
    for epoch in run.epochs(pairs + 1):
        seconds = {}
        for turn in ("paceline", "plain") if epoch % 2 else ("plain", "paceline"):
            dist.barrier()
            start = time.perf_counter()
            if turn == "paceline":
                for x, y in run.loader(data):
                    run.backward(cross_entropy(mine(x), y))
                    my_optimizer.step()
                    my_optimizer.zero_grad()
            else:
                for x, y in loader:
                    cross_entropy(plain(x), y).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            dist.barrier()
            seconds[turn] = time.perf_counter() - start
        ratios.append(seconds["plain"] / seconds["paceline"])
    run.print(json.dumps(ratios[1:]))  # the first pair warms up


def model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 384), nn.ReLU(), nn.Linear(384, 10),
    )  # fmt: skip


if __name__ == "__main__":
    work() if bootstrap.read().distributed else main()
