"""Stretches in which a series spreads wider than its goal and than usual."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

import numpy as np

from trimtab.explain.context import Window
from trimtab.explain.incidents.dips import is_usual
from trimtab.explain.incidents.looks import Look, Looked
from trimtab.explain.incidents.spell import Spell, grouped, name_of
from trimtab.model.incident import Shape
from trimtab.model.series import ChangeStatus, CovAt, SeriesJudgement
from trimtab.model.verdict import VerdictStatus

_MANY: Final = 3
"""Number of dips that form one stretch of wide spread instead of separate troubles."""
_USUAL_WINDOWS: Final = 3
"""Adjacent windows that show the usual scatter of a series."""
_QUANTILES: Final = (0.25, 0.05)
"""Quantiles of all windows' COV: the usual one, and that of steady windows below it."""
_OUT: Final = 4.0
_UNSTEADY_RATIO: Final = 1.5
"""A window stands out if the logarithm of its COV exceeds the usual one by this ratio's, and by
this multiple of the distance between usual and steady."""
_UNSTEADY_LEAST: Final = timedelta(hours=12)
"""How long the COV must miss its goal: one run more or less in a window is no incident."""


def unsteady(
    judgement: SeriesJudgement,
    looked: Looked,
    dips: Sequence[Spell],
    taken: Sequence[Window],
    *,
    window_s: float,
) -> list[Spell]:
    """Return the dips and unsteady stretches of a series; a stretch absorbs the dips inside it.

    Parameters
    ----------
    looked
        The series of the site.
    dips
        Dips of this series.
    taken
        Hours whose spread other spells explain.

    Notes
    -----
    A dip raises the COV of every window that contains it. A stretch in which the COV misses its
    goal is unsteady if it also misses without the dips, or if there are `_MANY` dips; and if it
    stands out: a series that always scatters beyond its goal misses it in its verdict, and if runs
    are often far from their level, a few more in two days are normal.
    """
    window = timedelta(seconds=window_s)
    hours = [Window(dip.at, dip.last) for dip in dips]
    spells: list[Spell] = []
    left = list(dips)
    points = [point for point in judgement.rolling if point.cov]
    usual = [
        point
        for point in points
        if not any(hours.from_ <= point.at <= hours.to + window for hours in taken)
    ]
    wide = [
        point
        for part in looked.of(judgement.key)
        for point in _standing_out(points, usual, part.look, window)
    ]
    for stretch in _missed(wide, taken, window):
        begins, ends = stretch[0].at - window, stretch[-1].at
        within = [dip for dip in dips if dip.at <= ends and dip.last >= begins]
        alone = _missed(stretch, hours, window)
        lasts = any(part[-1].at - part[0].at >= _UNSTEADY_LEAST for part in alone)
        if not lasts and (len(within) < _MANY or ends - stretch[0].at < _UNSTEADY_LEAST):
            continue
        # A few dips show up by themselves; many of them are the spread.
        known = [] if len(within) >= _MANY else [Window(dip.at, dip.last) for dip in within]
        part = looked.around(judgement.key, stretch[0].at, ends)
        if is_usual(part, Window(begins, ends), known=known):
            continue
        spells.append(_unsteady(judgement, stretch, within, window))
        # An unfinished run deserves attention of its own.
        left = [dip for dip in left if dip not in within or dip.unfinished]
    return [*left, *spells]


def _missed(
    rolling: Iterable[CovAt], taken: Sequence[Window], window: timedelta
) -> list[list[CovAt]]:
    """Return the stretches of windows that missed the goal and contain nothing of ``taken``."""
    missed = (
        point
        for point in rolling
        if point.status is VerdictStatus.MISSED
        and point.cov
        and not any(hours.from_ <= point.at and hours.to >= point.at - window for hours in taken)
    )
    return grouped(missed, attrgetter("at"), window / 2)


def _standing_out(
    points: Sequence[CovAt], others: Sequence[CovAt], look: Look, window: timedelta
) -> Sequence[CovAt]:
    """Return the windows of a look that scatter far more than is usual for the series.

    The usual spread comes from the steadier windows, even if others scatter more most of the time.
    None stands out if there are no more windows than `_USUAL_WINDOWS`.

    Parameters
    ----------
    others
        Windows whose spread is unexplained.
    """
    known = _between(others, look.earliest, look.end)
    if len({point.at.date() for point in known}) * timedelta(days=1) < _USUAL_WINDOWS * window:
        return []
    usual, steady = np.quantile([math.log(point.cov or 1.0) for point in known], _QUANTILES)
    most = usual + max(math.log(_UNSTEADY_RATIO), _OUT * (usual - steady))
    within = _between(points, look.from_, look.to)
    return [point for point in within if math.log(point.cov or 1.0) > most]


def _between(points: Sequence[CovAt], from_: datetime, to: datetime) -> Sequence[CovAt]:
    """Return the windows that end within a half-open period."""
    begin, end = (bisect_left(points, at, key=lambda point: point.at) for at in (from_, to))
    return points[begin:end]


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
