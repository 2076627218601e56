"""All devices at once, training and never talking: what the probe runs to find the limit."""

from paceline.ops import Barrier, Compute, Lease, Program, Update
from paceline.strategies.base import Layout, Member, Strategy

PARTS = (1, 4, 2, 8)  # of a share, in turn: several sizes tell a batch's fixed cost from its cost per sample
LEAST = 2  # samples: a plain BatchNorm refuses a single one
WARM_UP = len(PARTS)  # updates before measuring: first allocations, kernel selection, clocks


class Solo(Strategy):
    """Each worker trains its own copy on its own samples. Finds the limit; trains nothing of use."""

    about = "all devices at once, never talking: measures the limit"
    layout = Layout(reduces=False)

    def program(self, me: Member) -> Program:
        updates = 0
        while True:
            work = yield Lease(max(min(me.batch, LEAST), me.batch // PARTS[updates % len(PARTS)]))
            if work:
                yield Compute(work, total=len(work), peers=1)
                yield Update(len(work))
                updates += 1
                if updates == WARM_UP:
                    yield Barrier()
