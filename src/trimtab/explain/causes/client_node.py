"""`client-node`: runs with one client node are slow, or all runs are since the probe moved.

A run ends with its last task: one bad node delays it. Nodes vary between runs, which gives a
contrast. Some of many are in slow runs by chance: the figure is a mean, so many convict none.

A probe that is always on the same nodes gives no such contrast, but a move gives one in time::

    nid[0100-0115]   nid[0100-0115]  |  nid[0700-0715]   nid[0700-0715]
         well             well     onset      slow             slow

The same holds for the partition, the launcher and the version of the tool. A move counts by how
unlikely it is to fall just there: a probe that gets random nodes of a pool never moves.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from trimtab.base.error import Message
from trimtab.base.incident import Against, Evidence, Found, Route, Shape
from trimtab.base.name_set import NODE_NAME, fold_nodes
from trimtab.base.run import RunStatus
from trimtab.base.units import enumerated
from trimtab.explain.causes.evidence import UNSEEN, levels, of_incident, of_series, value_of
from trimtab.explain.causes.network import clients_against_servers
from trimtab.explain.causes.node_speed import follows_nodes, mean_weight
from trimtab.explain.causes.onset import down_before, length_of, onset_of
from trimtab.explain.causes.server_message import client_logged
from trimtab.explain.context import Cause, Context, RunFact, always_at, once
from trimtab.explain.contrast import MOST, Sign
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import CLIENTS, observe

_SHARE_OF_LOSS: Final = 0.5
"""Share of the incident's loss beyond which a run is slow."""
_LEAST_LOSS: Final = 0.05
_RUNS: Final = 4
"""Fewest runs with node names for a verdict."""
_BAD_NODE: Final = (4.0, 1.0)
"""Prior counts of slow and normal runs with a bad node: it slows most of its runs."""
_COMMON: Final = (0.5, 0.5)
"""The same without prior knowledge (Jeffreys)."""
_NEW: Final = 0.5
"""A run is elsewhere if half of its nodes were in no earlier run: one bad node delays it all."""
_MOVED_EVERY: Final = timedelta(days=60)
"""How often people move a probe, before its runs show it: with maintenance, every other month."""
_SLOWED: Final = 0.8
"""Chance that nodes which are the cause leave the runs as slow as these."""
_STRAY: Final = 0.05
"""Share of slow runs on nodes of good runs that chance explains."""
_PLACE_MOST: Final = 1.6
"""A partition or version is changed together with much else, and is not itself what is slow."""
_PREDICTED_BEFORE: Final = 0.5
"""Correlation before the incident above which nodes that predict the speed are nothing new."""
_LOGGED: Final = 0.7
"""A node is logged when something is done to it, seldom otherwise."""
_BEFORE: Final = timedelta(hours=24)
_WORD: Final = re.compile(r"[\w.-]*\w")
_AS_EVER: Final = -0.6
"""Weight if another probe on the same nodes is as fast as ever."""
_SHOWN: Final = 60  # characters of a folded list of nodes

Where = Callable[[RunFact], frozenset[str]]
New = Callable[[frozenset[str], frozenset[str]], float]


@dataclass(frozen=True, slots=True)
class Node:
    """Runs with one node compared with runs without it.

    Attributes
    ----------
    weight
        log10 of the likelihood ratio of "this node is the cause" against "no node is".
    """

    name: str
    slow_with: int
    well_with: int
    slow_without: int
    well_without: int
    weight: float


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against the client nodes: one of them, or others than before."""
    by_node, node = _by_node(context)
    moved, placed, following = (
        _nodes_changed(context), _place_changed(context), _follows_nodes(context)
    )  # fmt: skip
    earlier = _before(context, node)
    no_single = Found.FOR in (moved.found, following.found) and by_node.found is Found.AGAINST
    if no_single or (_differed(following) and earlier.reason is not None):
        # No single node separates slow runs from others if all nodes are new, or several slow; and
        # where nodes always differed, one that is new to the probe may always have been slow.
        by_node = replace(by_node, found=Found.NEUTRAL, weight=0.0, against=None)
    has_moved = Found.FOR in (moved.found, placed.found)
    below = clients_against_servers(context)
    return (
        by_node, following, earlier, moved, placed,
        _shape(context, has_moved=has_moved), _logged(context), _alone(context), _answered(context),
        *([below] if below.found is Found.AGAINST else []), *client_logged(context),
    )  # fmt: skip


def _by_node(context: Context) -> tuple[Evidence, str | None]:
    sign = Sign(
        "slow-with-node", Route.RUNS, "slow runs with one node and without it", view=View.NODES
    )
    if context.incident.key is None:
        return sign.missing("no-series", "the incident belongs to no series of runs"), None
    runs = _since(context)
    telling = _telling_nodes(runs)
    if len(telling) < _RUNS:
        reason = Message(
            "too-few-runs", f"{len(telling)} of {len(runs)} runs since it began name their nodes"
        )
        return sign.not_available(reason), None
    limit = _limit(context)
    slow = [_is_slow(context, run, limit) for run in telling]
    if not any(slow):
        return sign.weighed(
            "no slow run among those that name their nodes", 0.0, code="no-slow-run"
        ), None
    everywhere = set.intersection(*(set(run.hosts) for run in telling))
    names = sorted({host for run in telling for host in run.hosts} - everywhere)
    if not names:
        text = "every run since it began used the same nodes: they cannot be compared"
        return sign.weighed(text, 0.0, code="nodes-alike"), None
    base = _base(context, limit)
    nodes = [_node(name, telling, slow, base) for name in names]
    # All are equally likely beforehand; nodes that are in every run cannot be distinguished.
    weight = mean_weight([node.weight for node in nodes], len(names) + len(everywhere))
    most = max(nodes, key=lambda node: (node.weight, node.name))
    text = (
        f"{most.name}: {most.slow_with} of {most.slow_with + most.well_with} runs with it were "
        f"slow, {most.slow_without} of {most.slow_without + most.well_without} without it"
    )
    if weight <= 0:
        text = f"no single node separates slow runs from others; closest: {text}"
    with_, without = most.slow_with + most.well_with, most.slow_without + most.well_without
    evidence = sign.weighed(
        text,
        weight,
        value=most.slow_with / with_ if with_ else None,
        reference=most.slow_without / without if without else None,
        unit="1",
        source=f"nodes of {len(telling)} runs",
        against=Against.ABSENT if weight < 0 else None,
    )
    return evidence, most.name if weight > 0 else None


def _follows_nodes(context: Context) -> Evidence:
    """Return whether nodes predict the speed of runs since the onset, and did not before.

    Where one kind of node is slow, many nodes are, and each is in only some of the slow runs.
    """
    sign = Sign("speed-of-nodes", Route.RUNS, "speed by nodes", unit="1", view=View.NODES)
    key = context.incident.key
    if key is None:
        return sign.missing("no-series", "the incident belongs to no series of runs")
    before = [run for run in _beside(context) if run.at < context.incident.at]
    (r, weight), (_, usual) = (
        follows_nodes([
            (run.hosts, value if key.more_is_better else -value)
            for run in _telling_nodes(runs)
            if (value := value_of(context, run)) and run.status is not RunStatus.UNFINISHED
        ])
        for runs in (_since(context), before)
    )  # fmt: skip
    if weight <= 0:
        text = "the nodes of other runs do not predict how fast a run is"
        return sign.weighed(text, 0.0, code="nodes-predict-nothing", value=r)
    text = f"the nodes of other runs predict how fast a run is, with a correlation of {r:.2f}"
    seen = sign.weighed(text, weight, value=r, reference=usual)
    if _differed(seen):
        return sign.weighed(f"{text}; so they did before", 0.0, value=r, reference=usual)
    return seen


def _differed(following: Evidence) -> bool:
    """Return whether nodes predicted the speed before the incident."""
    return isinstance(following.reference, float) and following.reference > _PREDICTED_BEFORE


def _logged(context: Context) -> Evidence:
    """Return whether the log book names a node that the slow runs used.

    By chance a run uses a given node as often as its share of the pool.
    """
    sign = Sign("node-logged", Route.LOG, "a node of slow runs in the log book", view=View.LOG)
    limit, begins = _limit(context), onset_of(context)[0]
    runs = [run for run in _since(context) if run.hosts]
    slow = [set(run.hosts) for run in runs if _is_slow(context, run, limit)]
    if context.incident.key is None or not slow:
        return sign.missing("no-slow-run", "no slow run that names its nodes")
    pool = set().union(*(run.hosts for run in (*_beside(context), *runs)))
    taken = median(map(len, slow)) / len(pool)
    entries: list[Evidence] = []
    for event in context.entries(lambda event: event.at <= context.end + _BEFORE):
        if event.end < begins - _BEFORE:
            continue
        for name in sorted(set(_WORD.findall(event.detail)) & set().union(*slow)):
            with_it = sum(name in nodes for nodes in slow)
            text = f"the log book names {name}, in {with_it} of {len(slow)} slow runs"
            weight = _LOGGED - with_it * math.log10(taken) if 2 * with_it > len(slow) else 0.0
            entries.append(sign.weighed(f"{text}: {event.detail}"[:240], weight, event))
    none = sign.weighed("the log book names no node of slow runs", 0.0, code="node-not-logged")
    return max(entries, key=lambda entry: entry.weight, default=none)


def _before(context: Context, node: str | None) -> Evidence:
    """Return whether runs with that node were already slow before: then it did not start this.

    Normal earlier runs say nothing: those with every other node were normal, too.
    """
    sign = Sign(
        "node-slow-earlier",
        Route.TIME,
        "runs with the node before the incident",
        unit="1",
        view=View.NODES,
    )
    if node is None:
        return sign.missing("no-node-suspected", "no single node separates slow runs from others")
    runs = [
        run
        for run in of_incident(context, bad=False)
        if node in run.hosts and run.at < context.incident.at and value_of(context, run) is not None
    ]
    if len(runs) < _RUNS - 1:
        return sign.missing("too-few-runs", f"{len(runs)} runs before it began included {node}")
    limit = _limit(context)
    slow = sum(_is_slow(context, run, limit) for run in runs)
    text = f"{slow} of {len(runs)} runs with {node} were slow before the incident"
    weight = -0.5 if slow > 0.3 * len(runs) else 0.0
    against = Against.CONDITION if weight else None
    return sign.weighed(text, weight, value=slow / len(runs), against=against)


@once
def _nodes_changed(context: Context) -> Evidence:
    """Return whether the runs since the onset are on other nodes than those before."""
    sign = Sign("nodes-changed", Route.TIME, "client nodes before and since", view=View.NODES)
    runs = _telling_nodes(_beside(context))
    before, since = _counts(context, runs)
    if not _are_enough(before, since):
        text = f"{before} runs before it began and {since} since name their nodes"
        return sign.missing("too-few-runs", text)
    moves = (_move(context, runs, lambda run: frozenset(run.hosts), new)
             for new in (_share_new, _share_beyond))  # fmt: skip
    move = max(filter(None, moves), key=lambda each: each.weight, default=None)
    if move is None:
        text = "no move to other nodes when it began"
        return sign.weighed(text, 0.0, code="nodes-as-before")
    text = f"{_named(move.before)} before, {_named(move.since)} since"
    return sign.weighed(text, move.weight, at=move.at, source=f"nodes of {len(runs)} runs")


def _counts(context: Context, runs: Sequence[RunFact]) -> tuple[int, int]:
    """Return how many runs began before the incident, and how many since."""
    before = sum(run.at < context.incident.at for run in runs)
    return before, len(runs) - before


def _are_enough(before: int, since: int) -> bool:
    return min(before, since) >= 2 and before + since >= 2 * _RUNS - 2


def _shape(context: Context, *, has_moved: bool) -> Evidence:
    """Return whether it has the shape of a move: half of other incidents are no step."""
    sign = Sign("shape-of-move", Route.EXPECTED, view=View.PROBE)
    shape = context.incident.shape
    if shape is Shape.STEP and has_moved:
        return sign.weighed("the level stays changed, as after a move", 0.3)
    return sign.weighed(f"its shape ({shape}) shows no move by itself", 0.0)


def _named(hosts: Iterable[str]) -> str:
    names = sorted(hosts)
    folded = fold_nodes(names) if all(map(NODE_NAME.fullmatch, names)) else ", ".join(names)
    return folded if len(folded) <= _SHOWN else f"{len(names)} nodes from {names[0]} to {names[-1]}"


def _place_changed(context: Context) -> Evidence:
    """Return whether the runs since the onset have another partition, launcher or tool."""
    sign = Sign("place-changed", Route.TIME, "partition, launcher and tool", view=View.NODES)
    runs = _beside(context)
    moves: dict[str, _Move] = {}
    compared = False
    for name in sorted({name for run in runs for name in run.place}):
        placed = [run for run in runs if name in run.place]
        if not _are_enough(*_counts(context, placed)):
            continue
        compared = True
        move = _move(
            context, placed, lambda run, name=name: frozenset({run.place[name]}), _share_new
        )
        if move is not None:
            moves[name] = move
    if not compared:
        return sign.missing("no-place", "too few runs tell their partition, launcher or tool")
    if not moves:
        text = "no other partition, launcher or tool when it began"
        return sign.weighed(text, 0.0, code="place-as-before")
    text = "; ".join(
        f"{name} {', '.join(sorted(move.before))} before, {', '.join(sorted(move.since))} since"
        for name, move in moves.items()
    )
    best = max(moves.values(), key=lambda move: move.weight)
    return sign.weighed(text, min(_PLACE_MOST, best.weight), at=best.at)


@dataclass(frozen=True, slots=True)
class _Move:
    """A move of a probe: where its runs were before and since, and its weight as evidence."""

    at: datetime
    before: frozenset[str]
    since: frozenset[str]
    weight: float


def _move(context: Context, runs: Sequence[RunFact], where: Where, new: New) -> _Move | None:
    """Return the move nearest to the onset after which runs stayed, ``None`` without one.

    Parameters
    ----------
    runs
        As `_beside` has them, each with a place.
    new
        Share of the places of a run that is new to those of the runs before.

    Notes
    -----
    Its weight is log10 of `_SLOWED` over the chance that a move falls as near to the onset: twice
    the distance, the gap between the runs beside it, or the interval of the onset, times the rate
    of moves before. If there were none, it is half a move (Jeffreys) in that time and half of
    `_MOVED_EVERY`. So a probe that moves daily shows nothing by moving, and one move in a gap of
    weeks shows little. Runs that were slow on the earlier nodes already clear the later ones.

    Of nodes in the order of their names, all n runs before and all k since may be apart by chance,
    if each has random ones of a pool: in two of (n + k)! / (n! k!) cases.
    """
    (begin, end), placed = onset_of(context), length_of(context)
    until = context.incident.until or context.now
    known = frozenset[str]().union(*(where(run) for run in runs if run.at > until))
    moves, best = 0, None
    for place, run in enumerate(runs):
        if run.at > until:
            break
        # The first runs on random nodes of a pool are on new ones, whatever its size.
        is_new = place >= _RUNS - 1 and new(where(run), known) >= _NEW
        last = runs[place - 1].at
        late = run.at > end and down_before(context, run.at)
        if is_new and run.at >= begin and last <= end and not late:
            since = [each for each in runs[place:] if each.at <= until]
            slow = _slow_beyond(context, since, known, where, new)
            if slow is not None:
                apart = max(run.at - last, 2 * abs(run.at - context.incident.at), placed)
                seen = last - runs[0].at
                watched = max(apart, seen if moves else seen + _MOVED_EVERY / 2)
                chance = (moves + 0.5) * (apart / watched)
                if new is _share_beyond:
                    chance += 2 / math.comb(place + slow, slow)
                weight = max(0.0, min(MOST, math.log10(_SLOWED / min(1.0, chance))))
                places = frozenset[str]().union(*map(where, since))
                if best is None or weight > best.weight:
                    best = _Move(run.at, known, places, weight)
        # A run on random nodes of a pool is beyond the others now and then: that is no move.
        moves += is_new and new is not _share_beyond
        known |= where(run)
    return best


def _slow_beyond(
    context: Context, runs: Sequence[RunFact], known: frozenset[str], where: Where, new: New
) -> int | None:
    """Return how many slow runs there are if, but for strays, they are where none was before."""
    limit = _limit(context)
    slow = [run for run in runs if _is_slow(context, run, limit)]
    stray = sum(new(where(run), known) < _NEW for run in slow)
    return len(slow) if len(slow) >= 2 and stray <= _STRAY * len(slow) else None


def _share_new(places: frozenset[str], known: frozenset[str]) -> float:
    """Return the share of places that are not among the known ones."""
    return len(places - known) / len(places) if places else 0.0


def _share_beyond(places: frozenset[str], known: frozenset[str]) -> float:
    """Return the share of nodes before the first or behind the last known one, by name.

    Small runs on random nodes of a pool are mostly on new ones, but between the others.
    """
    if not places or not known:
        return 0.0
    first, last = min(map(_in_order, known)), max(map(_in_order, known))
    return sum(not first <= _in_order(name) <= last for name in places) / len(places)


def _in_order(name: str) -> tuple[str | int, ...]:
    """Return a name as a key that sorts nid9 before nid10: text and numbers in turn."""
    parts = re.split(r"([0-9]+)", name)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts))


def _beside(context: Context) -> list[RunFact]:
    """Return the finished and unfinished runs of the series before, in and after the incident."""
    runs = {run.id: run for run in (*of_incident(context, bad=False), *_since(context))}
    valued = (run for run in runs.values() if value_of(context, run) is not None)
    return sorted(valued, key=lambda run: run.at)


def _since(context: Context) -> list[RunFact]:
    """Return the runs of the series since the incident began, including good ones."""
    incident = context.incident
    return sorted(
        (
            run
            for run in context.runs
            if run.at >= incident.at
            and (incident.until is None or run.at <= incident.until)
            and run.status in (RunStatus.OK, RunStatus.PARTIAL, RunStatus.UNFINISHED)
            and of_series(context, run)
            and value_of(context, run) is not None
        ),
        key=lambda run: run.at,
    )


def _telling_nodes(runs: Sequence[RunFact]) -> list[RunFact]:
    """Return the runs that name all their nodes.

    A run without output only names the host that started it: such runs are mostly slow, and that
    host would get the blame.
    """
    sizes = Counter(len(set(run.hosts)) for run in runs if run.hosts)
    several = Counter({size: times for size, times in sizes.items() if size > 1})
    least = (several or Counter([1])).most_common(1)[0][0]
    return [run for run in runs if len(set(run.hosts)) >= min(least, run.nodes or least)]


def _is_slow(context: Context, run: RunFact, limit: float | None) -> bool:
    value = value_of(context, run)
    if value is None or limit is None:
        return context.is_bad(run.at)
    key = context.incident.key
    more_is_better = key is None or key.more_is_better
    if run.status is RunStatus.UNFINISHED:
        return True
    return value < limit if more_is_better else value > limit


def _limit(context: Context) -> float | None:
    """Return the threshold between normal and slow: half of the incident's loss."""
    values = levels(context, of_incident(context, bad=False))
    if not values:
        return None
    effect = context.incident.effect
    if effect is None or not math.isfinite(effect) or effect < 0:
        effect = 0.7
    loss = effect - 1
    if abs(loss) < _LEAST_LOSS:
        loss = math.copysign(_LEAST_LOSS, loss)
    return median(values) * (1 + _SHARE_OF_LOSS * loss)


def _base(context: Context, limit: float | None) -> tuple[float, float]:
    """Return the counts of slow and normal runs in good hours: how often runs are slow anyway."""
    good = [run for run in of_incident(context, bad=False) if value_of(context, run) is not None]
    slow = sum(_is_slow(context, run, limit) for run in good)
    # Good hours show what is usual, not what is certain now: they count for at most ten runs.
    scale = min(1.0, 10 / len(good)) if good else 0.0
    return (0.5 + scale * slow, 2.0 + scale * (len(good) - slow))


def _node(
    name: str, runs: Sequence[RunFact], slow: Sequence[bool], base: tuple[float, float]
) -> Node:
    counts = {(with_, bad): 0 for with_ in (True, False) for bad in (True, False)}
    for run, bad in zip(runs, slow, strict=True):
        counts[name in run.hosts, bad] += 1
    slow_with, well_with = counts[True, True], counts[True, False]
    slow_without, well_without = counts[False, True], counts[False, False]
    weight = (
        _chance(slow_with, well_with, _BAD_NODE)
        + _chance(slow_without, well_without, base)
        - _chance(slow_with + slow_without, well_with + well_without, _COMMON)
    )
    if slow_with * (slow_without + well_without) <= slow_without * (slow_with + well_with):
        # Runs with it are slow no more often than the others: it is not what slows them.
        weight = min(weight, 0.0)
    return Node(name, slow_with, well_with, slow_without, well_without, weight)


def _chance(slow: int, well: int, before: tuple[float, float]) -> float:
    """Return log10 of the probability of these runs with an unknown rate (beta-binomial)."""
    a, b = before
    natural = (
        math.lgamma(slow + a) + math.lgamma(well + b) - math.lgamma(slow + well + a + b)
        + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    )  # fmt: skip
    return natural / math.log(10)


def _alone(context: Context) -> Evidence:
    """Return whether other probes, on other nodes, moved with it.

    Another metric of the same runs, and a probe on the same nodes, move in either case.
    """
    key = context.incident.key
    others = {
        run.probe
        for run in context.runs
        if key is not None and run.probe != key.probe and context.is_bad(run.at)
    }
    sign = Sign(
        "moved-alone", Route.RUNS, "other probes on other nodes", unit="series", view=View.PROBE
    )
    if key is None or not others:
        return sign.missing("no-other-probe", "no other probe ran in the bad hours")
    beside = {key.probe, *(name for name in others if _shares_nodes(context, name))}
    moved, unmoved = (
        sum(not _is_of(name, beside) for name in names)
        for names in (context.incident.moved_with, context.incident.unmoved)
    )
    # Other probes show the state of the whole system, not of one node; those on the same nodes show
    # the state of the nodes.
    alike = [name for name in context.incident.unmoved
             if _is_of(name, beside - {key.probe}) and name.endswith(key.metric)]  # fmt: skip
    text = f"{moved} series of other probes moved with it, {unmoved} did not"
    if alike and not moved:
        text = f"on the same nodes as ever: {enumerated(alike)}"
    weight = -0.3 if moved else _AS_EVER if alike else 0.3 if unmoved else 0.0
    against = Against.RIVAL if weight < 0 else None
    return sign.weighed(text, weight, value=float(moved), against=against)


def _is_of(series: str, probes: Iterable[str]) -> bool:
    """Return whether the name of a series is one of these probes."""
    return any(series == probe or series.startswith(f"{probe} ") for probe in probes)


def _shares_nodes(context: Context, probe: str) -> bool:
    """Return whether a probe ran on nodes of the incident's runs, or moved when they did.

    A probe on one node of the pool need not meet those of a probe on many.
    """
    mine = {host for run in _since(context) for host in run.hosts}
    runs = [run for run in context.runs if run.probe == probe]
    good, bad = (
        frozenset(host for run in runs if within(run.at) for host in run.hosts)
        for within in (context.is_good, context.is_bad)
    )
    moved = _nodes_changed(context).found is Found.FOR and bool(good)
    return bool(bad) and (
        len(bad & mine) >= _NEW * len(bad) or (moved and _share_new(bad, good) >= _NEW)
    )


def _answered(context: Context) -> Evidence:
    seen, subject, source = observe(context), "CPU of client nodes", "server_cpu_fraction"
    sign = Sign("clients-answered", Route.TARGETS, subject, source=source, view=View.NODES)
    readings = seen.values(source, kinds=CLIENTS)
    if readings.is_empty():
        return sign.not_available(seen.why_not(source, kinds=CLIENTS))
    machines = readings.get_column("target").n_unique()
    return sign.weighed(f"{subject}: read on {machines}", 0.0, source=None)


CLIENT_NODE: Final = Cause(
    id="client-node",
    title="bad or changed client nodes",
    prior=UNSEEN,  # no case in [S1]: equal to the other unnamed causes
    assess=assess,
    acts_on=always_at("client"),
    signs=("slow-with-node", "speed-of-nodes", "node-logged", "nodes-changed", "place-changed"),
    coincidences=("nodes-changed", "place-changed"),
    measurement=(
        "Run the probe on the same nodes twice, with and without the suspected node, and run "
        "lnet_selftest between that node and a server."
    ),
    measurement_where=(
        ("nodes-changed", "Run the probe once on its earlier nodes and once on its present ones."),
        (
            "place-changed",
            "Run the probe once with the earlier partition, launcher and tool and once with the "
            "present ones.",
        ),
    ),
)
