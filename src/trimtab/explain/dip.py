"""Dips and unsteady stretches: runs far below their series' level, or more scattered than usual.

A dip is a run or a short stretch far below the level, or a run that did not finish. A stretch is
unsteady if the series spreads wider than its goal and than usual.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final

import numpy as np

from trimtab.base.incident import Shape
from trimtab.base.series import ChangeStatus, CovAt, SeriesJudgement, SeriesKey
from trimtab.base.site import LIMITS
from trimtab.base.verdict import VerdictStatus
from trimtab.explain.context import Period
from trimtab.explain.spell import (
    TOGETHER,
    CalendarLook,
    LookedSeries,
    Residuals,
    SeriesPart,
    Spell,
    apart,
    core_with_most,
    grouped,
    name_of,
    percent_off,
    shape_of_rate,
)
from trimtab.judge.quantile import beta_lower

SINGLE: Final = 12.0
"""A single run is a dip from this many robust standard deviations below the level.

Heavy tails set it: with Student's t at 3 degrees of freedom, one in 2,300 is as low; normal noise
never is. With `PAIR` and `STRETCH`, every tested noise shape gives less than one dip a month
(tests/explain/incidents/test_dips.py has the rates).
"""
PAIR: Final = 6.0
"""Two runs within `TOGETHER` form a dip if each is this far below the level."""
STRETCH: Final = 5.5
"""Mean of a stretch in standard errors that allow for autocorrelation, with runs clipped at
`CLIPPED`, or half a standard deviation beyond the required mean if that is further."""
CLIPPED: Final = 4.0
LEAST: Final = LIMITS.cov
"""A smaller loss is never a dip: the goal for the COV of 48 hours [S1, VII] is what sites consider
normal."""
A_MONTH: Final = 0.05
"""How often low runs may form a dip by chance in 30 days, over all series of a site.

Most sites have low runs without any lasting problem. The record shows how often, and how low; if
such runs merely coincide, or one is somewhat lower than the others, it is not a dip. All kinds of
false incidents together stay below 0.3 a month
(tests/explain/incidents/test_quiet_sites.py)."""
_TAIL: Final = 3.0
"""Below the lowest runs of a record, their share falls as this power of the depth: heavy tails."""
_WIDE: Final = 4
"""Distance between bad runs of one trouble, within which further ones may belong to it."""
_DEPTHS: Final = (3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 25.0, 32.0, 40.0)
"""Robust standard deviations at which low runs are counted."""
LENGTHS: Final = (3, 6, 12, 24)
"""Runs in a stretch. Longer ones are level changes, which `trimtab.judge.change` finds."""
_LEVEL_RUNS: Final = 200
"""Runs of a level that show how often its runs are low; of a shorter one the whole record does."""
_MONTH: Final = 30 * 86400.0
_RUNS_LEAST: Final = 12
_PASSES: Final = 8
"""Most times that a level is worked out anew: each makes at least a few more runs known."""


def dips(parts: Sequence[SeriesPart]) -> list[Spell]:
    """Return the dips of one series, earliest first; a look at fewer than twelve runs has none.

    The level is that of the surrounding runs, up to half a week to either side.

    Parameters
    ----------
    parts
        Successive looks. Without those around, a dip at the edge of what they report seems to begin
        with the record, or to go on.
    """
    sure: dict[int, datetime] = {}
    groups: list[list[int]] = []
    seen = [_seen(part) for part in parts]
    for part, runs in zip(parts, seen, strict=True):
        times = part.times
        near = apart(times)
        certain = _certain(part, runs, near)
        inside = [row for row in sorted(certain) if part.within.start <= row < part.within.stop]
        for rows in grouped(inside, times.__getitem__, near):
            # Two looks may share a dip.
            before = groups[-1][-1] - part.first if groups else -1
            if before < 0 or times[rows[0]] - times[before] > near:
                groups.append([])
            groups[-1] += [row + part.first for row in rows]
            sure |= {row + part.first: times[certain[row]] for row in rows}
    whole, begin = _Whole.of(parts, seen), parts[0].first + parts[0].within.start
    return [
        _spell(parts[0].key, whole, [row - begin for row in members], sure[members[0]])
        for members in groups
    ]


def _seen(part: SeriesPart) -> Residuals:
    """Return the runs of a look relative to the level that those show which are not bad.

    At the end of a record most of the surrounding runs may be of a dip that is over. Without those
    known to be bad the level is nearer to the usual one, and further ones are known.
    """
    runs = part.runs
    bad: set[int] = set()
    for _ in range(_PASSES):
        if part.frame.height < _RUNS_LEAST or bad.issuperset(more := _bad(runs)):
            break
        bad.update(more)
        runs = part.runs_beside(sorted(bad))
    return runs


def _certain(part: SeriesPart, runs: Residuals, near: timedelta) -> dict[int, int]:
    """Return the rows of dips within a look, each with the row at which it became certain."""
    if part.frame.height < _RUNS_LEAST:
        return {}
    times, a_month = part.times, A_MONTH / part.beside
    sure: dict[int, int] = {}
    for wide in grouped(_bad(runs), times.__getitem__, _WIDE * near):
        chance = _Chance.before(runs, wide)
        groups = [
            (group, chance.certain_at(group, a_month))
            for group in grouped(wide, times.__getitem__, near)
        ]
        certain = chance.certain_at(wide, a_month)
        if certain is not None:
            sure |= dict.fromkeys(
                _joined_members([group for group, at in groups if at is not None], wide), certain
            )
        for group, at in groups:
            # Chance losses of runs are assessed together with other series.
            lost = [index for index in group if runs.unfinished[index]]
            if at is not None:
                sure |= dict.fromkeys(group, at)
            else:
                sure |= {index: index for index in lost if index not in sure}
    return sure


def _joined_members(certain: Sequence[Sequence[int]], wide: Sequence[int]) -> list[int]:
    """Return the members of a wide group from its first certain group to its last, or all of it.

    Low runs by chance, days before or after a trouble, are not part of it.
    """
    if not certain:
        return list(wide)
    return [index for index in wide if certain[0][0] <= index <= certain[-1][-1]]


def is_usual(part: SeriesPart, stretch: Period, *, known: Sequence[Period]) -> bool:
    """Return whether chance explains the scatter of a stretch, given the runs before it.

    Where there are few before it, given those elsewhere. Runs far above their level count the same
    as those far below it.

    Parameters
    ----------
    stretch
        The stretch; it excludes its beginning.
    known
        Hours whose runs are excluded.
    """
    runs = part.runs
    scattered = replace(runs, residuals=-np.abs(runs.residuals))
    within = (runs.times > stretch.from_.timestamp()) & (runs.times <= stretch.to.timestamp())
    for hours in known:
        within &= (runs.times < hours.from_.timestamp()) | (runs.times > hours.to.timestamp())
    far = runs.unfinished | (np.abs(runs.residuals) >= _DEPTHS[0] * runs.scales)
    group = np.flatnonzero(within & far).tolist()
    if not group:
        return True
    chance = _Chance.before(scattered, group)
    return chance.is_usual(group, A_MONTH / part.beside)


@dataclass(frozen=True, slots=True)
class _Chance:
    """How often the low runs of a record form a group by chance.

    Attributes
    ----------
    depth
        Depth of each run below its level, in standard deviations; infinite if it did not finish.
    elsewhere
        The same of its level, or of all runs if that has few, with 0 for the group in question.
    shares
        Share of runs elsewhere at least as low as each of `_DEPTHS`: consecutive low runs count
        once, since they are not independent.
    a_month
        Runs in 30 days.
    """

    depth: Any
    elsewhere: Any
    shares: tuple[float, ...]
    a_month: float

    @classmethod
    def before(cls, runs: Residuals, group: Sequence[int]) -> _Chance:
        """Return the chance model from the runs before a group; if they are few, from all others.

        What comes after a trouble may be more of it, and is not what is usual.
        """
        depth = np.where(runs.unfinished, np.inf, np.nan_to_num(-runs.residuals / runs.scales))
        elsewhere = depth.copy()
        elsewhere[group[0] : group[-1] + 1] = 0.0
        of_level = runs.levels == runs.levels[group[0]]
        earlier = np.arange(len(depth)) < group[0]
        if (earlier & of_level).sum() >= _LEVEL_RUNS:
            elsewhere = elsewhere[earlier & of_level]
        elif of_level.sum() >= _LEVEL_RUNS:
            elsewhere = elsewhere[of_level]
        shares = tuple(_share(elsewhere, step) for step in _DEPTHS)
        span = max(float(runs.times[-1] - runs.times[0]), 1.0)
        return cls(depth, elsewhere, shares, _MONTH / span * len(depth))

    def certain_at(self, group: Sequence[int], most: float) -> int | None:
        """Return the run at which the chance rate of such a group falls below ``most`` a month.

        ``None``: chance produces the whole group more often.

        Notes
        -----
        At each depth with members, k of n runs: with a share p of such runs elsewhere, chance gives
        N p P(at least k - 1 of n - 1) per month of N runs. Each depth at each prefix of the group
        is a separate test, and ``most`` is divided by the tests so far. Lost runs count at any
        depth; alone they are assessed together with other series, and are certain here.
        """
        index = np.array(group)
        for end in range(1, len(index) + 1):
            depth = self.depth[index[:end]]
            finite = np.unique(depth[np.isfinite(depth)])
            if not len(finite) and end == len(index):
                return int(index[0])
            if self._rarest(index[:end], finite) <= most / (end * (end + 1) / 2):
                return int(index[end - 1])
        return None

    def is_usual(self, group: Sequence[int], most: float) -> bool:
        """Return whether chance produces all of a group this often; never for lost runs alone.

        As `certain_at`, but without its prefixes: one test per depth.
        """
        index = np.array(group)
        depths = np.unique(self.depth[index][np.isfinite(self.depth[index])])
        return len(depths) > 0 and self._rarest(index, depths) > most / len(group)

    def _rarest(self, index: Any, depths: Any) -> float:
        """Return the lowest monthly rate of members as low as one of these depths."""
        often = [self.a_month]
        for least in depths.tolist():
            deep = index[self.depth[index] >= least]
            often.append(self._a_month(least, len(deep) - 1, int(deep[-1] - deep[0])))
        return min(often)

    def _a_month(self, least: float, more: int, others: int) -> float:
        """Return the monthly rate of a run this low with so many more among the others.

        Notes
        -----
        The count is negative binomial: the rate varies over hours and days (`shape_of_rate`) and is
        estimated from only as many runs as were this low elsewhere.
        """
        share, runs_seen = self._seen(least)
        often = 1.0
        if more:
            shape = shape_of_rate(runs_seen)
            mean = others * share
            often = beta_lower(mean / (shape + mean), more, shape)
        return self.a_month * share * often

    def _seen(self, least: float) -> tuple[float, float]:
        """Return the share of runs this low, and the number of runs behind the estimate.

        Beyond the lowest run the share falls as `_TAIL` says.
        """
        first, known = _DEPTHS[0], len(self.elsewhere) + 1
        if least <= first:
            share = _share(self.elsewhere, least)
            return share, share * known
        return max(
            (share * (step / least) ** _TAIL, share * known)
            for step, share in zip(_DEPTHS, self.shares, strict=True)
            if step < least and (step == first or share > 1.0 / known)
        )


def _share(depth: Any, least: float) -> float:
    """Return the share of runs this low, counting consecutive ones once."""
    low = depth >= least
    return (int(low[0]) + int((low[1:] & ~low[:-1]).sum()) + 0.5) / (len(depth) + 1)


def _bad(runs: Residuals) -> list[int]:
    """Return the indices of the bad runs."""
    z = np.where(runs.unfinished, -np.inf, runs.residuals / runs.scales)
    z = np.nan_to_num(z, nan=0.0, neginf=-1e9)
    least = math.log(1 - LEAST) / runs.scales
    bad = z < np.minimum(-SINGLE, least)
    # In an autocorrelated series one shock lowers the next run as well: that is not a second one.
    pair = PAIR / math.sqrt(1 - runs.phi**2)
    low = np.flatnonzero(z < np.minimum(-pair, least))
    for a, b in pairwise(low.tolist()):
        if runs.times[b] - runs.times[a] <= TOGETHER.total_seconds():
            bad[[a, b]] = True
    widen = math.sqrt((1 + runs.phi) / (1 - runs.phi))
    for length in LENGTHS:
        if len(z) < 2 * length:
            break
        limit = -STRETCH * widen / math.sqrt(length)
        # A limit beyond the clip would never be reached, however deep the stretch.
        most = max(CLIPPED, 0.5 - limit)
        # Runs known to be bad must not affect their neighbours.
        clipped = np.where(bad, 0.0, np.clip(z, -most, most))
        total = np.concatenate([[0.0], np.cumsum(clipped)])
        means = (total[length:] - total[:-length]) / length
        deep = np.maximum(least[: len(means)], 0.5 - most)
        for start in np.flatnonzero(means < np.minimum(limit, deep)):
            window = np.arange(start, start + length)
            # Clipping hides how deep runs of a steady series are: most must be low unclipped.
            if np.median(z[window] - least[window]) < 0:
                bad[window[z[window] < means[start] / 2]] = True
    return np.flatnonzero(bad).tolist()


@dataclass(frozen=True, slots=True)
class _Whole:
    """All runs of a series, each as seen in its look: ``depth`` in standard deviations."""

    times: list[datetime]
    residuals: Any
    depth: Any
    unfinished: Any

    @classmethod
    def of(cls, parts: Sequence[SeriesPart], seen: Sequence[Residuals]) -> _Whole:
        runs = [(each, part.within) for part, each in zip(parts, seen, strict=True)]
        return cls(
            [at for part in parts for at in part.times[part.within]],
            np.concatenate([each.residuals[rows] for each, rows in runs]),
            np.concatenate([-(each.residuals / each.scales)[rows] for each, rows in runs]),
            np.concatenate([each.unfinished[rows] for each, rows in runs]),
        )


def _spell(key: SeriesKey, runs: _Whole, members: Sequence[int], certain: datetime) -> Spell:
    times, ends = runs.times, (members[0], members[-1])
    goes_on = ends[1] == len(times) - 1
    unfinished = int(runs.unfinished[list(members)].sum())
    finished = runs.residuals[list(members)]
    finished = finished[np.isfinite(finished)]
    typical = float(np.median(finished)) if len(finished) else None
    first, last = _core(runs, members, typical)
    if goes_on:
        last = ends[1]
    effect = None if typical is None else math.exp(typical if key.more_is_better else -typical)
    text = [] if effect is None else [percent_off(effect, more_is_better=key.more_is_better)]
    if unfinished:
        text.append(f"{unfinished} of {len(members)} runs did not finish")
    depth = SINGLE * 2 if unfinished else 0.0
    if len(finished):
        depth = max(depth, float(np.nanmax(runs.depth[list(members)])))
    return Spell(
        shape=Shape.DIP,
        key=key,
        name=name_of(key),
        at=times[first],
        until=None if goes_on else times[last],
        last=times[last],
        detected_at=max(times[first if depth >= SINGLE else ends[1]], certain),
        certainty=ChangeStatus.CONFIRMED if unfinished or depth >= SINGLE else ChangeStatus.SUSPECT,
        depth=depth,
        what=", ".join(text),
        effect=effect,
        runs=len(members),
        unfinished=unfinished,
        onset=(times[first - 1], times[first]) if first else None,
        margin=None if (first, last) == ends else (times[ends[0]], times[ends[1]]),
    )


def _core(runs: _Whole, members: Sequence[int], typical: float | None) -> tuple[int, int]:
    """Return the first and last run of the hours of a dip in which most runs were low.

    Low are its members, and runs between them that are nearer to its level than to the usual one.
    """
    rows = np.arange(members[0], members[-1] + 1)
    low = np.isin(rows, members) | runs.unfinished[rows]
    if typical is not None:
        low |= np.nan_to_num(runs.residuals[rows]) < typical / 2
    first, end = core_with_most(low)
    return int(rows[first]), int(rows[end - 1])


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
    looked: LookedSeries,
    dips: Sequence[Spell],
    taken: Sequence[Period],
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
    hours = [Period(*dip.extent) for dip in dips]
    spells: list[Spell] = []
    left = list(dips)
    points = [point for point in judgement.rolling if point.cov]
    usual = _outside(points, taken, window)
    wide = [
        point
        for part in looked.of(judgement.key)
        for point in _standing_out(points, usual, part.look, window)
    ]
    for stretch in _missed(wide, taken, window):
        begins, ends = stretch[0].at - window, stretch[-1].at
        within = [dip for dip in dips if dip.at <= ends and dip.extent[1] >= begins]
        alone = _missed(stretch, hours, window)
        lasts = any(part[-1].at - part[0].at >= _UNSTEADY_LEAST for part in alone)
        if not lasts and (len(within) < _MANY or ends - stretch[0].at < _UNSTEADY_LEAST):
            continue
        # A few dips show up by themselves; many of them are the spread.
        known = [] if len(within) >= _MANY else [Period(*dip.extent) for dip in within]
        part = looked.around(judgement.key, stretch[0].at, ends)
        if is_usual(part, Period(begins, ends), known=known):
            continue
        spells.append(_unsteady(judgement, stretch, within, window))
        # An unfinished run deserves attention of its own.
        left = [dip for dip in left if dip not in within or dip.unfinished]
    return [*left, *spells]


def _missed(
    rolling: Iterable[CovAt], taken: Sequence[Period], window: timedelta
) -> list[list[CovAt]]:
    """Return the stretches of windows that missed the goal and contain nothing of ``taken``."""
    missed = [point for point in rolling if point.status is VerdictStatus.MISSED and point.cov]
    return grouped(_outside(missed, taken, window), attrgetter("at"), window / 2)


def _outside(points: Sequence[CovAt], taken: Sequence[Period], window: timedelta) -> list[CovAt]:
    """Return the windows, which are by time, that contain nothing of ``taken``."""
    times, inside = [point.at for point in points], bytearray(len(points))
    for hours in taken:
        begin, end = bisect_left(times, hours.from_), bisect_right(times, hours.to + window)
        inside[begin:end] = bytes([True]) * (end - begin)
    return [point for point, within in zip(points, inside, strict=True) if not within]


def _standing_out(
    points: Sequence[CovAt], others: Sequence[CovAt], look: CalendarLook, window: timedelta
) -> Sequence[CovAt]:
    """Return the windows of a look that scatter far more than is usual for the series.

    The usual spread comes from the steadier windows, even if others scatter more most of the time.
    None stands out if there are no more windows than `_USUAL_WINDOWS`.

    Parameters
    ----------
    others
        Windows whose spread is unexplained.
    """
    known = _windows_between(others, look.earliest, look.end)
    if len({point.at.date() for point in known}) * timedelta(days=1) < _USUAL_WINDOWS * window:
        return []
    usual, steady = np.quantile([math.log(point.cov or 1.0) for point in known], _QUANTILES)
    most = usual + max(math.log(_UNSTEADY_RATIO), _OUT * (usual - steady))
    within = _windows_between(points, look.from_, look.to)
    return [point for point in within if math.log(point.cov or 1.0) > most]


def _windows_between(points: Sequence[CovAt], from_: datetime, to: datetime) -> Sequence[CovAt]:
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
