"""`targets-over-limit`: targets fuller than flash and block allocator bear.

What it does to writes is the drives' garbage collection and the allocator's search, which have
causes of their own; this one says that the fullness itself changed with the incident. Source:
``facts/seeds.md`` 9, 19, 46; seed 000, IV A 5 and V.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trimtab.explain.breadth import breadth
from trimtab.explain.causes.cause import Cause
from trimtab.explain.causes.runs import writes_and_reads
from trimtab.explain.causes.shared import flags, heavier, named, targets_of, timing
from trimtab.explain.context import Context
from trimtab.explain.contrasts import Contrast, between_targets, expected, in_time, not_available
from trimtab.explain.telemetry import observe
from trimtab.model.incident import Evidence, Route
from trimtab.units import format_percent

if TYPE_CHECKING:
    import polars as pl

_SOURCE: Final = "used_bytes, available_bytes"
_WHAT: Final = "targets over the fullness limit"
_FULLER: Final = 0.02
"""Two points more of fullness. 75 to 85 % full takes a quarter of the writes in the simulation of
``facts/flash.md`` (f), so two points take a twentieth."""
_TWICE: Final = 2.0
"""Where targets were over the limit before as well, so many times as many: one that passes it has
hardly more to bear than a day earlier, and the fullest are those that a file waits for."""
_NONE_OVER: Final = -1.5
"""No target over its limit: what the cause says is not so."""


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against targets over the limit."""
    import polars as pl

    seen, limit = observe(context), context.limits.fullness
    full = seen.fullness()
    bad = full.filter(pl.col("bad"))
    if bad.is_empty():
        why = seen.why_not("used_bytes", kinds=("ost", "file-system"))
        return (
            not_available("over-limit-now", _WHAT, Route.EXPECTED, why, source=_SOURCE),
            not_available(
                "over-limit-share",
                f"{_WHAT} in bad and good hours",
                Route.TIME,
                why,
                source=_SOURCE,
            ),
            not_available(
                "fullness-between-targets",
                f"{_WHAT} among slow and fast",
                Route.TARGETS,
                why,
                source=_SOURCE,
            ),
            writes_and_reads(context),
        )
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
    fullest = float(bad.get_column("value").max() or 0.0)  # pyright: ignore[reportArgumentType]
    n = bad.get_column("target").n_unique()
    subject = f"{len(worst)} of {n} targets over the limit of {format_percent(limit, 0)}"
    if worst:
        subject += f" ({named(worst)})"
    over = 0.5 * _breadth(len(worst), n)
    contrast = expected(fullest, limit, over=over, under=_NONE_OVER, scale=0.01)
    return contrast.evidence(
        "over-limit-now", f"{subject}; the fullest", unit="1", source=_SOURCE, targets=worst
    )


def _slow_ones(context: Context, full: pl.DataFrame, worst: tuple[str, ...]) -> Evidence:
    contrast = between_targets(
        full, breadth(context), by=_FULLER, present_from=context.limits.fullness, absent=-0.8
    )
    of_all = _breadth(len(worst), full.get_column("target").n_unique())
    return _shrunk(contrast, of_all).evidence(
        "fullness-between-targets", "fullness", unit="1", source=_SOURCE, targets=worst
    )


def _shrunk(contrast: Contrast, of_all: float) -> Contrast:
    return replace(contrast, weight=contrast.weight * (of_all if contrast.weight > 0 else 1.0))


def _breadth(over: int, of: int) -> float:
    """Return what part of the evidence stands when so many targets are over the limit.

    One full target slows those that write to it; that is `target-filling`'s to say. Few can make
    the limit felt by all: from 1 in 50 on a file over all targets is sure to meet several.
    """
    return min(1.0, 0.4 + 0.6 * over / max(3.0, of / 50))


def _in_time(
    full: pl.DataFrame, over: pl.DataFrame, limit: float, worst: tuple[str, ...]
) -> Evidence:
    """Return whether more targets were over the limit, or the fullest got fuller."""
    n = full.get_column("target").n_unique()
    least = 0.5 / max(1, n)
    more = in_time(over, over="mean", ratio=_TWICE, by=least, present_from=least, absent=-0.6)
    fuller = in_time(full, over="max", by=_FULLER, present_from=limit, absent=-0.6)
    parts = (
        (more, "over-limit-share", "share of targets over the limit"),
        (fuller, "fullest-in-time", "the fullest target"),
    )
    of_all = _breadth(len(worst), n)
    return heavier(
        *(
            _shrunk(contrast, of_all).evidence(
                code, subject, unit="1", source=_SOURCE, targets=worst
            )
            for contrast, code, subject in parts
        )
    )


CAUSE: Final = Cause(
    id="targets-over-limit",
    title="targets over the fullness limit",
    prior=0.17,  # 0 to 4 of the 13 bad days, as the text is read: 2
    assess=assess,
    measurement=(
        "Bring one target under the limit (purge or lfs migrate, then trim it) and measure it "
        "beside one as full that is left alone."
    ),
    brings_about=("few-targets-open", "garbage-collection", "allocator-loops"),
)
