"""The fastest device by itself: the reference for exactness and for accuracy."""

from paceline.ops import Compute, Lease, Program, Update
from paceline.strategies.base import Layout, Member, Strategy


class Alone(Strategy):
    """One device takes the whole global batch."""

    about = "the fastest device by itself"
    layout = Layout(devices="fastest", reduces=False)

    def program(self, me: Member) -> Program:
        while True:
            work = yield Lease(me.batch)
            if work:
                yield Compute(work, total=len(work), peers=1)
                yield Update(len(work))
