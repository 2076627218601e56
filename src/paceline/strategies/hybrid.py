"""All-reduce inside each group, an asynchronous parameter server between groups (Kim et al., FAS*W 2019).

Groups take local steps in proportion to their speed and push the weighted delta of those steps; the server's ``merge``
rule weighs it by samples, so each sample counts the same whoever trained it.

    group   Lease  [Compute Update] x local steps   Push  Pull  Adopt   Lease ...
    server  range of the epoch's order              w += weight * delta; version += 1

With an overlap a group leases ahead, and its first ``overlap`` steps run while its push and pull are on their way:

    group   ... Lease  Push  Pull  [Compute Update] x overlap  Adopt  [Compute Update] x the rest   Lease  Push ...
"""

from paceline.ops import Adopt, Compute, Lease, Program, Pull, Push, Range, Update
from paceline.strategies.base import Layout, Member, Strategy


class Hybrid(Strategy):
    """Synchronous inside, asynchronous between."""

    about = "all-reduce inside a group, asynchronous server between groups"
    layout = Layout(jobs="groups", server=True)

    def program(self, me: Member) -> Program:
        most = me.local_steps * me.batch
        while True:
            work = yield Lease(most)
            on_way = False
            while work:
                steps = work.chunks(me.batch)
                for made, step in enumerate(steps, 1):
                    yield Compute(me.part(step), total=len(step), peers=len(me.shares))
                    yield Update(len(step))
                    if on_way and made == min(me.overlap, len(steps)):
                        yield Adopt()
                ahead = (yield Lease(most, ahead=True)) if me.overlap else Range(0, 0)
                yield Push(samples=len(work), steps=len(steps))
                yield Pull()
                work, on_way = ahead, True
            if not on_way:
                yield Pull()
            yield Adopt()
