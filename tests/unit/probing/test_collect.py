"""From one worker's trace to its profile."""

import pytest

from paceline.errors import WorkerError
from paceline.observation.solo import Timing
from paceline.probing.collect import device
from paceline.schema.plan import WorkerPlan
from paceline.schema.profile import Point
from paceline.schema.trace import Mark, WorkerTrace

POINTS = (Point(samples=4, seconds=0.046, count=9), Point(samples=8, seconds=0.082), Point(samples=16, seconds=0.154))
TIMING = Timing(POINTS, loading_seconds=0.001, spread=0.02)
TOLD = {"uuid": "GPU-b", "memory_bytes": 24_000, "fixed_bytes": 4_000, "peak_bytes": 12_000}


def worker(uuid: str | None = "GPU-b", micro_batch: int | None = None) -> WorkerPlan:
    return WorkerPlan(
        group="g", device="cuda:1", threads=1, share=0, micro_batch=micro_batch, uuid=uuid, name="TITAN RTX"
    )


def trace(**told: object) -> WorkerTrace:
    marks = [Mark("measure", 0.0, {}), Mark("memory", 1.0, told)] if told else []
    return WorkerTrace(1, "g", "cuda:1", "lab1", 8, marks=marks)


def test_a_device_that_tells_nothing_of_memory_has_no_figure_of_it():
    made = device(worker(), TIMING, trace(), 8)
    assert (made.uuid, made.name) == ("GPU-b", "TITAN RTX")
    assert (made.memory_bytes, made.fixed_bytes, made.sample_bytes) == (None, None, None)


@pytest.mark.parametrize(("micro_batch", "sample_bytes"), [(None, 500.0), (4, 2000.0), (64, 500.0)])
def test_c013_bytes_of_a_sample_come_from_the_peak_of_what_was_trained_at_once(micro_batch, sample_bytes):
    made = device(worker(micro_batch=micro_batch), TIMING, trace(**TOLD), 8)
    assert (made.memory_bytes, made.fixed_bytes, made.sample_bytes) == (24_000, 4_000, sample_bytes)


def test_a_peak_of_nothing_is_no_figure():
    assert device(worker(), TIMING, trace(**{**TOLD, "peak_bytes": 4_000}), 8).sample_bytes is None


def test_c036_a_worker_that_trained_on_another_card_is_refused():
    with pytest.raises(WorkerError, match=r"rank 1 \(g, cuda:1\) on lab1: cuda:1 is GPU-b there; expected GPU-a"):
        device(worker("GPU-a"), TIMING, trace(**TOLD), 8)


def test_a_device_is_the_line_through_its_points_and_its_speed_that_on_an_even_share():
    made = device(worker(), TIMING, trace(), 8)
    assert (made.batch, made.table, made.loading_seconds, made.spread) == (8, POINTS, 0.001, 0.02)
    assert made.samples_per_second == pytest.approx(8 / (0.082 + 8 * 0.001))
    assert (made.fixed_seconds, made.sample_seconds) == (pytest.approx(0.01), pytest.approx(0.009))
