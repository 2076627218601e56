"""The tables of cards and plans."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from paceline.hardware.facts import Card
from paceline.reporting import plan_table
from paceline.schema.plan import Alternative, JobPlan, Plan, WorkerPlan
from paceline.schema.profile import DeviceProfile, Profile


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


def test_of_very_many_devices_some_are_shown_and_it_says_so() -> None:
    few, many = (printed(plan_table.plan(plan(*[CPU] * count))) for count in (128, 1000))
    assert (few.count(" cpu "), "shown" in few) == (128, False)
    assert many.count(" cpu ") <= 128
    assert "125 of 1,000 devices shown, evenly picked" in many


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


def device(group: str, place: int, **values: object) -> DeviceProfile:
    known = {"threads": 1, "micro_batch": None, "batch": 8, "samples_per_second": 40.0, "speed": None}
    return DeviceProfile.model_validate({"group": group, "device": f"cuda:{place}", **known, **values})


def measured(*devices: DeviceProfile, **values: object) -> Profile:
    return Profile.model_validate(
        {
            "cluster": "lab", "emulation": "none", "global_batch": 8, "model_bytes": 0, "epoch_samples": 100,
            "devices": devices, **values,
        }
    )  # fmt: skip


def rows(table: Table | None) -> list[list[str]]:
    assert table is not None
    return [line.split() for line in printed(table).splitlines() if line.strip()]


def test_devices_that_are_left_out_stay_in_the_table() -> None:
    kept = WorkerPlan(
        group="a", device="cuda:0", threads=1, share=8, solo_samples_per_second=40.0, predicted_samples_per_second=39.5
    )
    shown = rows(plan_table.plan(plan(kept), measured(device("a", 0), device("b", 0, samples_per_second=2.5))))
    assert ["all", "a", "cuda:0", "8", "1", "40", "39.5"] in shown
    assert ["left", "out", "b", "cuda:0", "0", "2.5"] in shown
    assert len([row for row in shown if "cuda:0" in row]) == 2


def test_c013_memory_that_a_micro_batch_needs_stands_beside_what_there_is() -> None:
    gigabyte = 2**30
    known = {"memory_bytes": 24 * gigabyte, "fixed_bytes": 4 * gigabyte, "sample_bytes": float(gigabyte)}
    workers = [
        WorkerPlan(group="a", device=f"cuda:{place}", threads=1, share=10, micro_batch=cap)
        for place, cap in enumerate((None, 6))
    ]
    profile = measured(device("a", 0, **known), device("a", 1, **known), device("b", 0))
    shown = rows(plan_table.plan(plan(*workers), profile))
    assert [row[-4:] for row in shown if row[0] == "all"] == [
        ["14.0", "of", "24.0", "GiB"],
        ["10.0", "of", "24.0", "GiB"],
    ]


def test_rates_of_learning_stand_over_samples_and_epochs() -> None:
    points = [{"samples": 0, "rates": [0.1, 0.01]}, {"samples": 1250, "rates": [0.05, 0.005]}]
    shown = rows(plan_table.rates(measured(device("a", 0), rates=points)))
    assert ["samples", "epoch", "group", "0", "group", "1"] in shown
    assert ["1,250", "12.50", "0.05", "0.005"] in shown
    assert plan_table.rates(measured(device("a", 0))) is None


def test_what_a_plan_was_chosen_over_is_listed_the_fastest_first() -> None:
    others = (
        Alternative(strategy="allreduce_even", predicted_samples_per_second=20.0, why="Half as fast."),
        Alternative(strategy="alone", predicted_samples_per_second=40.0, why="As fast."),
        Alternative(strategy="hybrid", predicted_samples_per_second=None, why="It cannot run."),
    )
    made = plan(CPU).model_copy(
        update={"alternatives": others, "predicted_samples_per_second": 50.0, "most_gain": 2.751}
    )
    shown = rows(plan_table.alternatives(made))
    assert [row[0] for row in shown if row[0] in {"alone", "allreduce_even", "hybrid"}] == [
        "alone", "allreduce_even", "hybrid",
    ]  # fmt: skip
    assert ["hybrid", "-", "It", "cannot", "run."] in shown
    assert plan_table.gain(made) == (
        "Equal shares would reach 20 samples/s; this is 2.50 times that. "
        "By their speeds alone, a split gains at most 2.75 times on these devices."
    )
    assert plan_table.alternatives(plan(CPU)) is None
    assert plan_table.gain(plan(CPU)) is None
