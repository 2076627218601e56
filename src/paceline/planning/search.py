"""From a profile and a strategy to a plan: who takes how many samples, in which job, with how many local steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from paceline import strategies
from paceline.errors import ConfigError
from paceline.planning import balance, devices, estimate, exchanges, grouping, reasons
from paceline.planning.grouping import Groups
from paceline.planning.limit import limit
from paceline.schema.plan import Alternative, JobPlan, Plan, Wire, WorkerPlan
from paceline.schema.profile import Profile
from paceline.strategies import AUTO, base
from paceline.strategies.base import Layout

EXACT = "allreduce"  # what ``AUTO`` takes unless another is faster by more than WORTH
WORTH = 0.01  # of the speed: less is no reason to be stale, nor to have more groups
FOR_ALL = 1e6  # seconds that a version is kept open where all wait for all
CLOSE = 0.8  # of the best by formulas: what promises less is not simulated

Price = Callable[[Plan], Sequence[float]]  # predicted samples/s of each worker of a plan, in rank order


def choose(profile: Profile, strategy: str, price: Price | None = None) -> Plan:
    """The plan of ``strategy``, or with ``"auto"`` of whichever promises most, beside the alternatives to it.

    Args:
        profile: measured speeds and the global batch.
        strategy: a name of the strategies' table, or ``"auto"``.
        price: predicts what a plan would reach; formulas do, if not given, and for plans that they put far behind.

    Raises:
        ConfigError: no such strategy, one that only measures, or one that these devices cannot run.
    """
    if strategy != AUTO:
        strategies.check(strategy)
    found: list[tuple[str, Plan]] = []
    failed: list[Alternative] = []
    for name in sorted(_offered(strategy), key=lambda name: name != EXACT):
        try:
            found += _variants(profile, name, price)
        except ConfigError as error:
            if name == strategy:
                raise
            failed.append(Alternative(strategy=name, predicted_samples_per_second=None, why=str(error)))
    exact = [made for _, made in found if made.wire == "float32"]  # rounding is asked for
    chosen = _best(exact) if strategy == AUTO else _first(found, strategy)
    others = [reasons.alternative(label, made, chosen) for label, made in found if made is not chosen]
    first = f"{chosen.strategy} promises most. " if strategy == AUTO else ""
    return chosen.model_copy(
        update={
            "limit_samples_per_second": limit(profile),
            "alternatives": (*others, *failed),
            "reason": f"{first}{chosen.reason}{reasons.beaten(chosen, [made for _, made in found])}",
        }
    )


def _offered(strategy: str) -> set[str]:
    """Strategies to choose from, and the one that was asked for."""
    known = {name for name in strategies.TABLE if not base.get(name).baseline} - {strategies.MEASURING}
    return known | ({strategy} - {AUTO})


def plan(profile: Profile, strategy: str, price: Price | None = None) -> Plan:
    """The plan of one strategy by itself, on the devices that it is fastest on; arguments and errors as ``choose``."""
    strategies.check(strategy)
    made = _variants(profile, strategy, price)[0][1]
    return made.model_copy(update={"limit_samples_per_second": limit(profile)})


def _best(found: Sequence[Plan]) -> Plan:
    best = found[0]
    for made in found[1:]:
        if made.promised > (1 + WORTH) * best.promised:
            best = made
    return best


def _first(found: Sequence[tuple[str, Plan]], strategy: str) -> Plan:
    return next(made for _, made in found if made.strategy == strategy)


def _variants(profile: Profile, strategy: str, price: Price | None) -> list[tuple[str, Plan]]:
    """Plans of a strategy that differ in what they leave out or in how they group, each with what to call it; the one
    that stands for the strategy comes first."""
    layout = base.get(strategy).layout
    workers = [devices.worker(device) for device in profile.devices]
    if layout.jobs == "devices":
        return [(strategy, _confirmed([_made(profile, strategy, grouping.single(workers))], price)[0])]
    if layout.jobs == "groups":
        return _grouped(profile, strategy, price, workers)
    kept = [workers]
    if layout.devices == "fastest":
        kept = [grouping.sets(profile, workers)[-1]]
    elif layout.shares == "speed" and len(workers) > 1:
        kept += grouping.sets(profile, workers)
    full, *fewer = _confirmed([_made(profile, strategy, {"all": own}) for own in kept], price)
    if not fewer:
        return [(strategy, full)]
    best, single = max(fewer, key=lambda made: made.promised), fewer[-1]
    if full.promised >= max(best.promised / (1 + WORTH), single.promised):
        return [(strategy, full), (f"{strategy} {reasons.without(profile, best)}", best)]
    told = f"{best.reason} {reasons.dropped(profile, best, full)}"
    best = best.model_copy(update={"reason": told})
    return [(strategy, best), (f"{strategy} on all {len(workers)} devices", full)]


def _grouped(profile: Profile, strategy: str, price: Price | None, workers: list[WorkerPlan]) -> list[tuple[str, Plan]]:
    """By the cluster file's groups first; then other groupings, those of fewer groups first."""
    others = {
        ", grouped by speed": grouping.by_speed(workers, profile.network),
        ", each device by itself": grouping.single(workers),
    }
    ways = {"": grouping.as_filed(workers)}
    for label, groups in sorted(others.items(), key=lambda item: len(item[1])):
        if _members(groups) not in map(_members, ways.values()):
            ways[label] = groups
    quicker = grouping.but_slowest(workers)
    if quicker:
        ways["fewer"] = grouping.as_filed(quicker)
    found = _confirmed([_made(profile, strategy, groups) for groups in ways.values()], price)
    named = [(strategy + label, made) for label, made in zip(ways, found, strict=True) if label != "fewer"]
    if quicker and found[-1].promised > (1 + WORTH) * found[0].promised:
        told = f"{found[-1].reason} {reasons.dropped(profile, found[-1], found[0])}"
        label = f"{strategy} {reasons.without(profile, found[-1])}"
        named.append((label, found[-1].model_copy(update={"reason": told})))
    return named + _rounded(profile, strategy, price, found[0])


def _rounded(profile: Profile, strategy: str, price: Price | None, exact: Plan) -> list[tuple[str, Plan]]:
    """The same groups with weights that cross the links rounded, where that makes them faster."""
    if exact.promised >= (1 - WORTH) * limit(profile):
        return []
    groups = grouping.as_filed([devices.worker(device) for device in profile.devices])
    wires: tuple[Wire, ...] = ("bfloat16", "int8")
    found = _confirmed([exact, *(_made(profile, strategy, groups, wire) for wire in wires)], price)[1:]
    faster = [made for made in found if made.promised > (1 + WORTH) * exact.promised]
    return [(f"{strategy}, {made.wire} on its links", made) for made in faster]


def _confirmed(made: Sequence[Plan], price: Price | None) -> list[Plan]:
    """The plans with their real price, but for those that formulas put far behind the best of these; the first one in
    any case."""
    if price is None:
        return list(made)
    found = [priced(made[0], price), *made[1:]]
    by_formula = sorted(range(1, len(made)), key=lambda place: -made[place].promised)
    best = found[0].promised
    for place in by_formula:
        if made[place].promised < CLOSE * best:
            break
        found[place] = priced(made[place], price)
        best = max(best, found[place].promised)
    return found


def _members(groups: Groups) -> set[frozenset[int]]:
    return {frozenset(map(id, members)) for members in groups.values()}


def _made(profile: Profile, strategy: str, groups: Groups, wire: Wire = "float32") -> Plan:
    """The plan of a strategy on these devices in these groups, with its reason and what formulas predict."""
    layout = base.get(strategy).layout
    if layout.gradients:
        (jobs, idle), why = _shared(profile, groups, layout), "each has the newest weights"
        grace = FOR_ALL if layout.in_step else 0.0
    elif layout.server:
        found = exchanges.rhythm(profile, groups, wire)
        jobs, idle, grace, why = found.jobs, found.idle, found.grace, found.why
    else:
        (jobs, idle), grace, why = _shared(profile, groups, layout), 0.0, ""
    made = Plan(
        strategy=strategy,
        cluster=profile.cluster,
        emulation=profile.emulation,
        global_batch=profile.global_batch,
        jobs=jobs,
        most_gain=profile.most_gain,
        predicted_staleness=exchanges.staleness([job.overlap for job in jobs], grace) if layout.server else None,
        grace_seconds=grace,
        wire=wire,
        rule="momentum" if layout.gradients else "merge",
    )
    reason = (reasons.plan(profile, layout, made, why), reasons.idle(profile, jobs, idle), profile.learning_rate)
    return priced(made.model_copy(update={"reason": " ".join(filter(None, reason))}), partial(estimate.rates, profile))


def priced(made: Plan, price: Price) -> Plan:
    """The plan with what it is predicted to reach, for each worker and in all."""
    rates = iter(found := price(made))
    jobs = [
        job.model_copy(
            update={"workers": [_with(worker, predicted_samples_per_second=next(rates)) for worker in job.workers]}
        )
        for job in made.jobs
    ]
    return made.model_copy(update={"jobs": jobs, "predicted_samples_per_second": sum(found)})


def _with(worker: WorkerPlan, **values: object) -> WorkerPlan:
    return worker.model_copy(update=values)


def _shared(profile: Profile, groups: Groups, layout: Layout) -> tuple[list[JobPlan], list[WorkerPlan]]:
    """Jobs of those that get a share, and who gets none."""
    workers = [worker for members in groups.values() for worker in members]
    if layout.shares == "even":
        shares = iter(balance.even(profile.global_batch, len(workers)))
    else:
        shares = iter(balance.by_speed(profile.global_batch, workers, estimate.ends(profile, workers)))
    shared = {name: [_with(worker, share=next(shares)) for worker in members] for name, members in groups.items()}
    idle = [worker for members in shared.values() for worker in members if not worker.share]
    busy = {name: kept for name, members in shared.items() if (kept := [one for one in members if one.share])}
    return [JobPlan(name=name, workers=members) for name, members in busy.items()], idle
