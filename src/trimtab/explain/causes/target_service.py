"""Causes in the service of targets: `target-silent`, `failover` and `array-degraded`."""

from __future__ import annotations

import math
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.event import EventKind
from trimtab.base.incident import Against, Evidence, Found, Route, Shape
from trimtab.base.snapshot import CONNECTED, INACTIVE
from trimtab.base.units import format_percent
from trimtab.explain.breadth import Breadth, breadth, survey_view
from trimtab.explain.causes.evidence import (
    UNSEEN,
    flags,
    fresh,
    grown,
    in_place,
    logged,
    named,
    names_are_stable,
    of_incident,
    surveyed,
    targets_of,
    unfinished_share,
    with_names,
)
from trimtab.explain.causes.failed_runs import NO_CONNECTION, NO_DEVICE, failed_with
from trimtab.explain.causes.server_message import recovery_logged, target_logged
from trimtab.explain.causes.target_traffic import idle_while_busy
from trimtab.explain.context import Cause, Context, always_at
from trimtab.explain.contrast import Sign, between_targets, expected, presence
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import OSTS, Observations, observe

_NOTHING: Final = 0.1
"""Share of the median target of the same survey. NERSC's slow OSTs lost 25 to 50 %; the failed one,
and 260 MB/s of 15.1 GB/s, are under 2 % [S1, III and IV.B]."""
_CRAWLS: Final = 0.25
"""A target below this has all but failed: a rebuild or a full target leaves more."""
_WELL: Final = 0.5
_DEVICE_ERRORS: Final = 0.9
"""Eight to one for EIO or EROFS: a client that was evicted reports them, too. By themselves they
name no cause."""
_CONNECTION: Final = 0.6
"""Four to one for ENOTCONN or ESTALE: servers that restart, networks and evictions share them."""
_UNFINISHED: Final = 0.3
_MOST_UNFINISHED: Final = 0.8


def assess_target_silent(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a target that fell silent.

    Such a target serves almost nothing and reports no error. One OST that failed silently caused
    one of NERSC's bad days [S1, VII]; an OST at 260 MB/s in their surveys [S1, IV.B] delays the
    last close of a run for most of an hour: the runs recorded as zeros. Lustre itself reports such
    a target as healthy [S11], so what counts is the traffic it serves.
    """
    seen = observe(context)
    return (
        _surveyed(context),
        *idle_while_busy(context, seen),
        _connection(seen),
        _in_snapshots(seen),
        _errors(seen),
        _runs(context),
        logged(context, (EventKind.TARGET_FAILED,), "a failed target", weight=1.2, late=0.2),
        failed_with(
            context, NO_DEVICE, "errors of a device", code="runs-with-io-error", most=_DEVICE_ERRORS
        ),
        not_connected(context),
        *target_logged(context),
    )


def not_connected(context: Context) -> Evidence:
    """Return whether runs lost their connection, or the server forgot their files."""
    return failed_with(
        context, NO_CONNECTION, "a lost connection", code="runs-not-connected", most=_CONNECTION
    )


def _surveyed(context: Context) -> Evidence:
    sign = Sign(
        "survey-silent",
        Route.TARGETS,
        "a target near zero in a survey",
        unit="1",
        view=survey_view(context),
    )
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
    crawling = sorted(
        name for name, value in lowest.items() if value < _CRAWLS <= before.get(name, 0.0) / 2
    )
    if crawling:
        least = min(lowest[name] for name in crawling)
        text = f"{named(crawling)} at {format_percent(least, 0)} of the median target in a survey"
        return sign.weighed(
            text, 1.0, code="survey-crawled", value=least,
            reference=min(before[name] for name in crawling), targets=crawling,
        )  # fmt: skip
    if lacking and len(lacking) <= len(before) / 4:
        text = f"{named(lacking)} missing from the surveys of the bad hours; the others are present"
        return sign.weighed(text, 0.8, code="survey-missing", targets=lacking, unit=None)
    least = min(lowest.values())
    text = f"every surveyed target at {format_percent(least, 0)} of the median or more"
    return sign.weighed(text, -1.3 if least >= _WELL else -0.4, value=least, reference=_NOTHING)


def _lowest(rows: pl.DataFrame) -> dict[str, float]:
    return dict(rows.group_by("target").agg(pl.min("relative")).iter_rows())


def _connection(seen: Observations) -> Evidence:
    subject = "lost connection to a target"
    sign = Sign(
        "connection-lost",
        Route.TIME,
        subject,
        source="import_state",
        unit="1",
        view=View.CONNECTIONS,
    )
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
    sign = Sign("snapshot-missing", Route.TIME, subject, source="used_bytes", view=View.TARGETS)
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
    """Return whether a target reported errors: it failed, though not silently."""
    subject = "file system errors or a read-only target"
    sign = Sign(
        "errors-reported",
        Route.TIME,
        subject,
        source="errors_total, read_only",
        unit="1",
        view=View.TARGETS,
    )
    counted = grown(seen.values("errors_total", kinds=OSTS))
    read_only = flags(seen.values("read_only", kinds=OSTS), pl.col("value") > 0.5)
    parts = [frame.select("at", "target", "value", "bad") for frame in (counted, read_only)]
    either = pl.concat(parts).group_by("at", "target", "bad").agg(pl.max("value"))
    frame = fresh(either)
    if frame.filter("bad").is_empty():
        return sign.not_available(seen.why_not("errors_total", "read_only", kinds=OSTS))
    names = targets_of(frame)
    contrast = presence(frame, absent=0.0)
    # One target turns read-only when its file system fails; many do by a policy.
    share = 1.0 if set(names) <= set(targets_of(fresh(read_only))) else 0.5
    weight = share * contrast.weight if len(names) <= 2 else 0.0
    who = f" ({named(names)})" if names else ": none; a silent failure reports none"
    return sign.counted(f"{subject}{who}", weight, contrast, targets=names, at=contrast.at)


def _runs(context: Context) -> Evidence:
    """Return whether runs hang or crawl: the last close waits for the silent target."""
    sign = Sign("runs-unfinished", Route.RUNS, "runs that time out", unit="1", view=View.PROBE)
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
    return sign.weighed(
        text, weight, code=code, value=share, reference=usual, quantity="runs-unfinished"
    )


TARGET_SILENT: Final = Cause(
    id="target-silent",
    title="a target that failed silently",
    prior=0.08,  # 1 of the 13 bad days
    assess=assess_target_silent,
    acts_on=always_at("target"),
    signs=(
        "survey-silent",
        "survey-crawled",
        "survey-missing",
        "idle-while-busy",
        "connection-lost",
        "snapshot-missing",
        "errors-reported",
        "event-logged",
        "target-logged",
    ),
    measurement=(
        "Write to every target by itself for a few seconds (trimtab survey SITE): the silent one "
        "hangs or reaches next to nothing."
    ),
    brings_about=("failover",),
)


_AWAY: Final = Sign(
    "away-from-home", Route.TIME, "targets served away from home",
    source="failover_active, server", unit="1", view=View.SERVERS,
)  # fmt: skip
_BUSIEST: Final = Sign(
    "server-doubled", Route.EXPECTED,
    "targets of the busiest server, as a multiple of the median", source="server",
    view=View.SERVERS,
)  # fmt: skip
_SLOW: Final = Sign(
    "slow-on-doubled", Route.TARGETS, "slow targets on doubled servers", view=View.SURVEY_ON_SERVERS
)
_DOUBLED: Final = 1.5
"""Multiple of the median server's number of targets. Servers take over for each other in pairs."""


def assess_failover(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a failover.

    A server then carries the targets of another besides its own, and both sets share its CPUs,
    links and memory. NERSC's surveys measured OSTs "regardless of their current failover status"
    [S1, IV.B]: the state persists.
    """
    seen = observe(context)
    serving = _serving(seen)
    away = fresh(_away(context, seen, serving))
    log = logged(context, (EventKind.FAILOVER,), "a failover", weight=0.8)
    if away.filter("bad").is_empty():
        why = seen.why_not("failover_active")
        doubled = _BUSIEST.not_available(
            why, subject="servers with twice the targets", source=_AWAY.source
        )
        missing = (_AWAY.not_available(why), doubled, _SLOW.not_available(why))
        return (*missing, log, not_connected(context), *recovery_logged(context))
    return (
        *in_place(context, away, _AWAY, targets_of(away), absent=-1.5),
        _doubled(serving),
        _slow_ones(context, serving, away),
        log,
        not_connected(context),
        *recovery_logged(context),
    )


def _serving(seen: Observations) -> pl.DataFrame:
    """Return the server of each target at each time, as text in ``value``."""
    servers = seen.texts("server").filter(pl.col("label").is_null())
    return servers.select("at", "target", "value", "bad").sort("at", "target")


def _away(context: Context, seen: Observations, serving: pl.DataFrame) -> pl.DataFrame:
    """Return 1 for targets not served by their home, or by the usual server if no home is named."""
    flagged = seen.values("failover_active").select("at", "target", "value", "bad")
    flag = flags(flagged, pl.col("value") > 0.5)
    usual = serving.filter(~pl.col("bad")).group_by("target").agg(pl.col("value").mode().sort())
    home = {target: servers[0] for target, servers in usual.iter_rows() if servers}
    home |= dict(context.home)
    by_name = (
        serving.with_columns(home=pl.col("target").replace_strict(home, default=None))
        .filter(pl.col("home").is_not_null())
        .with_columns(value=(pl.col("value") != pl.col("home")).cast(pl.Float64))
        .select("at", "target", "value", "bad")
    )
    # A server that was away throughout the good hours looks like home here: the flag knows better.
    both = pl.concat([by_name, flag])
    return both.group_by("at", "target", "bad").agg(pl.max("value")).sort("at", "target")


def _per_server(serving: pl.DataFrame) -> pl.DataFrame:
    """Return ``relative``: the number of targets of each server over that of the median server."""
    osts = serving.filter(~pl.col("target").str.starts_with("MDT"))
    return (
        osts.group_by("at", "bad", "value")
        .agg(n=pl.len())
        .with_columns(relative=pl.col("n") / pl.median("n").over("at"))
    )


def _doubled(serving: pl.DataFrame) -> Evidence:
    bad = _per_server(serving).filter("bad")
    most = None if bad.is_empty() else bad.group_by("at").agg(pl.max("relative"))
    value = None if most is None else most["relative"].median()
    contrast = expected(
        None if value is None else float(value),  # pyrefly: ignore[bad-argument-type]
        _DOUBLED,
        over=0.5,
        under=-0.4,
        scale=0.2,
        reason=Message("servers-unknown", "the servers of the targets are unknown"),
    )
    return _BUSIEST.of(contrast)


def _slow_ones(context: Context, serving: pl.DataFrame, away: pl.DataFrame) -> Evidence:
    """Return whether the slow targets are those of the doubled servers."""
    moved = away.filter(pl.col("value") > 0.5).select("at", "target")
    crowded = serving.join(moved, on=["at", "target"], how="semi").select("at", "value").unique()
    if serving.is_empty():
        of_target = away
    else:
        marked = serving.join(
            crowded.with_columns(crowded=pl.lit(True)), on=["at", "value"], how="left"
        )
        of_target = flags(marked, pl.col("crowded").fill_null(False))
    contrast = between_targets(of_target, breadth(context), by=0.5, present_from=0.5, absent=-0.8)
    return _SLOW.of(contrast, source="server", targets=targets_of(of_target))


FAILOVER: Final = Cause(
    id="failover",
    title="failover: a server carries another's targets",
    prior=UNSEEN,
    assess=assess_failover,
    acts_on=always_at("server"),
    signs=("away-from-home", "server-doubled", "slow-on-doubled", "event-logged"),
    measurement=(
        "Measure the targets of the doubled server beside those of another server, fail back in a "
        "quiet hour, and measure again."
    ),
)


_DEGRADED_IN_TIME: Final = Sign(
    "degraded-in-time",
    Route.TIME,
    "degraded arrays",
    source="degraded",
    unit="1",
    view=View.DRIVES,
)
_DEGRADED_BETWEEN: Final = Sign(
    "degraded-between-targets",
    Route.TARGETS,
    "degraded arrays among slow and fast targets",
    view=View.DRIVES,
)


def assess_array_degraded(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a degraded array or a rebuild.

    Each read of a missing block is computed from all the others, and the rebuild takes bandwidth.
    In Lustre the flag also diverts new files to other targets [S8, lod_qos.c; lfs-df(1)].
    """
    seen = observe(context)
    degraded = fresh(flags(seen.values("degraded"), pl.col("value") > 0.5))
    rebuild = logged(context, (EventKind.REBUILD,), "a rebuild", weight=0.8)
    failed = failed_with(
        context, NO_DEVICE, "errors of a device", code="runs-with-io-error", most=_DEVICE_ERRORS
    )
    around = breadth(context)
    errors = _media_errors(seen, around)
    if degraded.filter("bad").is_empty():
        why = seen.why_not("degraded")
        missing = (_DEGRADED_IN_TIME.not_available(why), _DEGRADED_BETWEEN.not_available(why))
        return (*missing, rebuild, *errors, failed)
    names = targets_of(degraded)
    # A drive that fails slowly is still in its array: that this is not degraded says nothing.
    absence = 0.0 if errors[1].found is Found.FOR else 1.0
    number = expected(float(len(names)), 0.5, over=0.5, under=-0.3 * absence)
    apart = between_targets(degraded, around, by=0.5, present_from=0.5, absent=-0.8 * absence)
    return (
        *in_place(context, degraded, _DEGRADED_IN_TIME, names, absent=-1.5 * absence),
        Sign(
            "degraded-expected",
            Route.EXPECTED,
            "degraded arrays (expected: none)",
            view=View.DRIVES,
        ).of(number, source="degraded", targets=names, against=Against.CONDITION),
        _DEGRADED_BETWEEN.of(apart, unit="1", source="degraded", targets=names),
        _only_it(names, around.slow if around.explains else (), degraded),
        rebuild,
        *errors,
        failed,
    )


def _only_it(names: tuple[str, ...], slow: tuple[str, ...], degraded: pl.DataFrame) -> Evidence:
    """Return whether some slow targets have intact arrays, so that this does not explain them."""
    sign = Sign("slow-targets-whole", Route.TARGETS, view=View.DRIVES)
    subject = "slow targets with intact arrays"
    if not slow or not names:
        return sign.weighed(f"{subject}: no slow target or no degraded array", 0.0)
    intact = sorted(set(slow) & set(degraded["target"]) - set(names))
    weight = -0.5 if len(intact) > len(slow) / 2 else 0.0
    text = with_names(f"{subject}: {len(intact)} of {len(slow)}", intact)
    return sign.weighed(
        text, weight, value=float(len(intact)), reference=float(len(slow)), targets=intact,
        against=Against.RIVAL,
    )  # fmt: skip


_MEDIA_ERRORS: Final = "drive_media_errors_total"
_ERRORS_BETWEEN: Final = Sign(
    "media-errors-between-targets",
    Route.TARGETS,
    "targets with new media errors",
    source=_MEDIA_ERRORS,
    view=View.DRIVES,
)
_ERRORS_SHARE: Final = 0.7
"""Share of the log odds that counts: by chance, too, the target with errors may be the slow one."""


def _media_errors(seen: Observations, around: Breadth) -> tuple[Evidence, Evidence]:
    """Return whether drives counted media errors, and whether those of the slow targets did.

    Such a drive is about to leave its array. Drives of sound targets count some, too.
    """
    subject = "media errors of drives"
    sign = Sign(
        "media-errors", Route.TIME, subject, source=_MEDIA_ERRORS, unit="1", view=View.DRIVES
    )
    # Summed over a target's drives: thousands of single drives would cost more.
    errors = grown(seen.values(_MEDIA_ERRORS))
    if errors.filter("bad").is_empty():
        why = seen.why_not(_MEDIA_ERRORS)
        return sign.not_available(why), _ERRORS_BETWEEN.not_available(why)
    names = targets_of(errors)
    contrast = presence(errors, absent=0.0)
    who = f" below {named(names)}" if names else ": none"
    text, weight = f"{subject}{who}", min(0.4, contrast.weight)
    return (
        sign.counted(text, weight, contrast, targets=names, at=contrast.at),
        _errors_between(frozenset(names), around),
    )


def _errors_between(names: frozenset[str], around: Breadth) -> Evidence:
    """Return whether slow targets count media errors more often than fast ones.

    One failing drive makes one target slow; others may be slow for another reason. Rates
    are smoothed by half a target, so that one slow target among many fast ones weighs about 1.
    """
    if not around.slow or not around.fast:
        return _ERRORS_BETWEEN.not_available(around.reason)
    slow, fast = (sorted(names.intersection(side)) for side in (around.slow, around.fast))
    text = (
        f"{_ERRORS_BETWEEN.subject}: {len(slow)} of {len(around.slow)} slow, "
        f"{len(fast)} of {len(around.fast)} fast"
    )
    rates = [
        (len(having) + 0.5) / (len(side) + 1)
        for having, side in ((slow, around.slow), (fast, around.fast))
    ]
    weight = max(0.0, _ERRORS_SHARE * math.log10(rates[0] / rates[1])) if slow else 0.0
    return _ERRORS_BETWEEN.weighed(text, weight, targets=slow)


ARRAY_DEGRADED: Final = Cause(
    id="array-degraded",
    title="a degraded array, or its rebuild",
    prior=UNSEEN,
    assess=assess_array_degraded,
    acts_on=always_at("drive"),
    slows_metadata=False,
    signs=(
        "degraded-in-time",
        "degraded-between-targets",
        "media-errors",
        "media-errors-between-targets",
        "event-logged",
    ),
    measurement=(
        "Measure the target of the degraded array beside its neighbours now and again after the "
        "rebuild."
    ),
    brings_about=("target-silent",),
)
