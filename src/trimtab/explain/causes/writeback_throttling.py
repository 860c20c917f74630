"""`writeback-throttling`: the kernel holds back writes because some requests took long.

On a flash array, one drive that collects garbage makes the kernel throttle writes to all of them;
turning it off gained 10 % [S1, IV.A.4]. The kernel only looks at read latency, so there must be
reads: journals, bitmaps, read-modify-write [S6, block/blk-wbt.c]. It was on in every hour of
NERSC's first months: usually the condition is older than the record.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from trimtab.base.incident import Against, Evidence, Route
from trimtab.base.units import format_duration, format_percent
from trimtab.explain.breadth import breadth
from trimtab.explain.causes.evidence import (
    UNSEEN,
    flags,
    fresh,
    in_place,
    latency_tail,
    settings,
    targets_of,
    writes_and_reads,
)
from trimtab.explain.context import Cause, Context, always_at
from trimtab.explain.contrast import Sign, between_targets
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import Observations, observe

_SOURCE: Final = "wbt_latency_s"
_THROTTLED: Final = "targets whose devices are throttled"
_IN_TIME: Final = Sign(
    "throttled-in-time", Route.TIME, _THROTTLED, source=_SOURCE, unit="1", view=View.TARGETS
)
_BETWEEN: Final = Sign(
    "throttled-between-targets", Route.TARGETS, f"{_THROTTLED} among slow and fast",
    source=_SOURCE, unit="1", view=View.TARGETS,
)  # fmt: skip
_LOSS: Final = 0.35
"""Losses far above the tenth gained by turning it off are not its doing alone: NERSC's slow OSTs
lost up to half, with this one of four reasons [S1, III and IV.A]."""


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against writeback throttling."""
    seen = observe(context)
    latency = _latency(context, seen)
    common = (_as_large(context), latency_tail(context), writes_and_reads(context))
    if latency.filter("bad").is_empty():
        why = seen.why_not("wbt_latency_s")
        return (_IN_TIME.not_available(why), _BETWEEN.not_available(why), *common)
    on = fresh(flags(latency, pl.col("value") > 0))
    names = targets_of(on)
    apart = between_targets(on, breadth(context), by=0.5, present_from=0.5, absent=-0.6)
    return (
        *in_place(context, on, _IN_TIME, names, absent=-1.8),
        _BETWEEN.of(apart, targets=names),
        _on_flash(context, latency),
        *common,
    )


def _latency(context: Context, seen: Observations) -> pl.DataFrame:
    """Return each target's throttling latency; from the queue settings where none was read."""
    latency = seen.values("wbt_latency_s").select("at", "target", "value", "bad")
    if latency.filter("bad").height:
        return latency
    # Settings of many drives are folded, "2000 (11), 0 (nvme3n1)": the first is the most common.
    queues = settings(context, "queue/wbt_lat_usec").with_columns(
        value=pl.col("value").str.extract(r"^(\d+)").cast(pl.Float64, strict=False) / 1e6
    )
    return queues.drop_nulls("value").select("at", "target", "value", "bad")


def _on_flash(context: Context, latency: pl.DataFrame) -> Evidence:
    """Return whether flash is throttled: on disks, throttling does what it is designed for."""
    sign = Sign("throttled-flash", Route.EXPECTED, source=_SOURCE, unit="s", view=View.TARGETS)
    subject = "whether the throttled devices are flash"
    bad = latency.filter(pl.col("bad") & (pl.col("value") > 0))
    if bad.is_empty():
        return sign.weighed(f"{subject}: nothing is throttled", 0.0, unit=None)
    longest = float(bad["value"].max() or 0.0)  # pyrefly: ignore[bad-argument-type]
    text = f"longest latency target {format_duration(longest)}; flash needs 0"
    rotational = settings(context, "queue/rotational").filter("bad")
    if rotational.height and rotational["value"].str.starts_with("1").all():
        return sign.weighed(
            f"{text}; the devices are disks", -0.6, value=longest, source="queue/rotational",
            against=Against.CONDITION,
        )  # fmt: skip
    return sign.weighed(text, 0.35, value=longest, reference=0.0)


def _as_large(context: Context) -> Evidence:
    effect = context.incident.effect
    sign = Sign(
        "loss-as-throttling",
        Route.EXPECTED,
        "size of the loss compared with known throttling",
        unit="1",
        view=View.PROBE,
    )
    if effect is None:
        return sign.missing("effect-unknown", "the size of the loss is unknown")
    lost = 1 - effect
    text = f"{format_percent(lost, 0)} lost; disabling it gained 10 % at another site"
    weight = -0.5 if lost > _LOSS else 0.1 if 0.04 <= lost <= 0.2 else 0.0
    return sign.weighed(text, weight, value=lost, reference=0.1)


WRITEBACK_THROTTLING: Final = Cause(
    id="writeback-throttling",
    title="writeback throttling on",
    prior=UNSEEN,
    assess=assess,
    acts_on=always_at("target"),
    slows_metadata=False,
    signs=("throttled-in-time", "throttled-between-targets"),
    measurement=(
        "Set wbt_lat_usec to 0 on the devices of one target and measure it beside its neighbours "
        "before and after, with concurrent reads."
    ),
)
