"""Synchronous data parallelism: one exact update of the global batch, cut evenly or in proportion to speed."""

from paceline.ops import Compute, Lease, Program, Rebalance, Update
from paceline.strategies.base import Layout, Member, Strategy


class AllReduce(Strategy):
    """Shares in proportion to speed, also when speeds change; the loss of each share weighs its samples."""

    about = "exact synchronous updates, shares in proportion to speed"
    layout = Layout(shares="speed")

    def program(self, me: Member) -> Program:
        while True:
            work = yield Lease(me.batch)
            if work:
                yield Compute(me.part(work), total=len(work), peers=len(me.shares))
                yield Update(len(work))
                me = me.with_shares((yield Rebalance()))


class EvenAllReduce(Strategy):
    """The same with equal shares: what DistributedDataParallel does on its own."""

    about = "exact synchronous updates, equal shares, as DistributedDataParallel does"
    layout = Layout(shares="even")

    def program(self, me: Member) -> Program:
        while True:
            work = yield Lease(me.batch)
            if work:
                yield Compute(me.part(work), total=len(work), peers=len(me.shares))
                yield Update(len(work))
