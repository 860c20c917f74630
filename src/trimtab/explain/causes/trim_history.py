"""When each target was last trimmed, and the effect of trims on the level.

Recovery after a trim separates the drives' route to "slow from 75 % full" from the block
allocator's [S10], so several causes use it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.event import Event, EventKind
from trimtab.base.incident import Against, Evidence, Route
from trimtab.base.units import format_percent
from trimtab.explain.causes.evidence import of_incident, settings, surveyed, value_of
from trimtab.explain.context import Context, once
from trimtab.explain.contrast import Sign
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import Observations

_NEAR: Final = timedelta(hours=24)
"""Runs this close to a trim are compared. Trim frees space at once."""
_NEAREST: Final = timedelta(hours=3)
"""Window that holds a few runs of an hourly probe on either side."""
_ENDS_WITH: Final = timedelta(hours=4)
"""An incident whose last bad run is this close to the end of a trim ended with it."""
_LASTED: Final = 3
_RUNS: Final = 2
"""Fewest runs on either side."""
RECOVERED: Final = 0.5
NOT_RECOVERED: Final = 0.2
"""Recovered shares of the loss: above the first the trim helped, below the second it did not."""
_NOTHING: Final = 0.005
_WEIGHT: Final = 1.0
"""log10 of the likelihood ratio of a recovery.

A recovery after one trim may be chance where incidents end by themselves; ETH and the vendor saw
trims restore the level in full [S3; S4]. No one has measured how often, so the figure is a
judgement.
"""
_LAGGED: Final = 0.9
"""Relative to its neighbours; a target that lost less has nothing to recover."""
_DISCARDED: Final = 0.001
"""Share of a target's size between two snapshots that indicates a trim. Without one nothing is
discarded, so anything above rounding counts; a nightly trim discards a day's freed space."""
_BETWEEN_SNAPSHOTS: Final = timedelta(hours=26)
"""Interval of snapshots within which a trim's time is known; beyond it, there was one or several:
the latest moment stands for them, so the dose is a lower bound."""
_SAME: Final = timedelta(hours=3)
"""A journal, a timer and a counter report one trim three times, minutes to hours apart."""
_WORD: Final = re.compile(r"(?<!no)\b(discard|fstrim)\b")


@dataclass(frozen=True, slots=True)
class Recovery:
    """Effect on the level of the trims within the incident.

    Attributes
    ----------
    shares
        Share of the loss recovered by each trim that could be judged.
    last
        The last of those trims.
    chance
        Probability of a trim this close to the end of an incident that ends by itself.
    """

    shares: tuple[float, ...]
    last: Event
    chance: float

    @property
    def share(self) -> float:
        """Median over the trims: many without effect outweigh one that seemed to help."""
        return median(self.shares)


def trims(context: Context) -> tuple[Event, ...]:
    """Return the trims in the log book, earliest first."""
    return tuple(context.entries(lambda event: event.kind is EventKind.TRIM))


def last_seen(seen: Observations) -> dict[str, list[datetime]]:
    """Return the trims of each target visible in telemetry, by any tool.

    Timers report their last run (``last_trim_at``); a jump in ``bytes_discarded_total`` is a trim
    as well, at some time between two snapshots, unless the timer reported it.
    """
    trims_of: dict[str, list[datetime]] = {}
    shown = seen.texts("last_trim_at").group_by("value").agg(pl.col("target").unique().sort())
    for text, targets in shown.sort("value").iter_rows():
        if (at := _moment(text)) is None:
            continue
        for target in targets:
            trims_of.setdefault(target, []).append(at)
    capacity = seen.values("capacity_bytes").group_by("target").agg(size=pl.last("value"))
    discards = seen.values("bytes_discarded_total").sort("target", "at")
    same = pl.col("target") == pl.col("target").shift()
    steps = discards.with_columns(before=pl.col("at").shift(), grown=pl.col("value").diff())
    grew = steps.filter(same & (pl.col("grown") > 0)).join(
        capacity, on="target", maintain_order="left"
    )
    trimmed = grew.filter(pl.col("grown") >= pl.col("size") * _DISCARDED)
    for target, start, end in trimmed.select("target", "before", "at").iter_rows():
        times = trims_of.setdefault(target, [])
        if any(start - _SAME <= at <= end for at in times):
            continue
        near = end - start <= _BETWEEN_SNAPSHOTS
        times.append(start + (end - start) / 2 if near else end)
    return trims_of


def still_last(seen: Observations) -> dict[tuple[str, datetime], datetime]:
    """Return until which snapshot each trim was known to be the last of its target."""
    shown = seen.texts("last_trim_at").group_by("target", "value").agg(pl.max("at"))
    return {
        (target, at): until
        for target, text, until in shown.iter_rows()
        if (at := _moment(text)) is not None
    }


def distinct(times: Iterable[datetime]) -> list[datetime]:
    """Return sorted times, with reports of the same trim merged."""
    separate: list[datetime] = []
    for at in sorted(times):
        if not separate or at - separate[-1] > _SAME:
            separate.append(at)
    return separate


def mount_trims(context: Context) -> tuple[int, int] | None:
    """Return how many targets have online discard mounted, and for how many it is known."""
    options = settings(context, "mount/options").filter("bad")
    last = options.sort("at").group_by("target").agg(pl.last("value"))
    if last.is_empty():
        return None
    return sum(_WORD.search(text) is not None for text in last["value"]), last.height


@once
def recovery(context: Context) -> Recovery | Message:
    """Return what the trims within the incident recovered, or why that is unknown."""
    if context.incident.runs in range(1, _LASTED):
        return Message("too-few-runs", "it lasted a run or two: no trim can have ended it")
    within = [
        event
        for event in trims(context)
        if context.incident.at <= event.at <= (context.incident.until or context.now) + _ENDS_WITH
        and event.end <= context.now
    ]
    if not within:
        return Message("no-trim", "no trim since it began")
    reaches = {targets: _reach(context, targets) for targets in {event.targets for event in within}}
    measured = [
        (share, event)
        for event in within
        if (
            share := _share_of_some(context, event)
            if event.targets
            else _share(context, event, reaches[event.targets])
        )
        is not None
    ]
    if not measured:
        return Message("too-few-runs", "too few runs or surveys near the trims")
    last = measured[-1][1]
    return Recovery(tuple(share for share, _ in measured), last, _chance(context, last))


def _reach(context: Context, targets: tuple[str, ...]) -> timedelta:
    """Return the window around their trims for comparing runs: shorter than to the next trim."""
    usual_s = _usual_gap_s(context, targets)
    third = _NEAR if usual_s is None else timedelta(seconds=usual_s / 3)
    return max(_NEAREST, min(_NEAR, third))


def _usual_gap_s(context: Context, targets: tuple[str, ...]) -> float | None:
    """Return the usual time between trims of these targets."""
    times = [event.at for event in trims(context) if event.targets == targets]
    gaps_s = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    return median(gaps_s) if gaps_s else None


def _chance(context: Context, trim: Event) -> float:
    """Return the probability that such a trim is within `_ENDS_WITH` of any moment."""
    usual_s = _usual_gap_s(context, trim.targets)
    return 0.0 if usual_s is None else min(1.0, 2 * _ENDS_WITH.total_seconds() / max(usual_s, 1.0))


def recovery_evidence(context: Context, *, speaks_for: bool) -> Evidence:
    """Return whether a trim restored the level, as evidence.

    Parameters
    ----------
    speaks_for
        True for what a trim cures, false for what it leaves unchanged.
    """
    recovered = recovery(context)
    # A successful trim is a before/after comparison; a trim without effect shows no onset.
    route = Route.TIME if speaks_for else Route.LOG
    sign = Sign("trim-recovery", route, "recovery after a trim", unit="1", view=View.PROBE)
    if isinstance(recovered, Message):
        return sign.not_available(recovered)
    of = "the trim" if len(recovered.shares) == 1 else f"{len(recovered.shares)} trims, the last"
    back = "nothing" if recovered.share < _NOTHING else format_percent(recovered.share, 0)
    text = f"{back} of the loss recovered with {of} of {recovered.last.at:%d %B %H:%M}"
    weight = _weight(recovered, speaks_for=speaks_for)
    against = Against.ABSENT if speaks_for else Against.RIVAL
    return sign.weighed(
        text, weight, recovered.last, value=recovered.share, reference=RECOVERED, against=against
    )


def _weight(recovered: Recovery, *, speaks_for: bool) -> float:
    if recovered.share >= RECOVERED:
        # If trims run every few hours, one is near the end of anything.
        helped = sum(share >= RECOVERED for share in recovered.shares)
        most = (
            _WEIGHT
            if recovered.chance <= 0
            else min(_WEIGHT, -helped * math.log10(recovered.chance))
        )
        return most if speaks_for else -most
    if recovered.share > NOT_RECOVERED:
        return 0.0
    # The allocator is not the only thing a trim does not cure: for it this says little.
    certain = min(1.0, 0.6 + 0.2 * len(recovered.shares))
    return -_WEIGHT * certain if speaks_for else 0.3 * certain


def _share(context: Context, trim: Event, near: timedelta) -> float | None:
    """Return the share of the loss recovered with a trim; ``None`` if unknown."""
    if context.incident.key is None:
        # Runs of different probes have no common level.
        return None
    end, until = trim.end, context.incident.until
    good, bad = of_incident(context, bad=False), of_incident(context, bad=True)
    after = [run for run in (*bad, *good) if end < run.at <= end + near]
    before = [run for run in bad if trim.at - near <= run.at < trim.at]
    levels = [
        median(values)
        for runs in (before, after, good)
        if len(values := [value for run in runs if (value := value_of(context, run)) is not None])
        >= _RUNS
    ]
    if len(levels) == 3:
        low, now, usual = levels
        return max(-1.0, min(1.5, (now - low) / (usual - low))) if usual > low else None
    # All good hours may precede it. An incident that ended and stayed over has recovered.
    if until is None or not before or context.now - end < _ENDS_WITH:
        return None
    return 1.0 if abs(end - until) <= _ENDS_WITH else None


def _share_of_some(context: Context, trim: Event) -> float | None:
    """Return the share of the trimmed targets' loss that was recovered.

    The one-target experiment: their rate relative to untouched targets, in surveys of the bad
    hours before the trim and of any hours after it.
    """
    rows = surveyed(context)
    if rows is None or rows.is_empty():
        return None
    is_one = pl.col("target").is_in(list(trim.targets))
    rest = pl.col("value").filter(~is_one).median()
    relative = (
        rows.filter(pl.col("metric").str.starts_with("write") & pl.col("value").is_finite())
        .group_by("run", "at", "metric", "bad")
        .agg(value=pl.col("value").filter(is_one).median() / rest)
        .filter(pl.col("value").is_finite())
    )
    before = relative.filter(pl.col("bad") & (pl.col("at") < trim.at))["value"]
    after = relative.filter(pl.col("at") > trim.end)["value"]
    if before.is_empty() or after.is_empty():
        return None
    low, now = (float(level) for level in (before.median(), after.median()))  # pyrefly: ignore[bad-argument-type]
    return max(-1.0, min(1.5, (now - low) / (1 - low))) if low < _LAGGED else None


def _moment(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
