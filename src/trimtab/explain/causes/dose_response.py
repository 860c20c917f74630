"""Bytes written to each target since its last trim, in multiples of its size.

```
 trims known          last trim ├────────── rate x time ──────────▶ now
 none, discards seen  attached  ├── all bytes written: never trimmed, or only by mkfs
                      first seen├── rate x time: a lower bound, if discards stay constant
 none, none seen      a trim would not show: unknown
```
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import polars as pl

from trimtab.explain.causes.trims import trims
from trimtab.explain.context import Context
from trimtab.explain.telemetry import OSTS, Observations
from trimtab.message import Message

UNDONE: Final = 0.5
"""Target sizes after which a trim has lost its effect, in the simulation [S10]: rarer trims did no
better than none."""
_ONLY_MKFS: Final = 1.05
"""Sizes discarded since attaching that mkfs alone explains."""
_LOG_REACHES: Final = timedelta(days=14)
"""How far back the log book of a context reaches at least."""


@dataclass(frozen=True, slots=True)
class Dose:
    """Bytes written to one target since its last trim.

    Attributes
    ----------
    sizes
        In multiples of its capacity, at the end of the bad stretch.
    before
        The same at the middle of the good stretch, since the trim that was the latest then.
    trimmed
        Last trim; ``None`` if none is known, and the dose is then a lower bound.
    """

    sizes: float
    before: float | None
    trimmed: datetime | None


@dataclass(frozen=True, slots=True)
class _Target:
    """Counters of one target: rate and totals in target sizes, and its known trims."""

    per_s: float
    written: float
    discarded: float | None
    seen_from: datetime
    trims: tuple[datetime, ...]
    logged: bool


def doses(
    context: Context, seen: Observations, shown: Mapping[str, Sequence[datetime]]
) -> dict[str, Dose] | Message:
    """Return the dose of each target, or why none is known.

    Parameters
    ----------
    shown
        Trims of each target visible in telemetry, from `trims.last_seen`.
    """
    targets = _targets(context, seen, shown)
    if isinstance(targets, Message):
        return targets
    bad, good = seen.times(bad=True), seen.times(bad=False)
    now = bad[-1] if bad else context.end
    then = good[len(good) // 2] if good else None
    by_target = {name: _dose(target, now, then) for name, target in targets.items()}
    known = {name: dose for name, dose in by_target.items() if dose is not None}
    return known or Message(
        "trims-unknown", "log book, timer and discards show no trim and could not have shown one"
    )


def _dose(target: _Target, now: datetime, then: datetime | None) -> Dose | None:
    last = _last(target.trims, now)
    if last is not None:
        earlier = None if then is None else _last(target.trims, then)
        before = None if earlier is None or then is None else _since(target, earlier, then)
        return Dose(_since(target, last, now), before, last)
    if target.discarded is not None:
        least = _since(target, target.seen_from, now)
        if target.discarded <= _ONLY_MKFS:
            least = max(least, target.written)
        elif least < UNDONE:
            return None
    elif target.logged:
        least = _since(target, now - _LOG_REACHES, now)
    else:
        return None
    span = 0.0 if then is None else _since(target, then, now)
    return Dose(least, None if then is None else max(0.0, least - span), None)


def _last(times: Sequence[datetime], now: datetime) -> datetime | None:
    """Return the last of the sorted times that is not later than ``now``."""
    place = bisect_right(times, now)
    return times[place - 1] if place else None


def _since(target: _Target, start: datetime, end: datetime) -> float:
    return max(0.0, target.per_s * (end - start).total_seconds())


def _targets(
    context: Context, seen: Observations, shown: Mapping[str, Sequence[datetime]]
) -> dict[str, _Target] | Message:
    sizes = _latest(seen.values("capacity_bytes", kinds=OSTS))
    name = "bytes_written_total"
    if seen.rates(name, kinds=OSTS).is_empty():
        name = "client_bytes_written_total"
    rates = seen.rates(name, kinds=OSTS)
    if rates.is_empty():
        return seen.why_not("bytes_written_total", kinds=OSTS)
    per_s = dict(rates.group_by("target").agg(pl.mean("value")).iter_rows())
    totals = seen.values(name, kinds=OSTS)
    written = _latest(totals)
    first = dict(totals.group_by("target").agg(pl.min("at")).iter_rows())
    discarded = _latest(seen.values("bytes_discarded_total", kinds=OSTS))
    events = trims(context)
    of_all = [event.end for event in events if not event.targets]
    of_some = [event for event in events if event.targets]
    by_target = {}
    for target, size in sizes.items():
        if size > 0 and target in per_s:
            event = [*of_all, *(event.end for event in of_some if target in event.targets)]
            by_target[target] = _Target(
                per_s=per_s[target] / size,
                written=written.get(target, 0.0) / size,
                discarded=discarded[target] / size if target in discarded else None,
                seen_from=first[target],
                trims=tuple(sorted((*event, *shown.get(target, ())))),
                logged=bool(events),
            )
    return by_target or Message("sizes-unknown", "the targets' sizes are unknown")


def _latest(frame: pl.DataFrame) -> dict[str, float]:
    return dict(frame.sort("at").group_by("target").agg(pl.last("value")).iter_rows())
