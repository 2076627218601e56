"""The page: whole without a network, safe against names, honest about emulation; and drawn by a real browser."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from paceline.reporting import figures
from paceline.reporting.html import page
from paceline.schema.summary import EpochSummary, Event, Finding
from paceline.schema.trace import Mark, Span, Trace, WorkerTrace

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NETWORK = ("http:", "https:", "ws:", "wss:", "ftp:")
HOSTILE = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"


class Parsed(HTMLParser):
    """A page's tags, its visible text and its plots."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.pieces: list[str] = []
        self.plots: dict[str, Any] = {}
        self._within = ""
        self.feed(source)
        self.text = " ".join(" ".join(self.pieces).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        named = dict(attrs)
        self._within = "plots" if named.get("id") == "figures" else tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "plots":
            self.plots = json.loads(data)
        elif not self._within:
            self.pieces.append(data)


@pytest.fixture
def busy_trace() -> Trace:
    """Four workers with 25,000 spans each."""
    spans = [Span("compute", i * 0.01, i * 0.01 + 0.009, 1) for i in range(25_000)]
    mark = Mark("epoch", 250.0, {"epoch": 0, "start": 0.0, "stop": 250.0, "size": 100_000})
    return Trace([WorkerTrace(rank, "g", f"cpu:{rank}", "host-a", 1, spans, [mark]) for rank in range(4)])


def test_one_run_says_its_headline_its_command_and_its_versions(make_run):
    seen = Parsed(page([make_run()], "One run")).text
    for said in ("One run", "50 % of the limit", "paceline run recipe.py", "paceline 0.1.0", "group fast left"):
        assert said in seen
    assert "Each sample exactly once in 1 epoch." in seen


def test_the_headline_has_the_gain_over_the_even_split_and_the_most_that_there_is(make_run):
    seen = Parsed(page([make_run(), make_run(strategy="allreduce_even", samples_per_second=1.0)], "t")).text
    assert "1.60 times the even split; R_max 1.50" in seen


def test_devices_that_were_slow_are_named_and_shares_that_changed_are_events(make_run):
    late = Finding(rank=1, cause="link", what=f"rank 1 is slow to send {HOSTILE}")
    change = Event(at=7.0, kind="replan", what="update 44: shares 4, 4 -> 6, 2")
    seen = Parsed(page([make_run(findings=(late,), events=[change])], "t"))
    assert f"rank 1 is slow to send {HOSTILE}" in seen.text
    assert "7.0 replan update 44: shares 4, 4 -> 6, 2" in seen.text
    assert "img" not in seen.tags


def test_the_page_loads_nothing(make_run):
    seen = Parsed(page([make_run()], "t"))
    assert seen.links == []
    assert "link" not in seen.tags
    assert "Plotly" in page([make_run()], "t")


def test_plots_of_every_run_are_there(make_run):
    plots = Parsed(page([make_run(), make_run(strategy="hybrid")], "t")).plots
    assert sorted(plots) == [
        *("accuracy-samples", "accuracy-seconds", "devices-0", "devices-1", "timeline-0", "timeline-1")
    ]
    shares = {bars["name"]: bars["x"] for bars in plots["devices-0"]["data"]}
    assert shares == {"busy": [40, 80], "loading": [5, 10], "exchanging": [10, 10], "waiting": [45, 0]}
    assert [line["name"] for line in plots["accuracy-seconds"]["data"]] == ["allreduce", "hybrid"]
    assert plots["accuracy-seconds"]["data"][0]["x"] == [10]


def test_emulation_is_said_at_the_top_and_at_each_table_and_figure(make_run):
    seen = Parsed(page([make_run()], "t"))
    top, headline, comparison, devices, curves, timeline, epochs, command = 1, 1, 1, 1, 2, 1, 1, 1
    said = top + headline + comparison + devices + curves + timeline + epochs + command
    assert seen.text.count("emulated (pacing)") == said


def test_real_devices_are_not_called_emulated_and_a_simulation_is_called_one(make_run):
    summary, trace = make_run(emulated=False, emulation="none")
    assert "emulated" not in Parsed(page([(summary, trace)], "t")).text
    simulated = Parsed(page([(summary, dataclasses.replace(trace, simulated=True))], "t")).text
    assert "simulated" in simulated


def test_names_with_html_in_them_stay_text(make_run):
    summary, trace = make_run(HOSTILE, cluster=HOSTILE, command=HOSTILE, versions={HOSTILE: HOSTILE}, strategy=HOSTILE)
    seen = Parsed(page([(summary, trace)], HOSTILE))
    assert seen.tags.count("script") == 3
    assert "img" not in seen.tags
    assert HOSTILE in seen.text
    assert all("<" not in name for name in seen.plots["devices-0"]["data"][0]["y"])


def test_duplicates_and_missing_samples_are_called_out(make_run):
    run = make_run(epochs=[EpochSummary(epoch=0, samples=16, duplicates=4, missing=3)])
    assert "4 trained twice or more, 3 never." in Parsed(page([run], "t")).text


def test_a_run_without_epochs_still_makes_a_page(make_run):
    summary, trace = make_run(epochs=[], accuracy=None, fraction_of_limit=None, seconds=0.0)
    cut = dataclasses.replace(trace.workers[0], marks=[], complete=False)
    seen = Parsed(page([(summary, Trace([cut]))], "t"))
    for said in ("No epoch was finished.", "No training to draw.", "logged no accuracy", "Ended early: rank 0."):
        assert said in seen.text
    assert sorted(seen.plots) == ["devices-0"]


def test_a_page_of_no_runs_is_a_page():
    assert Parsed(page([], "Nothing yet")).plots == {}


def test_an_accuracy_that_is_no_number_is_left_out_of_the_curve(make_run):
    summary, trace = make_run()
    marks = [*trace.workers[0].marks, Mark("log", 14.0, {"samples": 16, "accuracy": math.inf})]
    bent = Trace([dataclasses.replace(trace.workers[0], marks=marks)])
    assert Parsed(page([(summary, bent)], "t")).plots["accuracy-samples"]["data"][0]["y"] == [0.875]


def test_long_runs_are_drawn_through_a_window_in_the_middle(make_run, busy_trace):
    summary, _ = make_run()
    seen = Parsed(page([(summary, busy_trace), (summary, busy_trace)], "t"))
    drawn = [len(bars["x"]) for name in ("timeline-0", "timeline-1") for bars in seen.plots[name]["data"]]
    assert 0 < sum(drawn) <= figures.BARS
    left, right = seen.plots["timeline-0"]["layout"]["xaxis"]["range"]
    assert (left + right) / 2 == pytest.approx(125.0)
    assert f"second {left:.2f} to {right:.2f} of 250.0" in seen.text


def test_a_window_holds_several_updates_of_a_slow_device():
    spans = [Span("compute", i * 100.0, i * 100.0 + 99.0, 1) for i in range(20)]
    mark = Mark("epoch", 2000.0, {"epoch": 0, "start": 0.0, "stop": 2000.0, "size": 20})
    [(left, right)] = figures.windows([Trace([WorkerTrace(0, "g", "cpu", "host-a", 1, spans, [mark])])])
    assert right - left > 500


def test_thousands_of_devices_are_thinned_out_and_it_says_so(make_run):
    summary, trace = make_run()
    many = [summary.devices[0].model_copy(update={"rank": rank}) for rank in range(1000)]
    workers = [dataclasses.replace(trace.workers[0], rank=rank) for rank in range(1000)]
    seen = Parsed(page([(summary.model_copy(update={"devices": many}), Trace(workers))], "t"))
    assert len(seen.plots["devices-0"]["data"][0]["y"]) <= figures.ROWS
    assert "32 of 1,000 devices shown, evenly picked." in seen.text


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    if not (CHROMIUM.exists() and DRIVER.exists()):
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield driver
    driver.quit()


def test_a_browser_draws_the_page_without_an_error_or_a_request(browser, make_run, tmp_path):
    source = page([make_run(HOSTILE), make_run(strategy="hybrid")], HOSTILE)
    file = tmp_path / "report.html"
    file.write_text(source)
    browser.get(file.as_uri())
    drawn = "return [...document.querySelectorAll('[data-figure]')].filter(p => p.querySelector('svg path')).length"
    WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(drawn) == len(Parsed(source).plots))
    assert browser.find_elements(By.CSS_SELECTOR, "[data-figure='timeline-0'] .bars path")
    assert browser.execute_script("return window.broken") is None
    assert browser.get_log("browser") == []
    assert [url for url in requested(browser) if url.startswith(NETWORK)] == []


def requested(browser: webdriver.Chrome) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert urls, "the browser's log holds no request at all, not even the page's own"
    return urls


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_does_not_scroll_sideways_and_follows_the_theme(browser, make_run, tmp_path, scheme):
    file = tmp_path / "report.html"
    file.write_text(page([make_run(), make_run(strategy="hybrid")], "Two runs"))
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    theme = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", theme)
    browser.get(file.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    text = browser.execute_script("return getComputedStyle(document.querySelector('.xtick text')).fill")
    light_text = sum(int(part) for part in text.strip("rgb()").split(",")) > 3 * 128
    assert light_text is (scheme == "dark")
