"""Who sums gradients with whom: groups as the cluster file has them, single devices, or devices of like speed; and
which devices an update may be better off without."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from paceline.cost.compute import sample_seconds
from paceline.cost.network import slowest
from paceline.planning import estimate
from paceline.schema.network import Network
from paceline.schema.plan import WorkerPlan
from paceline.schema.profile import Profile

Groups = dict[str, list[WorkerPlan]]
LIKE = 1.1  # times of a sample that are no further apart than this are one speed
FAST = 0.5  # of the rate inside a group: a wire to another group that is no slower joins the two
ALL_SETS = 32  # devices up to which each number of left out ones is tried
LONGEST = 60  # name of a group
SETS = 3  # of devices that are looked at closely


def as_filed(workers: Sequence[WorkerPlan]) -> Groups:
    """The groups of the cluster file."""
    groups: Groups = defaultdict(list)
    for worker in workers:
        groups[worker.group].append(worker)
    return dict(groups)


def single(workers: Sequence[WorkerPlan]) -> Groups:
    """Each device a group, numbered where the file's group has several."""
    sizes, seen, groups = Counter(worker.group for worker in workers), Counter[str](), Groups()
    for worker in workers:
        seen[worker.group] += 1
        number = f"-{seen[worker.group]}" if sizes[worker.group] > 1 else ""
        groups[worker.group + number] = [worker]
    return groups


def by_speed(workers: Sequence[WorkerPlan], network: Network) -> Groups:
    """Devices of one speed are a group, if the wires between them are about as fast as those inside a group."""
    found: list[list[WorkerPlan]] = []
    for worker in sorted(workers, key=_each):
        for members in found:
            if _each(worker) <= LIKE * _each(members[0]) and _joined(network, worker.group, members[0].group):
                members.append(worker)
                break
        else:
            found.append([worker])
    names = [_named(list(dict.fromkeys(worker.group for worker in members))) for members in found]
    groups = Groups()
    for place, (name, members) in enumerate(zip(names, found, strict=True)):
        number = f"-{names[:place].count(name) + 1}" if names.count(name) > 1 else ""
        groups[name + number] = members
    return groups


def but_slowest(workers: Sequence[WorkerPlan]) -> list[WorkerPlan]:
    """All but those that are as slow as the slowest; nobody, if all are."""
    slowest_each = max(map(_each, workers))
    return [worker for worker in workers if LIKE * _each(worker) < slowest_each]


def sets(profile: Profile, workers: Sequence[WorkerPlan]) -> list[list[WorkerPlan]]:
    """Workers that one update could be shared by, most promising first: some of the slowest left out, or one group
    behind a slow wire. All of them is not among these, the fastest by itself always is."""
    by_time = sorted(workers, key=lambda worker: _each(worker) + worker.fixed_seconds / profile.global_batch)
    counts = range(1, len(workers)) if len(workers) <= ALL_SETS else _halving(by_time)
    kept = [{id(worker) for worker in by_time[:count]} for count in counts]
    if 1 < len(groups := as_filed(workers)) <= ALL_SETS:
        kept += [{id(worker) for worker in workers if worker.group != name} for name in groups]
    found = [[worker for worker in workers if id(worker) in own] for own in kept]
    promising = sorted(found, key=lambda own: estimate.together(profile, own))
    fastest = [min(workers, key=lambda worker: estimate.update_seconds(profile, [_whole(profile, worker)]))]
    return [*promising[:SETS], fastest]


def _named(groups: Sequence[str]) -> str:
    """What a group made of these is called: a file carries its name."""
    joined = "+".join(groups)
    return joined if len(joined) <= LONGEST else f"{groups[0][:LONGEST]}+{len(groups) - 1}"


def _halving(by_time: Sequence[WorkerPlan]) -> list[int]:
    """How many to keep of many: all but 1, 2, 4, ..., and all up to where the speed changes most."""
    count = len(by_time)
    jumps = sorted(range(1, count), key=lambda i: _each(by_time[i - 1]) / _each(by_time[i]))
    powers = [count - 2**power for power in range(count.bit_length()) if 2**power < count]
    return sorted({*powers, *jumps[:ALL_SETS]})


def _whole(profile: Profile, worker: WorkerPlan) -> WorkerPlan:
    return worker.model_copy(update={"share": profile.global_batch})


def _each(worker: WorkerPlan) -> float:
    return sample_seconds(worker) + worker.loading_seconds


def _joined(network: Network, one: str, other: str) -> bool:
    inside = min(slowest(network, [name, name]).bytes_per_second for name in (one, other))
    return one == other or slowest(network, [one, other]).bytes_per_second >= FAST * inside
