"""Strategies side by side on the emulated 4:2:1:1 cluster, Fashion-MNIST, one epoch, interleaved, a probe each round.

paceline bench heterogeneous            three rounds, about 20 minutes on two cores
paceline bench heterogeneous --quick    one round on digits

Bars (medians over the rounds): hybrid >= 0.90 of the limit, uneven all-reduce >= 0.80, and hybrid's accuracy within one
point of the fastest device alone at equal samples.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paceline import api
from paceline.launchers.folder import RunFolder
from paceline.schema.summary import Summary

HOME = Path(__file__).resolve().parents[1]
STRATEGIES = ("hybrid", "allreduce", "allreduce_even", "alone")
BARS = {"hybrid": 0.90, "allreduce": 0.80}
POINTS = 0.01


def main() -> None:
    quick = "--quick" in sys.argv
    emulation = "cgroups" if "--cgroups" in sys.argv else None
    arguments = ("--epochs", "4") if quick else ("--data", "fashion-mnist", "--epochs", "1")
    machines = api.cluster(HOME / "clusters" / "mixed4.yaml", emulation)
    quiet = api.Watcher(show=lambda line: None)
    found: dict[str, list[Summary]] = {strategy: [] for strategy in STRATEGIES}
    for turn in range(1 if quick else 3):
        recipe = api.Recipe(HOME / "recipes" / "classify.py", (*arguments, "--seed", str(turn)))
        folder = HOME / "runs" / "bench-heterogeneous" / str(turn)
        profile = api.probe(machines, recipe, RunFolder(folder), watcher=quiet)
        for strategy in STRATEGIES:
            made = api.plan(profile, strategy)
            run = api.run(made, recipe, RunFolder(folder / strategy), command=" ".join(sys.argv), watcher=quiet)
            found[strategy].append(run)
            print(
                f"round {turn} {strategy}: {run.fraction_of_limit:.3f} of the limit, accuracy {run.accuracy}",
                flush=True,
            )
    sys.exit(0 if report(found, machines.emulation) else 1)


def report(found: dict[str, list[Summary]], emulation: str) -> bool:
    """Print the table and the line of figures; whether every bar is met."""
    table = Table(title=f"mixed4, emulated ({emulation}), {len(found['hybrid'])} rounds: median (least..most)")
    for name in ("strategy", "fraction of the limit", "accuracy", "seconds", "prediction error"):
        table.add_column(name)
    fraction, accuracy = {}, {}
    for strategy, runs in found.items():
        fractions = [run.fraction_of_limit or 0.0 for run in runs]
        fraction[strategy] = statistics.median(fractions)
        accuracy[strategy] = statistics.mean(run.accuracy or 0.0 for run in runs)
        table.add_row(
            strategy,
            f"{fraction[strategy]:.3f} ({min(fractions):.3f}..{max(fractions):.3f})",
            f"{accuracy[strategy]:.4f}",
            f"{statistics.median(run.seconds for run in runs):.1f}",
            f"{statistics.median(run.prediction_error or 0.0 for run in runs):.1%}",
        )
    Console().print(table)
    behind = accuracy["alone"] - accuracy["hybrid"]
    fractions_text = " ".join(f"{strategy}={value:.3f}" for strategy, value in fraction.items())
    print(f"heterogeneous {fractions_text} accuracy_behind_alone={behind:.4f}")
    return all(fraction[strategy] >= bar for strategy, bar in BARS.items()) and behind <= POINTS


if __name__ == "__main__":
    main()
