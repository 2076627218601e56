"""The split of a batch over unlike workers, for planning before a run and for planning again in mid-run."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from paceline.cost.compute import Seconds
from paceline.errors import ConfigError

ROUNDS = 60  # of the search for the deadline: times that stand still for many samples would never end it


def split(batch: int, seconds: Sequence[Seconds], caps: Sequence[int] | None = None) -> list[int]:
    """Shares that add up to ``batch`` and minimise the slowest worker's time.

    A deadline is found by which nearly the whole batch can be done; all that each worker does by then is its share, and
    each sample left over goes to whoever would be done with it first; on a tie the lower index gets it. That is optimal
    for any times that never fall: fixed costs, the steps of accumulation, measured tables, and the end of an exchange
    that overlaps with computing, ``max_k(r_k(b) + R_k)``, with r_k the second at which bucket k is ready and R_k what
    the wire takes for it and all that follow.

    Args:
        batch: samples to share out.
        seconds: for each worker, its time for a number of samples, 1 or more.
        caps: for each worker, the most samples it may take; no limit if not given.

    Raises:
        ConfigError: no batch, no workers, or caps that do not hold the batch.
    """
    if batch < 1:
        raise ConfigError(f"a batch of {batch}", expected="1 or more samples", remedy="Raise the global batch.")
    if not seconds:
        raise ConfigError("no worker to give a share to", remedy="Give the cluster at least one device.")
    most = [batch] * len(seconds) if caps is None else [min(cap, batch) for cap in caps]
    if sum(most) < batch:
        raise ConfigError(
            f"workers that hold {sum(most)} samples at once for a batch of {batch}", remedy="Lower the global batch."
        )
    shares = _by_a_deadline(batch, seconds, most)
    ready = [(own(shares[i] + 1), i) for i, own in enumerate(seconds) if shares[i] < most[i]]
    heapq.heapify(ready)
    for _ in range(batch - sum(shares)):
        _, i = ready[0]
        shares[i] += 1
        if shares[i] < most[i]:
            heapq.heapreplace(ready, (seconds[i](shares[i] + 1), i))
        else:
            heapq.heappop(ready)
    return shares


def _by_a_deadline(batch: int, seconds: Sequence[Seconds], most: Sequence[int]) -> list[int]:
    """What each worker does by a deadline at which at most as many samples as there are workers are left over.

    The first deadline takes each worker's times for a straight line; the next ones follow from what was done by the
    last, between one that was early enough and one that was too late.
    """
    count = len(seconds)
    deadline, guesses, rates = _guess(batch, seconds)
    early, late, lows, highs = 0.0, math.inf, [0] * count, list(most)
    for turn in range(1, ROUNDS):
        shares = [
            low if low == high else _done(own, deadline, low, high, min(max(int(guess), low), high))
            for own, guess, low, high in zip(seconds, guesses, lows, highs, strict=True)
        ]
        missing = batch - sum(shares)
        if missing >= 0:
            early, lows = deadline, shares
        else:
            late, highs = deadline, shares
        if 0 <= missing <= count or late - early <= 1e-12 * early:
            break
        rate = sum(own for own, share, top in zip(rates, shares, most, strict=True) if 0 < share < top) or rates[0]
        after = deadline + (missing - count / 2) / rate
        if turn % 3 == 0 or not early < after < late:
            after = (early + late) / 2 if late < math.inf else 2 * deadline
        guesses = [share + (after - deadline) * own for share, own in zip(shares, rates, strict=True)]
        deadline = after
    return lows


def _guess(batch: int, seconds: Sequence[Seconds]) -> tuple[float, list[float], list[float]]:
    """The deadline, what each worker does by then, and its samples/s, if each one's times lay on the line through two
    of them and there were no caps: ``T = (B + sum a/c) / sum 1/c`` over all that begin before T."""
    equal = 2 + batch // len(seconds)
    firsts = [own(1) for own in seconds]
    each = [max((own(equal) - first) / (equal - 1), 1e-12) for own, first in zip(seconds, firsts, strict=True)]
    lines = sorted((first - c, c) for first, c in zip(firsts, each, strict=True))
    needed, rate, deadline = float(batch), 0.0, math.inf
    for offset, c in lines:
        if offset >= deadline:
            break
        needed, rate = needed + offset / c, rate + 1 / c
        deadline = needed / rate
    shares = [(deadline - first) / c + 1 for first, c in zip(firsts, each, strict=True)]
    return deadline, shares, [1 / c for c in each]


def _done(own: Seconds, deadline: float, low: int, high: int, guess: int) -> int:
    """The most samples in ``low..high`` that are done by the deadline, as ``low`` are: in growing steps from a guess,
    then by halving."""
    step = 1
    if guess == low or own(guess) <= deadline:
        low = guess
        while low < high:
            if own(min(low + step, high)) > deadline:
                high = min(low + step, high) - 1
                break
            low, step = min(low + step, high), 2 * step
    else:
        high = guess - 1
        while low < high:
            if own(max(high - step + 1, low)) <= deadline:
                low = max(high - step + 1, low)
                break
            high, step = max(high - step, low), 2 * step
    while low < high:
        middle = (low + high + 1) // 2
        if own(middle) <= deadline:
            low = middle
        else:
            high = middle - 1
    return low
