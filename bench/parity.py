"""Accuracy of the hybrid against well-tuned synchronous training at equal samples, in virtual time: Fashion-MNIST.

paceline bench parity            three spreads of speed, five seeds: hours on two cores; goes on where it was stopped
paceline bench parity --quick    20,000 samples of one epoch on 4:2:1:1, two seeds

Each method has a learning rate of its own: the best of ``RATES`` by the mean of the first ``TRIED`` seeds, with which
the others train. The devices' times vary by ``JITTER`` from update to update, so groups meet the server in an order
that changes.

Synchronous training is the same on every spread: its shares differ, not its updates (``tests/exactness``). It is
trained on 4:2:1:1. Bar: the hybrid, as it is planned, at most 0.3 points behind it on each spread.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from virtual.trials import Figures, Sweep, Trial

from paceline import api
from paceline.cost.compute import curve
from paceline.errors import ConfigError
from paceline.planning import balance
from paceline.reporting.summary import summarise
from paceline.schema.cluster import Cluster, GroupSpec, Work
from paceline.schema.plan import JobPlan, Plan, Wire
from paceline.schema.profile import Profile
from paceline.simulating.scenario import Scenario

HOME = Path(__file__).resolve().parents[1]
SPREADS = {"4:2:1:1": (4, 2, 1, 1), "6:3:2:1": (6, 3, 2, 1), "8 to 1": (8, 7, 6, 5, 4, 3, 2, 1)}
RATES = (0.025, 0.05, 0.1, 0.2)
SEEDS, TRIED = 5, 2
JITTER = 0.05
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


def rounded(wire: Wire) -> Callable[[Profile], Plan]:
    """The hybrid as planned, whose weights cross the links rounded."""
    return lambda measured: api.plan(measured, "hybrid").model_copy(update={"wire": wire})


def served(rule: str) -> Callable[[Profile], Plan]:
    """Each device by itself, its gradients pushed as they come, equal shares."""
    return lambda measured: api.plan(measured, "server_async").model_copy(update={"rule": rule})


def _with(made: Plan, shares: list[int], steps: list[int], grace: float, beside: float) -> Plan:
    jobs: list[JobPlan] = []
    for job, share, count in zip(made.jobs, shares, steps, strict=True):
        workers = [job.workers[0].model_copy(update={"share": share})]
        jobs.append(job.model_copy(update={"workers": workers, "local_steps": count, "overlap": int(beside * count)}))
    return made.model_copy(update={"jobs": jobs, "grace_seconds": grace})


METHODS: dict[str, Callable[[Profile], Plan]] = {
    SYNCHRONOUS: partial(api.plan, strategy="allreduce"),
    HYBRID: partial(api.plan, strategy="hybrid"),
    "hybrid, bfloat16": rounded("bfloat16"),
    "hybrid, int8": rounded("int8"),
    "server, momentum": served("momentum"),
    "server, momentum less what asynchrony adds": served("momentum:groups=4"),
    "server, damped": served("momentum:damping=1,momentum=0"),
    "steps by speed": by_steps(0.0),
    "steps by speed, window": by_steps(0.15),
    "shares by speed": by_shares(0.0),
    "shares by speed, window": by_shares(0.15),
    "steps by speed, overlap": by_steps(0.0, 0.5),
    "steps by speed, window, overlap": by_steps(0.15, 0.5),
    "shares by speed, window, overlap": by_shares(0.15, 0.5),
}


def train(samples: int, epochs: int, trial: Trial) -> Figures:
    """Test accuracy and mean staleness of one training."""
    measured = profile(trial.spread).model_copy(update={"epoch_samples": samples})
    made = METHODS[trial.method](measured)
    arguments = {"data": "fashion-mnist", "lr": trial.rate, "seed": trial.seed, "epochs": epochs, "samples": samples}
    recipe = api.Recipe(
        HOME / "recipes" / "classify.py", tuple(f"--{name}={value}" for name, value in arguments.items())
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            trace = api.train_virtually(measured, made, recipe, scenario=Scenario(JITTER, trial.seed))
    except ConfigError:  # it diverged until a push was not finite
        return {"accuracy": 0.0, "staleness": 0.0}
    summary = summarise(trace, made, "", [], {})
    return {"accuracy": summary.accuracy or 0.0, "staleness": summary.staleness.mean}


LINES = [*((FIRST, method) for method in METHODS), *((spread, HYBRID) for spread in list(SPREADS)[1:])]


def main() -> None:
    quick = "--quick" in sys.argv
    seeds, samples, epochs = (TRIED, 20_000, 1) if quick else (SEEDS, SAMPLES, EPOCHS)
    path = HOME / "runs" / f"bench-parity{'-quick' if quick else ''}" / "results.jsonl"
    sweep = Sweep(path, partial(train, samples, epochs), LINES, RATES, (seeds, TRIED), itemgetter("accuracy"))
    sweep.run()
    sys.exit(0 if report(sweep) else 1)


def report(sweep: Sweep) -> bool:
    """Print the table and the line of figures; whether the bar is met on every spread."""
    table = Table(title=f"Test accuracy in virtual time, {sweep.seeds} seeds, each method at its best rate")
    for name in ("speeds", "method", "rate", "accuracy", "least..most", "staleness", "behind synchronous"):
        table.add_column(name, justify="left" if name in ("speeds", "method") else "right")
    means, behind = {}, {}
    for line in sweep.lines:
        accuracies = [found["accuracy"] for found in sweep.of(line)]
        stale = statistics.fmean(found["staleness"] for found in sweep.of(line))
        means[line] = statistics.fmean(accuracies)
        behind[line] = means[FIRST, SYNCHRONOUS] - means[line]
        span = f"{min(accuracies):.4f}..{max(accuracies):.4f}"
        texts = (f"{sweep.best(line)}", f"{means[line]:.4f}", span, f"{stale:.1f}", f"{100 * behind[line]:+.2f} points")
        table.add_row(*line, *texts)
    Console().print(table)
    figures = " ".join(f"behind_{spread.replace(' ', '_')}={behind[spread, HYBRID]:.4f}" for spread in SPREADS)
    print(f"parity synchronous={means[FIRST, SYNCHRONOUS]:.4f} {figures} seeds={sweep.seeds}")
    return all(behind[spread, HYBRID] <= POINTS for spread in SPREADS)


if __name__ == "__main__":
    main()
