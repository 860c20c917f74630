"""`garbage-collection`: drives collect garbage while they are written.

A few requests then take orders of magnitude longer, at other times on each of a target's drives,
and the stripe waits for the slowest (000, IV A; ``facts/seeds.md`` 7, 9). This is the drives'
route to "slow from 75 % full": it shows in the drives' own count of what they wrote and in the
tail, costs no server CPU, and goes away with a trim; the allocator's does the opposite in each
(``facts/flash.md`` f, reading 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trimtab.explain.breadth import breadth
from trimtab.explain.causes.allocator import cpu_share_of_allocator, cpu_up, useless_per_request
from trimtab.explain.causes.cause import Cause
from trimtab.explain.causes.runs import latency_tail, writes_and_reads
from trimtab.explain.causes.shared import UNSEEN
from trimtab.explain.causes.trims import recovery_evidence
from trimtab.explain.context import Context
from trimtab.explain.contrasts import between_targets, expected, in_time, not_available, weighed
from trimtab.explain.findings.drive_write_amplification import LIMIT
from trimtab.explain.telemetry import OSTS, Observations, observe
from trimtab.model.incident import Evidence, Route
from trimtab.units import format_percent

if TYPE_CHECKING:
    import polars as pl

_AMPLIFICATION: Final = "drive_write_amplification"
_LIFELONG: Final = 0.001
"""From snapshot to snapshot. An hour is one in ten thousand of a drive's life."""
_MORE: Final = 1.1
"""A tenth more written by the drives than before. Where the drives are the limit that is a tenth
of the bandwidth (``facts/flash.md`` f: D / WA)."""
_KNEE: Final = 0.65
"""Fullness from which garbage collection can be the limit. The crossing lies at 66 % without
trims and at 83 % with nightly ones and more drives (``facts/flash.md`` f, reading 3)."""


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against garbage collection during writes."""
    seen = observe(context)
    return (
        *_amplified(context, seen),
        latency_tail(context),
        recovery_evidence(context, speaks_for=True),
        _full(seen),
        _no_cpu(seen),
        _no_loops(context, seen),
        writes_and_reads(context),
    )


def _amplified(context: Context, seen: Observations) -> tuple[Evidence, ...]:
    """Return what the drives' own figures say, three ways."""
    import polars as pl

    subject = "write amplification of the drives"
    figures = seen.values(_AMPLIFICATION)
    bad = figures.filter(pl.col("bad"))
    if bad.is_empty():
        why = seen.why_not(_AMPLIFICATION)
        return (
            not_available("amplification-in-time", subject, Route.TIME, why, source=_AMPLIFICATION),
            not_available(
                "amplification-between-targets",
                f"{subject}, slow and fast targets",
                Route.TARGETS,
                why,
            ),
        )
    per_target = bad.group_by("target").agg(pl.col("value").median())
    middle = float(per_target.get_column("value").median() or 0.0)  # pyright: ignore[reportArgumentType]
    # A figure over the drive's whole life hardly moves, whatever the drives do now.
    lifelong = _hardly_moves(figures)
    time = in_time(figures, over="mean", ratio=_MORE, absent=0.0 if lifelong else -0.5)
    limit = expected(middle, LIMIT, over=0.6, under=-0.2, scale=0.25)
    return (
        time.evidence("amplification-in-time", subject, unit="B/B", source=_AMPLIFICATION),
        between_targets(
            figures, breadth(context), ratio=_MORE, absent=0.0 if lifelong else -0.7
        ).evidence("amplification-between-targets", subject, unit="B/B", source=_AMPLIFICATION),
        limit.evidence(
            "amplification-over-limit",
            f"{subject}, the median target",
            unit="B/B",
            source=_AMPLIFICATION,
        ),
    )


def _hardly_moves(figures: pl.DataFrame) -> bool:
    """Return whether the figures of most targets change less than a figure of an hour would."""
    import polars as pl

    step = (pl.col("value").diff().over("target") / pl.col("value")).abs()
    steps = figures.sort("target", "at").select(step.drop_nulls()).to_series()
    typical = steps.median()
    return isinstance(typical, float) and typical < _LIFELONG


def _full(seen: Observations) -> Evidence:
    """Return whether the targets are so full that drives run out of room to collect."""
    import polars as pl

    subject = "fullness of the median target"
    bad = seen.fullness().filter(pl.col("bad"))
    if bad.is_empty():
        why = seen.why_not("used_bytes", kinds=OSTS)
        return not_available(
            "fullness-for-collection", subject, Route.EXPECTED, why, source="used_bytes"
        )
    per_target = bad.group_by("target").agg(pl.col("value").max())
    high = float(per_target.get_column("value").quantile(0.75) or 0.0)
    contrast = expected(high, _KNEE, over=0.3, under=-0.6, scale=0.05)
    return contrast.evidence(
        "fullness-for-collection",
        "fullness of the fuller quarter of targets",
        unit="1",
        source="used_bytes, available_bytes",
    )


def _no_cpu(seen: Observations) -> Evidence:
    """Return whether the servers' processors stayed as they were: drives need none of them."""
    contrast = cpu_up(seen, absent=0.0)
    if contrast.reason is not None:
        return contrast.evidence(
            "server-cpu", "server CPU", why_not=seen.why_not("server_cpu_fraction")
        )
    rose = contrast.weight > 0
    text = f"server CPU, unused by garbage collection: {contrast.in_words('1')}"
    weight = -min(0.6, contrast.weight) if rose else 0.2
    return weighed(
        "server-cpu",
        text,
        Route.EXPECTED,
        weight,
        value=contrast.value,
        reference=contrast.reference,
        unit="1",
        at=contrast.at,
        source="server_cpu_fraction",
    )


def _no_loops(context: Context, seen: Observations) -> Evidence:
    """Return whether the block allocator explains it as well: profile first, then its counters."""
    share = cpu_share_of_allocator(context)
    if share is not None and share >= 0.1:
        text = f"{format_percent(share, 0)} of the server's samples are in the block allocator"
        return weighed(
            "allocator-cpu-share",
            text,
            Route.EXPECTED,
            -0.5,
            value=share,
            reference=0.1,
            unit="1",
            source="CPU profile",
        )
    subject = "useless loops of the block allocator per request"
    loops = useless_per_request(seen)
    contrast = in_time(loops, ratio=2.0, by=0.01, absent=0.0)
    if contrast.reason is not None:
        why = seen.why_not("allocator_useless_loops_total", kinds=OSTS)
        return contrast.evidence("loops-in-time", subject, why_not=why)
    return weighed(
        "loops-in-time",
        f"{subject}: {contrast.in_words()}",
        Route.EXPECTED,
        -0.5 * min(1.0, contrast.weight) if contrast.weight > 0 else 0.1,
        value=contrast.value,
        reference=contrast.reference,
        source="allocator_useless_loops_total",
    )


CAUSE: Final = Cause(
    id="garbage-collection",
    title="garbage collection in the drives during writes",
    prior=UNSEEN,
    assess=assess,
    measurement=(
        "Trim one slow target and measure it at once beside an untrimmed one. If writes recover "
        "and server CPU does not fall, the drives were the limit."
    ),
    brings_about=("writeback-throttling",),
)
