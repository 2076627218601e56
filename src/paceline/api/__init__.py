"""The verbs as functions: the only files that join stages, and hand ``price`` to planning."""

from paceline.api.checkpoints import export, inspect
from paceline.api.demonstration import demo
from paceline.api.foreseeing import check, foreseen, known, plan, simulate, write_plan
from paceline.api.machines import PROBE_SECONDS, Diagnosis, cluster, doctor
from paceline.api.serving import Service, serve
from paceline.api.training import Watcher, keep, probe, report, run, write_report
from paceline.api.virtual import train_virtually
from paceline.launchers.recipe import Recipe
from paceline.planning.limit import limit

__all__ = [
    "PROBE_SECONDS",
    "Diagnosis",
    "Recipe",
    "Service",
    "Watcher",
    "check",
    "cluster",
    "demo",
    "doctor",
    "export",
    "foreseen",
    "inspect",
    "keep",
    "known",
    "limit",
    "plan",
    "probe",
    "report",
    "run",
    "serve",
    "simulate",
    "train_virtually",
    "write_plan",
    "write_report",
]
