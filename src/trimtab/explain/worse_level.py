"""Level changes for the worse, and drifts: slow declines without a step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import polars as pl

from trimtab.base.error import code_of
from trimtab.base.incident import Shape
from trimtab.base.series import DIRECTION, ChangePoint, ChangeStatus, SeriesJudgement
from trimtab.base.verdict import Interval, TrendDirection
from trimtab.explain.spell import Spell, name_of, percent_off
from trimtab.judge.array import scatter
from trimtab.judge.bootstrap import N_MINIMUM, ratio_interval

_BACK: Final = 0.5
"""The level has recovered when half the loss is back: the effects' intervals allow no more."""
_SHORT: Final = timedelta(days=2)
"""A level that recovered within this time was a dip (`Shape.DIP`)."""
_PLACED: Final = timedelta(hours=12)
_SUSPECT_LEAST: Final = 0.05
"""Minimum size of a suspected level change. A smaller one must be confirmed: a few suspects a year
are false, and those are small."""
_UNFINISHED: Final = 0.1
"""Share of the runs. If this many more do not finish than before, the level covers all runs: those
that still finish may be as fast as ever."""
_LEVEL_RUNS: Final = 336
"""Runs of a level that determine its scatter: two weeks of hourly ones."""
_SCATTER_RUNS: Final = 12
_SCATTER_LEAST: Final = 0.01
_AROUND: Final = timedelta(days=14)
_DECLINE_DAYS: Final = 10
_DECLINE_LEAST: Final = 5.0
"""Minimum days for a gradual loss; a shorter one is a step."""
_EVERY: Final = 2
"""Grid step in days for the beginning and end of a fitted line."""
_DRIFT_LEAST: Final = 0.05
"""Loss over the days of the trend; below it a drift is not yet an incident."""
_SAME_LEVEL: Final = 0.005
"""A level this close to the previous one may as well be the same."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A level change, with both levels over all runs.

    Attributes
    ----------
    before, after
        Median of the finished runs, minus the unfinished share if that changed too.
    lost
        Unfinished runs after it, and how many runs there were; ``None`` if no more than before.
    """

    point: ChangePoint
    before: float | None
    after: float | None
    lost: tuple[int, int] | None

    @property
    def confirmed(self) -> bool:
        return self.point.status is ChangeStatus.CONFIRMED

    @property
    def fell_too(self) -> bool:
        """Whether runs were lost and the level of the finished ones fell as well."""
        return self.lost is not None and _fell(self.point)

    def is_worse(self, *, more_is_better: bool) -> bool:
        """Whether it is for the worse; never if no run finished before."""
        if self.before is None:
            return False
        if self.after is None:
            return True
        return self.after < self.before if more_is_better else self.after > self.before

    @property
    def size(self) -> float:
        """Fraction of the level that was lost."""
        return 1.0 if not self.before or self.after is None else abs(self.after / self.before - 1)


def _changes(judgement: SeriesJudgement, frame: pl.DataFrame) -> list[_Change]:
    """Return the changes of a series that were not dismissed and have a known direction."""
    points = _staged(
        [
            point
            for point in judgement.changes
            if point.dismissed_at is None and code_of(point.reason) != DIRECTION
        ],
        frame,
    )
    times = frame["at"]
    ended = ~frame["unfinished"].fill_null(value=True)
    edges = [
        int(times.search_sorted(point.at))
        for point in points
        if point.status is ChangeStatus.CONFIRMED
    ]
    changes: list[_Change] = []
    for point in points:
        place = int(times.search_sorted(point.at))
        begin = max((edge for edge in edges if edge < place), default=0)
        end = min((edge for edge in edges if edge > place), default=frame.height)
        sides = ended[max(begin, place - _LEVEL_RUNS) : place], ended[place:end][:_LEVEL_RUNS]
        shares = [float(side.mean() or 0.0) if len(side) else 1.0 for side in sides]  # pyrefly: ignore[bad-argument-type]
        before, after, lost = point.before, point.after, None
        # A duration has no value for an unfinished run, which is left out of the series.
        # Runs lost before, perhaps long before, do not turn a lower level into a better one.
        more_lost = shares[1] <= shares[0] - _UNFINISHED
        fewer_lost = shares[1] >= shares[0] + _UNFINISHED and not _fell(point)
        if judgement.key.more_is_better and (more_lost or fewer_lost):
            before, after = (before or 0.0) * shares[0], (after or 0.0) * shares[1]
            if more_lost:
                lost = len(sides[1]) - int(sides[1].sum()), len(sides[1])
        changes.append(_Change(point, before, after, lost))
    return changes


def _staged(points: Sequence[ChangePoint], frame: pl.DataFrame) -> list[ChangePoint]:
    """Merge changes that are stages of one fall, or of one rise.

    While a level falls over hours, its runs scatter over the whole fall, so the effect is uncertain
    however far the level fell in the end. If the interval of a confirmed change is wider than the
    change, or it has too few runs for one, and another follows in the same direction within
    `_SHORT`, the levels before and after both are compared.
    """
    certain = [point for point in points if point.status is ChangeStatus.CONFIRMED]
    chains: list[list[ChangePoint]] = []
    for point in certain:
        if chains and _is_next_stage(chains[-1][-1], point):
            chains[-1].append(point)
        else:
            chains.append([point])
    edges = [point.at for point in certain]
    joined = [point for point in points if point.status is not ChangeStatus.CONFIRMED]
    for chain in chains:
        end = min((at for at in edges if at > chain[-1].at), default=None)
        begin = max((at for at in edges if at < chain[0].at), default=None)
        joined.append(chain[0] if len(chain) == 1 else _joined(chain, begin, end, frame))
    return sorted(joined, key=lambda point: point.at)


def _is_next_stage(point: ChangePoint, later: ChangePoint) -> bool:
    """Return whether two confirmed changes, one of uncertain size, are one."""
    if point.effect is None or later.effect is None or later.at - point.at >= _SHORT:
        return False
    same_way = (point.effect < 1) == (later.effect < 1)
    return same_way and not (_is_sized(point) and _is_sized(later))


def _joined(
    chain: Sequence[ChangePoint], begin: datetime | None, end: datetime | None, frame: pl.DataFrame
) -> ChangePoint:
    """Return the change from the level before a chain to the level after it.

    Parameters
    ----------
    begin, end
        First run of the level before, and first run after the last level; ``None``: ends of the
        record.
    """
    first, last = chain[0], chain[-1]
    at = pl.col("at")
    finished = frame.filter(~pl.col("unfinished") & pl.col("value").is_not_null())
    before = finished.filter(at < first.at, True if begin is None else at >= begin)
    after = finished.filter(at >= last.at, True if end is None else at < end)
    values = [
        side["value"].to_list() for side in (before.tail(_LEVEL_RUNS), after.head(_LEVEL_RUNS))
    ]
    effect = last.after / first.before if first.before and last.after is not None else None
    return replace(
        first,
        effect=effect,
        effect_interval=ratio_interval(values[1], values[0]),
        after=last.after,
        n_after=last.n_after,
    )


def _fell(point: ChangePoint) -> bool:
    """Return whether the finished runs were certainly lower than before."""
    return point.effect_interval is not None and point.effect_interval.high < 1 - _SAME_LEVEL


def _is_about_1(interval: Interval) -> bool:
    """Return whether this effect is compatible with no change."""
    return interval.low < 1 + _SAME_LEVEL and interval.high > 1 - _SAME_LEVEL


def _is_sized(point: ChangePoint) -> bool:
    """Return whether the size of a change is known, not just its existence."""
    interval, effect = point.effect_interval, point.effect
    if interval is None or not effect or interval.low <= 0:
        return min(point.n_before, point.n_after) >= N_MINIMUM
    return math.log(interval.high / interval.low) <= abs(math.log(effect))


def steps(judgement: SeriesJudgement, frame: pl.DataFrame) -> Iterator[Spell]:
    """Yield the changes for the worse of one series; a recovery ends one and is not one itself."""
    more = judgement.key.more_is_better
    changes = _changes(judgement, frame)
    times: list[datetime] = frame["at"].to_list()
    gradual: set[int] = set()
    for places in _downward(changes, more):
        decline = _decline(judgement, frame, [changes[place].point for place in places])
        if decline is not None:
            gradual |= set(places)
            yield _gradual(judgement, frame, changes, places, decline)
    for index, change in enumerate(changes):
        if index in gradual or not change.is_worse(more_is_better=more) or _is_faint(change):
            continue
        point = change.point
        back = _recovery(change, changes[index + 1 :], more)
        upto = times[-1] if back is None else max(at for at in times if at < back.at)
        length = upto - point.at
        begun = min(_sharpened(change, frame), upto)
        short = back is not None and length < _SHORT
        yield Spell(
            shape=Shape.DIP if short else Shape.STEP,
            key=judgement.key,
            name=name_of(judgement.key),
            at=begun,
            until=None if back is None else upto,
            last=upto,
            detected_at=max(begun, point.detected_at),
            certainty=point.status,
            depth=change.size / _scatter(point, judgement, frame),
            what=_effect_text(change, more),
            effect=point.effect,
            effect_interval=point.effect_interval,
            runs=sum(begun <= at <= upto for at in times),
            unfinished=_unfinished(frame, begun, upto),
            is_level=change.confirmed,
        )


def _downward(changes: Sequence[_Change], more_is_better: bool) -> Iterator[list[int]]:
    """Yield the positions of at least two confirmed changes that follow one another downwards."""
    places: list[int] = []
    for index, change in enumerate(changes):
        if not change.confirmed or _is_faint(change):
            continue
        if change.lost is None and change.is_worse(more_is_better=more_is_better):
            places.append(index)
            continue
        if len(places) > 1:
            yield places
        places = []
    if len(places) > 1:
        yield places


@dataclass(frozen=True, slots=True)
class _Decline:
    """A gradual loss: when it began, and the ratio of the last level to the first."""

    at: datetime
    ratio: float


def _decline(
    judgement: SeriesJudgement, frame: pl.DataFrame, points: Sequence[ChangePoint]
) -> _Decline | None:
    """Return the gradual loss that fits the days better than the steps confirmed in it.

    Notes
    -----
    Logarithms of daily medians, from two weeks before the first step to two weeks after the last,
    are fitted by constant levels between the k steps, and by a level, a straight line and a level.
    The fit with the smaller Bayesian information criterion wins; steps have 2 k + 1 parameters, the
    line has four.
    """
    confirmed = [
        change.at for change in judgement.changes if change.status is ChangeStatus.CONFIRMED
    ]
    begin = max((at for at in confirmed if at < points[0].at), default=points[0].at - _AROUND)
    end = min((at for at in confirmed if at > points[-1].at), default=points[-1].at + _AROUND)
    begin, end = max(begin, points[0].at - _AROUND), min(end, points[-1].at + _AROUND)
    within = frame.filter(pl.col("at").is_between(begin, end, closed="left"))
    daily = (
        within.filter(pl.col("value") > 0)
        .group_by_dynamic("at", every="1d")
        .agg(pl.median("value"))
    )
    if daily.height < _DECLINE_DAYS:
        return None
    days = daily["at"].dt.epoch("us").to_numpy() / 86400e6 + 0.5
    logs = np.log(daily["value"].to_numpy())
    part = np.searchsorted([point.at.timestamp() / 86400 for point in points], days)
    levels = [logs[part == number] for number in np.unique(part)]
    n = len(days)
    stepped = sum(float(((level - level.mean()) ** 2).sum()) for level in levels)
    line = min(
        (
            (*_ramp(days, logs, first, last), first)
            for first in days[::_EVERY]
            for last in days[::_EVERY]
            if last - first >= _DECLINE_LEAST
        ),
        default=None,
    )
    if line is None:
        return None
    least = (0.5 * _SCATTER_LEAST) ** 2 * n
    cost = n * np.log(max(stepped, least)) + (2 * len(points) + 1) * np.log(n)
    if n * np.log(max(line[0], least)) + 4 * np.log(n) >= cost:
        return None
    began = datetime.fromtimestamp(float(line[2]) * 86400, tz=UTC)
    return _Decline(max(begin, min(began, points[0].at)), float(np.exp(line[1])))


def _ramp(days: Any, logs: Any, first: float, last: float) -> tuple[float, float]:
    """Return the residual sum of squares of a line between two days, and the loss along it."""
    ramp = np.clip((days - first) / (last - first), 0.0, 1.0)
    about = ramp - ramp.mean()
    loss = float(about @ logs) / max(float(about @ about), 1e-12)
    rest = logs - logs.mean() - loss * about
    return float(rest @ rest), loss


def _gradual(
    judgement: SeriesJudgement,
    frame: pl.DataFrame,
    changes: Sequence[_Change],
    places: Sequence[int],
    decline: _Decline,
) -> Spell:
    """Return the spell of a gradual loss: it lasts as long as any of its steps."""
    more = judgement.key.more_is_better
    first = changes[places[0]].point
    times: list[datetime] = frame["at"].to_list()
    backs = [_recovery(changes[place], changes[place + 1 :], more) for place in places]
    ended = [back.at for back in backs if back is not None]
    last = times[-1]
    if len(ended) == len(backs):
        last = max(at for at in times if at < max(ended))
    effect = decline.ratio
    return Spell(
        shape=Shape.DRIFT,
        key=judgement.key,
        name=name_of(judgement.key),
        at=decline.at,
        until=last if len(ended) == len(backs) else None,
        last=last,
        detected_at=first.detected_at,
        certainty=ChangeStatus.CONFIRMED,
        depth=abs(1 - effect) / _scatter(first, judgement, frame),
        what=f"{percent_off(effect, more_is_better=more)}, day by day",
        effect=effect,
        runs=sum(decline.at <= at <= last for at in times),
        unfinished=_unfinished(frame, decline.at, last),
        is_level=True,
    )


def drift(judgement: SeriesJudgement) -> Iterator[Spell]:
    """Yield the trend of a series as a spell, if it loses day by day without a step."""
    trend = judgement.trend
    down = TrendDirection.FALLING if judgement.key.more_is_better else TrendDirection.RISING
    if trend.direction is not down or trend.change_per_day is None:
        return
    if trend.from_ is None or trend.to is None:
        return
    lost = abs(trend.change_per_day) * (trend.to - trend.from_).total_seconds() / 86400
    stepped = any(
        change.dismissed_at is None and change.at >= trend.from_ for change in judgement.changes
    )
    if stepped or lost < _DRIFT_LEAST:
        return
    more = judgement.key.more_is_better
    yield Spell(
        shape=Shape.DRIFT,
        key=judgement.key,
        name=name_of(judgement.key),
        at=trend.from_,
        until=None,
        last=trend.to,
        detected_at=trend.to,
        certainty=ChangeStatus.CONFIRMED,
        depth=lost / max(0.01, judgement.overall.mad_cv or 0.01),
        what=f"{percent_off(1 - lost if more else 1 + lost, more_is_better=more)}, day by day",
        effect=1 - lost if more else 1 + lost,
        runs=sum(regime.n for regime in judgement.regimes),
    )


def _sharpened(change: _Change, frame: pl.DataFrame) -> datetime:
    """Return the run near a change from which runs are closer to the new level.

    A change point is located where a whole level begins, to within hours; its cause is searched to
    the hour. Among the runs within `_PLACED`, take the one that leaves the fewest runs on the wrong
    side of the midpoint between the levels. Unfinished runs are at the bottom; if the change
    consists of nothing else, they are the new level.
    """
    point = change.point
    if not point.before:
        return point.at
    near = frame.filter(pl.col("at").is_between(point.at - _PLACED, point.at + _PLACED))
    times: list[datetime] = near["at"].to_list()
    only_lost = change.lost is not None and not change.fell_too
    after = 0.0 if only_lost else point.after or 0.0
    values = near["value"].fill_null(0.0).to_numpy()
    is_new = (values < (point.before + after) / 2) == (after < point.before)
    # Before each run, new-level runs are on the wrong side; from it on, old-level ones are.
    wrong_before = np.concatenate([[0], np.cumsum(is_new)])
    wrong_after = np.concatenate([np.cumsum(~is_new[::-1])[::-1], [0]])
    wrong = (wrong_before + wrong_after)[: len(times)]
    best = np.flatnonzero(wrong == wrong.min()) if len(times) else []
    if not len(best):
        return point.at
    return min((times[index] for index in best), key=lambda at: abs(at - point.at))


def _is_faint(change: _Change) -> bool:
    """Return whether a change is too small for an incident before it is confirmed.

    Or is no level change: lost runs, or a dip that is over, confirm a change whose interval
    includes or almost includes 1.
    """
    if not change.confirmed:
        return change.size < _SUSPECT_LEAST
    interval = change.point.effect_interval
    return change.lost is None and interval is not None and _is_about_1(interval)


def _recovery(
    change: _Change, later: Sequence[_Change], more_is_better: bool
) -> ChangePoint | None:
    """Return the change that restored the level, ``None`` if it stayed.

    A confirmed change is over when its recovery is confirmed: a suspect may yet be dismissed.
    """
    if change.before is None:
        return None
    point = change.point
    for other in later:
        if other.after is None or (change.confirmed and not other.confirmed):
            continue
        levels = [(change.before, change.after, other.after)]
        if change.fell_too:  # Both must recover.
            levels.append((point.before or 0.0, point.after, other.point.after or 0.0))
        if all(_is_back(*level, more_is_better=more_is_better) for level in levels):
            return other.point
    return None


def _is_back(before: float, after: float | None, now: float, *, more_is_better: bool) -> bool:
    """Return whether half of the loss is back."""
    middle = (after or 0.0) + _BACK * (before - (after or 0.0))
    return now >= middle if more_is_better else now <= middle


def _scatter(point: ChangePoint, judgement: SeriesJudgement, frame: pl.DataFrame) -> float:
    """Return the robust COV of the level before a change, unaffected by what came later."""
    begin = max(
        (
            other.at
            for other in judgement.changes
            if other.status is ChangeStatus.CONFIRMED and other.at < point.at
        ),
        default=None,
    )
    before = frame.filter(pl.col("at") < point.at)
    if begin is not None:
        before = before.filter(pl.col("at") >= begin)
    values = before["value"].drop_nulls().tail(_LEVEL_RUNS).to_numpy()
    values = values[values > 0]
    if len(values) < _SCATTER_RUNS:
        return max(_SCATTER_LEAST, judgement.overall.mad_cv or 0.0)
    return max(_SCATTER_LEAST, scatter(values) / float(np.median(values)))


def _effect_text(change: _Change, more_is_better: bool) -> str:
    effect = change.point.effect
    parts = [] if effect is None else [percent_off(effect, more_is_better=more_is_better)]
    if change.point.of_unit is not None:
        parts = [change.point.of_unit]
    if change.lost is not None:
        lost, of = change.lost
        parts.append("no run finished" if lost == of else f"{lost} of {of} runs did not finish")
    return ", ".join(parts) or "no run finished"


def _unfinished(frame: pl.DataFrame, begin: datetime, end: datetime) -> int:
    within = frame.filter(pl.col("at").is_between(begin, end))
    return int(within["unfinished"].sum())
