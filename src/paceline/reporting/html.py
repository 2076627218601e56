"""One page for one run or several: a single file that reads without a network."""

from __future__ import annotations

import base64
import hashlib
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from paceline.reporting import sections, text
from paceline.schema.summary import Summary
from paceline.schema.trace import Trace


def page(runs: list[tuple[Summary, Trace]], title: str) -> str:
    """The runs side by side as one HTML page with everything inlined, scripts allowed by their hash only.

    Args:
        runs: each run's figures and what they were read off.
        title: of the page, as plain text.
    """
    shown = sections.runs(runs)
    timelines = sections.timelines(shown)
    environment = _environment()
    scripts = {"plotly": get_plotlyjs(), "script": _source(environment, "page.js")}
    return environment.get_template("page.html.j2").render(
        title=title,
        policy=_policy(list(scripts.values())),
        style=Markup(_source(environment, "page.css")),
        **{name: Markup(code) for name, code in scripts.items()},
        runs=shown,
        origin=sections.origin(shown),
        clusters=", ".join(dict.fromkeys(summary.cluster for summary, _ in runs)),
        headlines=sections.headlines(shown),
        comparison_columns=text.COMPARISON,
        comparison=text.comparison([summary for summary, _ in runs]),
        headline_column=text.HEADLINE,
        device_columns=sections.DEVICE_COLUMNS,
        devices=sections.devices(shown),
        has_accuracy=sections.has_accuracy(shown),
        timelines=timelines,
        epochs=sections.epochs(shown),
        figures=sections.plots(shown, timelines),
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("paceline.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _policy(scripts: list[str]) -> str:
    """A content security policy under which only these scripts run and nothing is fetched."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    rest = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {allowed}; {rest}"
