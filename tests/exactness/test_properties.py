"""Any split of the global batch trains as one device would: random splits, real gloo (design, promise 1)."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import harness
import jobs
from crew import UNSHRUNK, Crew
from paceline.schema.plan import WorkerPlan

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
# Updates an epoch, at most two: with so few samples each, training magnifies rounding soon (20 updates: test_resume).
part = st.floats(0.01, 2.0)
dtypes = st.sampled_from(sorted(TOLERANCE, key=str))
many = settings(max_examples=25, deadline=None, phases=UNSHRUNK)


@st.composite
def splits(draw: st.DrawFn) -> list[WorkerPlan]:
    """One to four workers with shares of 1 to 6, each in micro-batches of its own or at once."""
    shares = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    sizes = [draw(st.none() | st.integers(1, share)) for share in shares]
    return [harness.worker(share, micro_batch=size) for share, size in zip(shares, sizes, strict=True)]


def flat(weights: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([weight.double().flatten() for weight in weights.values()])


def agree(crew: Crew, job: Callable[..., Any], workers: list[WorkerPlan], dtype: torch.dtype, *example: Any) -> None:
    """The workers end where one device does, and all at the very same place."""
    (one,) = crew.run(job, [harness.worker(sum(w.share for w in workers))], *example, strategy="alone")
    results = crew.run(job, workers, *example)
    whole = flat(one["weights"])
    for result in results:
        error = (flat(result["weights"]) - whole).norm() / whole.norm()
        assert error <= TOLERANCE[dtype], f"{error:.1e}"
        for name, weight in results[0]["weights"].items():
            assert torch.equal(result["weights"][name], weight), name
        assert result["seen"] == one["seen"]
        if "norms" in one:
            assert torch.allclose(result["norms"], one["norms"], rtol=10 * TOLERANCE[dtype], atol=0)


@many
@given(splits(), part, dtypes, st.sampled_from([0.05, 100.0]), st.integers(1, 2))
def test_means_over_samples(
    crew: Crew, workers: list[WorkerPlan], part: float, dtype: torch.dtype, clip: float, losses: int
) -> None:
    batch = sum(worker.share for worker in workers)
    agree(crew, jobs.samples, workers, dtype, ceil(part * batch), batch, dtype, clip, False, losses)


@many
@given(splits(), st.lists(st.integers(0, 5), min_size=1, max_size=12).filter(any), dtypes)
def test_means_over_tokens(crew: Crew, workers: list[WorkerPlan], lengths: list[int], dtype: torch.dtype) -> None:
    agree(crew, jobs.tokens, workers, dtype, lengths, sum(worker.share for worker in workers), dtype)


@many
@given(splits(), part, dtypes)
def test_sums(crew: Crew, workers: list[WorkerPlan], part: float, dtype: torch.dtype) -> None:
    batch = sum(worker.share for worker in workers)
    agree(crew, jobs.sums, workers, dtype, ceil(part * batch), batch, dtype)


@many
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), part, dtypes)
def test_batch_norm_over_all_workers(crew: Crew, shares: list[int], part: float, dtype: torch.dtype) -> None:
    """With workers that have no samples at the end of an epoch, or a single one."""
    workers = [harness.worker(share) for share in shares]
    agree(crew, jobs.images, workers, dtype, (ceil(part * sum(shares)), sum(shares)), dtype, "sync")


@many
@given(splits(), part, st.sampled_from(["plain", "own"]))
def test_plain_batch_norm_is_the_same_everywhere_after_training(
    crew: Crew, workers: list[WorkerPlan], part: float, layers: str
) -> None:
    """C026: statistics are merged by samples, so that whoever evaluates or saves says the same."""
    batch = sum(worker.share for worker in workers)
    results = crew.run(jobs.images, workers, (max(2, ceil(part * batch)), batch), torch.float64, layers)
    for result in results:
        assert torch.equal(result["outputs"], results[0]["outputs"])
