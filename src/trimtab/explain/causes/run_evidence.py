"""Evidence from the runs themselves: writes or reads, tails, unfinished runs."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from statistics import median
from typing import Final

import numpy as np

from trimtab.base.error import code_of
from trimtab.base.incident import Evidence, Route
from trimtab.base.run import METRIC_UNITS, RunStatus
from trimtab.base.units import format_percent
from trimtab.explain.context import Context, RunFact, once
from trimtab.explain.contrast import Sign
from trimtab.judge.array import scatter
from trimtab.judge.spread import usual_gap_s

WRITES: Final = ("write_bandwidth", "rewrite_bandwidth", "write_iops")
READS: Final = ("read_bandwidth", "read_iops")
TOGETHER: Final = 2
"""Fewest runs on each side for a ratio."""
_MOVED: Final = 0.03
"""Smallest loss, as a fraction, that two medians of an hourly probe can resolve."""
ONSET_LEAST: Final = timedelta(hours=3)
"""Probes run every hour or less often; what begins between two of them shows in the second."""
ONSET_MOST: Final = timedelta(hours=48)
_RUNS_PLACED: Final = 15.0
_LEVEL_RUNS: Final = 8
_TAILS: Final = ("p99.9", "p99", "p95")
_TAIL_UP: Final = 1.5
"""Tail latency up by half. Garbage collection raises it "by orders of magnitude" for a few requests
[S1, IV.A]; a p99 sees part of that."""
_BEYOND_MEDIAN: Final = 1.3
"""Growth beyond that of the median: if all requests are slower, the tail is no evidence."""


def of_incident(context: Context, *, bad: bool) -> tuple[RunFact, ...]:
    """Return the bad or the good runs of the incident's series, by time.

    All runs if the incident belongs to no series.
    """
    return _of_incident(context)[bad]


def of_series(context: Context, run: RunFact) -> bool:
    """Return whether a run belongs to the incident's series; every run if there is none."""
    key = context.incident.key
    return key is None or (
        run.probe == key.probe and (not key.comparability or run.series in {"", key.comparability})
    )


@once
def _of_incident(context: Context) -> tuple[tuple[RunFact, ...], tuple[RunFact, ...]]:
    """Return the good and the bad runs of the incident's series."""
    runs = [run for run in sorted(context.runs, key=lambda run: run.at) if of_series(context, run)]
    good, bad = (
        tuple(run for run in runs if within(run.at)) for within in (context.is_good, context.is_bad)
    )
    return good, bad


def value_of(context: Context, run: RunFact) -> float | None:
    """Return a run's value of the incident's metric; 0 if it did not finish."""
    if run.status is RunStatus.UNFINISHED:
        return 0.0
    metric = "write_bandwidth" if context.incident.key is None else context.incident.key.metric
    value = run.values.get(metric)
    return value if value is not None and math.isfinite(value) else None


def levels(context: Context, runs: Iterable[RunFact]) -> list[float]:
    """Return the positive values of the incident's metric among the runs."""
    values = (value_of(context, run) for run in runs)
    return [value for value in values if value is not None and value > 0]


@once
def onset_within(context: Context) -> timedelta:
    """Return the uncertainty of the onset: wider for a small step in strong noise.

    The likelihood locates a step of d in noise of s within about (s / d)^2 runs; runs of one series
    are correlated, which doubles it. Never below `ONSET_LEAST` or the interval between runs.
    """
    good = of_incident(context, bad=False)
    logs = [math.log(value) for value in levels(context, good)]
    effect = context.incident.effect
    times = [run.at for run in (*good, *of_incident(context, bad=True))]
    usual_s = usual_gap_s(sorted(at.timestamp() for at in times))
    spacing = timedelta(seconds=usual_s) if usual_s else ONSET_LEAST
    if effect is None or effect <= 0 or effect == 1 or len(logs) < _LEVEL_RUNS:
        return min(max(ONSET_LEAST, 1.5 * spacing), ONSET_MOST)
    noise = scatter(np.array(logs))
    runs = 1.5 + _RUNS_PLACED * (noise / math.log(effect)) ** 2
    return min(max(ONSET_LEAST, runs * spacing), ONSET_MOST)


def ratios(context: Context, metrics: Iterable[str]) -> dict[tuple[str, str], float]:
    """Return (series, metric) to the median of finished bad runs over that of good ones."""
    values: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    requested = frozenset(metrics)
    for run, is_bad in _sides(context):
        for metric in requested.intersection(run.values):
            value = run.values[metric]
            if math.isfinite(value) and value > 0:
                sides = values.setdefault((f"{run.probe} {run.series}", metric), ([], []))
                sides[0 if is_bad else 1].append(value)
    return {
        series: median(bad) / median(good)
        for series, (bad, good) in values.items()
        if len(bad) >= TOGETHER and len(good) >= TOGETHER
    }


@once
def _sides(context: Context) -> tuple[tuple[RunFact, bool], ...]:
    """Return the runs of the bad and good hours, each with whether it is bad."""
    return tuple(
        (run, is_bad)
        for run in context.runs
        if (is_bad := context.is_bad(run.at)) or context.is_good(run.at)
    )


def writes_and_reads(context: Context) -> Evidence:
    """Return whether writes fell and reads did not, for causes that only affect writes.

    Full targets, garbage collection, throttling and the allocator only affected writes
    [S2; S1, IV.B; S4: ETH wrote 9.5 of 36 GB/s and read 38 of 45].
    """
    sign = Sign("writes-and-reads", Route.RUNS, "writes compared with reads", unit="1")
    writes, reads = _of_one_probe(context)
    if writes is None or reads is None:
        lacking = "writes" if writes is None else "reads"
        return sign.missing(
            "too-few-runs", f"fewer than {TOGETHER} finished runs with {lacking} on a side"
        )
    lost = [max(0.0, -math.log(level)) for level in (writes, reads)]
    text = (
        f"writes at {format_percent(writes, 0)} and reads at {format_percent(reads, 0)} "
        "of their usual level"
    )
    weight = 0.0
    if max(lost) >= _MOVED:
        selective = (lost[0] - lost[1]) / max(lost)
        weight = 0.35 if selective >= 0.5 else -0.9 if selective <= -0.25 else -0.35
    return sign.weighed(text, weight, value=writes, reference=reads)


def latency_tail(context: Context) -> Evidence:
    """Return whether the slowest writes became much slower while the median ones did not."""
    sign = Sign("latency-tail", Route.RUNS, "tail latency of writes", unit="1")
    sides = [
        [run.tails for run, is_bad in _sides(context) if is_bad == side] for side in (True, False)
    ]
    for name in _TAILS:
        tail = _tail_ratio(sides, name)
        if tail is not None:
            break
    else:
        return sign.missing("no-latency-tail", "no tail latency of writes on both sides")
    middle = _tail_ratio(sides, "p50")
    body = "" if middle is None else f", the median {middle:.1f} times"
    text = f"the {name} write latency is {tail:.1f} times its former value{body}"
    apart = tail / (1.0 if middle is None else max(middle, 1.0))
    if tail >= _TAIL_UP and apart >= _BEYOND_MEDIAN:
        weight = min(0.9, 0.4 + 0.5 * math.log10(apart))
    else:
        weight = -0.4 if tail < 1.1 else 0.0
    return sign.weighed(text, weight, value=tail, reference=middle)


def unfinished_share(runs: Sequence[RunFact]) -> float | None:
    """Return the share of started runs that did not finish in time."""
    started = [run for run in runs if run.status is not RunStatus.NOT_STARTED]
    if not started:
        return None
    return sum(run.status is RunStatus.UNFINISHED for run in started) / len(started)


def _of_one_probe(context: Context) -> tuple[float | None, float | None]:
    """Return the ratios of writes and of reads: those of the incident's probe if it does both.

    Otherwise the median over all probes.

    Another probe may have another bottleneck and have lost nothing.
    """
    key = context.incident.key
    sides = [ratios(context, metrics) for metrics in (WRITES, READS)]
    if key is not None:
        of_probe = [
            {
                series: ratio
                for series, ratio in side.items()
                if series[0].partition(" ")[0] == key.probe
            }
            for side in sides
        ]
        if all(of_probe):
            sides = of_probe
    return typical(sides[0]), typical(sides[1])


def typical(of_series: Mapping[tuple[str, str], float]) -> float | None:
    """Return the median ratio, of bandwidths if there are any."""
    bandwidths = [ratio for (_, metric), ratio in of_series.items() if metric.endswith("bandwidth")]
    values = bandwidths or list(of_series.values())
    return median(values) if values else None


def _tail_ratio(sides: list[list[Mapping[str, float]]], name: str) -> float | None:
    medians = []
    for tails in sides:
        values = [
            value
            for tail in tails
            if (value := tail.get(f"write_latency:{name}")) is not None
            and math.isfinite(value)
            and value > 0
        ]
        if len(values) < TOGETHER:
            return None
        medians.append(median(values))
    return medians[0] / medians[1]


# Incidents in no series: runs that failed, never started or are not credible
# (`trimtab.explain.incidents.failed_run`). The other probes of those hours may be fine.

Runs = tuple[RunFact, ...]
TELL_NOTHING: Final = (RunStatus.NOT_STARTED, RunStatus.FAILED, RunStatus.INVALID_WORKLOAD)


def runs_of_probe(context: Context) -> tuple[Runs, Runs]:
    """Return the bad and the good runs of the incident's series.

    If it belongs to no series: those of the probe with the largest share of bad runs without a
    figure; of all probes if every run has one.
    """
    bad, good = (of_incident(context, bad=side) for side in (True, False))
    if context.incident.key is not None:
        return bad, good
    probes = sorted({run.probe for run in bad})
    shares = {probe: _silent_share([run for run in bad if run.probe == probe]) for probe in probes}
    worst = max(probes, key=lambda probe: shares[probe], default=None)
    if worst is None or shares[worst][0] == 0:
        return bad, good
    return tuple(run for run in bad if run.probe == worst), tuple(
        run for run in good if run.probe == worst
    )


def has_figure(run: RunFact, metric: str | None) -> bool:
    """Return whether a run has a credible figure: of a metric, or of any but amounts of bytes."""
    if metric is not None:
        return metric in run.values
    return any(METRIC_UNITS.get(name) != "B" for name in run.values)


def metric_of(context: Context) -> str | None:
    """Return the incident's metric; ``None`` if it has none."""
    return None if context.incident.key is None else context.incident.key.metric


def says(text: str | None, codes: Collection[str], words: re.Pattern[str]) -> bool:
    """Return whether a problem or reason has one of these codes.

    The text decides for records from a store, which keeps no code, and for output of other
    programs.
    """
    return code_of(text) in codes or words.search(text or "") is not None


def _silent_share(runs: Sequence[RunFact]) -> tuple[float, int]:
    silent = sum(run.status in TELL_NOTHING or bool(run.disbelieved) for run in runs)
    return silent / len(runs), silent
