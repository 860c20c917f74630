"""Level changes for the worse, and drifts: slow declines without a step."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import polars as pl

from trimtab.base.incident import Shape
from trimtab.base.series import ChangePoint, ChangeStatus, SeriesJudgement
from trimtab.base.verdict import Interval, TrendDirection
from trimtab.explain.level_change import LEVEL_RUNS, SAME_LEVEL, LevelChange, changes_of
from trimtab.explain.spell import (
    SHORT,
    Spell,
    core_with_most,
    name_of,
    percent_off,
    row_from,
    rows_between,
)
from trimtab.judge.array import median, scatter
from trimtab.judge.bootstrap import ratio_interval
from trimtab.judge.change_place import onset_places
from trimtab.judge.spread import corrected_autocorrelation

_BACK: Final = 0.5
"""The level has recovered when half the loss is back: the effects' intervals allow no more."""
_DAY: Final = timedelta(days=1)
_PLACED: Final = timedelta(hours=12)
_PLACED_MOST: Final = timedelta(hours=96)
"""Maximum distance of a change from where its level begins: a faint one in strong noise is placed
no better, and two faults four days apart are two."""
_DEEP_RUNS: Final = 3
"""Runs in a row that show how deep a level was at its deepest."""
_LOST_MOST: Final = math.log(10)
"""Loss, in logarithms, as which an unfinished run counts."""
_LEAST: Final = 0.05
"""Minimum loss of all but a confirmed level that lasts. A few suspects a year are false, and those
are small; hours that lose less are no dip, and days no drift; a change of unknown direction may be
a gain."""
_BETTER_MOST: Final = timedelta(days=14)
"""A level that lasts longer is the usual one. Better days that end sooner, as while users are on
holiday, are an exception: what follows is the usual level again."""
_SCATTER_RUNS: Final = 12
_SCATTER_LEAST: Final = 0.01
_AROUND: Final = timedelta(days=14)
_DECLINE_DAYS: Final = 10
_DECLINE_LEAST: Final = 5.0
"""Minimum days for a gradual loss; a shorter one is a step."""
_EVERY: Final = 2
"""Grid step in days for the beginning and end of a fitted line."""
_CERTAIN: Final = 0.5
"""Part of a trend that its 95 % interval must leave, as it does at four standard errors. At two,
chance makes one series in 40 decline, and a site has a dozen series."""


def _is_about_1(interval: Interval) -> bool:
    """Return whether this effect is compatible with no change."""
    return interval.low < 1 + SAME_LEVEL and interval.high > 1 - SAME_LEVEL


def steps(judgement: SeriesJudgement, frame: pl.DataFrame) -> Iterator[Spell]:
    """Yield the changes for the worse of one series; a recovery ends one and is not one itself.

    The end of a few better days is none either.
    """
    more = judgement.key.more_is_better
    changes = changes_of(judgement, frame)
    times: list[datetime] = frame["at"].to_list()
    others = _ends_of_better_days(changes, more)
    # All at once: the loop adds to the positions that are left out.
    for places in [*_downward(changes, others, more)]:
        decline = _decline(judgement, frame, [changes[place].point for place in places])
        if decline is not None:
            others |= set(places)
            if abs(1 - decline.ratio) >= _LEAST:
                yield _gradual(judgement, frame, changes, places, decline)
    for index, change in enumerate(changes):
        if index in others or not _is_told(change, more):
            continue
        back = _recovery(change, changes[index + 1 :], more)
        begun = min(_sharpened(change, frame), times[-1])
        upto = times[-1]
        if back is not None:
            end = max(_sharpened(back, frame), times[bisect_right(times, begun)])
            upto = times[bisect_left(times, end) - 1]
        is_short = back is not None and upto - begun < SHORT
        core = None if back is None else _core(change, frame, begun, upto, more_is_better=more)
        if is_short and core is None and change.lost is None and change.size < _LEAST:
            continue
        margin = None if core is None else (begun, upto)
        shown, begun, upto = core or (change, begun, upto)
        point = shown.point
        yield Spell(
            shape=Shape.DIP if is_short or core is not None else Shape.STEP,
            key=judgement.key,
            name=name_of(judgement.key),
            at=begun,
            until=None if back is None else upto,
            last=upto,
            detected_at=max(begun, point.detected_at),
            certainty=point.status,
            depth=shown.size / _scatter(point, judgement, frame),
            what=_effect_text(shown, more),
            effect=point.effect,
            effect_interval=point.effect_interval,
            runs=len(times[rows_between(frame, begun, upto)]),
            unfinished=_unfinished(frame, begun, upto),
            is_level=shown.confirmed,
            onset=_onset(shown, judgement, frame, begun),
            margin=margin,
        )


def _ends_of_better_days(changes: Sequence[LevelChange], more_is_better: bool) -> set[int]:
    """Return the positions of changes that only end better days: the usual level is back.

    A recovery from a trouble does not begin better days.
    """
    ends: set[int] = set()
    recoveries: list[LevelChange] = []
    for index, change in enumerate(changes):
        if not change.direction_known or not change.is_worse(more_is_better=more_is_better):
            continue
        if any(
            better.confirmed
            and better not in recoveries
            and change.point.at - better.point.at <= _BETTER_MOST
            and _is_usual_again(better, change, more_is_better=more_is_better)
            for better in changes[:index]
        ):
            ends.add(index)
        elif (back := _recovery(change, changes[index + 1 :], more_is_better)) is not None:
            recoveries.append(back)
    return ends


def _is_usual_again(better: LevelChange, change: LevelChange, *, more_is_better: bool) -> bool:
    """Return whether a change leads back to the level before a better one, or nearly so."""
    usual, now = better.before, change.after
    if not better.direction_known or not usual or not better.after or not now:
        return False
    if change.lost is not None or better.is_worse(more_is_better=more_is_better):
        return False
    loss = 1 - now / usual if more_is_better else now / usual - 1
    return loss < _LEAST


def _is_told(change: LevelChange, more_is_better: bool) -> bool:
    """Return whether a change is for the worse, or may be, and large enough."""
    interval = change.point.effect_interval
    is_suspect = not change.confirmed and change.lost is None
    if is_suspect and interval is not None and interval.low <= 1 <= interval.high:
        return False  # it may be no change at all
    if not change.direction_known and interval is not None:
        return (1 - interval.low if more_is_better else interval.high - 1) >= _LEAST
    return change.is_worse(more_is_better=more_is_better) and not _is_faint(change)


def _core(
    change: LevelChange,
    frame: pl.DataFrame,
    begun: datetime,
    upto: datetime,
    *,
    more_is_better: bool,
) -> tuple[LevelChange, datetime, datetime] | None:
    """Return the core of a level that is over, and the change to it, if that is far shorter.

    It holds most of the loss, in less than half of the runs: deep hours beside a faint level, or
    beside usual runs, as the detectors place no level shorter than half a day and see that it is
    over a day later.
    """
    within = frame[rows_between(frame, begun, upto)]
    if change.lost is not None or within.height < 2 * _DEEP_RUNS or not change.point.before:
        return None
    if not change.direction_known:
        return None
    values = within["value"].fill_null(0.0).to_numpy()
    with np.errstate(divide="ignore"):
        lost = np.log(change.point.before / values)
    lost = np.clip(lost if more_is_better else -lost, 0.0, _LOST_MOST)
    deep = max(median(lost[place : place + _DEEP_RUNS]) for place in range(len(lost)))
    first, end = core_with_most(lost > deep / 2) if deep > 0 else (0, len(lost))
    core = within[first:end]
    begin, last = core["at"][0], core["at"][-1]
    if (
        last - begin >= SHORT
        or 2 * core.height > len(lost)
        or 2 * lost[first:end].sum() < lost.sum()
    ):
        return None
    point = change.point
    earlier = frame[: row_from(frame, begun)].filter(pl.col("value") > 0)
    before = earlier["value"].tail(LEVEL_RUNS).to_list()
    low = core.filter(pl.col("value") > 0)["value"].to_list()
    if not low or not point.before:
        return None
    after = float(np.median(low))
    point = replace(
        point,
        at=begin,
        after=after,
        n_after=len(low),
        effect=after / point.before,
        effect_interval=ratio_interval(low, before),
    )
    return replace(change, point=point, after=after), begin, last


def _onset(
    change: LevelChange, judgement: SeriesJudgement, frame: pl.DataFrame, begun: datetime
) -> tuple[datetime, datetime]:
    """Return the interval within which a level began: from a run before it to a run of it.

    As wide as the size of the change and the noise ask for, and as the gap that contains it.
    """
    point, times = change.point, frame["at"]
    high = row_from(frame, begun)
    low = max(0, high - 1)
    finished = pl.col("value") > 0
    edges = [each.at for each in judgement.changes if each.status is ChangeStatus.CONFIRMED]
    begin = max((at for at in edges if at < point.at), default=times[0])
    end = min((at for at in edges if at > point.at), default=times[-1])
    # A gap counts as a day at most: the runs beyond it are as near as those of the next day.
    watched = pl.min_horizontal(pl.col("at").diff().fill_null(timedelta()), pl.lit(_DAY)).cum_sum()
    since = watched - watched.filter(pl.col("at") <= point.at).last()
    is_near = since.is_between(-_PLACED_MOST, _PLACED_MOST)
    near = frame[rows_between(frame, begin, end)].filter(is_near, finished)
    is_placed = change.direction_known and not change.is_only_lost
    if point.before and point.after and is_placed and not near.is_empty():
        before = frame[row_from(frame, begin) : row_from(frame, point.at)].filter(finished)
        about = np.log(before["value"].tail(LEVEL_RUNS).to_numpy() / point.before)
        scale = _scatter(point, judgement, frame)
        phi = corrected_autocorrelation(np.clip(about, -3 * scale, 3 * scale).tolist())
        places = onset_places(
            np.log(near["value"].to_numpy()),
            math.log(point.before),
            math.log(point.after),
            scale,
            (1 + phi) / (1 - phi),
        )
        first, last = (row_from(frame, near["at"][place]) for place in places)
        low, high = min(low, max(0, first - 1)), max(high, last)
    ends = times[low], times[high]
    return (
        ends if point.between is None else (min(ends[0], point.between[0]), max(ends[1], point.at))
    )


def _downward(
    changes: Sequence[LevelChange], others: Set[int], more_is_better: bool
) -> Iterator[list[int]]:
    """Yield the positions of at least two confirmed changes that follow one another downwards.

    ``others``: positions left out.
    """
    places: list[int] = []
    for index, change in enumerate(changes):
        if (
            index in others
            or not change.confirmed
            or not change.direction_known
            or _is_faint(change)
        ):
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
        .agg(pl.median("value"), middle=pl.col("at").median())
    )
    if daily.height < _DECLINE_DAYS:
        return None
    days = daily["at"].dt.epoch("us").to_numpy() / 86400e6 + 0.5
    logs = np.log(daily["value"].to_numpy())
    # The runs of a day that follows a gap may all be of its evening.
    middle = daily["middle"].dt.epoch("us").to_numpy() / 1e6
    part = np.searchsorted([point.at.timestamp() for point in points], middle, side="right")
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
    changes: Sequence[LevelChange],
    places: Sequence[int],
    decline: _Decline,
) -> Spell:
    """Return the spell of a gradual loss: it lasts as long as any of its steps."""
    more = judgement.key.more_is_better
    first = changes[places[0]].point
    times: list[datetime] = frame["at"].to_list()
    backs = [_recovery(changes[place], changes[place + 1 :], more) for place in places]
    ended = [back.point.at for back in backs if back is not None]
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
    ends = trend.change_per_day_interval
    if ends is None or min(abs(ends.low), abs(ends.high)) < _CERTAIN * abs(trend.change_per_day):
        return
    lost = abs(trend.change_per_day) * (trend.to - trend.from_).total_seconds() / 86400
    stepped = any(
        change.dismissed_at is None and change.at >= trend.from_ for change in judgement.changes
    )
    if stepped or lost < _LEAST:
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


def _sharpened(change: LevelChange, frame: pl.DataFrame) -> datetime:
    """Return the run near a change from which runs are closer to the new level.

    A change point is located where a whole level begins, to within hours; its cause is searched to
    the hour. Among the runs within `_PLACED`, take the one that leaves the fewest runs on the wrong
    side of the midpoint between the levels. Unfinished runs are at the bottom; if the change
    consists of nothing else, they are the new level.
    """
    point = change.point
    if not point.before or not change.direction_known:
        return point.at
    near = frame[rows_between(frame, point.at - _PLACED, point.at + _PLACED)]
    times: list[datetime] = near["at"].to_list()
    is_new = _is_new(change, near["value"].fill_null(0.0).to_numpy())
    # Before each run, new-level runs are on the wrong side; from it on, old-level ones are.
    wrong_before = np.concatenate([[0], np.cumsum(is_new)])
    wrong_after = np.concatenate([np.cumsum(~is_new[::-1])[::-1], [0]])
    wrong = (wrong_before + wrong_after)[: len(times)]
    best = np.flatnonzero(wrong == wrong.min()) if len(times) else []
    if not len(best):
        return point.at
    return min((times[index] for index in best), key=lambda at: abs(at - point.at))


def _is_new(change: LevelChange, values: Any) -> Any:
    """Return which values are nearer to the level after a change than to the one before it.

    0: a run that did not finish. If the change consists of such runs, they are the new level.
    """
    before = change.point.before or 0.0
    after = 0.0 if change.is_only_lost else change.point.after or 0.0
    return (values < (before + after) / 2) == (after < before)


def _is_faint(change: LevelChange) -> bool:
    """Return whether a change is too small for an incident before it is confirmed.

    Or is no level change: lost runs, or a dip that is over, confirm a change whose interval
    includes or almost includes 1.
    """
    if not change.confirmed:
        return change.size < _LEAST
    interval = change.point.effect_interval
    return change.lost is None and interval is not None and _is_about_1(interval)


def _recovery(
    change: LevelChange, later: Sequence[LevelChange], more_is_better: bool
) -> LevelChange | None:
    """Return the change that restored the level, ``None`` if it stayed.

    A confirmed change is over when its recovery is confirmed: a suspect may yet be dismissed. One
    without a direction is over when the level changes again.
    """
    if change.before is None:
        return None
    point = change.point
    for other in later:
        if not change.direction_known and other.confirmed:
            return other
        if not (change.direction_known and other.direction_known):
            continue
        if other.after is None or (change.confirmed and not other.confirmed):
            continue
        levels = [(change.before, change.after, other.after)]
        if change.fell_too:  # Both must recover.
            levels.append((point.before or 0.0, point.after, other.point.after or 0.0))
        if all(_is_back(*level, more_is_better=more_is_better) for level in levels):
            return other
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
    first = 0 if begin is None else row_from(frame, begin)
    values = (
        frame["value"][first : row_from(frame, point.at)].drop_nulls().tail(LEVEL_RUNS).to_numpy()
    )
    values = values[values > 0]
    if len(values) < _SCATTER_RUNS:
        return max(_SCATTER_LEAST, judgement.overall.mad_cv or 0.0)
    return max(_SCATTER_LEAST, scatter(values) / float(np.median(values)))


def _effect_text(change: LevelChange, more_is_better: bool) -> str:
    effect, interval = change.point.effect, change.point.effect_interval
    if not change.direction_known and interval is not None:
        return f"changed, direction not known ({interval.low:.2f} to {interval.high:.2f} times)"
    parts = [] if effect is None else [percent_off(effect, more_is_better=more_is_better)]
    if change.point.of_unit is not None:
        parts = [change.point.of_unit]
    if change.lost is not None:
        lost, of = change.lost
        parts.append("no run finished" if lost == of else f"{lost} of {of} runs did not finish")
    return ", ".join(parts) or "no run finished"


def _unfinished(frame: pl.DataFrame, begin: datetime, end: datetime) -> int:
    return int(frame["unfinished"][rows_between(frame, begin, end)].sum())
