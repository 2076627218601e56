"""All-reduce inside each group, an asynchronous parameter server between groups (Kim et al., FAS*W 2019).

Groups take local steps in proportion to their speed and push the weighted delta of those steps; the server's ``merge``
rule weighs it by samples, so each sample counts the same whoever trained it.

    group   Lease  [Compute Update] x local steps   Push  Pull   Broadcast   Lease ...
    server  range of the epoch's order              w += weight * delta; version += 1
"""

from paceline.ops import Broadcast, Compute, Lease, Program, Pull, Push, Update
from paceline.strategies.base import Layout, Member, Strategy


class Hybrid(Strategy):
    """Synchronous inside, asynchronous between."""

    about = "all-reduce inside a group, asynchronous server between groups"
    layout = Layout(jobs="groups", server=True)

    def program(self, me: Member) -> Program:
        while True:
            work = yield Lease(me.local_steps * me.batch)
            steps = work.chunks(me.batch)
            for step in steps:
                yield Compute(me.part(step), total=len(step), peers=len(me.shares))
                yield Update(len(step))
            if me.leads and steps:
                yield Push(samples=len(work), steps=len(steps))
            if me.leads:
                yield Pull()
            yield Broadcast()
