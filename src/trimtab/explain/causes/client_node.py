"""`client-node`: runs that include one client node are slow, the others are not.

A run ends with its last task, so one bad node delays the whole run. Nodes vary between runs, which
gives a contrast without any other data. With many nodes, some are in the slow runs by chance: the
figure is a mean over all nodes, so testing many of them convicts none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from trimtab.base.error import Message
from trimtab.base.incident import Evidence, Route
from trimtab.base.run import RunStatus
from trimtab.explain.causes.evidence import UNSEEN, levels, of_incident, of_series, value_of
from trimtab.explain.context import Cause, Context, RunFact
from trimtab.explain.contrast import Sign
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
    """Return the evidence for and against one bad client node."""
    by_node, node = _by_node(context)
    return (by_node, _before(context, node), _alone(context), _answered(context))


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
    weight = _mean_weight([node.weight for node in nodes], len(names) + len(everywhere))
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
    )
    return evidence, most.name if weight > 0 else None


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
    return sign.weighed(text, weight, value=slow / len(runs))


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
    return Node(name, slow_with, well_with, slow_without, well_without, weight)


def _chance(slow: int, well: int, before: tuple[float, float]) -> float:
    """Return log10 of the probability of these runs with an unknown rate (beta-binomial)."""
    a, b = before
    natural = (
        math.lgamma(slow + a) + math.lgamma(well + b) - math.lgamma(slow + well + a + b)
        + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    )  # fmt: skip
    return natural / math.log(10)


def _mean_weight(weights: Sequence[float], of: int) -> float:
    """Return log10 of the mean likelihood ratio of ``of`` nodes; it is 1 for those not listed."""
    most = max(*weights, 0.0) if len(weights) > 1 else max(weights[0], 0.0)
    total = sum(10 ** (weight - most) for weight in weights) + (of - len(weights)) * 10**-most
    return math.log10(total / of) + most if total > 0 else -math.inf


def _alone(context: Context) -> Evidence:
    key = context.incident.key
    others = {
        run.probe
        for run in context.runs
        if key is not None and run.probe != key.probe and context.is_bad(run.at)
    }
    sign = Sign(
        "moved-alone", Route.RUNS, "other probes on other nodes", unit="series", view=View.PROBE
    )
    if not others:
        return sign.missing("no-other-probe", "no other probe ran in the bad hours")
    # The fate of other probes concerns the whole system, not one node.
    moved = len(context.incident.moved_with)
    text = f"{moved} other series moved with it, {len(context.incident.unmoved)} did not"
    weight = -0.3 if moved else 0.3 if context.incident.unmoved else 0.0
    return sign.weighed(text, weight, value=float(moved))


def _answered(context: Context) -> Evidence:
    seen = observe(context)
    subject = "CPU of client nodes"
    sign = Sign(
        "clients-answered", Route.TARGETS, subject, source="server_cpu_fraction", view=View.NODES
    )
    readings = seen.values("server_cpu_fraction", kinds=CLIENTS)
    if readings.is_empty():
        return sign.not_available(seen.why_not("server_cpu_fraction", kinds=CLIENTS))
    machines = readings.get_column("target").n_unique()
    return sign.weighed(f"{subject}: read on {machines}", 0.0, source=None)


CLIENT_NODE: Final = Cause(
    id="client-node",
    title="one bad client node",
    prior=UNSEEN,  # no case in [S1]: equal to the other unnamed causes
    assess=assess,
    signs=("slow-with-node",),
    measurement=(
        "Run the probe on the same nodes twice, with and without the suspected node, and run "
        "lnet_selftest between that node and a server."
    ),
)
