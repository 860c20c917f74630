"""Evidence shared by several causes: runs, onset, log book, counters and surveys.

Priors: NERSC counts 13 bad days in three months [S1, VII]: 5 unexplained, 4 to 7 from an overfull
file system (1 target filling, 3 few targets open), 1 silent target, 1 name resolution. A cause seen
k times has odds of about k to 13. The others were never seen or had been cured before: half an
event each, the same for all for want of better data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final

import numpy as np
import polars as pl

from trimtab.base.error import code_of
from trimtab.base.event import Event, EventKind
from trimtab.base.incident import Against, Evidence, Found, Route, Shape
from trimtab.base.run import METRIC_UNITS, RunStatus
from trimtab.base.units import enumerated, format_duration, format_percent
from trimtab.explain.breadth import breadth
from trimtab.explain.context import SETTINGS, SURVEYS, Context, RunFact, once
from trimtab.explain.contrast import Sign, presence
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import OSTS, marked
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

    That of the interval within which the incident began, if it is known. Otherwise the likelihood
    locates a step of d in noise of s within about (s / d)^2 runs; runs of one series are
    correlated, which doubles it. Never below `ONSET_LEAST` or the interval between runs.
    """
    incident = context.incident
    if incident.onset is not None:
        known = max(incident.at - incident.onset[0], incident.onset[1] - incident.at)
        return min(max(ONSET_LEAST, known), ONSET_MOST)
    good = of_incident(context, bad=False)
    logs = [math.log(value) for value in levels(context, good)]
    effect = incident.effect
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
    sign = Sign(
        "writes-and-reads", Route.RUNS, "writes compared with reads", unit="1", view=View.PROBE
    )
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
    sign = Sign("latency-tail", Route.RUNS, "tail latency of writes", unit="1", view=View.PROBE)
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
# (`trimtab.explain.failed_run`). The other probes of those hours may be fine.

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


UNSEEN: Final = 0.04
"""Prior odds of a cause that none of the 13 bad days had: half an event in 13."""
SLACK: Final = ONSET_LEAST
"""A condition that begins this close to the first bad run began with it."""
_KEPT_FROM: Final = 4
_PROGRAMS: Final = frozenset({
    "act", "inventory", "journal", "policy", "probe", "trimtab", "twin", "watch",
})  # fmt: skip
LOG: Final = Sign("event-not-logged", Route.LOG, view=View.LOG)
_BEFORE: Final = timedelta(hours=24)
"""How long before the first bad run a log book entry is still relevant."""
_ALWAYS: Final = 0.9
"""Share of the good hours from which a condition counts as always present."""


def named(targets: Iterable[str]) -> str:
    """Return the first names as text: ``OST0001, OST0002 and 3 more``."""
    return enumerated(sorted(targets))


def with_names(subject: str, targets: Collection[str]) -> str:
    """Return a subject followed by its first targets, if any."""
    return f"{subject} ({named(targets)})" if targets else subject


def heavier(*evidence: Evidence) -> Evidence:
    """Return the heaviest of equivalent pieces of evidence, preferring one that is available."""
    return max(evidence, key=lambda piece: (piece.reason is None, abs(piece.weight)))


def with_circumstance(evidence: Sequence[Evidence], circumstance: Evidence) -> tuple[Evidence, ...]:
    """Return the evidence plus a circumstance: the incident's shape or metric.

    A circumstance weighs nothing if all other evidence is missing.

    Every incident has a shape and usually a metric. If nothing else was visible, the cause was not
    assessed, and a circumstance must not pretend otherwise.
    """
    if all(piece.found in (Found.NOT_AVAILABLE, Found.NEUTRAL) for piece in evidence):
        circumstance = replace(circumstance, found=Found.NEUTRAL, weight=0.0)
    return (*evidence, circumstance)


def timing(context: Context, frame: pl.DataFrame, condition: str, *, view: View) -> Evidence:
    """Return whether a condition began with the incident and lasted as long.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``bad``; the condition holds when any value at a time is over 0.5.
    condition
        As text: "a server with two targets' load".
    view
        The instrument that shows it.

    Notes
    -----
    A condition that began after the first bad run did not cause the incident; one that ended
    earlier did not sustain it. Drifts and spread have no sharp onset.
    """
    sign = Sign("onset", Route.TIME, view=view)
    if context.incident.shape in {Shape.DRIFT, Shape.UNSTEADY}:
        text = f"{condition}: the incident began gradually, so the onset decides nothing"
        return sign.weighed(text, 0.0, code="onset-gradual")
    seen = frame.group_by("at", "bad").agg(pl.max("value")).sort("at")
    bad = [(at, value > 0.5) for at, value, is_bad in seen.select("at", "value", "bad").rows()
           if is_bad and value is not None]  # fmt: skip
    present_at = [at for at, present in bad if present]
    if not present_at:
        return sign.weighed(f"{condition}: not seen in the bad hours", 0.0, code="condition-unseen")
    slack = max(_step(seen["at"].to_list()) * 1.5, onset_within(context))
    late = present_at[0] - context.incident.at
    absent_before = any(at < present_at[0] for at, _ in bad)
    went_on = bad[-1][0] - present_at[-1]
    if late > slack and absent_before:
        text = f"{condition}: began {format_duration(late.total_seconds())} after the first bad run"
        return sign.weighed(text, -0.8, code="onset-late", at=present_at[0])
    if went_on > slack:
        early = format_duration(went_on.total_seconds())
        text = f"{condition}: over {early} before the last bad hour"
        return sign.weighed(text, -0.5, code="ended-early", at=present_at[-1])
    good = seen.filter(~pl.col("bad"))
    began = not good.is_empty() and not good.filter(pl.col("value") > 0.5).height
    text = f"{condition}: " + ("began with the first bad runs" if began else "present earlier")
    return sign.weighed(text, 0.3 if began else 0.0, at=present_at[0])


def logged(
    context: Context, kinds: Iterable[EventKind], noun: str, *, weight: float, late: float = 0.0
) -> Evidence:
    """Return whether the log book has events of some kinds at the incident's onset.

    Parameters
    ----------
    noun
        What to look for: "a failover".
    weight
        Weight of one in the day before the onset, or with it, that was not over; less if the onset
        is a gap of weeks, in which any event is likelier to be there by chance.
    late
        Weight if the first came only after the first bad runs: work gets logged hours later, so it
        supports little and contradicts nothing; one that names only slow targets has ``weight``.
    """
    requested = frozenset(kinds)
    events = context.entries(lambda event: event.kind in requested and event.at <= context.now)
    at, within = context.incident.at, onset_within(context)
    earliest, latest = context.incident.onset or (at, at)
    earliest, latest = min(earliest, at - within), max(latest, at + within)
    before = [
        event
        for event in events
        if min(earliest, at - _BEFORE) <= event.at <= latest
        and (event.until is None or event.until >= earliest)
    ]
    after = [event for event in events if event.at > latest and context.is_bad(event.at)]
    if not before and not after:
        return LOG.weighed(f"the log book has no {noun.removeprefix('a ')}", 0.0)
    slow = frozenset(breadth(context).slow)
    of_slow = [event for event in after if event.targets and slow.issuperset(event.targets)]
    if not before and of_slow:
        # Logged later, but it names only slow targets: it belongs to this incident all the same.
        after, late = of_slow, weight
    event, late_words = (before[-1], "") if before else (after[0], " after the first bad runs")
    detail = f": {event.detail}" if event.detail else ""
    text = f"the log book has {noun}{late_words} at {event.at:%d %B %H:%M}{detail}"
    code = "event-logged" if before or of_slow else "event-logged-late"
    # Chance has one in a window that is n times as long n times as often.
    longer = math.log10(max(1.0, (latest - earliest) / (2 * ONSET_MOST)))
    weight = max(0.0, weight - longer) if before else late
    return LOG.weighed(text, weight, event, code=code, targets=event.targets)


def disks(context: Context) -> Evidence | None:
    """Return evidence that the targets are on disks, which collect no garbage and need no trim.

    ``None`` if they are not, or if it is unknown.
    """
    rotational = settings(context, "queue/rotational").filter("bad")
    values = rotational["value"].drop_nulls()
    if values.is_empty() or not values.str.starts_with("1").all():
        return None
    sign = Sign("targets-on-disks", Route.EXPECTED, source="queue/rotational", view=View.SETTINGS)
    text = "the targets are on disks, which need no trim and collect no garbage"
    return sign.weighed(text, -2.0, against=Against.CONDITION)


def names_are_stable(frame: pl.DataFrame) -> bool:
    """Return whether every snapshot names the same targets; otherwise none is missing or new.

    A table of the fullest and emptiest targets names two at a time, and other ones the next time.
    """
    counts = frame.group_by("at").agg(targets=pl.n_unique("target"))
    usual = counts["targets"].median()
    return isinstance(usual, float) and frame["target"].n_unique() <= 1.1 * usual + 0.5


def log_is_kept(context: Context) -> bool:
    """Return whether a log book is kept, so that a missing entry counts as evidence.

    A single event from an import is not a log book.
    """
    entries = context.log_entries
    if entries is None:
        entries = sum(by_people(event) for event in context.events)
    return entries >= _KEPT_FROM


def by_people(event: Event) -> bool:
    """Return whether a person wrote the entry, not a program about its own actions."""
    return event.source not in _PROGRAMS


def beyond_chance(likely: float, others: int, known: timedelta, window: timedelta) -> float:
    """Return log10 of how much likelier a nearby event is as the cause than by chance.

    Where events are frequent, one nearby is no surprise.

    Parameters
    ----------
    likely
        Probability of the event if it was the cause.
    others
        Other events of its kind during the time ``known``.
    window
        Time around the incident within which any of them would count.
    """
    day = timedelta(days=1)
    rate = (others + 0.5) / max(known / day, 1.0)
    return math.log10(likely / (1 - math.exp(-rate * (window / day))))


def flags(frame: pl.DataFrame, where: pl.Expr) -> pl.DataFrame:
    """Return a frame with ``value`` 1 where a condition holds, else 0."""
    return frame.with_columns(value=where.cast(pl.Float64))


def fresh(condition: pl.DataFrame) -> pl.DataFrame:
    """Return a condition without targets that always had it, if others acquired it.

    An array that was degraded all along must not hide one that degraded an hour ago.
    """
    of_target = condition.filter(~pl.col("bad")).group_by("target").agg(pl.mean("value"))
    always = of_target.filter(pl.col("value") >= _ALWAYS)["target"].to_list()
    if set(targets_of(condition)) <= set(always):
        return condition
    return condition.filter(~pl.col("target").is_in(always))


def grown(counter: pl.DataFrame) -> pl.DataFrame:
    """Return 1 where a rare counter exceeds its first value: errors since then.

    A rate would lose errors between the last good and the first bad hour. A counter that also grows
    in good hours exceeds its first value in most of them.
    """
    ordered = counter.sort("target", "at")
    return flags(ordered, pl.col("value") > pl.first("value").over("target"))


@once
def surveyed(context: Context) -> pl.DataFrame | None:
    """Return the surveys of single targets with ``bad``, including those without a value.

    ``None`` if the frame does not hold surveys.
    """
    frame = context.surveys
    if not SURVEYS.keys() <= set(frame.columns):
        return None
    frame = frame.filter(pl.col("at").is_not_null() & pl.col("target").is_not_null())
    return marked(frame, context.bad, context.good).drop_nulls("bad")


def settings(context: Context, ending: str) -> pl.DataFrame:
    """Return the OST settings whose name has this ending, text in ``value``, with ``bad``.

    A name may include a device (``ldiskfs/md0/mb_c1_threshold``), another one on each server.
    """
    frame = context.telemetry.settings
    if not SETTINGS.keys() <= set(frame.columns):
        frame = pl.DataFrame(schema=SETTINGS)
    # There are few names, each repeated in every snapshot for every target.
    names = [name for name in frame["name"].unique().drop_nulls() if name.endswith(ending)]
    of_osts = pl.col("kind").is_in(list(OSTS)) & pl.col("name").is_in(names)
    rows = frame.filter(of_osts & pl.col("value").is_not_null())
    return marked(rows, context.bad, context.good).drop_nulls("bad")


def commonest(frame: pl.DataFrame) -> str | None:
    """Return the most common text of ``value`` in the bad hours; ``None`` if there is none."""
    values = frame.filter("bad")["value"].drop_nulls()
    return None if values.is_empty() else str(values.mode().sort()[0])


def targets_of(frame: pl.DataFrame) -> tuple[str, ...]:
    """Return the targets whose value exceeded 0.5 at any time in the bad stretch."""
    targets = frame.filter(pl.col("bad") & (pl.col("value") > 0.5))["target"]
    return tuple(targets.drop_nulls().unique().sort().to_list())


def in_place(
    context: Context, frame: pl.DataFrame, sign: Sign, names: Sequence[str], *, absent: float
) -> tuple[Evidence, Evidence]:
    """Return whether a condition came with the bad hours, and whether it began with them.

    Parameters
    ----------
    names
        Targets that have it; named in the subject of the sign.
    absent
        Weight if it did not occur; see `contrast.presence`.
    """
    subject = with_names(sign.subject, names)
    present = sign.of(presence(frame, absent=absent), subject, targets=names)
    return present, timing(context, frame, subject, view=sign.view)


def _step(times: list[datetime]) -> timedelta:
    steps = sorted(later - earlier for earlier, later in pairwise(times))
    return steps[len(steps) // 2] if steps else timedelta()
