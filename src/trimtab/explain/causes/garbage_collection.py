"""`garbage-collection`: the drives collect garbage during writes.

Some requests then take orders of magnitude longer, at different times on each drive of a target,
and the stripe waits for the slowest [S1, IV.A; S2]. This is the drives' route to "slow from 75 %
full": it shows in the drives' own write counters and in the tail, costs no server CPU, and goes
away with a trim; the allocator's route is the opposite in every respect [S10].
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from trimtab.base.incident import Against, Evidence, Found, Route
from trimtab.base.units import format_percent
from trimtab.explain.breadth import breadth
from trimtab.explain.causes.evidence import (
    UNSEEN,
    disks,
    latency_tail,
    writes_and_reads,
)
from trimtab.explain.causes.server_load import (
    CPU,
    LOOPS,
    PROFILE,
    cpu_share_of_allocator,
    cpu_up,
    per_request,
)
from trimtab.explain.causes.trim_history import recovery_evidence, trims
from trimtab.explain.context import Cause, Context, always_at
from trimtab.explain.contrast import Sign, between_targets, expected, in_time
from trimtab.explain.drive_finding import AMPLIFICATION_LIMIT
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import OSTS, Observations, observe

_AMPLIFICATION: Final = "drive_write_amplification"
_WRITTEN: Final = "write amplification of the drives"
_IN_TIME: Final = Sign(
    "amplification-in-time",
    Route.TIME,
    _WRITTEN,
    source=_AMPLIFICATION,
    unit="B/B",
    view=View.DRIVES,
)
_BETWEEN: Final = Sign(
    "amplification-between-targets", Route.TARGETS, _WRITTEN, unit="B/B", view=View.DRIVES
)
_LIFELONG: Final = 0.001
"""Per snapshot interval. An hour is one ten-thousandth of a drive's life."""
_MORE: Final = 1.1
"""Drives write a tenth more than before. If the drives are the limit, that costs a tenth of the
bandwidth (drive rate over write amplification)."""
_KNEE: Final = 0.65
"""Fullness from which garbage collection can be the limit. The crossing is at 66 % without trims
and at 83 % with nightly trims and more drives [S10]."""


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against garbage collection during writes."""
    seen = observe(context)
    on_disks = disks(context)
    if on_disks is not None:
        return (on_disks,)
    recovered = recovery_evidence(context, speaks_for=True)
    if recovered.found is Found.AGAINST and _went_on(context, seen):
        recovered = replace(recovered, found=Found.NEUTRAL, weight=0.0, against=None)
    return (
        *_amplified(context, seen),
        latency_tail(context),
        recovered,
        _full(seen),
        _no_cpu(seen),
        _no_loops(context, seen),
        writes_and_reads(context),
    )


def _went_on(context: Context, seen: Observations) -> bool:
    """Return whether write amplification stayed high after a trim within the bad hours.

    Where users overwrite in small pieces a trim frees little: neither drives nor runs recover.
    """
    trimmed = [event.end for event in trims(context) if event.at >= context.incident.at]
    if not trimmed:
        return False
    figures = seen.write_amplification()
    after = figures.filter(pl.col("bad") & (pl.col("at") > min(trimmed)))["value"].median()
    usual = figures.filter(~pl.col("bad"))["value"].median()
    return isinstance(after, float) and isinstance(usual, float) and after >= _MORE * usual


def _amplified(context: Context, seen: Observations) -> tuple[Evidence, ...]:
    """Return what the drives' own counters show, in three ways."""
    figures = seen.write_amplification()
    bad = figures.filter("bad")
    if bad.is_empty():
        why = seen.why_not(_AMPLIFICATION)
        apart = _BETWEEN.not_available(why, subject=f"{_WRITTEN}, slow and fast targets")
        return (_IN_TIME.not_available(why), apart)
    per_target = bad.group_by("target").agg(pl.median("value"))
    middle = float(per_target["value"].median() or 0.0)  # pyrefly: ignore[bad-argument-type]
    # A lifetime figure hardly moves, whatever the drives are doing now.
    absent = (0.0, 0.0) if _hardly_moves(figures) else (-0.5, -0.7)
    limit = expected(middle, AMPLIFICATION_LIMIT, over=0.6, under=-0.2, scale=0.25)
    return (
        _IN_TIME.of(in_time(figures, over="mean", ratio=_MORE, absent=absent[0])),
        _BETWEEN.of(
            between_targets(figures, breadth(context), ratio=_MORE, absent=absent[1]),
            source=_AMPLIFICATION,
        ),
        _IN_TIME.of(limit, f"{_WRITTEN}, the median target", code="amplification-over-limit"),
    )


def _hardly_moves(figures: pl.DataFrame) -> bool:
    """Return whether most targets' figures change less than an hourly figure would."""
    step = (pl.col("value").diff().over("target") / pl.col("value")).abs()
    steps = figures.sort("target", "at").select(step.drop_nulls()).to_series()
    typical = steps.median()
    return isinstance(typical, float) and typical < _LIFELONG


def _full(seen: Observations) -> Evidence:
    sign = Sign(
        "fullness-for-collection",
        Route.EXPECTED,
        "fullness of the median target",
        source="used_bytes, available_bytes",
        unit="1",
        view=View.TARGETS,
    )
    bad = seen.fullness().filter("bad")
    if bad.is_empty():
        return sign.not_available(seen.why_not("used_bytes", kinds=OSTS), source="used_bytes")
    per_target = bad.group_by("target").agg(pl.max("value"))
    high = float(per_target["value"].quantile(0.75) or 0.0)
    contrast = expected(high, _KNEE, over=0.3, under=-0.6, scale=0.05)
    return sign.of(
        contrast, subject="fullness of the fuller quarter of targets", against=Against.CONDITION
    )


def _no_cpu(seen: Observations) -> Evidence:
    """Return whether the servers' CPUs were unchanged: garbage collection uses none of it."""
    sign = Sign(
        "server-cpu",
        Route.EXPECTED,
        "server CPU",
        source="server_cpu_fraction",
        unit="1",
        view=View.SERVERS,
    )
    contrast = cpu_up(seen, absent=0.0)
    if contrast.reason is not None:
        return sign.of(
            contrast, why_not=seen.why_not("server_cpu_fraction"), source=None, unit=None
        )
    rose = contrast.weight > 0
    text = f"server CPU, unused by garbage collection: {contrast.in_words('1')}"
    weight = -min(0.6, contrast.weight) if rose else 0.2
    return sign.counted(text, weight, contrast, at=contrast.at, against=Against.RIVAL, quantity=CPU)


def _no_loops(context: Context, seen: Observations) -> Evidence:
    """Return whether the block allocator explains it as well: profile first, then counters."""
    share = cpu_share_of_allocator(context)
    subject = "useless loops of the block allocator per request"
    sign = Sign(
        "loops-in-time",
        Route.EXPECTED,
        subject,
        source="allocator_useless_loops_total",
        view=View.TARGETS,
    )
    if share is not None and share >= 0.1:
        text = f"{format_percent(share, 0)} of the server's samples are in the block allocator"
        profile = Sign(
            "allocator-cpu-share", Route.EXPECTED, source="CPU profile", unit="1", view=View.SERVERS
        )
        return profile.weighed(
            text, -0.5, value=share, reference=0.1, against=Against.RIVAL, quantity=PROFILE
        )
    loops = per_request(seen, "allocator_useless_loops_total")
    contrast = in_time(loops, ratio=2.0, by=0.01, absent=0.0)
    if contrast.reason is not None:
        why = seen.why_not("allocator_useless_loops_total", kinds=OSTS)
        return sign.of(contrast, why_not=why, source=None)
    weight = -0.5 * min(1.0, contrast.weight) if contrast.weight > 0 else 0.0
    text = f"{subject}: {contrast.in_words()}"
    return sign.counted(text, weight, contrast, against=Against.RIVAL, quantity=LOOPS)


GARBAGE_COLLECTION: Final = Cause(
    id="garbage-collection",
    title="garbage collection in the drives during writes",
    prior=UNSEEN,
    assess=assess,
    acts_on=always_at("drive"),
    slows_metadata=False,
    signs=(
        "amplification-in-time",
        "amplification-between-targets",
        "amplification-over-limit",
        "latency-tail",
        "trim-recovery",
    ),
    measurement=(
        "Trim one slow target and measure it at once beside an untrimmed one. If writes recover "
        "and server CPU does not fall, the drives were the limit."
    ),
    brings_about=("writeback-throttling",),
)
