"""`failover`: a server carries the targets of another server besides its own.

Two sets of targets then share one server's CPUs, links and memory. NERSC's surveys measured
OSTs "regardless of their current failover status" [S1, IV.B]: the state persists.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.event import EventKind
from trimtab.base.incident import Evidence, Route
from trimtab.explain.causes.evidence import UNSEEN, flags, fresh, in_place, logged, targets_of
from trimtab.explain.context import Cause, Context
from trimtab.explain.contrast import Sign, between_targets, breadth, expected
from trimtab.explain.telemetry_frame import Observations, observe

_AWAY: Final = Sign(
    "away-from-home", Route.TIME, "targets served away from home",
    source="failover_active, server", unit="1",
)  # fmt: skip
_BUSIEST: Final = Sign(
    "server-doubled", Route.EXPECTED,
    "targets of the busiest server, as a multiple of the median", source="server",
)  # fmt: skip
_SLOW: Final = Sign("slow-on-doubled", Route.TARGETS, "slow targets on doubled servers")
_DOUBLED: Final = 1.5
"""Multiple of the median server's number of targets. Servers take over for each other in pairs."""


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a failover."""
    seen = observe(context)
    serving = _serving(seen)
    away = fresh(_away(context, seen, serving))
    log = logged(context, (EventKind.FAILOVER,), "a failover", weight=0.8)
    if away.filter("bad").is_empty():
        why = seen.why_not("failover_active")
        doubled = _BUSIEST.not_available(
            why, subject="servers with twice the targets", source=_AWAY.source
        )
        return (_AWAY.not_available(why), doubled, _SLOW.not_available(why), log)
    return (
        *in_place(context, away, _AWAY, targets_of(away), absent=-1.5),
        _doubled(serving),
        _slow_ones(context, serving, away),
        log,
    )


def _serving(seen: Observations) -> pl.DataFrame:
    """Return the server of each target at each time, as text in ``value``."""
    servers = seen.texts("server").filter(pl.col("label").is_null())
    return servers.select("at", "target", "value", "bad").sort("at", "target")


def _away(context: Context, seen: Observations, serving: pl.DataFrame) -> pl.DataFrame:
    """Return 1 for targets not served by their home, or by the usual server if no home is named."""
    flagged = seen.values("failover_active").select("at", "target", "value", "bad")
    flag = flags(flagged, pl.col("value") > 0.5)
    usual = serving.filter(~pl.col("bad")).group_by("target").agg(pl.col("value").mode().sort())
    home = {target: servers[0] for target, servers in usual.iter_rows() if servers}
    home |= dict(context.home)
    by_name = (
        serving.with_columns(home=pl.col("target").replace_strict(home, default=None))
        .filter(pl.col("home").is_not_null())
        .with_columns(value=(pl.col("value") != pl.col("home")).cast(pl.Float64))
        .select("at", "target", "value", "bad")
    )
    # A server that was away throughout the good hours looks like home here: the flag knows better.
    both = pl.concat([by_name, flag])
    return both.group_by("at", "target", "bad").agg(pl.max("value")).sort("at", "target")


def _per_server(serving: pl.DataFrame) -> pl.DataFrame:
    """Return ``relative``: the number of targets of each server over that of the median server."""
    osts = serving.filter(~pl.col("target").str.starts_with("MDT"))
    return (
        osts.group_by("at", "bad", "value")
        .agg(n=pl.len())
        .with_columns(relative=pl.col("n") / pl.median("n").over("at"))
    )


def _doubled(serving: pl.DataFrame) -> Evidence:
    bad = _per_server(serving).filter("bad")
    most = None if bad.is_empty() else bad.group_by("at").agg(pl.max("relative"))
    value = None if most is None else most["relative"].median()
    contrast = expected(
        None if value is None else float(value),  # pyrefly: ignore[bad-argument-type]
        _DOUBLED,
        over=0.5,
        under=-0.4,
        scale=0.2,
        reason=Message("servers-unknown", "the servers of the targets are unknown"),
    )
    return _BUSIEST.of(contrast)


def _slow_ones(context: Context, serving: pl.DataFrame, away: pl.DataFrame) -> Evidence:
    """Return whether the slow targets are those of the doubled servers."""
    moved = away.filter(pl.col("value") > 0.5).select("at", "target")
    crowded = serving.join(moved, on=["at", "target"], how="semi").select("at", "value").unique()
    if serving.is_empty():
        of_target = away
    else:
        marked = serving.join(
            crowded.with_columns(crowded=pl.lit(True)), on=["at", "value"], how="left"
        )
        of_target = flags(marked, pl.col("crowded").fill_null(False))
    contrast = between_targets(of_target, breadth(context), by=0.5, present_from=0.5, absent=-0.8)
    return _SLOW.of(contrast, source="server", targets=targets_of(of_target))


CAUSE: Final = Cause(
    id="failover",
    title="failover: a server carries another's targets",
    prior=UNSEEN,
    assess=assess,
    signs=("away-from-home", "server-doubled", "slow-on-doubled", "event-logged"),
    measurement=(
        "Measure the targets of the doubled server beside those of another server, fail back in a "
        "quiet hour, and measure again."
    ),
)
