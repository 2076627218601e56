"""The tables of cards and plans."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from paceline.hardware.facts import Card
from paceline.reporting import plan_table
from paceline.schema.plan import JobPlan, Plan, WorkerPlan


def printed(table: Table) -> str:
    file = io.StringIO()
    Console(file=file, width=100).print(table)
    return file.getvalue()


def plan(*workers: WorkerPlan) -> Plan:
    return Plan(
        strategy="allreduce",
        cluster="lab",
        emulation="none",
        global_batch=8,
        jobs=[JobPlan(name="all", workers=workers)],
    )


CARD = WorkerPlan(
    group="a", device="cuda:1", threads=2, share=5, uuid="GPU-8f3a1c2e-1111-2222-3333-444455556666", name="RTX 3090"
)
CPU = WorkerPlan(group="b", device="cpu", threads=4, share=3)


def test_c037_a_plan_lists_the_name_and_the_start_of_the_uuid() -> None:
    shown = printed(plan_table.plan(plan(CARD, CPU)))
    row = next(line for line in shown.splitlines() if "cuda:1" in line)
    assert row.split() == ["all", "a", "cuda:1", "RTX", "3090", "GPU-8f3a1c2e", "5", "1", "-", "-"]


def test_a_plan_without_cards_has_no_columns_for_them() -> None:
    assert "UUID" not in printed(plan_table.plan(plan(CPU)))


def test_c100_threads_are_one_line() -> None:
    assert plan_table.threads(plan(CARD, CARD)) == "CPU threads of each worker: 2."
    assert plan_table.threads(plan(CARD, CPU)) == "CPU threads: a (cuda:1) 2, b (cpu) 4."


def test_c036_cards_are_listed_with_their_uuid_and_memory() -> None:
    shown = printed(plan_table.cards([Card(0, "GPU-8f3a1c2e-1111", "A100", (8, 0), 40 * 2**30)], "lab1"))
    assert "Accelerators of lab1" in shown
    row = next(line for line in shown.splitlines() if "cuda:0" in line)
    assert row.split() == ["cuda:0", "A100", "GPU-8f3a1c2e-1111", "8.0", "40.0", "GiB"]
