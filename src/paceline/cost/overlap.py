"""When an all-reduce that overlaps backward is done.

compute   |--- forward ---|------------- backward -------------|
ready                       b0       b1        b2           b3       full buckets leave, one after another
wire                        |-b0-|   |-b1-----||-b2-----|   |-b3-|   D_k = max(D_{k-1}, max_i r_ik) + tau_k
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from paceline.cost.network import ring
from paceline.schema.network import Link

FIRST_BYTES, MORE_BYTES = 1 << 20, 25 << 20  # as reduction.buckets fills them; a bucket may be larger by a parameter
MOST_BUCKETS = 1000
FORWARD = 1 / 3  # of a batch's compute: backward does about twice the work of forward


@dataclass(frozen=True, slots=True)
class Reduction:
    """One update's all-reduce of K buckets: the same for all peers.

    full: for each bucket, the part of a peer's compute after which the bucket is full there.
    left: for each bucket, the seconds on the wire for it and all behind it, R_k = sum of tau_j over j >= k.
    """

    full: tuple[float, ...]
    left: tuple[float, ...]

    def seconds(self, compute: float, last: float | None = None) -> float:
        """From the start of computing to the end of the reduction, D_K, if no peer is slower.

        D_K = max over k of (r_k + R_k), which is the recursion D_k = max(D_{k-1}, r_k) + tau_k. Over several peers it
        is the largest of their own values, each from its own start. Never falls with ``compute``.

        Args:
            compute: seconds of the whole batch on this peer.
            last: of them those of its last micro-batch, whose backward fills the buckets; without it, all.
        """
        before = 0.0 if last is None else compute - last
        batch = compute - before
        return before + max(full * batch + left for full, left in zip(self.full, self.left, strict=True))


def reduction(size: int, workers: int, link: Link) -> Reduction:
    """The all-reduce of ``size`` bytes of gradients over ``workers`` in a ring whose slowest wire is ``link``.

    Backward fills buckets at an even pace, the last one at its end.
    """
    sizes = buckets(size)
    full = [FORWARD + (1 - FORWARD) * filled / size if size else 1.0 for filled in accumulate(sizes)]
    left = [*accumulate(ring(link, one, workers) for one in reversed(sizes))]
    return Reduction(tuple(full), tuple(reversed(left)))


def buckets(size: int) -> Sequence[int]:
    """Bytes of each bucket, in the order in which they leave; one empty bucket if there is nothing to send.

    Of a model so large that there would be more than ``MOST_BUCKETS``, several count as one.
    """
    first = min(size, FIRST_BYTES)
    more = max(MORE_BYTES, -(-(size - first) // MOST_BUCKETS))
    whole, rest = divmod(size - first, more)
    return [first, *[more] * whole, *([rest] if rest else [])]
