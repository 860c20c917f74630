"""Causes in the space of targets: `target-filling`, `targets-over-limit` and `few-targets-open`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.event import EventKind
from trimtab.base.incident import Evidence, Route
from trimtab.base.units import format_bytes_per_s, format_percent
from trimtab.explain.causes.evidence import (
    SLACK,
    flags,
    heavier,
    logged,
    named,
    of_incident,
    targets_of,
    timing,
    value_of,
    with_names,
    writes_and_reads,
)
from trimtab.explain.context import Cause, Context
from trimtab.explain.contrast import Contrast, Sign, between_targets, breadth, expected, in_time
from trimtab.explain.telemetry_frame import MDTS, OSTS, Observations, observe

_SOURCE: Final = "used_bytes, available_bytes"
_ALONE: Final = Sign(
    "filled-alone", Route.TARGETS, "a target that fills far faster than the others",
    source=_SOURCE, unit="1",
)  # fmt: skip
_DAY: Final = timedelta(hours=24)
_GROWN: Final = 0.05
"""Five points of fullness per day beyond the others. A file system that takes its full expected
traffic (2.5 of 36 PB a day [S3; S1, table I]) and deletes nothing grows by 7 points a day on every
target; between targets that the allocator balances, little of that remains."""
_LITTLE: Final = 0.02
_TIMES: Final = 2.0
"""And this multiple of the others' growth: if all fill, none fills by itself."""
_OPEN: Final = 0.5
"""Share of targets. With fewer open for creation, those fill because the others are closed."""
_SPREADS: Final = 6.0
"""Robust standard deviations of the others' growth."""
_SPREAD_LEAST: Final = 0.003
_FEW: Final = 0.1
"""If more than a tenth of all targets fill this way, it is not a single one filling."""


@dataclass(frozen=True, slots=True)
class _Growth:
    """Growth of the fastest targets beyond the others, as fractions of their size."""

    targets: tuple[str, ...]
    of: int
    grown: float
    others: float
    spreads: float
    reached: float
    usual: dict[str, float]

    @property
    def beyond(self) -> float:
        return self.grown - self.others

    @property
    def stands_out(self) -> bool:
        """Whether only one or a few fill: not a large part, nor slightly ahead of the rest."""
        few = len(self.targets) <= max(2.0, _FEW * self.of)
        return few and self.beyond >= _LITTLE and self.grown >= _TIMES * max(0.0, self.others)


def assess_target_filling(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a target that fills by itself.

    One target, or a few, fill up much faster than the others: a runaway job, or a file striped over
    too few targets. A single OST that filled very quickly caused one of NERSC's bad days [S1, VII].
    """
    seen = observe(context)
    full = _while_open(seen.fullness(), seen.values("create_enabled", kinds=OSTS))
    growth = _growth(full, context.incident.at)
    if isinstance(growth, Message):
        why = (
            seen.why_not("used_bytes", kinds=("ost", "file-system")) if not full.height else growth
        )
        return tuple(
            replace(_ALONE, subject=subject, route=route).not_available(why)
            for subject, route in (
                (_ALONE.subject, Route.TARGETS), ("fullness reached", Route.EXPECTED),
                ("whether it is slow", Route.TARGETS), ("onset of the growth", Route.TIME),
            )
        )  # fmt: skip
    return (
        _beyond_others(growth),
        _reached(context, growth),
        _slow_itself(context, growth),
        _more_than_before(full, growth),
        _when(context, full, growth),
    )


def _while_open(full: pl.DataFrame, open_: pl.DataFrame) -> pl.DataFrame:
    """Return fullness without the bad hours, after the first, when most targets were closed."""
    shares = open_.group_by("at").agg(share=pl.mean("value"))
    first = pl.col("at") == pl.col("at").filter(pl.col("bad")).min()
    known = full.join(shares, on="at", how="left")
    relevant = ~pl.col("bad") | first | (pl.col("share").fill_null(1.0) >= _OPEN)
    return known.filter(relevant).drop("share")


def _growth(full: pl.DataFrame, begun: datetime) -> _Growth | Message:
    """Return the growth since the last good day of the targets that grew most."""
    good = full.filter(~pl.col("bad"))
    last_day = good.filter((pl.col("at") >= begun - _DAY) & (pl.col("at") < begun))
    start = (good if last_day.is_empty() else last_day).group_by("target").agg(
        usual=pl.median("value")
    )  # fmt: skip
    end = full.filter("bad").group_by("target").agg(most=pl.max("value"))
    both = start.join(end, on="target").with_columns(grown=pl.col("most") - pl.col("usual"))
    if both.height < 3:
        return Message("too-few-targets", "fullness of fewer than 3 targets is known on both sides")
    rows = both.sort("grown", "target", descending=[True, False]).rows(named=True)
    middle = median(row["grown"] for row in rows)
    top = rows[0]["grown"]
    fast = [row for row in rows if row["grown"] - middle > (top - middle) / 2]
    rest = [row["grown"] for row in rows if row not in fast] or [middle]
    others = median(rest)
    spread = 1.4826 * median(abs(value - others) for value in rest)
    return _Growth(
        targets=tuple(sorted(row["target"] for row in fast)) or (rows[0]["target"],),
        of=len(rows),
        grown=top,
        others=others,
        spreads=(top - others) / max(spread, _SPREAD_LEAST),
        reached=max(row["most"] for row in fast or rows[:1]),
        usual={row["target"]: row["usual"] for row in rows},
    )


def _beyond_others(growth: _Growth) -> Evidence:
    text = (
        f"{named(growth.targets)} grew by {format_percent(growth.grown)} of fullness since the day "
        f"before, the others by {format_percent(growth.others)}"
    )
    weight = 0.0
    if growth.beyond < _LITTLE:
        text, weight = f"no target filled faster than the others: {text}", -1.2
    elif not growth.stands_out:
        weight = -0.8
    elif growth.beyond >= _GROWN and growth.spreads >= _SPREADS:
        weight = min(1.5, 0.9 + 2.0 * (growth.beyond - _GROWN))
    return _ALONE.weighed(
        text, weight, value=growth.grown, reference=growth.others, targets=growth.targets
    )


def _reached(context: Context, growth: _Growth) -> Evidence:
    limit = context.limits.fullness
    contrast = expected(growth.reached, limit, over=0.5, under=-0.5, scale=0.05)
    subject = f"the fullness that {named(growth.targets)} reached"
    return _ALONE.of(contrast, subject, code="fullness-reached", targets=growth.targets)


def _slow_itself(context: Context, growth: _Growth) -> Evidence:
    sign = Sign("full-and-slow", Route.TARGETS, f"whether {named(growth.targets)} is slow")
    around = breadth(context)
    if not growth.stands_out or not around.surveyed:
        why = (
            around.reason
            if growth.stands_out
            else Message("no-target-grew", "no target grew more than the others")
        )
        return sign.not_available(why)
    slow = set(growth.targets) & set(around.slow)
    if slow:
        text = f"{named(slow)} is among the {len(around.slow)} slow targets"
        return sign.weighed(
            text, 0.7 if len(around.slow) <= 3 * len(slow) else 0.2, targets=sorted(slow)
        )
    text = f"{named(growth.targets)} not slow in the surveys: {around.reason}"
    return sign.weighed(
        text, -0.7 if around.slow else -0.3, code="full-not-slow", targets=growth.targets
    )


def _more_than_before(full: pl.DataFrame, growth: _Growth) -> Evidence:
    sign = Sign("fuller-than-day-before", Route.TIME, f"fullness of {named(growth.targets)}")
    if not growth.stands_out:
        return sign.weighed("no single target became fuller", 0.0)
    of_them = full.filter(pl.col("target").is_in(list(growth.targets)))
    contrast = in_time(of_them, over="max", by=_GROWN, absent=-0.5)
    return sign.of(contrast, unit="1", source=_SOURCE, targets=growth.targets)


def _when(context: Context, full: pl.DataFrame, growth: _Growth) -> Evidence:
    """Return whether it had begun to fill when the first bad runs came."""
    if not growth.stands_out:
        return Sign("filled-never", Route.TIME).weighed("no single target filled", 0.0)
    of_them = full.filter(pl.col("target").is_in(list(growth.targets)))
    usual = pl.col("target").replace_strict(growth.usual, return_dtype=pl.Float64)
    begun = flags(of_them, pl.col("value") - usual > growth.beyond / 4)
    return timing(context, begun, f"{named(growth.targets)} filling up")


TARGET_FILLING: Final = Cause(
    id="target-filling",
    title="one target filling fast",
    prior=0.08,  # 1 of the 13 bad days
    assess=assess_target_filling,
    slows_metadata=False,
    signs=("filled-alone",),
    measurement=(
        "Find the files that grow on the target (lfs find --ost, job statistics of its writers), "
        "stop or restripe them, and see whether the next runs recover."
    ),
    brings_about=("few-targets-open",),
)


_OVER_LIMIT: Final = "targets over the fullness limit"
_OVER_NOW: Final = Sign("over-limit-now", Route.EXPECTED, _OVER_LIMIT, source=_SOURCE, unit="1")
_SHARE: Final = Sign(
    "over-limit-share",
    Route.TIME,
    f"{_OVER_LIMIT} in bad and good hours",
    source=_SOURCE,
    unit="1",
)
_BETWEEN: Final = Sign(
    "fullness-between-targets", Route.TARGETS, f"{_OVER_LIMIT} among slow and fast",
    source=_SOURCE, unit="1",
)  # fmt: skip
_FULLER: Final = 0.02
"""Two points of fullness. From 75 to 85 % full, writes lose a quarter in the simulation [S10], so
two points cost a twentieth."""
_TWICE: Final = 2.0
"""If targets were already over the limit, this many times as many: crossing the limit hardly
changes a target from one day to the next, and a file waits for the fullest."""
_NONE_OVER: Final = -1.5
"""No target over its limit: the cause does not hold."""


def assess_targets_over_limit(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against targets over the limit.

    They are fuller than flash and block allocator can handle. The effects on writes are the drives'
    garbage collection and the allocator's search, which are causes of their own; this one states
    that fullness itself changed with the incident [S1, IV.A.5 and V; S2].
    """
    seen, limit = observe(context), context.limits.fullness
    full = seen.fullness()
    bad = full.filter("bad")
    if bad.is_empty():
        why = seen.why_not("used_bytes", kinds=("ost", "file-system"))
        missing = (sign.not_available(why) for sign in (_OVER_NOW, _SHARE, _BETWEEN))
        return (*missing, writes_and_reads(context))
    over = flags(full, pl.col("value") > limit)
    worst = targets_of(over)
    return (
        _over_now(bad, limit, worst),
        _over_in_time(full, over, limit, worst),
        timing(context, over, _OVER_LIMIT),
        _slow_ones(context, full, worst),
        writes_and_reads(context),
    )  # fmt: skip


def _over_now(bad: pl.DataFrame, limit: float, worst: tuple[str, ...]) -> Evidence:
    fullest = float(bad["value"].max() or 0.0)  # pyrefly: ignore[bad-argument-type]
    n = bad["target"].n_unique()
    subject = f"{len(worst)} of {n} targets over the limit of {format_percent(limit, 0)}"
    over = 0.5 * _breadth(len(worst), n)
    contrast = expected(fullest, limit, over=over, under=_NONE_OVER, scale=0.01)
    return _OVER_NOW.of(contrast, f"{with_names(subject, worst)}; the fullest", targets=worst)


def _slow_ones(context: Context, full: pl.DataFrame, worst: tuple[str, ...]) -> Evidence:
    contrast = between_targets(
        full, breadth(context), by=_FULLER, present_from=context.limits.fullness, absent=-0.8
    )
    of_all = _breadth(len(worst), full["target"].n_unique())
    contrast = contrast if worst else _not_for(contrast)
    return _BETWEEN.of(_shrunk(contrast, of_all), "fullness", targets=worst)


def _not_for(contrast: Contrast) -> Contrast:
    return replace(contrast, weight=min(contrast.weight, 0.0))


def _shrunk(contrast: Contrast, of_all: float) -> Contrast:
    return replace(contrast, weight=contrast.weight * (of_all if contrast.weight > 0 else 1.0))


def _breadth(over: int, of: int) -> float:
    """Return how much of the evidence counts when this many targets are over the limit.

    One full target slows those who write to it; that is `target-filling`. A few can make
    all feel it: from 1 in 50, a file over all targets is sure to hit several.
    """
    return min(1.0, 0.4 + 0.6 * over / max(3.0, of / 50))


def _over_in_time(
    full: pl.DataFrame, over: pl.DataFrame, limit: float, worst: tuple[str, ...]
) -> Evidence:
    """Return whether more targets were over the limit, or the fullest got fuller."""
    n = full["target"].n_unique()
    least = 0.5 / max(1, n)
    more = in_time(over, over="mean", ratio=_TWICE, by=least, present_from=least, absent=-0.6)
    fuller = in_time(full, over="max", by=_FULLER, present_from=limit, absent=-0.6)
    of_all = _breadth(len(worst), n)
    if not worst:
        # A target that is fuller than before but under the limit is not over it.
        more, fuller = _not_for(more), _not_for(fuller)
    more, fuller = _shrunk(more, of_all), _shrunk(fuller, of_all)
    return heavier(
        _SHARE.of(more, "share of targets over the limit", targets=worst),
        _SHARE.of(fuller, "the fullest target", code="fullest-in-time", targets=worst),
    )


TARGETS_OVER_LIMIT: Final = Cause(
    id="targets-over-limit",
    title="targets over the fullness limit",
    prior=0.17,  # 0 to 4 of the 13 bad days, as the text is read: 2
    assess=assess_targets_over_limit,
    slows_metadata=False,
    signs=("over-limit-share", "fullest-in-time", "fullness-between-targets"),
    measurement=(
        "Bring one target under the limit (purge or lfs migrate, then trim it) and measure it "
        "beside one as full that is left alone."
    ),
    brings_about=("few-targets-open", "garbage-collection", "allocator-loops"),
)


_OPEN_SOURCE: Final = "create_enabled, read_only"
_CLOSED_TARGETS: Final = "targets closed to new files"
_CLOSED_NOW: Final = Sign(
    "closed-now", Route.EXPECTED, f"share of {_CLOSED_TARGETS}", source=_OPEN_SOURCE, unit="1"
)
_IN_TIME: Final = Sign(
    "closed-in-time",
    Route.TIME,
    f"{_CLOSED_TARGETS} in bad and good hours",
    source=_OPEN_SOURCE,
    unit="1",
)
_WHY: Final = Sign("why-closed", Route.EXPECTED, "why targets are closed")
_MANY: Final = 0.25
"""Creating a file of the usual layout needs three quarters of the requested targets, or fails
[S8, lod_qos.c, lod_stripe_count_min]: with a quarter closed, layouts break and each open target
gets a third more."""
_SOME: Final = 0.05
_FEW_CLOSED: Final = 0.3
_POLICY: Final = frozenset({"journal", "policy", "trimtab", "act"})
"""Sources of entries written by a policy, not by a person."""


def assess_few_targets_open(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against too few open targets.

    Closing full targets is a cure that can become the cause: three of NERSC's bad days came when
    load balancing had left about 50 of 298 OSTs open [S1, VII]. Ways to close a target: [S8,
    osp_precreate.c and lod_qos.c].
    """
    seen = observe(context)
    closed = _closed(seen)
    share = _share(closed)
    if share is None:
        why = seen.why_not("create_enabled", kinds=OSTS)
        return (
            _CLOSED_NOW.not_available(why),
            _IN_TIME.not_available(why),
            _logged(context),
            _WHY.not_available(why, source=_OPEN_SOURCE),
            _enough(context, None),
        )
    names = targets_of(closed)
    mean = in_time(closed, over="mean", by=_SOME, present_from=_SOME, absent=-0.7)
    if share < _MANY:
        # One closed target among many leaves enough: it only explains why that one is idle.
        mean = replace(mean, weight=min(mean.weight, _FEW_CLOSED))
    many_closed = flags(_at_each_time(closed), pl.col("value") >= max(_SOME, share / 2))
    return (
        _closed_now(share, names, closed),
        _IN_TIME.of(mean, f"share of {_CLOSED_TARGETS}", targets=names),
        timing(context, many_closed, f"{len(names)} {_CLOSED_TARGETS}"),
        _for_one_mdt(seen),
        _logged(context),
        _why_closed(context, seen, names),
        _enough(context, 1 - share),
    )


def _closed(seen: Observations) -> pl.DataFrame:
    """Return the closed share of each OST over time: 1 if closed by the server or by all MDTs.

    A target that one of several MDTs does not use still accepts files from the others.
    """
    rows = flags(seen.labelled("create_enabled", kinds=OSTS), pl.col("value") > 0.5)
    mdts = max(1, seen.values("create_enabled", kinds=MDTS)["target"].n_unique())
    overall = pl.col("label").is_null()
    creation = (
        rows.group_by("at", "target", "bad")
        .agg(
            whole=pl.col("value").filter(overall).min(),
            parts=(1 - pl.col("value")).filter(~overall).sum(),
            n=(~overall).sum(),
        )
        .with_columns(
            value=pl.when(pl.col("whole") == 0)
            .then(1.0)
            .when(pl.col("whole").is_not_null())
            .then((pl.col("parts") / pl.max_horizontal("n", pl.lit(mdts))).clip(0, 0.5))
            .otherwise(pl.col("parts") / pl.max_horizontal("n", pl.lit(1)))
        )
        .select("at", "target", "bad", "value")
    )
    flag = seen.values("read_only", kinds=OSTS).select("at", "target", "bad", "value")
    read_only = flags(flag, pl.col("value") > 0.5).filter(pl.col("value") > 0)
    both = pl.concat([creation, read_only])
    return both.group_by("at", "target", "bad").agg(pl.max("value")).sort("at", "target")


def _share(closed: pl.DataFrame) -> float | None:
    """Return the median share of closed targets in the bad hours."""
    bad = _at_each_time(closed).filter("bad")["value"]
    return None if bad.is_empty() else float(bad.median() or 0.0)  # pyrefly: ignore[bad-argument-type]


def _at_each_time(closed: pl.DataFrame) -> pl.DataFrame:
    return closed.group_by("at", "bad").agg(pl.mean("value")).sort("at")


def _closed_now(share: float, names: tuple[str, ...], closed: pl.DataFrame) -> Evidence:
    n = closed["target"].n_unique()
    if not names:
        text = f"all {n} targets accept new files"
        return _CLOSED_NOW.weighed(text, -1.5, code="all-open", value=0.0, reference=_MANY)
    subject = (
        f"{len(names)} of {n} targets accepted no new files ({named(names)}); in the median hour"
    )
    contrast = expected(share, _MANY, over=1.0, under=-1.0, scale=0.15)
    return _CLOSED_NOW.of(contrast, subject, targets=names)


def _for_one_mdt(seen: Observations) -> Evidence:
    sign = Sign(
        "closed-for-one-mdt", Route.EXPECTED, "OSTs unused by a single MDT", "create_enabled"
    )
    rows = seen.labelled("create_enabled", kinds=OSTS).filter(pl.col("label").is_not_null())
    osts = seen.values("create_enabled", kinds=OSTS)["target"].n_unique()
    closed = rows.filter(value=0)
    by_mdt = (
        closed.group_by("label", "at", "bad")
        .agg(value=pl.len() / max(1, osts))
        .group_by("label", "bad")
        .agg(pl.median("value"))
    )
    bad, good = (
        dict(by_mdt.filter(bad=side).select("label", "value").iter_rows()) for side in (True, False)
    )
    if not bad:
        return sign.weighed(f"{sign.subject}: no data", 0.0)
    worst = max(bad, key=lambda mdt: (bad[mdt] - good.get(mdt, 0.0), mdt))
    more = bad[worst] - good.get(worst, 0.0)
    text = f"{worst} used {format_percent(bad[worst], 0)} of the OSTs for no new file; earlier "
    text += format_percent(good.get(worst, 0.0), 0)
    weight = 0.4 if more >= _MANY and bad[worst] >= _MANY else 0.0
    always = more < _SOME and bad[worst] >= _MANY
    return replace(sign, route=Route.TIME, unit="1").weighed(
        text, weight, value=bad[worst], reference=good.get(worst, 0.0), throughout=always
    )


def _logged(context: Context) -> Evidence:
    evidence = logged(context, (EventKind.TARGET_CLOSED,), "targets being closed", weight=0.6)
    by = [
        event
        for event in context.events
        if event.kind is EventKind.TARGET_CLOSED
        and event.source in _POLICY
        and context.incident.at - timedelta(days=14) <= event.at <= context.incident.at + SLACK
    ]
    if evidence.weight <= 0 or not by:
        return evidence
    text = f"{evidence.what} (by a policy: a mitigation, not a failure)"
    return replace(evidence, what=Message("closing-logged", text))


def _why_closed(context: Context, seen: Observations, names: tuple[str, ...]) -> Evidence:
    """Return whether the closed targets are the full ones: then the mitigation itself is felt.

    It weighs nothing: a good reason for closing makes it neither more nor less likely that it slows
    the file system. It links this cause to the fullness.
    """
    if not names:
        return _WHY.weighed("no target is closed", 0.0)
    bad = seen.fullness().filter(pl.col("bad") & pl.col("target").is_in(list(names)))
    by_target = bad.group_by("target").agg(pl.max("value"))
    if by_target.is_empty():
        return _WHY.not_available(seen.why_not("used_bytes", kinds=OSTS))
    full = by_target.filter(pl.col("value") > context.limits.reopen)["target"].to_list()
    code = "why-closed"
    text = (
        f"{len(full)} of the {len(names)} closed targets are over "
        f"{format_percent(context.limits.reopen, 0)} full"
    )
    if len(full) * 2 >= len(names):
        code = "closed-by-mitigation"
        text += ": closed because they were full; the mitigation itself is the cause"
    return _WHY.weighed(
        text,
        0.0,
        code=code,
        value=float(len(full)),
        reference=float(len(names)),
        targets=sorted(full),
        source="used_bytes",
    )


def _enough(context: Context, open_share: float | None) -> Evidence:
    sign = Sign("open-enough", Route.EXPECTED, "capacity of the open targets", unit="B/s")
    metric = "write_bandwidth" if context.incident.key is None else context.incident.key.metric
    usual = [v for run in of_incident(context, bad=False) if (v := value_of(context, run))]
    surveys = context.surveys
    if open_share is None or not usual or not {"metric", "value", "target"} <= set(surveys.columns):
        return sign.missing("level-unknown", "open targets, level or surveys unknown")
    rates = surveys.filter((pl.col("metric") == metric) & pl.col("value").is_not_null())
    if rates.is_empty():
        return sign.missing("no-survey", f"no survey measured {metric} of single targets")
    rate_of_one = float(rates["value"].median() or 0.0)  # pyrefly: ignore[bad-argument-type]
    n = rates["target"].n_unique()
    level = sorted(usual)[len(usual) // 2]
    carried = rate_of_one * n * open_share
    text = (
        f"{open_share * n:.0f} open targets carry {format_bytes_per_s(carried)} at most; the "
        f"probe usually reaches {format_bytes_per_s(level)}"
    )
    # Others write too: with less than twice its own rate left, the probe does not get all of it.
    weight = 0.6 if carried < level else 0.3 if carried < 2 * level else -0.2
    return sign.weighed(text, weight if open_share < 1 else 0.0, value=carried, reference=level)


FEW_TARGETS_OPEN: Final = Cause(
    id="few-targets-open",
    title="too few targets open for new files",
    prior=0.3,  # 3 of the 13 bad days
    assess=assess_few_targets_open,
    slows_metadata=False,
    signs=("closed-now", "closed-in-time", "closed-for-one-mdt", "event-logged", "closing-logged"),
    measurement="See which targets take no new files (trimtab targets SITE).",
    measurement_where=(
        (
            "closed-now",
            "Open the least full of the closed targets until at most a quarter is closed, for a "
            "day, and see whether the next runs of the probe recover.",
        ),
    ),
    mitigation=True,
)
