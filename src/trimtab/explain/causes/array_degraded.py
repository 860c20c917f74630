"""`array-degraded`: an array runs without a drive, or rebuilds one.

Each read of a missing piece is computed from all the others, and the rebuild takes bandwidth. In
Lustre the flag also keeps new files away while others are open (``facts/lustre.md`` c.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trimtab.explain.breadth import breadth
from trimtab.explain.causes.cause import Cause
from trimtab.explain.causes.shared import (
    UNSEEN,
    flags,
    fresh,
    grown,
    logged,
    named,
    targets_of,
    timing,
)
from trimtab.explain.context import Context
from trimtab.explain.contrasts import between_targets, expected, not_available, presence, weighed
from trimtab.explain.telemetry import Observations, observe
from trimtab.model.event import EventKind
from trimtab.model.incident import Evidence, Route

if TYPE_CHECKING:
    import polars as pl

_WHAT: Final = "degraded arrays"
_SOURCE: Final = "degraded"


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a degraded array or a rebuild."""
    import polars as pl

    seen = observe(context)
    degraded = fresh(flags(seen.values("degraded"), pl.col("value") > 0.5))
    rebuild = logged(context, (EventKind.REBUILD,), "a rebuild", weight=0.8)
    if degraded.filter(pl.col("bad")).is_empty():
        why = seen.why_not("degraded")
        return (
            not_available("degraded-in-time", _WHAT, Route.TIME, why, source=_SOURCE),
            not_available(
                "degraded-between-targets",
                f"{_WHAT} among slow and fast targets",
                Route.TARGETS,
                why,
            ),
            rebuild,
            _media_errors(seen),
        )
    names = targets_of(degraded)
    who = f"{_WHAT} ({named(names)})" if names else _WHAT
    around = breadth(context)
    return (
        presence(degraded, absent=-1.5).evidence(
            "degraded-in-time", who, unit="1", targets=names, source=_SOURCE
        ),
        timing(context, degraded, who),
        expected(float(len(names)), 0.5, over=0.5, under=-0.3).evidence(
            "degraded-expected", "degraded arrays (expected: none)", source=_SOURCE, targets=names
        ),
        between_targets(degraded, around, by=0.5, present_from=0.5, absent=-0.8).evidence(
            "degraded-between-targets",
            f"{_WHAT} among slow and fast targets",
            unit="1",
            source=_SOURCE,
            targets=names,
        ),
        _only_it(names, around.slow, degraded),
        rebuild,
        _media_errors(seen),
    )


def _only_it(names: tuple[str, ...], slow: tuple[str, ...], degraded: pl.DataFrame) -> Evidence:
    """Return whether slow targets are left that no degraded array explains."""
    subject = "slow targets whose arrays are whole"
    if not slow or not names:
        return weighed(
            "slow-targets-whole",
            f"{subject}: no slow target or no degraded array",
            Route.TARGETS,
            0.0,
        )
    whole = sorted(set(slow) & set(degraded.get_column("target")) - set(names))
    weight = -0.5 if len(whole) > len(slow) / 2 else 0.0
    text = f"{subject}: {len(whole)} of {len(slow)}" + (f" ({named(whole)})" if whole else "")
    return weighed("slow-targets-whole", text, Route.TARGETS, weight, value=float(len(whole)),
                   reference=float(len(slow)), targets=whole)  # fmt: skip


def _media_errors(seen: Observations) -> Evidence:
    """Return whether drives counted media errors: a drive that is about to leave its array."""
    import polars as pl

    subject = "media errors of drives"
    source = "drive_media_errors_total"
    # The sum over a target's drives: telling its thousands of drives apart would cost more.
    errors = grown(seen.values(source))
    if errors.filter(pl.col("bad")).is_empty():
        return not_available(
            "media-errors", subject, Route.TIME, seen.why_not(source), source=source
        )
    names = targets_of(errors)
    contrast = presence(errors, absent=0.0)
    who = f" below {named(names)}" if names else ": none"
    return weighed(
        "media-errors",
        f"{subject}{who}",
        Route.TIME,
        min(0.4, contrast.weight),
        value=contrast.value,
        reference=contrast.reference,
        unit="1",
        targets=names,
        at=contrast.at,
        source=source,
    )


CAUSE: Final = Cause(
    id="array-degraded",
    title="a degraded array, or its rebuild",
    prior=UNSEEN,
    assess=assess,
    measurement=(
        "Measure the target of the degraded array beside its neighbours now and again after the "
        "rebuild."
    ),
)
