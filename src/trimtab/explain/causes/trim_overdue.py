"""`trim-overdue`: enough was written since the last trim to exhaust the drives' erased blocks.

The dose is the volume written to a target since its last trim, in multiples of its size: about 5
cost about a tenth of write bandwidth, and a trim restored it in full [S3]; in the simulation [S10]
half a size already undoes a trim at 75 % full, and 2 sizes are the steady state. A dose grows
gradually and makes no dips.

```
 trims known          last trim ├────────── rate x time ──────────▶ now
 none, discards seen  attached  ├── all bytes written: never trimmed, or only by mkfs
                      first seen├── rate x time: a lower bound, if discards stay constant
 none, none seen      a trim would not show: unknown
```
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from statistics import median
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.incident import Against, Evidence, Route, Shape
from trimtab.base.units import format_duration
from trimtab.explain.breadth import breadth
from trimtab.explain.causes.evidence import SLACK, UNSEEN, disks, named, writes_and_reads
from trimtab.explain.causes.trim_history import (
    distinct,
    last_seen,
    mount_trims,
    recovery_evidence,
    still_last,
    trims,
)
from trimtab.explain.context import Cause, Context, always_at
from trimtab.explain.contrast import Sign
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import OSTS, Observations, observe

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
        In multiples of its capacity: the largest of the bad stretch, which a trim may have ended.
    before
        The largest usual dose: the first known in the good stretch, or between two earlier trims.
        Erased blocks run out over days, so late good hours may already lead to the incident.
    trimmed
        The trim that it counts from; ``None`` if none is known: it is then a lower bound.
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
        Trims of each target visible in telemetry, from `trim_history.last_seen`.
    """
    targets = _targets(context, seen, shown)
    if isinstance(targets, Message):
        return targets
    bad, good = seen.times(bad=True), seen.times(bad=False)
    if not bad and not trims(context):
        return Message("no-bad-snapshots", "no snapshot in the bad hours could show a trim")
    now = bad[-1] if bad else context.end
    begun = min((window.from_ for window in context.bad), default=now)
    by_target = {name: _dose_at(target, (begun, now), good) for name, target in targets.items()}
    known = {name: dose for name, dose in by_target.items() if dose is not None}
    return known or Message(
        "trims-unknown", "log book, timer and discards show no trim and could not have shown one"
    )


def _dose_at(
    target: _Target, bad: tuple[datetime, datetime], good: Sequence[datetime]
) -> Dose | None:
    begun, now = bad
    ends = [*(at for at in target.trims if begun < at <= now), now]
    waits = [(_since(target, last, end), last) for end in ends
             if (last := _last(target.trims, end, before=end < now)) is not None]  # fmt: skip
    if waits:
        sizes, trimmed = max(waits)
        return Dose(sizes, _before(target, trimmed, good), trimmed)
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
    span = _since(target, good[0], now) if good else 0.0
    return Dose(least, max(0.0, least - span) if good else None, None)


def _before(target: _Target, trimmed: datetime, good: Sequence[datetime]) -> float | None:
    """Return the largest usual dose: the first known in good hours, or between trims until one."""
    known = ((_last(target.trims, then), then) for then in good)
    first = next((_since(target, at, then) for at, then in known if at is not None), None)
    if first is None:
        return None
    done = [at for at in target.trims if at <= trimmed]
    return max([first, *(_since(target, at, later) for at, later in pairwise(done))])


def _last(times: Sequence[datetime], now: datetime, *, before: bool = False) -> datetime | None:
    """Return the last of the sorted times up to ``now``; with ``before``, the last before it."""
    place = bisect_left(times, now) if before else bisect_right(times, now)
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


_FULL_WRITES: Final = 5.0
"""Target sizes written since the last trim at which a tenth of write bandwidth was lost."""
_STEADY: Final = 2.0
"""Sizes after which the loss no longer grows: the steady state of the simulation."""
_NIGHTLY: Final = 0.1
"""A day's expected traffic is 0.07 sizes [S3]: below it trims are frequent."""
_NEVER: Final = 0.35
"""Never trimmed, but not much written yet: it will be overdue."""
_LITTLE: Final = 0.03
_STAYED_AWAY: Final = 4.0
"""Usual intervals without a trim."""
_SHARE_OVERDUE: Final = 0.1
"""Share of targets: a few missed ones are enough to slow a probe over all."""
_INTERVALS: Final = 2
"""Fewest intervals between trims for a usual interval."""
_WRITTEN: Final = "bytes written since the last trim, in target sizes"
_SOURCE: Final = "bytes_written_total, trims in the log book, last_trim_at, bytes_discarded_total"
_DOSE: Final = Sign("trim-dose", Route.EXPECTED, _WRITTEN, source=_SOURCE, view=View.DRIVES)
_IN_TIME: Final = Sign(
    "trim-dose-in-time",
    Route.TIME,
    f"{_WRITTEN}, bad hours against good",
    source=_SOURCE,
    view=View.DRIVES,
)
_BETWEEN: Final = Sign(
    "trim-dose-between-targets",
    Route.TARGETS,
    f"{_WRITTEN}, slow targets against fast",
    view=View.DRIVES,
)


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against an overdue trim."""
    on_disks = disks(context)
    if on_disks is not None:
        return (on_disks,)
    seen = observe(context)
    shown = last_seen(seen)
    dose_of = doses(context, seen, shown)
    common = (
        recovery_evidence(context, speaks_for=True),
        _schedule(context, shown),
        _continuous(context),
        _shape(context, known=not isinstance(dose_of, Message)),
        writes_and_reads(context),
    )
    if isinstance(dose_of, Message):
        missing = (sign.not_available(dose_of) for sign in (_DOSE, _IN_TIME, _BETWEEN))
        return (*missing, *common)
    return (_dose(dose_of), _grown(context, dose_of), _slow_ones(context, dose_of), *common)


def _dose(dose_of: dict[str, Dose]) -> Evidence:
    """Return whether the dose is large enough to cost bandwidth."""
    most = max(dose_of.values(), key=lambda dose: dose.sizes)
    middle = median(dose.sizes for dose in dose_of.values())
    untrimmed = sorted(target for target, dose in dose_of.items() if dose.trimmed is None)
    text = f"{middle:.2g} target sizes written since the last trim, median target"
    if untrimmed:
        text += f"; no recorded trim of {named(untrimmed)}: a lower bound"
    dose = max(middle, most.sizes / 2)
    if len(untrimmed) * 2 > len(dose_of) and dose < UNDONE:
        weight = _NEVER if dose >= _LITTLE else 0.0
    elif dose < _NIGHTLY:
        weight = -1.3
    elif dose < UNDONE:
        weight = -0.5
    else:
        weight = min(1.0, 0.2 + 0.8 * math.log(dose / UNDONE) / math.log(_FULL_WRITES / UNDONE))
    same = [
        dose
        for dose in dose_of.values()
        if dose.before is not None and dose.before >= min(dose.sizes / 2, _STEADY)
    ]
    throughout = dose >= UNDONE and len(same) * 2 > len(dose_of)
    return _DOSE.weighed(
        text, weight, value=middle, reference=_FULL_WRITES, at=most.trimmed, throughout=throughout,
        against=Against.CONDITION,
    )  # fmt: skip


def _grown(context: Context, dose_of: dict[str, Dose]) -> Evidence:
    """Return whether the dose was much smaller in the good hours, or a trim came just before."""
    begun = context.incident.at
    fresh = {
        target: dose.trimmed
        for target, dose in sorted(dose_of.items())
        if dose.trimmed is not None and begun - timedelta(hours=24) <= dose.trimmed <= begun + SLACK
    }
    # A recent trim rules this out, unless none has come since and the dose has grown large.
    if len(fresh) * 2 > len(dose_of) and median(dose.sizes for dose in dose_of.values()) < UNDONE:
        last = max(fresh.values())
        apart = format_duration(abs((begun - last).total_seconds()))
        text = f"{len(fresh)} of {len(dose_of)} targets trimmed {apart} "
        text += f"{'before' if last <= begun else 'after'} the first bad run"
        return _IN_TIME.weighed(
            text, -1.0, code="trimmed-recently", at=last, targets=tuple(fresh),
            against=Against.CONDITION,
        )  # fmt: skip
    pairs = [(dose.sizes, dose.before) for dose in dose_of.values() if dose.before is not None]
    if not pairs:
        return _IN_TIME.missing("trims-unknown", "trims before the good hours are unknown")
    now, before = (median(side) for side in zip(*pairs, strict=True))
    text = f"{_IN_TIME.subject}: {now:.2g}, {before:.2g} before"
    grown = now - before
    weight = 0.0
    if grown >= UNDONE and now >= 1.5 * before and before < _STEADY:
        weight = 0.7 if now >= max(1.0, 3 * before) else 0.4
    return _IN_TIME.weighed(
        text, weight, value=now, reference=before, throughout=weight == 0.0 and before >= UNDONE
    )


def _slow_ones(context: Context, dose_of: dict[str, Dose]) -> Evidence:
    """Return whether the slow targets are those that went longest without a trim."""
    around = breadth(context)
    slow, fast = (
        [dose_of[name].sizes for name in names if name in dose_of]
        for names in (around.slow, around.fast)
    )
    if not slow or not fast:
        return _BETWEEN.not_available(around.reason)
    ours, theirs = median(slow), median(fast)
    text = f"{_BETWEEN.subject}: {ours:.2g}, {theirs:.2g}"
    if ours >= UNDONE and ours >= 1.5 * theirs:
        weight = 0.9 * (1 - 1 / (1 + min(len(slow), len(fast))))
    else:
        weight = -0.5 if around.explains else 0.0
    return _BETWEEN.weighed(
        text, weight, value=ours, reference=theirs, targets=around.slow, source=_SOURCE,
        against=Against.RIVAL,
    )  # fmt: skip


def _schedule(context: Context, shown: Mapping[str, Sequence[datetime]]) -> Evidence:
    """Return whether regular trims had stopped when the incident began.

    Per target: some may have been left out while the others were trimmed as usual.
    """
    sign = Sign(
        "trims-missed",
        Route.LOG,
        "missed trims",
        source="trims in the log book, last_trim_at",
        unit="s",
        view=View.DRIVES,
    )
    events = [event for event in trims(context) if event.end <= _end(context)]
    names = sorted(
        {*shown, *(target for event in events for target in event.targets), *context.home}
    )
    last = still_last(observe(context))
    if not observe(context).times(bad=True):
        # Where no snapshot could show a trim, only the log book says that there was none.
        shown = {}
    of_all = {event.end for event in events if not event.targets}
    of_some = [event for event in events if event.targets]
    # Most targets are trimmed together, and a year has many nights: cache.
    logged = cache(lambda known: _wait(context, sorted(known)))
    waits: list[_Wait] = []
    for name in names or [""]:
        of_log = frozenset(of_all | {e.end for e in of_some if name in e.targets})
        wait = logged(of_log) or _shown_wait(context, name, shown.get(name, ()), last)
        if wait is not None:
            waits.append(wait)
    if not waits:
        return sign.missing("too-few-trims", "too few trims are known before it", source=None)
    overdue = [wait for wait in waits if wait.times >= _STAYED_AWAY]
    some = len(overdue) >= max(1, _SHARE_OVERDUE * len(waits))
    typical = sorted(overdue if some else waits, key=lambda wait: wait.times)
    wait = typical[len(typical) // 2]
    text = (
        f"trims every {format_duration(wait.usual_s)}, "
        f"then none for {format_duration(wait.waited_s)}"
    )
    if some and len(overdue) < len(waits):
        text += f", on {len(overdue)} of {len(waits)} targets"
    weight = 0.8 if wait.times >= _STAYED_AWAY else 0.3 if wait.times >= 2 else -0.5
    return sign.weighed(text, weight, value=wait.waited_s, reference=wait.usual_s, at=wait.last)


@dataclass(frozen=True, slots=True)
class _Wait:
    """How long a target waited for its next trim when the incident began, and its usual wait."""

    usual_s: float
    waited_s: float
    last: datetime

    @property
    def times(self) -> float:
        """The wait in usual intervals."""
        return self.waited_s / self.usual_s


def _end(context: Context) -> datetime:
    """Return the end of the incident, or of the record if it is open: nothing later counts."""
    return context.incident.until or context.now


def _usual_s(before: Sequence[datetime]) -> float | None:
    if len(before) < _INTERVALS + 1:
        return None
    gaps = [later - earlier for earlier, later in pairwise(before)]
    return max(median(gap.total_seconds() for gap in gaps), 3600.0)


def _wait(context: Context, logged: Sequence[datetime]) -> _Wait | None:
    """Return the wait for a trim according to a log book that has every trim."""
    before = distinct(at for at in logged if at <= context.incident.at)
    usual_s = _usual_s(before)
    if usual_s is None:
        return None
    end = _end(context)
    until = min((at for at in logged if context.incident.at < at <= end), default=end)
    return _Wait(usual_s, (until - before[-1]).total_seconds(), before[-1])


def _shown_wait(
    context: Context,
    target: str,
    shown: Sequence[datetime],
    last: Mapping[tuple[str, datetime], datetime],
) -> _Wait | None:
    """Return the wait shown by snapshots: as long as one says the trim is still the latest.

    Few snapshots of an incident are loaded, and trims between two of them are missed.
    """
    before = distinct(at for at in shown if at <= context.incident.at)
    usual_s = _usual_s(before)
    if usual_s is None:
        return None
    seen_until = last.get((target, before[-1]), context.incident.at)
    until = min(max(seen_until, context.incident.at), _end(context))
    return _Wait(usual_s, (until - before[-1]).total_seconds(), before[-1])


def _continuous(context: Context) -> Evidence:
    """Return whether ldiskfs discards as files are deleted: then no trim is overdue."""
    subject = "mount option for online discard"
    sign = Sign(
        "trims-by-mount-option", Route.EXPECTED, subject, source="mount/options", view=View.SETTINGS
    )
    options = mount_trims(context)
    if options is None:
        return sign.missing("name-missing", "no snapshot contains the mount options")
    share, of = options
    text = f"{subject}: on {share} of {of} targets"
    return sign.weighed(
        text, -1.0 if share * 2 > of else 0.0, value=float(share), reference=float(of),
        against=Against.CONDITION,
    )  # fmt: skip


def _shape(context: Context, *, known: bool) -> Evidence:
    """Return whether the level fell gradually, as the pool of erased blocks drains."""
    sign = Sign("shape-of-decline", Route.RUNS, view=View.PROBE)
    shape = context.incident.shape
    if not known or shape is Shape.MOMENT:
        return sign.weighed("the pool of erased blocks drains over days", 0.0)
    weight = {Shape.DRIFT: 0.5, Shape.DIP: -1.3, Shape.STEP: -0.2}.get(shape, 0.0)
    text = "it fell gradually" if shape is Shape.DRIFT else f"the incident is a {shape}"
    return sign.weighed(f"{text}; the pool of erased blocks drains over days", weight)


TRIM_OVERDUE: Final = Cause(
    id="trim-overdue",
    title="trim overdue",
    prior=UNSEEN,
    assess=assess,
    acts_on=always_at("drive"),
    slows_metadata=False,
    signs=(
        "trim-dose",
        "trim-dose-in-time",
        "trim-dose-between-targets",
        "trims-missed",
        "trim-recovery",
    ),
    measurement=(
        "Trim one target in a quiet hour and measure it beside its neighbours before and after. "
        "If trims were overdue, its writes recover in full."
    ),
    brings_about=("garbage-collection",),
)
