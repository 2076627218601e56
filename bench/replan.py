"""A worker that becomes five times slower in mid-run: how many updates until the run is as fast as it can be again.

paceline bench replan            three runs on three emulated devices, about two minutes on two cores
paceline bench replan --quick    one run

The new bound is what shares in exact proportion to the speeds after the change would reach: at each worker's median
speed in ten updates, with the same exchanges and the same disturbances that there were in them (on a shared machine the
slowest of several is never undisturbed). Bar: ten updates together reach 95 % of it, the first of them at most 20 after
the change, in each run.
"""

from __future__ import annotations

import copy
import statistics
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import paceline
from paceline import api
from paceline.launchers import bootstrap
from paceline.launchers.folder import RunFolder
from paceline.observation import metrics
from paceline.observation.merge import merge
from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.trace import Span, WorkerTrace

SPEEDS = {"fast": 0.4, "medium": 0.2, "slow": 0.2}
BATCH, FACTOR = 128, 5
CHANGE, UPDATES = 40, 140  # the update in which the fast one slows down, and all of them
WINDOW, PART, BAR = 10, 0.95, 20
OWN = ("load", "compute")


def main() -> None:
    quick = "--quick" in sys.argv
    needed = [measure(turn) for turn in range(1 if quick else 3)]
    worst = max(needed)
    print(f"replan updates_to_95_percent={worst} bar={BAR} runs={len(needed)} emulated=pacing")
    sys.exit(0 if worst <= BAR else 1)


def measure(turn: int) -> int:
    """One run; the updates it needed, or a number above all that there were."""
    groups = [GroupSpec(name=name, devices=1, speed=speed) for name, speed in SPEEDS.items()]
    machines = Cluster(name="three", emulation="pacing", groups=groups)
    recipe = api.Recipe(Path(__file__), (str(turn),))
    quiet = api.Watcher(show=lambda line: None)
    with tempfile.TemporaryDirectory() as name:
        folder = RunFolder(Path(name))
        made = api.plan(api.probe(machines, recipe, folder, watcher=quiet), "allreduce")
        summary = api.run(made, recipe, folder, command=" ".join(sys.argv), watcher=quiet)
        trace = metrics.training_only(merge(folder.traces), together=True)
    updates = [per_update(worker) for worker in trace.workers]
    took = [
        max(spans[-1].stop for spans in each) - max(spans[0].start for spans in each)
        for each in zip(*updates, strict=True)
    ]
    places = range(CHANGE, len(took) - WINDOW)
    bounds = [bound([mine[at : at + WINDOW] for mine in updates]) for at in places]
    reached = [found / sum(took[at : at + WINDOW]) for found, at in zip(bounds, places, strict=True)]
    needed = next((after for after, fraction in enumerate(reached) if fraction >= PART), len(took))
    print(f"run {turn}: shares {made.jobs[0].shares}, an update takes {statistics.median(took[5:CHANGE]):.3f} s")
    for event in summary.events:
        print(f"  {event.what}")
    print(f"  slowed: {took[CHANGE + 1]:.3f} s, bound {bounds[BAR] / WINDOW:.3f} s")
    print(f"  {needed} updates to {PART:.0%} of it; {statistics.median(reached[BAR:]):.1%} later on", flush=True)
    return needed


def bound(updates: list[list[list[Span]]]) -> float:
    """Seconds of some updates with shares in proportion to the workers' median speeds in them."""
    medians = [statistics.median(map(speed, mine)) for mine in updates]
    even = BATCH / sum(medians)
    return sum(
        even * max(median / speed(spans) for median, spans in zip(medians, each, strict=True))
        + min(part(spans, ("send", "exchange")) for spans in each)
        for each in zip(*updates, strict=True)
    )


def per_update(worker: WorkerTrace) -> list[list[Span]]:
    """The worker's spans, update by update; the last one of each counts its samples."""
    updates: list[list[Span]] = [[]]
    for span in worker.spans:
        updates[-1].append(span)
        if span.samples:
            updates.append([])
    return updates[:-1]


def part(spans: list[Span], kinds: tuple[str, ...]) -> float:
    return sum(span.stop - span.start for span in spans if span.kind in kinds)


def speed(spans: list[Span]) -> float:
    """Samples/s of one update's own work."""
    return sum(span.samples for span in spans) / part(spans, OWN)


def work() -> None:
    """One worker. The slowed one does each batch's work several times."""
    torch.manual_seed(0)
    size = BATCH * UPDATES
    data = TensorDataset(torch.randn(size, 1, 28, 28), torch.randint(0, 10, (size,)))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
    )  # fmt: skip
    run = paceline.init(global_batch=BATCH, seed=int(sys.argv[1]))
    again = copy.deepcopy(model)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for _ in run.epochs(1):
        for number, (x, y) in enumerate(run.loader(data)):
            if run.rank == 0 and number >= CHANGE and not run.probing:
                for _ in range(FACTOR - 1):
                    cross_entropy(again(x), y).backward()
            run.backward(cross_entropy(model(x), y))
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    work() if bootstrap.read().distributed else main()
