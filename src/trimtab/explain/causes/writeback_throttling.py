"""`writeback-throttling`: the kernel holds writes back because a few requests took long.

On an array of flash one drive that collects garbage makes the kernel throttle the writes to all;
turning it off brought 10 % (000, IV A 4; ``facts/seeds.md`` 17). The kernel looks at reads only,
so reads must be mixed in: journals, bitmaps, read-modify-write (``facts/flash.md`` f). It was on
in every hour of the seeds' first months: a condition older than the record is the rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trimtab.explain.breadth import breadth
from trimtab.explain.causes.cause import Cause
from trimtab.explain.causes.runs import latency_tail, writes_and_reads
from trimtab.explain.causes.shared import UNSEEN, flags, fresh, named, settings, targets_of, timing
from trimtab.explain.context import Context
from trimtab.explain.contrasts import between_targets, not_available, presence, weighed
from trimtab.explain.telemetry import Observations, observe
from trimtab.message import Message
from trimtab.model.incident import Evidence, Route
from trimtab.units import format_duration, format_percent

if TYPE_CHECKING:
    import polars as pl

_WHAT: Final = "targets whose devices are throttled"
_SOURCE: Final = "wbt_latency_s"
_LOSS: Final = 0.35
"""Much more than the tenth that turning it off brought is not its doing alone: the seeds' slow
OSTs lost up to half, of which it was one of four reasons (``facts/seeds.md`` 17, 22)."""


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against writeback throttling."""
    import polars as pl

    seen = observe(context)
    latency = _latency(context, seen)
    common = (_as_large(context), latency_tail(context), writes_and_reads(context))
    if latency.filter(pl.col("bad")).is_empty():
        why = seen.why_not("wbt_latency_s")
        return (
            not_available("throttled-in-time", _WHAT, Route.TIME, why, source=_SOURCE),
            not_available(
                "throttled-between-targets",
                f"{_WHAT} among slow and fast",
                Route.TARGETS,
                why,
                source=_SOURCE,
            ),
            *common,
        )
    on = fresh(flags(latency, pl.col("value") > 0))
    names = targets_of(on)
    who = f"{_WHAT} ({named(names)})" if names else _WHAT
    return (
        presence(on, absent=-1.8).evidence(
            "throttled-in-time", who, unit="1", targets=names, source=_SOURCE
        ),
        timing(context, on, who),
        between_targets(on, breadth(context), by=0.5, present_from=0.5, absent=-0.6).evidence(
            "throttled-between-targets",
            f"{_WHAT} among slow and fast",
            unit="1",
            source=_SOURCE,
            targets=names,
        ),
        _on_flash(context, latency),
        *common,
    )


def _latency(context: Context, seen: Observations) -> pl.DataFrame:
    """Return the throttling latency of each target; of queues' settings where none was read."""
    import polars as pl

    latency = seen.values("wbt_latency_s").select("at", "target", "value", "bad")
    if latency.filter(pl.col("bad")).height:
        return latency
    # Settings of many drives are folded, "2000 (11), 0 (nvme3n1)": the first is the commonest.
    queues = settings(context, "queue/wbt_lat_usec").with_columns(
        value=pl.col("value").str.extract(r"^(\d+)").cast(pl.Float64, strict=False) / 1e6
    )
    return queues.drop_nulls("value").select("at", "target", "value", "bad")


def _on_flash(context: Context, latency: pl.DataFrame) -> Evidence:
    """Return whether it is flash that is throttled: on disks it does what it is made for."""
    import polars as pl

    subject = "whether the throttled devices are flash"
    bad = latency.filter(pl.col("bad") & (pl.col("value") > 0))
    if bad.is_empty():
        return weighed(
            "throttled-flash",
            f"{subject}: nothing is throttled",
            Route.EXPECTED,
            0.0,
            source=_SOURCE,
        )
    longest = float(bad.get_column("value").max() or 0.0)  # pyright: ignore[reportArgumentType]
    text = f"longest latency target {format_duration(longest)}; flash needs 0"
    rotational = settings(context, "queue/rotational").filter(pl.col("bad"))
    if rotational.height and rotational.get_column("value").str.starts_with("1").all():
        return weighed(
            "throttled-flash",
            f"{text}; the devices are disks",
            Route.EXPECTED,
            -0.6,
            value=longest,
            unit="s",
            source="queue/rotational",
        )
    return weighed(
        "throttled-flash",
        text,
        Route.EXPECTED,
        0.35,
        value=longest,
        reference=0.0,
        unit="s",
        source=_SOURCE,
    )


def _as_large(context: Context) -> Evidence:
    """Return whether the loss is one that throttling can make."""
    effect = context.incident.effect
    subject = "size of the loss compared with known throttling"
    if effect is None:
        return not_available(
            "loss-as-throttling",
            subject,
            Route.EXPECTED,
            Message("effect-unknown", "the size of the loss is unknown"),
        )
    lost = 1 - effect
    text = f"{format_percent(lost, 0)} lost; disabling it gained 10 % at another site"
    weight = -0.5 if lost > _LOSS else 0.1 if 0.04 <= lost <= 0.2 else 0.0
    return weighed(
        "loss-as-throttling", text, Route.EXPECTED, weight, value=lost, reference=0.1, unit="1"
    )


CAUSE: Final = Cause(
    id="writeback-throttling",
    title="writeback throttling on",
    prior=UNSEEN,
    assess=assess,
    measurement=(
        "Set wbt_lat_usec to 0 on the devices of one target and measure it beside its neighbours "
        "before and after, with concurrent reads."
    ),
)
