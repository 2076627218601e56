"""Strategies side by side on the emulated 4:2:1:1 cluster, Fashion-MNIST, one epoch, interleaved.

paceline bench heterogeneous            three rounds, about 30 minutes on two cores
paceline bench heterogeneous --quick    one round on digits

The limit is measured before and after each run, and the mean of the two is what the run is held against: a shared
machine drifts by more than the difference between strategies.

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
Round = dict[str, tuple[Summary, float]]  # strategy -> its run and the fraction of the limit it reached


def main() -> None:
    quick = "--quick" in sys.argv
    arguments = ("--epochs", "4") if quick else ("--data", "fashion-mnist", "--epochs", "1")
    machines = api.cluster(HOME / "clusters" / "mixed4.yaml")
    quiet = api.Watcher(show=lambda line: None)
    rounds: list[Round] = []
    for turn in range(1 if quick else 3):
        recipe = api.Recipe(HOME / "recipes" / "classify.py", (*arguments, "--seed", str(turn)))
        folder = HOME / "runs" / "bench-heterogeneous" / str(turn)
        before = api.probe(machines, recipe, RunFolder(folder), watcher=quiet)
        found: Round = {}
        for strategy in STRATEGIES:
            made = api.plan(before, strategy)
            run = api.run(made, recipe, RunFolder(folder / strategy), command=" ".join(sys.argv), watcher=quiet)
            after = api.probe(machines, recipe, RunFolder(folder), watcher=quiet)
            found[strategy] = run, run.samples_per_second / statistics.mean((api.limit(before), api.limit(after)))
            print(
                f"round {turn} {strategy}: {found[strategy][1]:.3f} of the limit, accuracy {run.accuracy}", flush=True
            )
            before = after
        rounds.append(found)
    sys.exit(0 if report(rounds, machines.emulation) else 1)


def report(rounds: list[Round], emulation: str) -> bool:
    """Print the table and the line of figures; whether every bar is met."""
    table = Table(title=f"mixed4, emulated ({emulation}), {len(rounds)} rounds: median (least..most)")
    for name in ("strategy", "fraction of the limit", "accuracy", "seconds", "prediction error"):
        table.add_column(name)
    fraction, accuracy = {}, {}
    for strategy in STRATEGIES:
        runs, fractions = zip(*(found[strategy] for found in rounds), strict=True)
        fraction[strategy] = statistics.median(fractions)
        accuracy[strategy] = statistics.mean(run.accuracy for run in runs)
        table.add_row(
            strategy,
            f"{fraction[strategy]:.3f} ({min(fractions):.3f}..{max(fractions):.3f})",
            f"{accuracy[strategy]:.4f}",
            f"{statistics.median(run.seconds for run in runs):.1f}",
            f"{statistics.median(run.prediction_error for run in runs):.1%}",
        )
    Console().print(table)
    behind = accuracy["alone"] - accuracy["hybrid"]
    fractions_text = " ".join(f"{strategy}={value:.3f}" for strategy, value in fraction.items())
    print(f"heterogeneous {fractions_text} accuracy_behind_alone={behind:.4f}")
    return all(fraction[strategy] >= bar for strategy, bar in BARS.items()) and behind <= POINTS


if __name__ == "__main__":
    main()
