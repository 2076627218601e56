"""A small run of two workers to summarise, show and draw."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from paceline.reporting.summary import summarise
from paceline.schema.plan import JobPlan, Plan, WorkerPlan
from paceline.schema.summary import Event, Summary
from paceline.schema.trace import Mark, Span, Trace, WorkerTrace


def _worker(rank: int, speed: float, group: str) -> WorkerTrace:
    """Ten seconds of training: two updates with 4 samples each, then evaluation."""
    length = 4 / speed
    spans, marks = [], []
    for update, start in enumerate((1.0, 6.0)):
        ready = start + 0.5 / speed + length
        spans += [Span("load", start, ready - length), Span("compute", ready - length, ready, 4)]
        spans += [Span("send", ready, ready + 0.1), Span("exchange", ready + 0.1, start + 5.0)]
        first = 8 * update + 4 * rank
        marks.append(Mark("done", start + 5.0, {"epoch": 0, "start": first, "stop": first + 4}))
    marks.append(Mark("epoch", 11.0, {"epoch": 0, "start": 1.0, "stop": 11.0, "size": 16}))
    marks.append(Mark("log", 13.0, {"samples": 16, "accuracy": 0.875, "loss": 0.5}))
    return WorkerTrace(rank, group, f"cpu:{rank}", "host-a", 4, spans, marks)


@pytest.fixture
def trace() -> Trace:
    return Trace([_worker(0, 2.0, "fast"), _worker(1, 1.0, "slow")])


@pytest.fixture
def plan() -> Plan:
    workers = [
        WorkerPlan(
            group=group,
            device="cpu",
            speed=speed,
            threads=1,
            share=4,
            solo_samples_per_second=solo,
            predicted_samples_per_second=0.9,
        )
        for group, speed, solo in (("fast", 1.0, 2.0), ("slow", 0.5, 1.0))
    ]
    return Plan(
        strategy="allreduce",
        cluster="two",
        emulation="pacing",
        global_batch=8,
        jobs=[JobPlan(name="all", workers=workers)],
        limit_samples_per_second=3.2,
        predicted_samples_per_second=2.0,
        most_gain=1.5,
    )


@pytest.fixture
def make_run(trace: Trace, plan: Plan) -> Any:
    """``make_run(group="a", **fields)`` -> a summary with those fields replaced, and its trace."""

    def make(group: str = "fast", **fields: Any) -> tuple[Summary, Trace]:
        named = Trace([dataclasses.replace(trace.workers[0], group=group), *trace.workers[1:]])
        events = [Event(at=4.0, kind="leave", what=f"group {group} left")]
        summary = summarise(named, plan, "paceline run recipe.py", events, {"paceline": "0.1.0"})
        return summary.model_copy(update=fields), named

    return make
