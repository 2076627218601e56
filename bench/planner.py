"""How fast the uneven split is found, and how far from the best one it is.

paceline bench planner            a minute
paceline bench planner --quick    fewer instances

Random devices: speeds 1 to 100, fixed costs of up to ten samples, in three kinds: a straight line, accumulation in
micro-batches, and measured tables with noise. Small instances are held against all splits there are, large ones against
handing out one sample after another. Bars (medians): 1 ms for 16 devices, 50 ms for 1,024, 0.1 % from the best.
"""

from __future__ import annotations

import heapq
import random
import statistics
import sys
import time
from itertools import product

from rich.console import Console
from rich.table import Table

from paceline.cost.compute import Seconds, curve
from paceline.cost.split import split
from paceline.schema.plan import WorkerPlan
from paceline.schema.profile import Point

KINDS = ("line", "accumulation", "table")
CASES = ((16, 512, 1.0), (16, 16_384, 1.0), (1_024, 16_384, 50.0), (1_024, 65_536, 50.0))  # devices, batch, bar in ms
FAR = 0.001


def main() -> None:
    quick = "--quick" in sys.argv
    chance, turns = random.Random(0), 3 if quick else 15
    table = Table(title=f"The split of a batch, {turns} random clusters each: CPU ms, median (most)")
    for name in ("devices", "batch", *KINDS, "bar", "from the best"):
        table.add_column(name, justify="right")
    figures, met = {}, True
    for count, batch, bar in CASES:
        cells, gaps, medians = [], [], []
        for kind in KINDS:
            found = [_timed(batch, [device(chance, kind) for _ in range(count)]) for _ in range(turns)]
            spent = sorted(1000 * seconds for seconds, _ in found)
            medians.append(statistics.median(spent))
            gaps += [gap for _, gap in found]
            cells.append(f"{medians[-1]:.2f} ({spent[-1]:.2f})")
        table.add_row(f"{count:,}", f"{batch:,}", *cells, f"{bar:g}", f"{max(gaps):.3%}")
        figures[f"ms_{count}_{batch}"] = f"{max(medians):.2f}"
        met &= max(medians) <= bar and max(gaps) <= FAR
    gap = max(_brute(chance, kind) for kind in KINDS for _ in range(20 if quick else 200))
    Console().print(table)
    print(f"planner {' '.join(f'{name}={value}' for name, value in figures.items())} from_brute_force={gap:.4%}")
    sys.exit(0 if met and gap <= FAR else 1)


def device(chance: random.Random, kind: str) -> Seconds:
    """The time of a random device for any number of samples."""
    each = 1 / chance.uniform(1, 100)
    fixed, noise = each * chance.uniform(0, 10), [chance.uniform(0.9, 1.1) for _ in range(4)]
    sizes = zip((2, 4, 8, 16), noise, strict=True)
    return curve(
        WorkerPlan(
            group="any",
            device="cpu",
            threads=1,
            share=0,
            micro_batch=None if kind == "line" else chance.choice((4, 8, 16)),
            solo_samples_per_second=1 / each,
            fixed_seconds=fixed,
            sample_seconds=each,
            table=tuple(Point(samples=n, seconds=by * (fixed + n * each)) for n, by in sizes)
            if kind == "table"
            else (),
        )
    )


def _timed(batch: int, times: list[Seconds]) -> tuple[float, float]:
    start = time.process_time()
    shares = split(batch, times)
    return time.process_time() - start, _slowest(shares, times) / _slowest(one_by_one(batch, times), times) - 1


def _brute(chance: random.Random, kind: str) -> float:
    """How much slower than the best of all splits of a small batch over three devices."""
    batch, times = chance.randint(1, 24), [device(chance, kind) for _ in range(3)]
    splits = ((a, b, batch - a - b) for a, b in product(range(batch + 1), repeat=2) if a + b <= batch)
    return _slowest(split(batch, times), times) / min(_slowest(shares, times) for shares in splits) - 1


def one_by_one(batch: int, times: list[Seconds]) -> list[int]:
    """Each sample to whoever would be done with it first: optimal, and as slow as the batch is large."""
    shares = [0] * len(times)
    ready = [(own(1), place) for place, own in enumerate(times)]
    heapq.heapify(ready)
    for _ in range(batch):
        _, place = ready[0]
        shares[place] += 1
        heapq.heapreplace(ready, (times[place](shares[place] + 1), place))
    return shares


def _slowest(shares: list[int] | tuple[int, ...], times: list[Seconds]) -> float:
    return max(own(share) for share, own in zip(shares, times, strict=True))


if __name__ == "__main__":
    main()
