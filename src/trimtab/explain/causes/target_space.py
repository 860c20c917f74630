"""Causes in the space of targets: `target-filling` and `targets-over-limit`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.failure import Failure
from trimtab.base.incident import Against, Evidence, Route
from trimtab.base.units import format_percent
from trimtab.explain.breadth import breadth, survey_view
from trimtab.explain.causes.evidence import (
    flags,
    heavier,
    named,
    targets_of,
    timing,
    with_names,
    writes_and_reads,
)
from trimtab.explain.causes.failed_runs import failed_with
from trimtab.explain.context import Cause, Context, always_at
from trimtab.explain.contrast import Contrast, Sign, between_targets, expected, in_time
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import OSTS, observe

_SOURCE: Final = "used_bytes, available_bytes"
_ALONE: Final = Sign(
    "filled-alone", Route.TARGETS, "a target that fills far faster than the others",
    source=_SOURCE, unit="1", view=View.TARGETS,
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
_NO_SPACE: Final = 2.0
"""Runs fail with ENOSPC where a target is full, has no inodes left or, rarely, no grant: 60 to 1.
Half of it for a single target that fills, whose files most runs do not write."""
_NEARLY_FULL: Final = 0.95
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
        missing = (
            replace(_ALONE, subject=subject, route=route).not_available(why)
            for subject, route in (
                (_ALONE.subject, Route.TARGETS), ("fullness reached", Route.EXPECTED),
                ("whether it is slow", Route.TARGETS), ("onset of the growth", Route.TIME),
            )
        )  # fmt: skip
        return (*missing, _without_space(context, full, most=_NO_SPACE / 2))
    return (
        _beyond_others(growth),
        _reached(context, growth),
        _slow_itself(context, growth),
        _more_than_before(full, growth),
        _when(context, full, growth),
        _without_space(context, full, most=_NO_SPACE / 2),
    )


def _without_space(context: Context, full: pl.DataFrame, *, most: float) -> Evidence:
    """Return whether runs failed for want of space.

    Where a snapshot of the bad hours shows no target nearly full, what ran out may be inodes.
    """
    bad = full.filter("bad")["value"]
    room = not bad.is_empty() and float(bad.max() or 0.0) < _NEARLY_FULL  # pyrefly: ignore[bad-argument-type]
    most = most / 2 if room else most
    return failed_with(
        context, (Failure.NO_SPACE,), "no space left", code="runs-without-space", most=most
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
    return _ALONE.of(
        contrast, subject, code="fullness-reached", targets=growth.targets,
        against=Against.CONDITION,
    )  # fmt: skip


def _slow_itself(context: Context, growth: _Growth) -> Evidence:
    sign = Sign(
        "full-and-slow",
        Route.TARGETS,
        f"whether {named(growth.targets)} is slow",
        view=survey_view(context),
    )
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
    others = bool(around.slow) and around.explains
    return sign.weighed(
        text, -0.7 if others else -0.3, code="full-not-slow", targets=growth.targets,
        against=Against.RIVAL if others else Against.ABSENT,
    )  # fmt: skip


def _more_than_before(full: pl.DataFrame, growth: _Growth) -> Evidence:
    sign = Sign(
        "fuller-than-day-before",
        Route.TIME,
        f"fullness of {named(growth.targets)}",
        view=View.TARGETS,
    )
    if not growth.stands_out:
        return sign.weighed("no single target became fuller", 0.0)
    of_them = full.filter(pl.col("target").is_in(list(growth.targets)))
    contrast = in_time(of_them, over="max", by=_GROWN, absent=-0.5)
    return sign.of(contrast, unit="1", source=_SOURCE, targets=growth.targets)


def _when(context: Context, full: pl.DataFrame, growth: _Growth) -> Evidence:
    """Return whether it had begun to fill when the first bad runs came."""
    if not growth.stands_out:
        return Sign("filled-never", Route.TIME, view=View.TARGETS).weighed(
            "no single target filled", 0.0
        )
    of_them = full.filter(pl.col("target").is_in(list(growth.targets)))
    usual = pl.col("target").replace_strict(growth.usual, return_dtype=pl.Float64)
    begun = flags(of_them, pl.col("value") - usual > growth.beyond / 4)
    return timing(context, begun, f"{named(growth.targets)} filling up", view=View.TARGETS)


TARGET_FILLING: Final = Cause(
    id="target-filling",
    title="one target filling fast",
    prior=0.08,  # 1 of the 13 bad days
    assess=assess_target_filling,
    acts_on=always_at("target"),
    slows_metadata=False,
    signs=("filled-alone",),
    measurement=(
        "Find the files that grow on the target (lfs find --ost, job statistics of its writers), "
        "stop or restripe them, and see whether the next runs recover."
    ),
    brings_about=("few-targets-open",),
)


_OVER_LIMIT: Final = "targets over the fullness limit"
_OVER_NOW: Final = Sign(
    "over-limit-now", Route.EXPECTED, _OVER_LIMIT, source=_SOURCE, unit="1", view=View.TARGETS
)
_SHARE: Final = Sign(
    "over-limit-share",
    Route.TIME,
    f"{_OVER_LIMIT} in bad and good hours",
    source=_SOURCE,
    unit="1",
    view=View.TARGETS,
)
_BETWEEN: Final = Sign(
    "fullness-between-targets", Route.TARGETS, f"{_OVER_LIMIT} among slow and fast",
    source=_SOURCE, unit="1", view=View.TARGETS,
)  # fmt: skip
FULLEST: Final = "fullest-target-at-most"
"""Quantity: the fullest target of any snapshot of the bad hours."""
_TYPICAL: Final = "in the median six hours"
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
        return (*missing, writes_and_reads(context), _without_space(context, full, most=_NO_SPACE))
    over = flags(full, pl.col("value") > limit)
    worst = targets_of(over)
    return (
        _over_now(bad, limit, worst),
        _over_in_time(full, over, limit, worst),
        timing(context, over, _OVER_LIMIT, view=View.TARGETS),
        _slow_ones(context, full, worst),
        writes_and_reads(context),
        _without_space(context, full, most=_NO_SPACE),
    )  # fmt: skip


def _over_now(bad: pl.DataFrame, limit: float, worst: tuple[str, ...]) -> Evidence:
    fullest = float(bad["value"].max() or 0.0)  # pyrefly: ignore[bad-argument-type]
    n = bad["target"].n_unique()
    subject = f"{len(worst)} of {n} targets over the limit of {format_percent(limit, 0)} at some "
    subject += "time in the bad hours"
    over = 0.5 * _breadth(len(worst), n)
    contrast = expected(fullest, limit, over=over, under=_NONE_OVER, scale=0.01)
    return _OVER_NOW.of(
        contrast, f"{with_names(subject, worst)}; the fullest", targets=worst,
        against=Against.CONDITION, quantity=FULLEST,
    )  # fmt: skip


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
    more, fuller = (
        replace(_shrunk(contrast, of_all), statistic=_TYPICAL) for contrast in (more, fuller)
    )
    return heavier(
        _SHARE.of(
            more, "share of targets over the limit", targets=worst,
            quantity="share-over-limit-in-median-stretch",
        ),
        _SHARE.of(
            fuller, "the fullest target", code="fullest-in-time", targets=worst,
            quantity="fullest-target-in-median-stretch",
        ),
    )  # fmt: skip


TARGETS_OVER_LIMIT: Final = Cause(
    id="targets-over-limit",
    title="targets over the fullness limit",
    prior=0.17,  # 0 to 4 of the 13 bad days, as the text is read: 2
    assess=assess_targets_over_limit,
    acts_on=always_at("target"),
    slows_metadata=False,
    signs=(
        "over-limit-share",
        "fullest-in-time",
        "fullness-between-targets",
        "runs-without-space",
    ),
    measurement=(
        "Bring one target under the limit (purge or lfs migrate, then trim it) and measure it "
        "beside one as full that is left alone."
    ),
    brings_about=("few-targets-open", "garbage-collection", "allocator-loops"),
)
