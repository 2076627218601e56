"""``paceline run``."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from paceline import api, tables
from paceline.cli import flags
from paceline.cli.terminal import Terminal
from paceline.errors import ConfigError
from paceline.launchers.folder import RunFolder
from paceline.reporting import plan_table, table, text
from paceline.schema.cluster import Cluster
from paceline.schema.plan import Plan
from paceline.schema.profile import Profile
from paceline.server import rules
from paceline.strategies import AUTO
from paceline.strategies.base import get


def command(
    recipe: flags.Recipe,
    arguments: flags.Arguments = None,
    cluster: flags.ClusterFile = None,
    strategy: flags.Strategy = "allreduce",
    emulation: flags.Emulation = None,
    profile: flags.ProfileFile = None,
    plan: flags.PlanFile = None,
    probe_seconds: flags.ProbeSeconds = api.PROBE_SECONDS,
    out: flags.Out = None,
    rule: flags.Rule = "merge",
    port: flags.Port = 0,
    resume: flags.Resume = None,
    json: flags.Json = False,
) -> None:
    """Train a recipe on all devices of a cluster: probe, plan, run, and write runs/NAME/."""
    if strategy != AUTO:
        get(strategy)
    tables.check("rule", rules.TABLE, rule)
    terminal = Terminal(sys.stderr if json else sys.stdout)
    script = api.Recipe(recipe, tuple(arguments or ()))
    folder = flags.folder(out, f"{recipe.stem}-{strategy}")
    script.check()
    if profile is not None and (cluster is not None or emulation is not None):
        raise ConfigError("--profile already holds the cluster", remedy="Leave out --cluster and --emulation.")
    given = None if plan is None else Plan.read(plan)
    source = profile or api.cluster(cluster, emulation)
    measured = _measured(source, probe_seconds, script, folder, resume, terminal)
    made = api.plan(measured, strategy) if given is None else api.check(measured, given)
    made = made.model_copy(update={"rule": rule})
    terminal.say(f"{made.strategy}: {made.reason} Limit {measured.limit:,.0f} samples/s. {plan_table.threads(made)}")
    summary = api.run(
        made, script, folder, command=flags.typed(), port=port, resume=resume, watcher=terminal.watcher
    )  # fmt: skip
    terminal.done()
    if json:
        typer.echo(summary.model_dump_json(indent=2))
    terminal.table(table.devices(summary))
    for line in text.story(summary):
        terminal.say(line)
    terminal.say(f"report: {folder.report}")


def _measured(
    source: Cluster | Path,
    seconds: float,
    script: api.Recipe,
    folder: RunFolder,
    resume: Path | None,
    terminal: Terminal,
) -> Profile:
    """The profile of a probe of the machines, or the one that was given."""
    if isinstance(source, Path):
        return api.reuse(source, script, folder, resume, terminal.say)
    terminal.say(f"{source.name}: measuring every device, all at once, for {seconds:g} s")
    return api.probe(source, script, folder, seconds=seconds, resume=resume, watcher=terminal.quiet)
