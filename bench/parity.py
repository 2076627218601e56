"""Accuracy of the hybrid against well-tuned synchronous training at equal samples, in virtual time: Fashion-MNIST.

paceline bench parity            three spreads of speed, five seeds: hours on two cores; goes on where it was stopped
paceline bench parity --quick    20,000 samples of one epoch on 4:2:1:1, two seeds

Each method has a learning rate of its own: the best of ``RATES`` by the mean of the first ``TRIED`` seeds, with which
the others train. Nothing here is timed: training is exact in virtual time, whatever this machine does beside it. The
devices' times vary by ``JITTER`` from update to update, so groups meet the server in an order that changes.

Synchronous training is the same on every spread: its shares differ, not its updates (``tests/exactness``). It is
trained on 4:2:1:1. Bar: the hybrid, as it is planned, at most 0.3 points behind it on each spread.
"""

from __future__ import annotations

import contextlib
import io
import json
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paceline import api
from paceline.cost.compute import curve
from paceline.planning import balance
from paceline.reporting.summary import summarise
from paceline.schema.cluster import Cluster, GroupSpec, Work
from paceline.schema.plan import JobPlan, Plan
from paceline.schema.profile import Profile
from paceline.simulating.scenario import Scenario

HOME = Path(__file__).resolve().parents[1]
SPREADS = {"4:2:1:1": (4, 2, 1, 1), "6:3:2:1": (6, 3, 2, 1), "8 to 1": (8, 7, 6, 5, 4, 3, 2, 1)}
RATES = (0.025, 0.05, 0.1, 0.2)
SEEDS, TRIED = 5, 2
PROCESSES, JITTER = 2, 0.05
BATCH, SAMPLES, EPOCHS = 128, 60_000, 3
POINTS = 0.003
SYNCHRONOUS, HYBRID = "synchronous", "hybrid"
FIRST = next(iter(SPREADS))


def profile(spread: str) -> Profile:
    """Groups of one device each, the slowest of which trains 250 samples/s."""
    groups = [
        GroupSpec(name=f"{place}x{speed}", devices=1, sample_seconds=0.004 / speed)
        for place, speed in enumerate(SPREADS[spread])
    ]
    work = Work(name="classify", global_batch=BATCH, epoch_samples=SAMPLES, model_bytes=4_000_000)
    return api.known(Cluster(name=spread.replace(":", "-").replace(" ", "-"), groups=groups, work=work))


def by_steps(grace: float, beside: float = 0.0) -> Callable[[Profile], Plan]:
    """Equal shares and local steps by speed; ``beside``: the part of them that overlaps an exchange."""

    def make(measured: Profile) -> Plan:
        made = api.plan(measured, "hybrid")
        steps = balance.local_steps([1 / (device.sample_seconds or 1) for device in measured.devices])
        return _with(made, balance.even(BATCH, len(steps)), steps, grace, beside)

    return make


def by_shares(grace: float, beside: float = 0.0) -> Callable[[Profile], Plan]:
    """Shares by speed and four local steps of each."""

    def make(measured: Profile) -> Plan:
        made = api.plan(measured, "hybrid")
        shares = balance.by_speed(BATCH, made.workers, [curve(worker) for worker in made.workers])
        return _with(made, shares, [4] * len(shares), grace, beside)

    return make


def _with(made: Plan, shares: list[int], steps: list[int], grace: float, beside: float) -> Plan:
    jobs: list[JobPlan] = []
    for job, share, count in zip(made.jobs, shares, steps, strict=True):
        workers = [job.workers[0].model_copy(update={"share": share})]
        jobs.append(job.model_copy(update={"workers": workers, "local_steps": count, "overlap": int(beside * count)}))
    return made.model_copy(update={"jobs": jobs, "grace_seconds": grace})


METHODS: dict[str, Callable[[Profile], Plan]] = {
    SYNCHRONOUS: partial(api.plan, strategy="allreduce"),
    HYBRID: partial(api.plan, strategy="hybrid"),
    "steps by speed": by_steps(0.0),
    "steps by speed, window": by_steps(0.15),
    "shares by speed": by_shares(0.0),
    "shares by speed, window": by_shares(0.15),
    "steps by speed, overlap": by_steps(0.0, 0.5),
    "steps by speed, window, overlap": by_steps(0.15, 0.5),
    "shares by speed, window, overlap": by_shares(0.15, 0.5),
}


@dataclass(frozen=True)
class Trial:
    """One training."""

    spread: str
    method: str
    rate: float
    seed: int

    def run(self, samples: int, epochs: int) -> tuple[float, float]:
        """Its test accuracy and mean staleness."""
        measured = profile(self.spread).model_copy(update={"epoch_samples": samples})
        made = METHODS[self.method](measured)
        arguments = {"data": "fashion-mnist", "lr": self.rate, "seed": self.seed, "epochs": epochs, "samples": samples}
        recipe = api.Recipe(
            HOME / "recipes" / "classify.py", tuple(f"--{name}={value}" for name, value in arguments.items())
        )
        with contextlib.redirect_stdout(io.StringIO()):
            trace = api.train_virtually(measured, made, recipe, scenario=Scenario(JITTER, self.seed))
        summary = summarise(trace, made, "", [], {})
        return summary.accuracy or 0.0, summary.staleness.mean


Found = dict[Trial, tuple[float, float]]  # accuracy and mean staleness
LINES = [*((FIRST, method) for method in METHODS), *((spread, HYBRID) for spread in list(SPREADS)[1:])]


class Results:
    """Trials that were done, in a file to which each is added as it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: Found = {}
        lines = path.read_text().splitlines() if path.exists() else []
        for line in map(json.loads, lines):
            self.found[Trial(**line["trial"])] = line["accuracy"], line["staleness"]

    def add(self, trial: Trial, accuracy: float, staleness: float) -> None:
        self.found[trial] = accuracy, staleness
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps({"trial": asdict(trial), "accuracy": accuracy, "staleness": staleness}) + "\n")


def best(found: Found, spread: str, method: str, tried: int) -> float:
    """The learning rate of the best mean accuracy over the seeds that all rates have."""
    return max(RATES, key=lambda rate: sum(found[Trial(spread, method, rate, seed)][0] for seed in range(tried)))


def tune(results: Results, seeds: int, tried: int, samples: int, epochs: int) -> None:
    """Each method with each rate, then the rest of the seeds with its best."""
    sweep = [Trial(spread, method, rate, seed) for spread, method in LINES for seed in range(tried) for rate in RATES]
    with ProcessPoolExecutor(PROCESSES, get_context("spawn"), max_tasks_per_child=1) as pool:
        _train(pool, results, sweep, samples, epochs)
        rest = [
            Trial(spread, method, best(results.found, spread, method, tried), seed)
            for spread, method in LINES
            for seed in range(tried, seeds)
        ]
        _train(pool, results, rest, samples, epochs)


def _train(pool: ProcessPoolExecutor, results: Results, trials: list[Trial], samples: int, epochs: int) -> None:
    waiting = {pool.submit(trial.run, samples, epochs): trial for trial in trials if trial not in results.found}
    for done in as_completed(waiting):
        results.add(waiting[done], *done.result())
        print(f"{waiting[done]}: accuracy {done.result()[0]:.4f}, staleness {done.result()[1]:.1f}", flush=True)


def main() -> None:
    quick = "--quick" in sys.argv
    seeds, samples, epochs = (TRIED, 20_000, 1) if quick else (SEEDS, SAMPLES, EPOCHS)
    results = Results(HOME / "runs" / f"bench-parity{'-quick' if quick else ''}" / "results.jsonl")
    tune(results, seeds, TRIED, samples, epochs)
    sys.exit(0 if report(results.found, seeds) else 1)


def report(found: Found, seeds: int) -> bool:
    """Print the table and the line of figures; whether the bar is met on every spread."""
    table = Table(title=f"Test accuracy in virtual time, {seeds} seeds, each method at the best of {len(RATES)} rates")
    for name in ("speeds", "method", "rate", "accuracy", "least..most", "staleness", "behind synchronous"):
        table.add_column(name, justify="left" if name in ("speeds", "method") else "right")
    means, behind = {}, {}
    for spread, method in LINES:
        rate = best(found, spread, method, TRIED)
        accuracies, stale = zip(*(found[Trial(spread, method, rate, seed)] for seed in range(seeds)), strict=True)
        means[spread, method] = statistics.fmean(accuracies)
        behind[spread, method] = means[FIRST, SYNCHRONOUS] - means[spread, method]
        span = f"{min(accuracies):.4f}..{max(accuracies):.4f}"
        texts = (f"{rate}", f"{means[spread, method]:.4f}", span, f"{statistics.fmean(stale):.1f}")
        table.add_row(spread, method, *texts, f"{100 * behind[spread, method]:+.2f} points")
    Console().print(table)
    figures = " ".join(f"behind_{spread.replace(' ', '_')}={behind[spread, HYBRID]:.4f}" for spread in SPREADS)
    print(f"parity synchronous={means[FIRST, SYNCHRONOUS]:.4f} {figures} seeds={seeds}")
    return all(behind[spread, HYBRID] <= POINTS for spread in SPREADS)


if __name__ == "__main__":
    main()
