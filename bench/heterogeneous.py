"""Strategies side by side on the emulated 4:2:1:1 cluster, Fashion-MNIST, interleaved.

paceline bench heterogeneous            both ways of emulating, three rounds, about an hour on two cores
paceline bench heterogeneous --quick    one round of each on digits

The limit is measured before and after each run, and the mean of the two is what the run is held against: a shared
machine drifts by more than the difference between strategies.

Bars, medians over the rounds: the hybrid reaches 0.95 of the limit under pacing and 0.92 under cgroups, where a slow
device also communicates slowly; its mean accuracy is at most half a point behind uneven all-reduce at equal samples;
and it is at the accuracy that even all-reduce ends with in 1/1.8 of its time.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paceline import api
from paceline.launchers.folder import RunFolder
from paceline.observation import metrics
from paceline.observation.merge import merge
from paceline.schema.cluster import Cluster
from paceline.schema.summary import Summary

HOME = Path(__file__).resolve().parents[1]
HYBRID, UNEVEN, EVEN = STRATEGIES = ("hybrid", "allreduce", "allreduce_even")
BARS = {"pacing": 0.95, "cgroups": 0.92}  # of the limit, for the hybrid
POINTS, SOONER = 0.005, 1.8
QUIET = api.Watcher(show=lambda line: None)


@dataclass(frozen=True)
class Run:
    """``of_limit``: the part of the limit that was reached. ``curve``: seconds of training -> accuracy."""

    summary: Summary
    of_limit: float
    curve: list[metrics.Point]

    @property
    def accuracy(self) -> float:
        return self.curve[-1].value

    def seconds_to(self, accuracy: float) -> float:
        """Seconds after which it was first seen to be that good; endless if it never was."""
        return next((point.seconds for point in self.curve if point.value >= accuracy), float("inf"))


Round = dict[str, Run]


def rounds(machines: Cluster, quick: bool) -> list[Round]:
    """What each strategy reached, round by round."""
    data = ("--epochs", "4") if quick else ("--data", "fashion-mnist", "--samples", "30000", "--epochs", "2")
    found: list[Round] = []
    for turn in range(1 if quick else 3):
        recipe = api.Recipe(HOME / "recipes" / "classify.py", (*data, "--seed", str(turn)))
        folder = HOME / "runs" / "bench-heterogeneous" / machines.emulation / str(turn)
        before, own = api.probe(machines, recipe, RunFolder(folder), watcher=QUIET), {}
        for strategy in STRATEGIES:
            made, place = api.plan(before, strategy), RunFolder(folder / strategy)
            summary = api.run(made, recipe, place, command=" ".join(sys.argv), watcher=QUIET)
            after = api.probe(machines, recipe, RunFolder(folder), watcher=QUIET)
            part = summary.samples_per_second / statistics.mean((api.limit(before), api.limit(after)))
            own[strategy] = Run(summary, part, metrics.curve(merge(place.traces)))
            print(f"{machines.emulation} {turn} {strategy}: {part:.3f} of the limit, {summary.accuracy}", flush=True)
            before = after
        found.append(own)
    return found


def main() -> None:
    met = []
    for emulation in BARS:
        machines = api.cluster(HOME / "clusters" / "mixed4.yaml", emulation)
        met.append(report(rounds(machines, "--quick" in sys.argv), emulation))
    sys.exit(0 if all(met) else 1)


def report(found: list[Round], emulation: str) -> bool:
    """Print the table and the line of figures; whether every bar is met."""
    table = Table(title=f"mixed4, emulated ({emulation}), {len(found)} rounds: median (least..most)")
    for name in ("strategy", "fraction of the limit", "accuracy", "seconds", "prediction error"):
        table.add_column(name)
    for strategy in STRATEGIES:
        runs = [own[strategy] for own in found]
        parts, accuracies = [run.of_limit for run in runs], [run.accuracy for run in runs]
        table.add_row(
            strategy, f"{statistics.median(parts):.3f} ({min(parts):.3f}..{max(parts):.3f})",
            f"{statistics.mean(accuracies):.4f} ({min(accuracies):.4f}..{max(accuracies):.4f})",
            f"{statistics.median(run.summary.seconds for run in runs):.1f}",
            f"{statistics.median(run.summary.prediction_error or 0.0 for run in runs):.1%}",
        )  # fmt: skip
    Console().print(table)
    of_limit = {one: statistics.median(own[one].of_limit for own in found) for one in STRATEGIES}
    behind = statistics.mean(own[UNEVEN].accuracy - own[HYBRID].accuracy for own in found)
    sooner = statistics.median(own[EVEN].summary.seconds / own[HYBRID].seconds_to(own[EVEN].accuracy) for own in found)
    told = " ".join(f"{strategy}={value:.3f}" for strategy, value in of_limit.items())
    print(f"heterogeneous {emulation} {told} behind_uneven={behind:.4f} sooner_than_even={sooner:.2f}")
    return of_limit[HYBRID] >= BARS[emulation] and behind <= POINTS and sooner >= SOONER


if __name__ == "__main__":
    main()
