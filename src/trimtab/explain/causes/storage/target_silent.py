"""`target-silent`: a target serves almost nothing and reports no error.

One OST that failed silently caused one of NERSC's bad days [S1, VII]; an OST at 260 MB/s in their
surveys [S1, IV.B] delays the last close of a run for most of an hour: the runs recorded as zeros.
Lustre itself reports such a target as healthy [S11], so what counts is the traffic it serves.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from trimtab.base.event import EventKind
from trimtab.base.incident import Evidence, Route, Shape
from trimtab.base.snapshot import CONNECTED, INACTIVE
from trimtab.base.units import format_percent
from trimtab.explain.causes.evidence import (
    flags,
    fresh,
    grown,
    logged,
    named,
    names_are_stable,
    surveyed,
    targets_of,
    timing,
    with_names,
)
from trimtab.explain.causes.run_evidence import of_incident, unfinished_share
from trimtab.explain.context import Cause, Context
from trimtab.explain.contrast import Sign, presence
from trimtab.explain.telemetry_frame import OSTS, Observations, observe

_NOTHING: Final = 0.1
"""Share of the median target of the same survey. NERSC's slow OSTs lost 25 to 50 %; the failed one,
and 260 MB/s of 15.1 GB/s, are under 2 % [S1, III and IV.B]."""
_WELL: Final = 0.5
_NO_TRAFFIC: Final = 0.05
_BUSY: Final = 0.3
"""Shares of the median target's traffic: below the first it is silent, above the second it
served."""
_UNFINISHED: Final = 0.3
_MOST_UNFINISHED: Final = 0.8


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a target that fell silent."""
    seen = observe(context)
    return (
        _surveyed(context),
        *_traffic(context, seen),
        _connection(seen),
        _in_snapshots(seen),
        _errors(seen),
        _runs(context),
        logged(context, (EventKind.TARGET_FAILED,), "a failed target", weight=1.2, late=0.2),
    )


def _surveyed(context: Context) -> Evidence:
    sign = Sign("survey-silent", Route.TARGETS, "a target near zero in a survey", unit="1")
    rows = surveyed(context)
    if rows is None:
        return sign.missing("no-survey", "no surveys of single targets")
    middle = pl.median("value").over("run", "metric")
    rows = rows.with_columns(relative=pl.col("value").fill_null(0.0) / middle).filter(
        middle > 0, pl.col("relative").is_finite()
    )
    bad, good = (rows.filter(bad=side) for side in (True, False))
    if bad.is_empty():
        return sign.missing("no-bad-survey", "no survey of single targets in the bad hours")
    lowest, before = _lowest(bad), _lowest(good)
    lacking = sorted(set(before) - set(lowest)) if bad["run"].n_unique() else []
    silent = sorted(name for name, value in lowest.items() if value < _NOTHING)
    always = [name for name in silent if before.get(name, 1.0) < _NOTHING]
    if silent:
        share = format_percent(_NOTHING, 0)
        text = f"{named(silent)} below {share} of the median target in a survey"
        is_new = len(silent) > len(always)
        return sign.weighed(
            text,
            1.5 if is_new else 0.0,
            value=min(lowest.values()),
            reference=1.0,
            targets=silent,
            throughout=not is_new,
        )
    if lacking and len(lacking) <= len(before) / 4:
        text = f"{named(lacking)} missing from the surveys of the bad hours; the others are present"
        return sign.weighed(text, 0.8, code="survey-missing", targets=lacking, unit=None)
    least = min(lowest.values())
    text = f"every surveyed target at {format_percent(least, 0)} of the median or more"
    return sign.weighed(text, -1.3 if least >= _WELL else -0.4, value=least, reference=_NOTHING)


def _lowest(rows: pl.DataFrame) -> dict[str, float]:
    return dict(rows.group_by("target").agg(pl.min("relative")).iter_rows())


def _traffic(context: Context, seen: Observations) -> tuple[Evidence, ...]:
    """Return whether a target served nothing while others were busy, and since when.

    Leaves out targets that accept no new files: they serve little for that reason.
    """
    subject = "a target without traffic while others are busy"
    sign = Sign("idle-while-busy", Route.TARGETS, subject, unit="1")
    rates = seen.rates("client_bytes_written_total", kinds=OSTS)
    source = "client_bytes_written_total"
    if not rates.filter("bad").height:
        rates, source = seen.rates("bytes_written_total", kinds=OSTS), "bytes_written_total"
    closed = seen.values("create_enabled", kinds=OSTS).filter(value=0)
    rates = rates.join(closed.select("at", "target"), on=["at", "target"], how="anti")
    middle = pl.median("value").over("at")
    relative = rates.filter((middle > 0) & (pl.len().over("at") >= 3)).with_columns(
        value=pl.col("value") / middle
    )
    usual = relative.filter(~pl.col("bad")).group_by("target").agg(usual=pl.median("value"))
    known = relative.join(usual, on="target").filter(pl.col("usual") >= _BUSY)
    if not known.filter("bad").height:
        why = seen.why_not("client_bytes_written_total", "bytes_written_total", kinds=OSTS)
        return (sign.not_available(why, source=source),)
    idle = flags(known, pl.col("value") < _NO_TRAFFIC)
    names = targets_of(idle)
    few = len(names) <= max(1, usual.height / 4)
    contrast = presence(idle, absent=-0.8) if few else None
    if contrast is None:
        text = (
            f"{len(names)} of {usual.height} targets had hours without traffic, no single one alone"
        )
        return (sign.weighed(text, 0.0, code="idle-many", targets=names, source=source, unit=None),)
    subject = with_names(subject, names)
    return (
        sign.of(contrast, subject=subject, targets=names, source=source),
        timing(context, idle, subject),
    )


def _connection(seen: Observations) -> Evidence:
    subject = "lost connection to a target"
    sign = Sign("connection-lost", Route.TIME, subject, source="import_state", unit="1")
    states = seen.texts("import_state", kinds=OSTS)
    if states.filter("bad").is_empty():
        return sign.not_available(seen.why_not("import_state", kinds=OSTS))
    well = [*CONNECTED, INACTIVE]
    lost = fresh(flags(states, ~pl.col("value").is_in(well)))
    names = targets_of(lost)
    contrast = presence(lost, absent=-0.2)
    return sign.of(contrast, subject=with_names(subject, names), targets=names)


def _in_snapshots(seen: Observations) -> Evidence:
    subject = "a target missing from the snapshots of the bad hours"
    sign = Sign("snapshot-missing", Route.TIME, subject, source="used_bytes")
    used = seen.values("used_bytes", kinds=OSTS)
    bad, good = (set(used.filter(bad=side)["target"]) for side in (True, False))
    if not bad or not good:
        return sign.not_available(seen.why_not("used_bytes", kinds=OSTS), source=None)
    gone = sorted(good - bad)
    # Some records only list the fullest target: another one is fullest now, none disappeared.
    counts = used.group_by("bad", "at").agg(targets=pl.n_unique("target"))
    now = counts.filter("bad")["targets"].max()
    usual = counts.filter(~pl.col("bad"))["targets"].median()
    fewer = now + len(gone) <= usual and names_are_stable(used.filter(~pl.col("bad")))  # type: ignore[operator]
    if gone and fewer and len(gone) <= len(good) / 4:
        text = f"{named(gone)} missing from the snapshots of the bad hours"
        return sign.weighed(text, 0.8, targets=gone)
    return sign.weighed(f"{subject}: none", 0.0, code="snapshot-complete")


def _errors(seen: Observations) -> Evidence:
    """Return whether a target reported errors: then it failed, but not silently."""
    subject = "file system errors or a read-only target"
    sign = Sign("errors-reported", Route.TIME, subject, source="errors_total, read_only", unit="1")
    counted = grown(seen.values("errors_total", kinds=OSTS))
    read_only = flags(seen.values("read_only", kinds=OSTS), pl.col("value") > 0.5)
    parts = [frame.select("at", "target", "value", "bad") for frame in (counted, read_only)]
    either = pl.concat(parts).group_by("at", "target", "bad").agg(pl.max("value"))
    frame = fresh(either)
    if frame.filter("bad").is_empty():
        return sign.not_available(seen.why_not("errors_total", "read_only", kinds=OSTS))
    names = targets_of(frame)
    contrast = presence(frame, absent=0.0)
    half = contrast.weight / 2 if len(names) <= 2 else 0.0  # many read-only targets: a policy
    who = f" ({named(names)})" if names else ": none; a silent failure reports none"
    return sign.counted(f"{subject}{who}", half, contrast, targets=names, at=contrast.at)


def _runs(context: Context) -> Evidence:
    """Return whether runs hang or crawl: the last close waits for the silent target."""
    sign = Sign("runs-unfinished", Route.RUNS, "runs that time out", unit="1")
    bad, good = (of_incident(context, bad=side) for side in (True, False))
    share = unfinished_share(bad)
    if share is None:
        return sign.missing("no-bad-runs", "no run started in the bad hours")
    usual = unfinished_share(good) or 0.0
    code = "runs-unfinished"
    text = (
        f"{format_percent(share, 0)} of the bad runs timed out, "
        f"{format_percent(usual, 0)} of the good ones"
    )
    effect = context.incident.effect
    if share >= _UNFINISHED and share > 2 * usual:
        # Little else keeps most runs from finishing: a merely slow target slows them down.
        weight = 0.6 if share < _MOST_UNFINISHED else 1.0
    elif effect is not None and effect < 0.25:
        code, weight = "runs-crawled", 0.4
        text = (
            f"{text}; the others ran far below normal speed"
            if share
            else "slow runs completed, far below normal speed"
        )
    elif effect is not None and effect > 0.6 and context.incident.shape is not Shape.UNSTEADY:
        weight, text = -0.5, f"{text}; waiting for a silent target costs more than this loss"
    else:
        weight = 0.0
    return sign.weighed(text, weight, code=code, value=share, reference=usual)


CAUSE: Final = Cause(
    id="target-silent",
    title="a target that failed silently",
    prior=0.08,  # 1 of the 13 bad days
    assess=assess,
    signs=(
        "survey-silent",
        "survey-missing",
        "idle-while-busy",
        "connection-lost",
        "snapshot-missing",
        "event-logged",
    ),
    measurement=(
        "Write to every target by itself for a few seconds (trimtab survey SITE): the silent one "
        "hangs or reaches next to nothing."
    ),
)
