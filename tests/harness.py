"""Real runs for tests: a recipe as text, a plan, real processes, and what they left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.launchers.folder import RunFolder
from paceline.launchers.supervisor import Supervisor
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.summary import Event
from paceline.strategies.base import get


def worker(share: int, *, group: str = "g", speed: float | None = None, micro_batch: int | None = None) -> WorkerPlan:
    return WorkerPlan(
        group=group, device="cpu", speed=speed, threads=1, share=share, micro_batch=micro_batch,
        solo_samples_per_second=100.0 * share,
    )  # fmt: skip


def plan(
    strategy: str, *jobs: Sequence[WorkerPlan], local_steps: Sequence[int] = (), emulation: str = "none",
    fixed: bool = False, overlap: Sequence[int] = (),
) -> Plan:  # fmt: skip
    """``fixed``: shares do not change while it runs."""
    steps, beside = local_steps or [1] * len(jobs), overlap or [0] * len(jobs)
    return Plan(
        strategy=strategy,
        cluster="test",
        emulation=emulation,
        rebalance=not fixed,
        global_batch=sum(w.share for job in jobs for w in job),
        jobs=[
            JobPlan(name=f"job{index}", workers=list(workers), local_steps=step, overlap=some)
            for index, (workers, step, some) in enumerate(zip(jobs, steps, beside, strict=True))
        ],
        limit_samples_per_second=1.0,
        timeout_seconds=30.0,
    )


def run(made: Plan, recipe: str, folder: Path, *arguments: str) -> tuple[list[str], list[Event]]:
    """Run ``recipe`` (its text) by the plan; the lines its workers printed, and the events."""
    script = folder / "recipe.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(recipe)
    lines: list[str] = []
    supervisor = Supervisor(
        made,
        RunFolder(folder / "run"),
        (script, arguments),
        server=get(made.strategy).layout.server,
        show=lines.append,
    )
    events = supervisor.run()
    return lines, events


def command(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``paceline`` with these arguments, in ``tmp_path``."""
    return subprocess.run(
        [sys.executable, "-m", "paceline", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={**os.environ, **environment},
    )  # fmt: skip
