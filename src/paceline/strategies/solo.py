"""All devices at once, training and never talking: what the probe runs to find the limit."""

from paceline.ops import Barrier, Compute, Lease, Program, Update
from paceline.strategies.base import Layout, Member, Strategy

WARM_UP = 4  # updates before measuring: first allocations, kernel selection, clocks
SMALL = 4  # every other batch is that many times smaller, which tells fixed cost from cost per sample


class Solo(Strategy):
    """Each worker trains its own copy on its own samples. Finds the limit; trains nothing of use."""

    about = "all devices at once, never talking: measures the limit"
    layout = Layout(reduces=False)

    def program(self, me: Member) -> Program:
        updates = 0
        while True:
            work = yield Lease(me.batch if updates % 2 == 0 else max(1, me.batch // SMALL))
            if work:
                yield Compute(work, total=len(work), peers=1)
                yield Update(len(work))
                updates += 1
                if updates == WARM_UP:
                    yield Barrier()
