"""``paceline doctor``."""

from __future__ import annotations

from importlib.metadata import version

from paceline import api
from paceline.cli import flags
from paceline.cli.terminal import Terminal
from paceline.errors import ConfigError
from paceline.reporting import plan_table


def command(cluster: flags.ClusterFile = None) -> None:
    """What this host has, what a run would use, and what would go wrong; exit code 2 if something would."""
    terminal = Terminal()
    seen = api.doctor(cluster)
    facts, findings = seen.facts, seen.findings
    terminal.say(f"{facts.host}: torch {version('torch')} with {facts.build or 'neither CUDA nor ROCm'}")
    if facts.cards:
        terminal.table(plan_table.cards(facts.cards, facts.host))
    else:
        terminal.say("no accelerator")
    if seen.workers:
        used = ", ".join(f"{worker.device} (group {worker.group})" for worker in seen.workers)
        terminal.say(f"devices of a run: {used}")
    for finding in findings:
        terminal.say(f"{finding.level}: {finding.what}. {finding.remedy}".rstrip())
    errors, warnings = (sum(finding.level == level for finding in findings) for level in ("error", "warning"))
    if errors:
        raise ConfigError(
            f"{errors} of these would stop a run",
            remedy="Mend that and type `paceline doctor` again.",
            where=facts.host,
        )
    terminal.say("no error; whether the warnings matter, only a run shows" if warnings else "nothing stops a run")
