"""`array-degraded`: an array is running without a drive, or rebuilding one.

Each read of a missing block is computed from all the others, and the rebuild takes bandwidth. In
Lustre the flag also diverts new files to other targets [S8, lod_qos.c; lfs-df(1)].
"""

from __future__ import annotations

from typing import Final

import polars as pl

from trimtab.base.event import EventKind
from trimtab.base.incident import Evidence, Route
from trimtab.explain.causes.evidence import (
    UNSEEN,
    flags,
    fresh,
    grown,
    in_place,
    logged,
    named,
    targets_of,
    with_names,
)
from trimtab.explain.context import Cause, Context
from trimtab.explain.contrast import Sign, between_targets, breadth, expected, presence
from trimtab.explain.telemetry_frame import Observations, observe

_IN_TIME: Final = Sign(
    "degraded-in-time", Route.TIME, "degraded arrays", source="degraded", unit="1"
)
_BETWEEN: Final = Sign(
    "degraded-between-targets", Route.TARGETS, "degraded arrays among slow and fast targets"
)


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a degraded array or a rebuild."""
    seen = observe(context)
    degraded = fresh(flags(seen.values("degraded"), pl.col("value") > 0.5))
    rebuild = logged(context, (EventKind.REBUILD,), "a rebuild", weight=0.8)
    if degraded.filter("bad").is_empty():
        why = seen.why_not("degraded")
        missing = (_IN_TIME.not_available(why), _BETWEEN.not_available(why))
        return (*missing, rebuild, _media_errors(seen))
    names = targets_of(degraded)
    around = breadth(context)
    number = expected(float(len(names)), 0.5, over=0.5, under=-0.3)
    apart = between_targets(degraded, around, by=0.5, present_from=0.5, absent=-0.8)
    return (
        *in_place(context, degraded, _IN_TIME, names, absent=-1.5),
        Sign("degraded-expected", Route.EXPECTED, "degraded arrays (expected: none)").of(
            number, source="degraded", targets=names
        ),
        _BETWEEN.of(apart, unit="1", source="degraded", targets=names),
        _only_it(names, around.slow, degraded),
        rebuild,
        _media_errors(seen),
    )


def _only_it(names: tuple[str, ...], slow: tuple[str, ...], degraded: pl.DataFrame) -> Evidence:
    """Return whether some slow targets have intact arrays, so that this does not explain them."""
    sign = Sign("slow-targets-whole", Route.TARGETS)
    subject = "slow targets with intact arrays"
    if not slow or not names:
        return sign.weighed(f"{subject}: no slow target or no degraded array", 0.0)
    intact = sorted(set(slow) & set(degraded["target"]) - set(names))
    weight = -0.5 if len(intact) > len(slow) / 2 else 0.0
    text = with_names(f"{subject}: {len(intact)} of {len(slow)}", intact)
    return sign.weighed(
        text, weight, value=float(len(intact)), reference=float(len(slow)), targets=intact
    )


def _media_errors(seen: Observations) -> Evidence:
    """Return whether drives counted media errors: such a drive is about to leave its array."""
    subject = "media errors of drives"
    sign = Sign("media-errors", Route.TIME, subject, unit="1")
    source = "drive_media_errors_total"
    # Summed over a target's drives: thousands of single drives would cost more.
    errors = grown(seen.values(source))
    if errors.filter("bad").is_empty():
        return sign.not_available(seen.why_not(source), source=source)
    names = targets_of(errors)
    contrast = presence(errors, absent=0.0)
    who = f" below {named(names)}" if names else ": none"
    text, weight = f"{subject}{who}", min(0.4, contrast.weight)
    return sign.counted(text, weight, contrast, targets=names, at=contrast.at, source=source)


CAUSE: Final = Cause(
    id="array-degraded",
    title="a degraded array, or its rebuild",
    prior=UNSEEN,
    assess=assess,
    slows_metadata=False,
    signs=("degraded-in-time", "degraded-between-targets", "media-errors", "event-logged"),
    measurement=(
        "Measure the target of the degraded array beside its neighbours now and again after the "
        "rebuild."
    ),
)
