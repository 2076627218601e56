"""10,000 devices through 100 updates in virtual time, on one core.

paceline bench simulator            allreduce and hybrid on clusters/devices10k.yaml
paceline bench simulator --quick    ten updates

Bars: each strategy simulates in at most 30 s, and all of it takes at most 2 GiB. The seconds are CPU time of this one
process, for machines are shared; planning and the figures of the summary are measured apart. With jitter no two devices
are alike and each is gone through by itself: that is shown, for a thousand devices, and has no bar.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paceline import api
from paceline.planning import search
from paceline.reporting.summary import summarise
from paceline.schema.profile import Profile
from paceline.simulating.scenario import Scenario

CLUSTER = Path(__file__).resolve().parents[1] / "clusters" / "devices10k.yaml"
SECONDS, GIBIBYTES = 30.0, 2.0


def main() -> None:
    updates = 10 if "--quick" in sys.argv else 100
    profile = api.known(api.cluster(CLUSTER))
    few = profile.model_copy(update={"devices": profile.devices[::10], "global_batch": profile.global_batch // 10})
    table = Table(title=f"{updates} updates in virtual time (simulated), CPU seconds")
    for name in ("strategy", "devices", "jitter", "plan", "simulate", "summary", "of the limit"):
        table.add_column(name, justify="left" if name == "strategy" else "right")
    taken = {name: measured(table, profile, name, updates, Scenario()) for name in ("allreduce", "hybrid")}
    measured(table, few, "allreduce", updates, Scenario(jitter=0.05))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    Console().print(table)
    figures = " ".join(f"{name}_seconds={seconds:.2f}" for name, seconds in taken.items())
    print(f"simulator devices={len(profile.devices)} updates={updates} {figures} gibibytes={memory:.2f}")
    sys.exit(0 if max(taken.values()) <= SECONDS and memory <= GIBIBYTES else 1)


def measured(table: Table, profile: Profile, strategy: str, updates: int, scenario: Scenario) -> float:
    """Add a row; the seconds of simulating alone."""
    start = time.process_time()
    made = search.plan(profile, strategy)
    planned = time.process_time()
    trace = api.simulate(profile, made, updates=updates, scenario=scenario)
    simulated = time.process_time()
    summary = summarise(trace, made, "", [], {})
    done = time.process_time()
    seconds = [planned - start, simulated - planned, done - simulated]
    texts = [f"{value:.2f}" for value in seconds]
    table.add_row(
        strategy, f"{len(profile.devices):,}", f"{scenario.jitter}", *texts, f"{summary.fraction_of_limit:.3f}"
    )
    return seconds[1]


if __name__ == "__main__":
    main()
