"""`cached-read`: reads were served from memory, so the series does not show the file system.

It works both ways: if the bad hours were read from memory, their figures are void; if the good
ones were, the "usual level" was that of memory and the apparent loss is the truth. The rules for
single repetitions are in `trimtab.judge.credibility`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Final

from trimtab.base.incident import Evidence, Route
from trimtab.base.units import format_bytes_per_s
from trimtab.explain.causes.evidence import UNSEEN
from trimtab.explain.causes.run_evidence import has_figure, metric_of, runs_of_probe
from trimtab.explain.context import Cause, Context, RunFact
from trimtab.explain.contrast import NO_BAD_RUNS, Sign
from trimtab.judge.credibility import is_from_memory

_READ: Final = "read"
_CANNOT_BE: Final = 1.05
"""Faster than the hardware by more than a data sheet may be rounded."""
_OTHER_METRIC: Final = -2.0
"""The incident is in writes or metadata, which reads from memory do not affect."""
_CACHED: Final = 1.8
_NOT_CACHED: Final = -1.2
_TOO_FAST: Final = 1.8
_WITHIN: Final = -0.5


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against reads that did not reach the file system."""
    return (
        _metric(context),
        _disbelieved(context),
        _nothing_believed(context),
        _faster_than_carried(context),
    )


def _metric(context: Context) -> Evidence:
    """Return whether the incident is in reads at all."""
    sign = Sign("metric-of-incident", Route.RUNS)
    key = context.incident.key
    if key is None:
        return sign.weighed("the incident belongs to no single metric", 0.0)
    if key.metric.startswith(_READ):
        return sign.weighed(f"the incident is in reads ({key.metric})", 0.0)
    text = f"the incident is in {key.metric}, which cached reads do not affect"
    return sign.weighed(text, _OTHER_METRIC, value=key.metric, source=key.probe)


def _disbelieved(context: Context) -> Evidence:
    sign = Sign("reads-from-memory", Route.RUNS, "reads served from memory", unit="1")
    bad, good = runs_of_probe(context)
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    cached = [[run for run in runs if _from_memory(run)] for runs in (bad, good)]
    in_bad = len(cached[0]) / len(bad)
    in_good = len(cached[1]) / len(good) if good else None
    text = f"{len(cached[0])} of {len(bad)} runs in the bad hours read from memory"
    text += "" if in_good is None else f", {len(cached[1])} of {len(good)} in the good ones"
    different = abs(in_bad - (in_good or 0.0)) >= 0.5
    if different:
        weight = _CACHED * _sure(len(bad), len(good))
    elif in_bad >= 0.5:
        return sign.weighed(text, 0.0, value=in_bad, reference=in_good, throughout=True)
    else:
        weight = _NOT_CACHED * _sure(len(bad), len(good))
    first = next((run for runs in cached for run in runs), None)
    return sign.weighed(text, weight, first, value=in_bad, reference=in_good)


def _nothing_believed(context: Context) -> Evidence:
    subject = "reads of the bad hours are credible"
    sign = Sign("reads-believed", Route.EXPECTED, subject, unit="1")
    bad, _ = runs_of_probe(context)
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    metric = metric_of(context) or "read_bandwidth"
    cached = [run for run in bad if _from_memory(run) and not has_figure(run, metric)]
    share = len(cached) / len(bad)
    text = f"{len(bad) - len(cached)} of {len(bad)} {subject}"
    return sign.weighed(text, 1.2 * share, value=share, reference=0.0)


def _sure(n_bad: int, n_good: int) -> float:
    """Return the weight of this many runs: half for one, full for many."""
    n = max(1, min(n_bad, max(n_good, 1)))
    return n / (n + 1)


def _from_memory(run: RunFact) -> bool:
    return any(map(is_from_memory, run.disbelieved))


def _faster_than_carried(context: Context) -> Evidence:
    sign = Sign(
        "read-rate-possible",
        Route.EXPECTED,
        "read rate against the capacity of network and drives",
        unit="B/s",
    )
    limits = _carries(context)
    if not limits:
        return sign.missing(
            "hardware-unknown", "the site file does not give the rates of network and drives"
        )
    fastest: list[tuple[float, RunFact]] = []
    for runs in runs_of_probe(context):
        values = [
            (value, run)
            for run in runs
            if (value := run.values.get("read_bandwidth")) is not None and math.isfinite(value)
        ]
        if values:
            # A single odd run is not a level.
            middle = median(value for value, _ in values)
            fastest.append(min(values, key=lambda pair: abs(pair[0] - middle)))
    if not fastest:
        return sign.missing("no-read-bandwidth", "no run has a credible read bandwidth")
    value, run = max(fastest, key=lambda pair: pair[0])
    limit, of = min(limits + _of_clients(context, run))
    text = f"reads at {format_bytes_per_s(value)}; {of} can carry {format_bytes_per_s(limit)}"
    weight = _TOO_FAST if value > limit * _CANNOT_BE else _WITHIN
    return sign.weighed(text, weight, run, value=value, reference=limit)


def _carries(context: Context) -> list[tuple[float, str]]:
    """Return what the servers' network and the drives carry in total, each with its name, B/s."""
    hardware = context.hardware
    limits: list[tuple[float, str]] = []
    if hardware.network is not None and hardware.oss:
        upper = hardware.network.possible(zeros_are_filling=True)[1]
        limits.append((upper * hardware.oss, "the servers' network"))
    each: Sequence[float] = [
        figure.possible(zeros_are_filling=True)[1]
        for figure in (hardware.drive_read, hardware.drive_link)
        if figure is not None
    ]
    if each and hardware.drives:
        limits.append((min(each) * hardware.drives, "the drives together"))
    return [(limit, of) for limit, of in limits if limit > 0 and math.isfinite(limit)]


def _of_clients(context: Context, run: RunFact) -> list[tuple[float, str]]:
    figure, nodes = context.hardware.client_network, run.nodes or len(run.hosts)
    if figure is None or not nodes:
        return []
    return [(figure.possible(zeros_are_filling=True)[1] * nodes, f"the network of {nodes} clients")]


CAUSE: Final = Cause(
    id="cached-read",
    title="reads from memory instead of the file system",
    prior=UNSEEN,  # no case in [S1]: equal to the other unnamed causes
    assess=assess,
    signs=("reads-from-memory", "read-rate-possible"),
    measurement=(
        "With direct I/O, read more data than all memory on the path holds, or read on other nodes "
        "than those that wrote."
    ),
)
