"""The terminal's tables: what they say, and that they read well on 80 columns and off a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from paceline.reporting import table, text
from paceline.schema.summary import EpochSummary, Event, Finding, Staleness


def printed(shown: Table, *, width: int = 80, encoding: str = "utf-8", colours: bool = False) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    Console(file=file, width=width, force_terminal=colours, color_system="standard" if colours else None).print(shown)
    file.flush()
    return raw.getvalue().decode(encoding)


def test_the_comparison_names_each_strategy_with_its_fraction_of_the_limit(make_run):
    exact, _ = make_run()
    quick, _ = make_run(
        strategy="hybrid", fraction_of_limit=0.934, staleness=Staleness(mean=1.5, max=3, histogram={1: 2})
    )
    lines = printed(table.comparison([exact, quick])).splitlines()
    assert lines[0].strip() == "Strategies on two, emulated (pacing)"
    assert next(line for line in lines if line.startswith("allreduce")).split() == [
        *("allreduce", "1.6", "3.2", "50", "%", "2", "0.8750", "10.0", "-")
    ]
    assert next(line for line in lines if line.startswith("hybrid")).split()[3:5] == ["93", "%"]
    assert next(line for line in lines if line.startswith("hybrid")).split()[-1] == "1.50"


def test_the_headline_is_bold_on_a_terminal(make_run):
    assert "\x1b[1m    50 %" in printed(table.comparison([make_run()[0]]), colours=True)


def test_off_a_terminal_there_are_only_plain_characters(make_run):
    summary, _ = make_run()
    for shown in (table.comparison([summary]), table.devices(summary)):
        assert "\x1b" not in printed(shown)
        assert printed(shown, encoding="ascii").isascii()


def test_both_tables_fit_80_columns_with_long_numbers(make_run):
    summary, _ = make_run(strategy="allreduce_even", samples_per_second=123456.0, limit_samples_per_second=234567.0)
    device = summary.devices[0].model_copy(
        update={
            "samples_per_second": 123456.0,
            "predicted_samples_per_second": 123456.0,
            "solo_samples_per_second": 54321.0,
        }
    )
    wide = summary.model_copy(update={"devices": [device]})
    rows = printed(table.comparison([wide])).splitlines() + printed(table.devices(wide)).splitlines()
    assert max(map(len, rows)) <= 80
    assert any("allreduce_even" in row and "123,456" in row and "234,567" in row for row in rows)
    assert any("cpu:0" in row and "123,456" in row and "54,321" in row for row in rows)


def test_runs_with_one_strategy_are_told_apart(make_run):
    shown = printed(table.comparison([make_run()[0], make_run()[0]]))
    assert "allreduce (1)" in shown
    assert "allreduce (2)" in shown


def test_a_run_on_real_devices_is_not_called_emulated(make_run):
    summary, _ = make_run(emulated=False, emulation="none")
    assert "emulated" not in printed(table.comparison([summary])) + printed(table.devices(summary))


def test_each_device_has_a_row_with_its_time(make_run):
    lines = printed(table.devices(make_run()[0])).splitlines()
    assert lines[0].strip() == "Devices under allreduce on two, emulated (pacing)"
    row = next(line for line in lines if line.startswith("fast"))
    assert row.split() == [
        *("fast", "cpu:0", "4", "0.8", "0.9", "2", "40", "%", "5", "%", "45", "%", "10", "%", "###+....")
    ]


def test_square_brackets_in_a_name_are_not_markup(make_run):
    assert "[red]x" in printed(table.devices(make_run(group="[red]x")[0]))


def test_no_figure_is_a_dash(make_run):
    summary, _ = make_run(
        fraction_of_limit=None,
        limit_samples_per_second=None,
        predicted_samples_per_second=None,
        accuracy=None,
    )
    row = next(line for line in printed(table.comparison([summary])).splitlines() if line.startswith("allreduce"))
    assert row.split() == ["allreduce", "1.6", "-", "-", "-", "-", "10.0", "-"]


def test_nothing_to_compare_is_an_empty_table():
    assert "strategy" in printed(table.comparison([]))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (float("nan"), "-"), (0.0, "0"), (0.1234, "0.123"), (12.34, "12.3"), (1234.5, "1,234"), (64, "64")],
)
def test_numbers_keep_the_digits_that_mean_something(value: float | None, shown: str):
    assert text.number(value) == shown


def test_a_run_in_a_few_lines_has_its_figures_its_gain_its_changes_and_what_was_slow(make_run):
    change = Event(at=7.0, kind="replan", what="update 44: shares 4, 4 -> 6, 2")
    late = Finding(rank=1, cause="data", what="rank 1 waits for its data")
    summary, _ = make_run(events=[change], findings=(late,))
    assert text.story(summary) == [
        "allreduce, emulated (pacing): 1.6 samples/s, 50 % of the limit of 3.2; predicted 2, off by 25 %; 10.0 s of "
        "training; accuracy 0.8750.",
        "R_max 1.50: the most that a split by speed gains over an even one",
        "update 44: shares 4, 4 -> 6, 2",
        "rank 1 waits for its data",
    ]


DIED = Event(at=3.0, kind="lost", what="group 'old' died")


def test_a_run_that_ended_early_is_not_told_as_a_whole_one(make_run):
    epoch = EpochSummary(epoch=0, samples=900, duplicates=0, missing=100)
    summary, _ = make_run(events=[DIED], epochs=[epoch])
    told = text.story(summary)
    assert told[told.index("lost after 3.0 s: group 'old' died") + 1] == (
        "training ended with that: 100 samples of the epoch were never trained"
    )
    whole, _ = make_run(events=[DIED])
    assert "ended" not in " ".join(text.story(whole))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"fraction_of_limit": 1.2}, "Faster than the limit: "),
        ({"prediction_error": 0.3}, "The prediction was off by more"),
        ({"prediction_error": 0.1}, ""),
        ({"prediction_error": None, "fraction_of_limit": None}, ""),
        ({"prediction_error": 0.3, "events": [DIED]}, ""),
        ({"prediction_error": 0.3, "simulated": True}, ""),
        ({"prediction_error": 0.3, "findings": (Finding(rank=1, cause="data", what="rank 1"),)}, ""),
    ],
)
def test_a_limit_or_a_prediction_that_was_of_something_else_is_doubted(make_run, changed, said):
    summary, _ = make_run(**{"findings": (), "events": [], **changed})
    assert text.doubt(summary).startswith(said)
    assert bool(text.doubt(summary)) == bool(said)


def test_a_run_of_which_nothing_was_foretold_is_told_all_the_same(make_run):
    nothing = {"predicted_samples_per_second": None, "prediction_error": None, "limit_samples_per_second": None}
    summary, _ = make_run(**nothing, most_gain=None, accuracy=None, emulated=False, findings=(), events=[])
    assert text.story(summary) == ["allreduce: 1.6 samples/s; no prediction; 10.0 s of training."]


def test_the_gain_over_the_even_split_is_said_where_both_have_run(make_run):
    even, _ = make_run(strategy="allreduce_even", samples_per_second=1.0)
    uneven, _ = make_run()
    elsewhere, _ = make_run(strategy="allreduce_even", cluster="other", samples_per_second=1.0)
    assert text.gain(uneven, [uneven, even]).startswith("1.60 times the even split; R_max 1.50: ")
    assert text.gain(uneven, [uneven, elsewhere]).startswith("R_max 1.50: ")
    assert text.gain(even, [uneven, even]).startswith("R_max 1.50: ")
