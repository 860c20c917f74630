"""Traffic of single targets: one that serves far less than usual while others are busy.

Where clients' bytes are counted, the probes' own writes are subtracted: they write as much to every
target, even to a very slow one. How much an unfinished run wrote is rarely known; it can hide an
idle target, but not fake one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.incident import Evidence, Route
from trimtab.base.run import RunStatus
from trimtab.explain.causes.evidence import flags, targets_of, timing, with_names
from trimtab.explain.context import Context
from trimtab.explain.contrast import Sign, presence
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import OSTS, Observations

_OF_CLIENTS: Final = "client_bytes_written_total"
_OF_DEVICES: Final = "bytes_written_total"
_IDLE_BELOW: Final = 0.5
"""Share of a target's usual part of the traffic below which it is idle. A slow target serves its
requests late, but serves them; snapshots hours apart include hours before it failed."""
_BUSY: Final = 0.3
"""Share of the median target's traffic from which a target is usually busy."""
_NONE_IDLE: Final = -0.8
"""Weight if every target had its usual traffic."""
_TIMES: Final = 3
"""Fewest idle times: chance hardly makes one of thirty targets idle that often."""
_RUN_LONGEST: Final = timedelta(hours=1)
"""How long an unfinished run without an end is assumed to have written."""
_SUBJECT: Final = "a target without traffic while others are busy"
_SIGN: Final = Sign("idle-while-busy", Route.TARGETS, _SUBJECT, unit="1", view=View.TRAFFIC)
_OWN_UNKNOWN: Final = Message(
    "own-bytes-unknown", "the bytes of the site's own probes in these hours are unknown"
)


def idle_while_busy(context: Context, seen: Observations) -> tuple[Evidence, ...]:
    """Return whether a target served far less than usual while others were busy, and since when.

    Leaves out targets that accept no new files: they serve little for that reason.
    """
    source = _OF_CLIENTS
    rates = seen.rates(source, kinds=OSTS)
    if not rates.filter("bad").height:
        source = _OF_DEVICES
        rates = seen.rates(source, kinds=OSTS)
    why = seen.why_not(_OF_CLIENTS, _OF_DEVICES, kinds=OSTS)
    closed = seen.values("create_enabled", kinds=OSTS).filter(value=0)
    rates = rates.join(closed.select("at", "target"), on=["at", "target"], how="anti")
    known = _of_usual(_without_probes(context, rates) if source == _OF_CLIENTS else rates)
    if known.filter("bad").height and source == _OF_CLIENTS:
        hidden = list(_hiding(context, known))
        known = known.filter(~pl.col("at").is_in(hidden) | (pl.col("value") < _IDLE_BELOW))
        why = _OWN_UNKNOWN
    if not known.filter("bad").height:
        return (_SIGN.not_available(why, source=source),)
    idle = flags(known, pl.col("value") < _IDLE_BELOW)
    names = targets_of(idle)
    of, had_idle_hours = known["target"].n_unique(), len(names)
    if had_idle_hours > max(1, of / 4):
        most = _mostly(idle)
        idle = idle.filter(pl.col("target").is_in(most))
        names = most if 0 < len(most) <= max(1, of / 4) else names
    if len(names) > max(1, of / 4):
        text = f"{had_idle_hours} of {of} targets had idle hours, no single one alone"
        return (
            _SIGN.weighed(text, 0.0, code="idle-many", targets=names, source=source, unit=None),
        )
    subject = with_names(_SUBJECT, names)
    # A target that was idle now and then may be one that comes and goes.
    absent = 0.0 if names or not _resolves(context, idle) else _NONE_IDLE
    contrast = presence(idle, absent=absent)
    return (
        _SIGN.of(contrast, subject=subject, targets=names, source=source),
        timing(context, idle, subject, view=View.TRAFFIC),
    )


def _mostly(idle: pl.DataFrame) -> tuple[str, ...]:
    """Return the targets that were idle in most of the bad hours.

    Under light traffic any target has an idle hour.
    """
    bad = idle.filter("bad").group_by("target").agg(pl.sum("value"), times=pl.len())
    is_most = (pl.col("value") >= _TIMES) & (2 * pl.col("value") > pl.col("times"))
    return tuple(bad.filter(is_most)["target"].sort().to_list())


def _of_usual(rates: pl.DataFrame) -> pl.DataFrame:
    """Return each target's part of the traffic relative to its part in good hours."""
    middle = pl.median("value").over("at")
    relative = rates.filter((middle > 0) & (pl.len().over("at") >= 3)).with_columns(
        value=pl.col("value") / middle
    )
    usual = relative.filter(~pl.col("bad")).group_by("target").agg(usual=pl.median("value"))
    known = relative.join(usual, on="target").filter(pl.col("usual") >= _BUSY)
    return known.with_columns(pl.col("value") / pl.col("usual"))


def _without_probes(context: Context, rates: pl.DataFrame) -> pl.DataFrame:
    """Return the rates without what probes are known to have written, the same to each target."""
    runs = [
        (run.at, run.until, run.bytes_written / (run.until - run.at).total_seconds())
        for run in context.runs
        if run.until is not None and run.until > run.at and run.bytes_written
    ]
    written = {
        end: sum(
            (min(until, end) - max(at, begin)).total_seconds() * rate
            for at, until, rate in runs
            if at < end and until > begin
        )
        / seconds
        for begin, end, seconds in _steps(rates)
    }
    if not written:
        return rates
    probes = pl.col("at").replace_strict(written, return_dtype=pl.Float64)
    others = pl.col("value") - probes / pl.len().over("at")
    return rates.with_columns(value=others.clip(lower_bound=0.0))


def _hiding(context: Context, rates: pl.DataFrame) -> Iterator[datetime]:
    """Yield the ends of steps in which unfinished runs wrote an unknown amount."""
    for begin, end, _ in _steps(rates):
        if any(
            run.status is RunStatus.UNFINISHED
            and not run.bytes_written
            and run.at < end
            and (run.until or run.at + _RUN_LONGEST) > begin
            for run in context.runs
        ):
            yield end


def _resolves(context: Context, rates: pl.DataFrame) -> bool:
    """Return whether a step lies within the bad hours: a longer one includes good hours."""
    return any(context.is_bad(begin) and context.is_bad(end) for begin, end, _ in _steps(rates))


def _steps(rates: pl.DataFrame) -> Iterator[tuple[datetime, datetime, float]]:
    """Yield begin, end and seconds of the steps between snapshots."""
    for end, seconds in rates.select("at", "seconds").unique("at").iter_rows():
        yield end - timedelta(seconds=seconds), end, seconds
