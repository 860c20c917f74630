"""`trim-overdue`: so much was written since the last trim that the drives ran out of erased blocks.

The dose is what was written to a target since it was trimmed, in multiples of its size: about 5
cost about a tenth of the writes, and a trim brought them back in full (``facts/seeds.md`` 6);
in the simulation of ``facts/flash.md`` (f, readings 1 and 5) half a size already undoes a trim at
75 % full, and 2 sizes are the steady state. A dose grows by degrees; it makes no dips.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Final

from trimtab.explain.causes.cause import Cause
from trimtab.explain.causes.runs import writes_and_reads
from trimtab.explain.causes.shared import SLACK, UNSEEN, named
from trimtab.explain.causes.trims import (
    end_of,
    last_before,
    last_seen,
    mount_trims,
    recovery_evidence,
    trims,
)
from trimtab.explain.context import Context
from trimtab.explain.contrasts import breadth, not_available, weighed
from trimtab.explain.telemetry import OSTS, Observations, observe
from trimtab.model.event import Event
from trimtab.model.incident import Evidence, Route, Shape
from trimtab.units import format_duration

if TYPE_CHECKING:
    import polars as pl

_FULL_WRITES: Final = 5.0
"""Target sizes written since the last trim at which a tenth of the writes was gone."""
_UNDONE: Final = 0.5
"""From here on a trim is undone, in the simulation: rarer ones gave what none gave."""
_NIGHTLY: Final = 0.1
"""A day's expected traffic is 0.07 sizes (``facts/seeds.md`` 42): under it trims are frequent."""
_DOSE: Final = "bytes written since the last trim, in sizes of the target"
_SOURCE: Final = "bytes_written_total, trims in the log book, last_trim_at, bytes_discarded_total"


@dataclass(frozen=True, slots=True)
class _Dose:
    """What was written to one target since it was trimmed.

    Attributes
    ----------
    sizes
        In multiples of its capacity, at the end of the bad stretch.
    before
        The same at the middle of the good stretch, of the trim that was the last one then.
    trimmed
        The last trim; ``None`` where the record knows of none, and the dose is then a least one.
    """

    sizes: float
    before: float | None
    trimmed: datetime | None


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return what speaks for and against an overdue trim."""
    seen = observe(context)
    doses = _doses(context, seen)
    common = (
        recovery_evidence(context, speaks_for=True),
        _continuous(context),
        _shape(context),
        writes_and_reads(context),
    )
    if isinstance(doses, str):
        return (
            not_available(_DOSE, Route.EXPECTED, doses, source=_SOURCE),
            not_available(f"{_DOSE}, bad hours against good", Route.TIME, doses, source=_SOURCE),
            not_available(f"{_DOSE}, slow targets against fast", Route.TARGETS, doses),
            *common,
        )
    return (_dose(doses), _grown(context, doses), _slow_ones(context, doses), *common)


def _doses(context: Context, seen: Observations) -> dict[str, _Dose] | str:
    """Return the dose of each target, or why none is known."""
    import polars as pl

    sizes = _latest(seen.values("capacity_bytes", kinds=OSTS))
    name = "bytes_written_total"
    rates = seen.rates(name, kinds=OSTS)
    if rates.is_empty():
        name = "client_bytes_written_total"
        rates = seen.rates(name, kinds=OSTS)
    if rates.is_empty():
        return seen.why_not("bytes_written_total", kinds=OSTS)
    per_s = dict(rates.group_by("target").agg(pl.col("value").mean()).iter_rows())
    written = _latest(seen.values(name, kinds=OSTS))
    now, then = _ends(context, seen)
    events, read = trims(context), last_seen(seen)
    doses = {}
    for target, size in sizes.items():
        if target not in per_s or size <= 0:
            continue
        doses[target] = _of_target(
            _last(events, read, target, now), _last(events, read, target, then),
            now=now, then=then, per_s=per_s[target] / size,
            written=written.get(target, 0.0) / size,
            since=context.record_from,
        )  # fmt: skip
    known = {target: dose for target, dose in doses.items() if dose is not None}
    return known or "the record knows neither a trim nor how long there was none"


def _of_target(
    last: datetime | None, earlier: datetime | None, *, now: datetime, then: datetime | None,
    per_s: float, written: float, since: datetime,
) -> _Dose | None:  # fmt: skip
    """Return the dose of one target, rates and counts in its sizes."""
    if last is not None:
        before = None
        if earlier is not None and then is not None:
            before = per_s * (then - earlier).total_seconds()
        return _Dose(max(0.0, per_s * (now - last).total_seconds()), before, last)
    # No trim in the record: everything since it began was written without one, at the least.
    least = max(0.0, per_s * (now - since).total_seconds())
    span = 0.0 if then is None else per_s * (now - then).total_seconds()
    return _Dose(least, max(0.0, least - span), None) if least >= _UNDONE else None


def _last(
    events: tuple[Event, ...], read: dict[str, list[datetime]], target: str, at: datetime | None
) -> datetime | None:
    """Return when a target was trimmed last before a time: log book, timer or discards."""
    if at is None:
        return None
    event = last_before(events, target, at)
    found = [end_of(event)] if event is not None else []
    found += [one for one in read.get(target, ()) if one <= at]
    return max(found, default=None)


def _ends(context: Context, seen: Observations) -> tuple[datetime, datetime | None]:
    """Return the last bad time, and the middle of the good ones."""
    bad, good = seen.times(bad=True), seen.times(bad=False)
    now = bad[-1] if bad else context.now
    return now, good[len(good) // 2] if good else None


def _latest(frame: pl.DataFrame) -> dict[str, float]:
    import polars as pl

    return dict(frame.sort("at").group_by("target").agg(pl.col("value").last()).iter_rows())


def _dose(doses: dict[str, _Dose]) -> Evidence:
    """Return whether the dose is one that costs bandwidth."""
    most = max(doses.values(), key=lambda one: one.sizes)
    middle = median(one.sizes for one in doses.values())
    untrimmed = sorted(target for target, one in doses.items() if one.trimmed is None)
    said = f"{middle:.2g} sizes of the median target were written since its last trim"
    if untrimmed:
        said += f"; the record knows of no trim of {named(untrimmed)}: at least so much"
    dose = max(middle, most.sizes / 2)
    if dose < _NIGHTLY:
        weight = -1.3
    elif dose < _UNDONE:
        weight = -0.5
    else:
        weight = min(1.0, 0.2 + 0.8 * math.log(dose / _UNDONE) / math.log(_FULL_WRITES / _UNDONE))
    same = [one for one in doses.values() if one.before is not None and one.before >= one.sizes / 2]
    throughout = dose >= _UNDONE and len(same) * 2 > len(doses)
    return weighed(said, Route.EXPECTED, weight, value=middle, reference=_FULL_WRITES,
                   at=most.trimmed, source=_SOURCE, throughout=throughout)  # fmt: skip


def _grown(context: Context, doses: dict[str, _Dose]) -> Evidence:
    """Return whether the dose was much less in the good hours; or a trim came just before."""
    what = f"{_DOSE}, bad hours against good"
    begun = context.incident.at
    fresh = [
        target
        for target, one in doses.items()
        if one.trimmed is not None and begun - timedelta(hours=24) <= one.trimmed <= begun + SLACK
    ]
    if len(fresh) * 2 > len(doses):
        last = max(one.trimmed for one in doses.values() if one.trimmed is not None)
        ago = format_duration(max(0.0, (begun - last).total_seconds()))
        said = f"{len(fresh)} of {len(doses)} targets were trimmed {ago} before the first bad run"
        return weighed(said, Route.TIME, -1.0, at=last, targets=fresh, source=_SOURCE)
    pairs = [(one.sizes, one.before) for one in doses.values() if one.before is not None]
    if not pairs:
        reason = "the trims before the good hours are not known"
        return not_available(what, Route.TIME, reason, source=_SOURCE)
    now, before = (median(side) for side in zip(*pairs, strict=True))
    said = f"{what}: {now:.2g}, {before:.2g} before"
    grown = now - before
    weight = 0.4 if grown >= _UNDONE and now >= 1.5 * before else 0.0
    return weighed(said, Route.TIME, weight, value=now, reference=before, source=_SOURCE,
                   throughout=weight == 0.0 and before >= _UNDONE)  # fmt: skip


def _slow_ones(context: Context, doses: dict[str, _Dose]) -> Evidence:
    """Return whether the slow targets are those that were not trimmed for longest."""
    what = f"{_DOSE}, slow targets against fast"
    around = breadth(context)
    slow, fast = (
        [doses[one].sizes for one in names if one in doses] for names in (around.slow, around.fast)
    )
    if not slow or not fast:
        return not_available(what, Route.TARGETS, around.reason)
    ours, theirs = median(slow), median(fast)
    said = f"{what}: {ours:.2g}, {theirs:.2g}"
    if ours >= _UNDONE and ours >= 1.5 * theirs:
        weight = 0.9 * (1 - 1 / (1 + min(len(slow), len(fast))))
    else:
        weight = -0.5
    return weighed(said, Route.TARGETS, weight, value=ours, reference=theirs,
                   targets=around.slow, source=_SOURCE)  # fmt: skip


def _continuous(context: Context) -> Evidence:
    """Return whether ldiskfs trims by itself as files are removed: then no trim is overdue."""
    what = "a mount option that trims as files are removed"
    options = mount_trims(context)
    if options is None:
        return not_available(what, Route.EXPECTED, "no snapshot holds the mount options",
                             source="mount/options")  # fmt: skip
    share, of = options
    said = f"{what}: on {share} of {of} targets"
    return weighed(said, Route.EXPECTED, -1.0 if share * 2 > of else 0.0, value=float(share),
                   reference=float(of), source="mount/options")  # fmt: skip


def _shape(context: Context) -> Evidence:
    """Return whether it went down by degrees, as the pool of erased blocks runs dry."""
    shape = context.incident.shape
    weight = {Shape.DRIFT: 0.5, Shape.DIP: -0.7, Shape.STEP: -0.2}.get(shape, 0.0)
    said = "it went down by degrees" if shape is Shape.DRIFT else f"the incident is a {shape}"
    return weighed(f"{said}; erased blocks run out over days", Route.RUNS, weight)


CAUSE: Final = Cause(
    id="trim-overdue",
    title="trim overdue",
    prior=UNSEEN,
    assess=assess,
    measurement=(
        "Trim one target in a quiet hour and measure it beside its neighbours before and after: "
        "if trims were overdue, its writes come back in full."
    ),
    brings_about=("garbage-collection",),
)
