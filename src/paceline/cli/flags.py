"""Flags that several verbs share."""

from __future__ import annotations

import os
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from paceline import api, strategies
from paceline.errors import ConfigError
from paceline.launchers.folder import RunFolder
from paceline.schema.cluster import Cluster
from paceline.schema.plan import Plan
from paceline.schema.profile import Profile
from paceline.schema.summary import Summary
from paceline.server import rules
from paceline.strategies.base import get


def _strategies() -> str:
    known = [f"{name}: {get(name).about}" for name in strategies.TABLE if name != strategies.MEASURING]
    return "; ".join([*known, f"{strategies.AUTO}: whichever promises most samples/s"])


Recipe = Annotated[Path, typer.Argument(help="The training script.", show_default=False)]
Arguments = Annotated[
    Optional[list[str]],  # noqa: UP045  typer reads it at run time
    typer.Argument(help="Arguments of the recipe, after --.", show_default=False),
]
ClusterFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--cluster", help="cluster.yaml; without it, this host as it is.", show_default=False),
]
Strategy = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--strategy", help=f"{_strategies()}. Without it, allreduce, or that of the plan.", show_default=False
    ),
]
Emulation = Annotated[
    Optional[Literal["pacing", "cgroups"]],  # noqa: UP045
    typer.Option(
        "--emulation", help="Emulate the cluster's speeds this way instead of the file's.", show_default=False
    ),
]
Out = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--out", help="Folder to write to; a new one under runs/ by default.", show_default=False),
]
ProfileFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--profile", help="A profile that `paceline probe` wrote; without it, probe first.", show_default=False
    ),
]
KnownProfile = Annotated[
    Optional[str],  # noqa: UP045  behind `--` it may be a recipe's first argument
    typer.Argument(help="A profile that `paceline probe` wrote.", show_default=False),
]
KnownCluster = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--cluster", help="Instead of a profile, a cluster.yaml with known times.", show_default=False),
]
PlanFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--plan", help="A plan that `paceline plan --out` wrote; without it, plan anew.", show_default=False),
]
PlannedRule = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--rule",
        help=f"What the server does with a push: {', '.join(rules.TABLE)}; with options, as in "
        "delayed_nesterov:rate=0.7,momentum=0.9. Without it, merge, or that of the plan.",
        show_default=False,
    ),
]
Port = Annotated[int, typer.Option("--port", help="Port of the parameter server; 0 takes a free one.")]
Resume = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--resume", help="Go on from a checkpoint, or from a run that was stopped.", show_default=False),
]
Epochs = Annotated[int, typer.Option("--epochs", min=1, help="Passes over the data.")]
Updates = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--updates", min=1, help="Stop after this many updates of the first worker.", show_default=False),
]
Jitter = Annotated[
    float, typer.Option("--jitter", help="Standard deviation of each compute over its mean, such as 0.05.")
]
Seed = Annotated[int, typer.Option("--seed", help="What jitter is drawn from.")]
Slow = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--slow", metavar="RANK:SECONDS:FACTOR", help="From then on that worker is so much slower."),
]
Kill = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--kill", metavar="GROUP:SECONDS", help="Then that group dies."),
]
Train = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--train", help="A recipe to train meanwhile, here and with real tensors.", show_default=False),
]
SimulatedOut = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--out", help="Folder for plan, traces, summary.json and report.html.", show_default=False),
]
Checkpoint = Annotated[Path, typer.Argument(help="A folder that `run.save` wrote.", show_default=False)]
ProbeSeconds = Annotated[float, typer.Option("--probe-seconds", help="How long to measure.", min=0.1)]
Json = Annotated[bool, typer.Option("--json", help="Figures as JSON on standard output, everything else elsewhere.")]


def check_strategy(strategy: str | None, plan: Path | None, flag: str) -> None:
    """Raises ConfigError for one that is none, or one beside the plan that ``flag`` names."""
    if strategy is None:
        return
    strategies.check(strategy)
    if plan is not None:
        raise ConfigError(
            f"{flag} already holds the strategy", remedy="Leave out --strategy, or change it in the file."
        )


def planned(measured: Profile, strategy: str | None, plan: Path | None) -> Plan:
    """The plan in a file, checked and priced, or that of a strategy.

    Raises:
        ConfigError: the file or the strategy is no good.
    """
    return api.plan(measured, strategy or "allreduce") if plan is None else api.check(measured, Plan.read(plan))


def typed() -> str:
    """What the user typed, to be typed again."""
    return shlex.join(["paceline", *sys.argv[1:]])


def folder(out: Path | None, name: str, resume: Path | None = None) -> RunFolder:
    """``--out``, or a fresh folder under ``runs/``. ``resume``: what goes on may end in the folder where it began.

    Raises:
        ConfigError: ``out`` holds a run that was measured to its end.
    """
    if out is not None:
        inside = resume is not None and resume.resolve().is_relative_to(out.resolve())
        return RunFolder(out) if inside else kept(RunFolder(out))
    fresh = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    return RunFolder(fresh if not fresh.exists() else fresh.with_name(f"{fresh.name}-{os.getpid()}"))


def kept(folder: RunFolder) -> RunFolder:
    """The folder that the user named, unless there is something in it that cannot be had again by typing a command.

    Raises:
        ConfigError: it holds a run that was measured to its end.
    """
    if folder.summary.exists() and not Summary.read(folder.summary).simulated:
        raise ConfigError(f"{folder.path} holds a finished run", remedy="Choose another --out, or remove that folder.")
    return folder


def measured(profile: str | None, cluster: Path | None) -> Profile:
    """The profile that was named, or that of a cluster with known times.

    Raises:
        ConfigError: neither or both are named; the file cannot be read; the cluster's times are not known.
    """
    if (profile is None) == (cluster is None):
        seen = "neither a profile nor a cluster" if profile is None else "both a profile and a cluster"
        raise ConfigError(seen, expected="one of them", remedy="Name a profile.json, or --cluster FILE.")
    return api.known(api.cluster(cluster)) if profile is None else read_profile(Path(profile))


def read_profile(path: Path) -> Profile:
    """Raises ConfigError if it is none; of a cluster file, with the flag that is for those."""
    try:
        return Profile.read(path)
    except ConfigError as error:
        try:
            Cluster.read(path)
        except ConfigError:
            raise error from None
        raise ConfigError(f"{path} is a cluster file, no profile", remedy=f"Type --cluster {path}.") from None
