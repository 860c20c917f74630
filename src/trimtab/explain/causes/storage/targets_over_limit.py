"""`targets-over-limit`: targets fuller than flash and block allocator can handle.

Its effects on writes are the drives' garbage collection and the allocator's search, which are
causes of their own; this one states that fullness itself changed with the incident. Source:
[S1, IV.A.5 and V; S2].
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from trimtab.base.incident import Evidence, Route
from trimtab.base.units import format_percent
from trimtab.explain.causes.evidence import flags, heavier, targets_of, timing, with_names
from trimtab.explain.causes.run_evidence import writes_and_reads
from trimtab.explain.context import Cause, Context
from trimtab.explain.contrast import Contrast, Sign, between_targets, breadth, expected, in_time
from trimtab.explain.telemetry_frame import observe

_SOURCE: Final = "used_bytes, available_bytes"
_WHAT: Final = "targets over the fullness limit"
_NOW: Final = Sign("over-limit-now", Route.EXPECTED, _WHAT, source=_SOURCE, unit="1")
_SHARE: Final = Sign(
    "over-limit-share", Route.TIME, f"{_WHAT} in bad and good hours", source=_SOURCE, unit="1"
)
_BETWEEN: Final = Sign(
    "fullness-between-targets", Route.TARGETS, f"{_WHAT} among slow and fast",
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


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against targets over the limit."""
    seen, limit = observe(context), context.limits.fullness
    full = seen.fullness()
    bad = full.filter("bad")
    if bad.is_empty():
        why = seen.why_not("used_bytes", kinds=("ost", "file-system"))
        missing = (sign.not_available(why) for sign in (_NOW, _SHARE, _BETWEEN))
        return (*missing, writes_and_reads(context))
    over = flags(full, pl.col("value") > limit)
    worst = targets_of(over)
    return (
        _now(bad, limit, worst),
        _in_time(full, over, limit, worst),
        timing(context, over, _WHAT),
        _slow_ones(context, full, worst),
        writes_and_reads(context),
    )  # fmt: skip


def _now(bad: pl.DataFrame, limit: float, worst: tuple[str, ...]) -> Evidence:
    fullest = float(bad["value"].max() or 0.0)  # pyrefly: ignore[bad-argument-type]
    n = bad["target"].n_unique()
    subject = f"{len(worst)} of {n} targets over the limit of {format_percent(limit, 0)}"
    over = 0.5 * _breadth(len(worst), n)
    contrast = expected(fullest, limit, over=over, under=_NONE_OVER, scale=0.01)
    return _NOW.of(contrast, f"{with_names(subject, worst)}; the fullest", targets=worst)


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


def _in_time(
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


CAUSE: Final = Cause(
    id="targets-over-limit",
    title="targets over the fullness limit",
    prior=0.17,  # 0 to 4 of the 13 bad days, as the text is read: 2
    assess=assess,
    slows_metadata=False,
    signs=("over-limit-share", "fullest-in-time", "fullness-between-targets"),
    measurement=(
        "Bring one target under the limit (purge or lfs migrate, then trim it) and measure it "
        "beside one as full that is left alone."
    ),
    brings_about=("few-targets-open", "garbage-collection", "allocator-loops"),
)
