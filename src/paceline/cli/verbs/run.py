"""``paceline run``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import typer

from paceline import api
from paceline.cli import flags
from paceline.cli.terminal import Terminal
from paceline.errors import ConfigError
from paceline.launchers.folder import RunFolder
from paceline.reporting import plan_table, table, text
from paceline.schema.cluster import Cluster
from paceline.schema.plan import Plan
from paceline.schema.profile import Profile
from paceline.server import rules
from paceline.strategies.base import get


def command(
    recipe: flags.Recipe,
    arguments: flags.Arguments = None,
    cluster: flags.ClusterFile = None,
    strategy: flags.Strategy = None,
    emulation: flags.Emulation = None,
    profile: flags.ProfileFile = None,
    plan: flags.PlanFile = None,
    probe_seconds: flags.ProbeSeconds = api.PROBE_SECONDS,
    out: flags.Out = None,
    rule: flags.PlannedRule = None,
    port: flags.Port = 0,
    resume: flags.Resume = None,
    json: flags.Json = False,
) -> None:
    """Train a recipe on all devices of a cluster: probe, plan, run, and write runs/NAME/."""
    _check(strategy, rule, plan, profile, cluster or emulation)
    given = None if plan is None else Plan.read(plan)
    strategy = given.strategy if given else strategy or "allreduce"
    terminal = Terminal(sys.stderr if json else sys.stdout)
    script = api.Recipe(recipe, tuple(arguments or ()))
    folder = flags.folder(out, f"{recipe.stem}-{strategy}", resume)
    script.check()
    source = profile or _machines(cluster, emulation, given)
    measured = _measured(source, probe_seconds, script, folder, resume, terminal)
    made = api.plan(measured, strategy) if given is None else api.check(measured, given)
    if rule is not None:
        rules.check(rule, get(made.strategy).layout.gradients)
        made = made.model_copy(update={"rule": rule})
    api.keep(measured, folder, resume)
    limit = f"Limit {made.limit_samples_per_second:,.0f} samples/s."
    terminal.say(f"{made.strategy}: {made.reason} {limit} {plan_table.threads(made)}")
    summary = api.run(made, script, folder, command=flags.typed(), port=port, resume=resume, watcher=terminal.watcher)
    terminal.done()
    if json:
        typer.echo(summary.model_dump_json(indent=2))
    terminal.table(table.devices(summary))
    for line in text.story(summary):
        terminal.say(line)
    terminal.say(f"report: {folder.report}")


def _check(
    strategy: str | None, rule: str | None, plan: Path | None, profile: Path | None, machines: Path | str | None
) -> None:
    """Raises ConfigError for names that are none, and for flags that say what a file says."""
    flags.check_strategy(strategy, plan, "--plan")
    if rule is not None:
        rules.load(rule)
    if profile is not None and machines is not None:
        raise ConfigError("--profile already holds the cluster", remedy="Leave out --cluster and --emulation.")


def _machines(cluster: Path | None, emulation: flags.Emulation, given: Plan | None) -> Cluster:
    """What is to be measured. Raises ConfigError if the plan that was given is for something else."""
    machines = api.cluster(cluster, emulation)
    if given is not None and machines.name != given.cluster:
        raise ConfigError(
            f"the plan is for cluster '{given.cluster}'", expected=f"'{machines.name}', which would be measured",
            remedy="Name that cluster's file with --cluster, or its profile with --profile.",
        )  # fmt: skip
    return machines


def _measured(
    source: Cluster | Path,
    seconds: float,
    script: api.Recipe,
    folder: RunFolder,
    resume: Path | None,
    terminal: Terminal,
) -> Profile:
    """The profile of a probe of the machines, or the one that was given."""
    if isinstance(source, Cluster):
        terminal.say(f"{source.name}: measuring every device, all at once, for {seconds:g} s")
        return api.probe(source, script, folder, seconds=seconds, resume=resume, watcher=terminal.quiet)
    measured, wanted = flags.read_profile(source), (str(script.script), *script.arguments)
    if measured.recipe and measured.recipe != wanted:
        was = shlex.join(measured.recipe)
        terminal.say(f"{source} was measured with `{was}`; its speeds may not be those of this run")
    return measured
