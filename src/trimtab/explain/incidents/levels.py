"""Changes of level for the worse, drifts, and stretches that spread wider than the goal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import polars as pl

from trimtab.explain.context import Window
from trimtab.explain.incidents.spell import Spell, name_of, percent_off
from trimtab.model.incident import Shape
from trimtab.model.series import ChangePoint, ChangeStatus, CovAt, SeriesJudgement
from trimtab.model.verdict import TrendDirection, VerdictStatus

_BACK: Final = 0.5
"""The level is back when half of what was lost is: the effects' intervals leave no more."""
_SHORT: Final = timedelta(days=2)
"""A level that was back before this was a dip (`Shape.DIP`)."""
_PLACED: Final = timedelta(hours=12)
_LEAST: Final = 0.02
"""Of a level, confirmed or not. Half a COV that is a quarter of the goal: nobody notices."""
_SUSPECT_LEAST: Final = 0.05
"""Of a level that is suspected to have changed. What is less has to be confirmed: a few suspects
a year are false, and those are small."""
_DRIFT_LEAST: Final = 0.05
"""Lost over the days of the trend; under it a drift is no incident yet."""
_MANY: Final = 3
"""Dips that are one stretch of wide spread, and not each a trouble of its own."""
_UNSTEADY_LEAST: Final = timedelta(hours=12)
"""The COV has to miss its goal for so long: one run more or less in a window is no incident."""


def steps(judgement: SeriesJudgement, frame: pl.DataFrame) -> Iterator[Spell]:
    """Yield the changes for the worse of one series; a recovery ends one and is none itself."""
    changes = [change for change in judgement.changes if change.dismissed_at is None]
    times: list[datetime] = frame.get_column("at").to_list()
    for index, change in enumerate(changes):
        if not _is_worse(change, judgement.key.more_is_better) or _is_faint(change):
            continue
        back = _recovery(change, changes[index + 1 :], judgement.key.more_is_better)
        upto = times[-1] if back is None else max(at for at in times if at < back.at)
        length = upto - change.at
        begun = min(_sharpened(change, frame), upto)
        short = back is not None and length < _SHORT
        yield Spell(
            shape=Shape.DIP if short else Shape.STEP,
            key=judgement.key,
            name=name_of(judgement.key),
            at=begun,
            until=None if back is None else upto,
            last=upto,
            detected_at=max(begun, change.detected_at),
            certainty=change.status,
            depth=_depth(change, judgement),
            what=_effect_text(change, judgement.key.more_is_better),
            effect=change.effect,
            effect_interval=change.effect_interval,
            runs=sum(begun <= at <= upto for at in times),
            unfinished=_unfinished(frame, begun, upto),
        )


def drift(judgement: SeriesJudgement) -> Iterator[Spell]:
    """Yield the trend of a series as a spell, where it loses day by day without any step."""
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


def unsteady(
    judgement: SeriesJudgement, dips: Sequence[Spell], taken: Sequence[Window], window_s: float
) -> list[Spell]:
    """Return the dips of a series and its unsteady stretches, dips within one made part of it.

    Parameters
    ----------
    dips
        Of this series.
    taken
        Hours whose spread other spells explain.

    Notes
    -----
    A dip raises the COV of every window that holds it. A stretch in which the COV misses its goal
    is called unsteady where it misses it without the dips as well, or where they are `_MANY`.
    """
    window = timedelta(seconds=window_s)
    hours = [Window(dip.at, dip.last) for dip in dips]
    spells: list[Spell] = []
    left = list(dips)
    for stretch in _missed(judgement.rolling, taken, window):
        begins, ends = stretch[0].at - window, stretch[-1].at
        within = [dip for dip in dips if dip.at <= ends and dip.last >= begins]
        alone = _missed(stretch, hours, window)
        lasts = any(part[-1].at - part[0].at >= _UNSTEADY_LEAST for part in alone)
        if not lasts and (len(within) < _MANY or ends - stretch[0].at < _UNSTEADY_LEAST):
            continue
        spells.append(_unsteady(judgement, stretch, within, window))
        # A run that did not finish is worth a look of its own.
        left = [dip for dip in left if dip not in within or dip.unfinished]
    return [*left, *spells]


def _missed(
    rolling: Iterable[CovAt], taken: Sequence[Window], window: timedelta
) -> list[list[CovAt]]:
    """Return the stretches of windows that missed the goal and hold nothing of ``taken``."""
    stretches: list[list[CovAt]] = []
    for point in rolling:
        if point.status is not VerdictStatus.MISSED or not point.cov:
            continue
        if any(hours.from_ <= point.at and hours.to >= point.at - window for hours in taken):
            continue
        if stretches and point.at - stretches[-1][-1].at <= window / 2:
            stretches[-1].append(point)
        else:
            stretches.append([point])
    return stretches


def _unsteady(
    judgement: SeriesJudgement, stretch: Sequence[CovAt], dips: Sequence[Spell], window: timedelta
) -> Spell:
    worst = max(point.cov or 0.0 for point in stretch)
    last = stretch[-1].at
    goes_on = last == judgement.rolling[-1].at
    begins = max(stretch[0].at - window, judgement.rolling[0].at)
    text = f", {len(dips)} dips" if len(dips) > 1 else ", one dip" if dips else ""
    return Spell(
        shape=Shape.UNSTEADY,
        key=judgement.key,
        name=name_of(judgement.key),
        at=begins,
        until=None if goes_on else last,
        last=last,
        detected_at=stretch[0].at,
        certainty=ChangeStatus.CONFIRMED,
        depth=worst / 0.01,
        what=f"COV up to {worst * 100:.1f} %{text}",
        runs=sum(begins <= point.at <= last for point in judgement.rolling),
        unfinished=sum(dip.unfinished for dip in dips),
    )


def _is_worse(change: ChangePoint, more_is_better: bool) -> bool:
    if change.effect is None:
        return change.after is None
    return change.effect < 1 if more_is_better else change.effect > 1


def _sharpened(change: ChangePoint, frame: pl.DataFrame) -> datetime:
    """Return the run near a change from which runs lie nearer to the new level.

    A change is placed where a whole level begins, to within hours; what brought it about is looked
    for to the hour. Of the runs within `_PLACED` the one is taken that leaves the fewest runs on
    the wrong side of the middle between the levels. Runs that did not finish are at the bottom.
    """
    if not change.before:
        return change.at
    near = frame.filter(pl.col("at").is_between(change.at - _PLACED, change.at + _PLACED))
    times: list[datetime] = near.get_column("at").to_list()
    after = change.after or 0.0
    values = near.get_column("value").fill_null(0.0).to_numpy()
    is_new = (values < (change.before + after) / 2) == (after < change.before)
    # Up to each run: new ones before it and old ones from it on are on the wrong side.
    wrong_before = np.concatenate([[0], np.cumsum(is_new)])
    wrong_after = np.concatenate([np.cumsum(~is_new[::-1])[::-1], [0]])
    wrong = (wrong_before + wrong_after)[: len(times)]
    best = np.flatnonzero(wrong == wrong.min()) if len(times) else []
    if not len(best):
        return change.at
    return min((times[index] for index in best), key=lambda at: abs(at - change.at))


def _is_faint(change: ChangePoint) -> bool:
    """Return whether a change is too small for an incident, or for one before it is confirmed."""
    if change.effect is None:
        return False
    size = abs(change.effect - 1)
    return size < _LEAST or (size < _SUSPECT_LEAST and change.status is ChangeStatus.SUSPECT)


def _recovery(
    change: ChangePoint, later: Sequence[ChangePoint], more_is_better: bool
) -> ChangePoint | None:
    """Return the change that brought the level back, ``None`` where it stayed."""
    before, after = change.before, change.after or 0.0
    if before is None:
        return None
    middle = after + _BACK * (before - after)
    for window in later:
        if window.after is None:
            continue
        if window.after >= middle if more_is_better else window.after <= middle:
            return window
    return None


def _depth(change: ChangePoint, judgement: SeriesJudgement) -> float:
    scale = max(0.01, judgement.overall.mad_cv or 0.01)
    return 100.0 if change.effect is None else abs(1 - change.effect) / scale


def _effect_text(change: ChangePoint, more_is_better: bool) -> str:
    if change.effect is None:
        return "no run finished"
    if (unit := change.of_unit) is not None:
        return unit
    return percent_off(change.effect, more_is_better=more_is_better)


def _unfinished(frame: pl.DataFrame, begin: datetime, end: datetime) -> int:
    within = frame.filter(pl.col("at").is_between(begin, end))
    return int(within.get_column("unfinished").sum())
