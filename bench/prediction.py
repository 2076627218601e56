"""What plans predict against what emulated runs reach, side by side.

paceline bench prediction            four clusters, about 25 minutes on two cores
paceline bench prediction --quick    mixed4 alone

The clusters are mixed4, two_groups and two that are drawn anew each time. Each run has a probe of its own just before
it, for a shared machine drifts, and no figure of the run flows back into its prediction. Bars: mean error at most 5 %,
none above 10 %.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paceline import api
from paceline.launchers.folder import RunFolder
from paceline.schema.cluster import Cluster, GroupSpec
from paceline.schema.summary import Summary

HOME = Path(__file__).resolve().parents[1]
STRATEGIES = ("allreduce_even", "allreduce", "hybrid")
MEAN_BAR, WORST_BAR = 0.05, 0.10
CORES = (0.7, 1.4)  # of this machine's two, that all devices of a drawn cluster ask for


def drawn(seed: int) -> Cluster:
    """Two to four devices in two or three groups, each with a speed of its own, that this machine can emulate."""
    chance = random.Random(seed)
    while True:
        groups = [
            GroupSpec(name=name, devices=chance.randint(1, 2), speed=round(chance.uniform(0.12, 0.6), 2))
            for name in ("first", "second", "third")[: chance.randint(2, 3)]
        ]
        asked = sum(group.size * (group.speed or 0.0) for group in groups)
        if sum(group.size for group in groups) <= 4 and CORES[0] <= asked <= CORES[1]:
            return Cluster(name=f"drawn{seed}", emulation="pacing", groups=groups)


def runs(machines: Cluster, folder: Path) -> list[Summary]:
    """One run of each strategy, each planned from a probe of its own."""
    recipe = api.Recipe(
        HOME / "recipes" / "classify.py", ("--data", "fashion-mnist", "--epochs", "1", "--samples", "20000")
    )
    quiet, found = api.Watcher(show=lambda line: None), []
    for strategy in STRATEGIES:
        measured = api.probe(machines, recipe, RunFolder(folder), watcher=quiet)
        made = api.plan(measured, strategy)
        found.append(api.run(made, recipe, RunFolder(folder / strategy), command=" ".join(sys.argv), watcher=quiet))
        print(f"{machines.name} {strategy}: {_errors(found[-1])}", flush=True)
    return found


def _errors(run: Summary) -> str:
    predicted, error = run.predicted_samples_per_second, run.prediction_error
    if predicted is None or error is None:
        raise RuntimeError(f"{run.strategy} on {run.cluster} has no prediction")
    return f"{predicted:,.0f} samples/s predicted, {run.samples_per_second:,.0f} reached, off by {error:.1%}"


def main() -> None:
    quick = "--quick" in sys.argv
    seed = int(time.time()) % 100_000
    ready = [api.cluster(HOME / "clusters" / f"{name}.yaml") for name in ("mixed4", "two_groups")]
    clusters = ready[:1] if quick else [*ready, drawn(seed), drawn(seed + 1)]
    for machines in clusters[2:]:
        print(f"{machines.name}: {', '.join(f'{g.name} {g.devices} x {g.speed}' for g in machines.groups)}", flush=True)
    folder = HOME / "runs" / "bench-prediction"
    found = [run for machines in clusters for run in runs(machines, folder / machines.name)]
    sys.exit(0 if report(found) else 1)


def report(found: list[Summary]) -> bool:
    """Print the table and the line of figures; whether both bars are met."""
    table = Table(title="Predicted against measured, emulated (pacing), samples/s")
    for name in ("cluster", "strategy", "predicted", "measured", "error"):
        table.add_column(name, justify="left" if name in ("cluster", "strategy") else "right")
    errors = []
    for run in found:
        predicted, measured = run.predicted_samples_per_second or 0.0, run.samples_per_second
        errors.append(predicted / measured - 1)
        table.add_row(run.cluster, run.strategy, f"{predicted:,.0f}", f"{measured:,.0f}", f"{errors[-1]:+.1%}")
    Console().print(table)
    mean, worst = statistics.fmean(map(abs, errors)), max(map(abs, errors))
    print(f"prediction mean_error={mean:.3f} worst={worst:.3f} runs={len(errors)}")
    return mean <= MEAN_BAR and worst <= WORST_BAR


if __name__ == "__main__":
    main()
