"""Evidence shared by several causes: onset of a condition, log book, counters, CPU profiles.

Priors
------
NERSC counts 13 bad days in three months [S1, VII]: 5 unexplained, 4 to 7 from an overfull file
system (1 target filling, 3 few targets open), 1 silent target, 1 name resolution. A cause seen k
times has odds of about k to 13. The others were never seen or had been cured before: half an
event each, the same for all for want of better data.

Counters of the block allocator
-------------------------------
``mb_alloc_stats`` and ``mb_stats``. The driver has already corrected the names of the loops [S8,
LU-17744]; loops are summed here, so their names do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import fmean
from typing import Final

import polars as pl

from trimtab.base.event import Event, EventKind
from trimtab.base.incident import Evidence, Found, Route, Shape
from trimtab.base.units import enumerated, format_duration
from trimtab.explain.causes.run_evidence import ONSET_LEAST, onset_within
from trimtab.explain.context import SETTINGS, SURVEYS, Context, once
from trimtab.explain.contrast import Contrast, Sign, in_time, presence
from trimtab.explain.telemetry_frame import OSTS, SERVERS, Observations, marked

UNSEEN: Final = 0.04
"""Prior odds of a cause that none of the 13 bad days had: half an event in 13."""
SLACK: Final = ONSET_LEAST
"""A condition that begins this close to the first bad run began with it."""
_KEPT_FROM: Final = 4
_PROGRAMS: Final = frozenset({"act", "journal", "policy", "probe", "trimtab", "twin", "watch"})
LOG: Final = Sign("event-not-logged", Route.LOG)
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


def timing(context: Context, frame: pl.DataFrame, condition: str) -> Evidence:
    """Return whether a condition began with the incident and lasted as long.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``bad``; the condition holds when any value at a time is over 0.5.
    condition
        As text: "a server with two targets' load".

    Notes
    -----
    A condition that began after the first bad run did not cause the incident; one that ended
    earlier did not sustain it. Drifts and spread have no sharp onset.
    """
    sign = Sign("onset", Route.TIME)
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
        Weight of one in the day before the first bad run, or with it, that was not over.
    late
        Weight if the first came only after the first bad runs: work gets logged hours later, so it
        supports little and contradicts nothing.
    """
    requested = frozenset(kinds)
    events = context.entries(lambda event: event.kind in requested and event.at <= context.now)
    begun, within = context.incident.at, onset_within(context)
    before = [
        event
        for event in events
        if begun - _BEFORE <= event.at <= begun + within
        and (event.until is None or event.until >= begun - within)
    ]
    after = [event for event in events if event.at > begun + within and context.is_bad(event.at)]
    if not before and not after:
        return LOG.weighed(f"the log book has no {noun.removeprefix('a ')}", 0.0)
    event, late_words = (before[-1], "") if before else (after[0], " after the first bad runs")
    detail = f": {event.detail}" if event.detail else ""
    text = f"the log book has {noun}{late_words} at {event.at:%d %B %H:%M}{detail}"
    code = "event-logged" if before else "event-logged-late"
    weight = weight if before else late
    return LOG.weighed(text, weight, event, code=code, targets=event.targets)


def disks(context: Context) -> Evidence | None:
    """Return evidence that the targets are on disks, which collect no garbage and need no trim.

    ``None`` if they are not, or if it is unknown.
    """
    rotational = settings(context, "queue/rotational").filter("bad")
    values = rotational["value"].drop_nulls()
    if values.is_empty() or not values.str.starts_with("1").all():
        return None
    sign = Sign("targets-on-disks", Route.EXPECTED, source="queue/rotational")
    return sign.weighed("the targets are on disks, which need no trim and collect no garbage", -2.0)


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
    return present, timing(context, frame, subject)


def _step(times: list[datetime]) -> timedelta:
    steps = sorted(later - earlier for earlier, later in pairwise(times))
    return steps[len(steps) // 2] if steps else timedelta()


_PREFIXES: Final = ("ldiskfs_mb_", "ext4_mb_")
_REQUESTS_LEAST: Final = 1.0
"""Requests per second below which loops per request mean nothing: an idle target."""


def cpu_up(seen: Observations, *, absent: float) -> Contrast:
    """Return whether the servers' CPUs were busier in the bad hours."""
    of_servers = seen.values("server_cpu_fraction", kinds=SERVERS)
    if not of_servers.filter("bad").height:
        of_servers = seen.values("server_cpu_fraction", kinds=OSTS)
    busiest = in_time(of_servers, over="max", ratio=1.15, by=0.05, absent=absent)
    mean = in_time(of_servers, over="mean", ratio=1.15, by=0.05, absent=absent)
    return mean if mean.weight > busiest.weight else busiest


def cpu_share_of_allocator(context: Context, *, bad: bool = True) -> float | None:
    """Return the mean share of CPU samples in the block allocator, in profiles of one side.

    A profile without a time counts as bad hours: profiles are taken to investigate an incident.
    """
    within = context.is_bad if bad else context.is_good
    shares = [
        sum(share for function, share in profile.shares.items() if function.startswith(_PREFIXES))
        for profile in context.profiles
        if profile.shares and (bad if profile.at is None else within(profile.at))
    ]
    return min(1.0, fmean(shares)) if shares else None


def per_request(seen: Observations, name: str) -> pl.DataFrame:
    """Return a counter of the allocator per request for each target and time, with ``bad``."""
    requests = seen.rates("allocator_requests_total", kinds=OSTS)
    counted = seen.rates(name, kinds=OSTS)
    both = counted.join(
        requests.select("at", "target", requests=pl.col("value")), on=["at", "target"]
    )
    busy = both.filter(pl.col("requests") >= _REQUESTS_LEAST)
    return busy.with_columns(value=pl.col("value") / pl.col("requests")).drop("requests")
