"""What plans predict against what emulated runs reach, side by side.

paceline bench prediction            four clusters, about 30 minutes on two cores
paceline bench prediction --quick    mixed4 alone

The clusters are mixed4, two_groups and two that are drawn anew each time, slowed to what leaves most of this machine to
communication (``CORES``), as devices that compute would. What a device of each group then takes for a batch is measured
once; from then on the emulated devices keep to it whatever the machine does, which by its CPU time alone drifts by more
than the bars. Each run has a probe of its own, which knows of the devices only what it measures, and no figure of the
run flows back into its prediction. Bars: mean error at most 5 %, none above 10 %.
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
from paceline.schema.cluster import Cluster, GroupSpec, Work
from paceline.schema.profile import Profile
from paceline.schema.summary import Summary

HOME = Path(__file__).resolve().parents[1]
STRATEGIES = ("allreduce_even", "allreduce", "hybrid")
MEAN_BAR, WORST_BAR = 0.05, 0.10
DRAWN_CORES = (0.7, 1.4)  # that all devices of a drawn cluster ask for
CORES = 0.7  # of this machine's two, that all devices of a cluster get
DATA = ("--data", "fashion-mnist", "--epochs", "1", "--samples", "20000")
QUIET = api.Watcher(show=lambda line: None)


def drawn(seed: int) -> Cluster:
    """Two to four devices in two or three groups, each with a speed of its own."""
    chance = random.Random(seed)
    while True:
        groups = [
            GroupSpec(name=name, devices=chance.randint(1, 2), speed=round(chance.uniform(0.12, 0.6), 2))
            for name in ("first", "second", "third")[: chance.randint(2, 3)]
        ]
        made = Cluster(name=f"drawn{seed}", emulation="pacing", groups=groups)
        if sum(group.size for group in groups) <= 4 and DRAWN_CORES[0] <= asked(made) <= DRAWN_CORES[1]:
            return made


def asked(machines: Cluster) -> float:
    """Cores that its devices ask for."""
    return sum(group.size * (group.speed or 0.0) for group in machines.groups)


def steady(machines: Cluster, recipe: api.Recipe, folder: Path) -> Cluster:
    """The same, slowed to ``CORES``, of devices that keep to what they take now."""
    factor = min(1.0, CORES / asked(machines))
    slowed = [group.model_copy(update={"speed": factor * (group.speed or 1.0)}) for group in machines.groups]
    measured = api.probe(machines.model_copy(update={"groups": slowed}), recipe, RunFolder(folder), watcher=QUIET)
    work = Work(name=recipe.script.stem, global_batch=measured.global_batch, epoch_samples=measured.epoch_samples)
    groups = [group.model_copy(update=_times(group.name, measured)) for group in slowed]
    told = ", ".join(f"{group.name} {group.size} x {1 / (group.sample_seconds or 1):,.0f}/s" for group in groups)
    print(f"{machines.name}: {told}, which is {factor:.2f} of its speeds", flush=True)
    return machines.model_copy(update={"groups": groups, "work": work})


def _times(group: str, measured: Profile) -> dict[str, float]:
    like = [device for device in measured.devices if device.group == group]
    return {
        "fixed_seconds": statistics.fmean(device.fixed_seconds for device in like),
        "sample_seconds": statistics.fmean(device.whole_sample_seconds for device in like),
    }


def runs(machines: Cluster, folder: Path) -> list[Summary]:
    """One run of each strategy, each planned from a probe of its own."""
    recipe, found = api.Recipe(HOME / "recipes" / "classify.py", DATA), []
    devices = steady(machines, recipe, folder)
    for strategy in STRATEGIES:
        measured = api.probe(devices, recipe, RunFolder(folder), watcher=QUIET)
        made = api.plan(measured, strategy)
        found.append(api.run(made, recipe, RunFolder(folder / strategy), command=" ".join(sys.argv), watcher=QUIET))
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
