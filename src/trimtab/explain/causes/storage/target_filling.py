"""`target-filling`: one target, or a few, fill up much faster than the others.

A single OST that filled very quickly caused one of NERSC's bad days [S1, VII]: a runaway job, or a
file striped over too few targets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.incident import Evidence, Route
from trimtab.base.units import format_percent
from trimtab.explain.causes.evidence import flags, named, timing
from trimtab.explain.context import Cause, Context
from trimtab.explain.contrast import Sign, breadth, expected, in_time
from trimtab.explain.telemetry_frame import OSTS, observe

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


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a target that fills by itself."""
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


CAUSE: Final = Cause(
    id="target-filling",
    title="one target filling fast",
    prior=0.08,  # 1 of the 13 bad days
    assess=assess,
    slows_metadata=False,
    signs=("filled-alone",),
    measurement=(
        "Find the files that grow on the target (lfs find --ost, job statistics of its writers), "
        "stop or restripe them, and see whether the next runs recover."
    ),
    brings_about=("few-targets-open",),
)
