"""A model made ready: an emulated device's rests in forward and backward."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn

import harness
from paceline.observation.recorder import Recorder
from paceline.running.timing import Stopwatch, pace


def test_an_emulated_device_rests_after_each_layer_and_each_gradient() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1)))
    model[0].bias.requires_grad_(False)
    rests: list[str] = []
    pace(model, lambda: rests.append("rest"))
    out = model(torch.ones(4, 2))
    assert len(rests) == 3
    out.sum().backward()
    assert len(rests) == 3 + 3


class Seconds:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = self.sent = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float, sending: bool = False) -> None:
        self.now += seconds
        self.sent += seconds if sending else 0.0


def test_every_second_of_an_update_is_in_one_span_and_what_buckets_took_to_leave_is_sending(tmp_path: Path) -> None:
    clock = Seconds()
    recorder = Recorder(tmp_path / "0.jsonl", {}, clock)
    worker = harness.worker(4)
    place = SimpleNamespace(device=torch.device("cpu"), worker=worker, plan=harness.plan("allreduce", [worker]))
    place.folder = None
    watch = Stopwatch(recorder, place, lambda: (clock.sent, 0.0))  # type: ignore[arg-type]
    with watch.loading():
        clock.pass_(1.0)
    watch.computing(4)
    clock.pass_(2.0)  # forward, the first half of backward
    clock.pass_(0.5, sending=True)  # a bucket leaves
    clock.pass_(2.0)
    with watch.exchanging():
        clock.pass_(0.25, sending=True)  # the last one does
        clock.pass_(3.0)
    clock.pass_(0.5)  # the step
    watch.computed()
    recorder.close(complete=True)
    assert [json.loads(line) for line in (tmp_path / "0.jsonl").read_text().splitlines()[1:-1]] == [
        ["load", 0.0, 1.0, 0],
        ["compute", 1.0, 5.0, 0],
        ["send", 5.0, 5.75, 0],
        ["exchange", 5.75, 8.75, 0],
        ["compute", 8.75, 9.25, 4],
    ]
