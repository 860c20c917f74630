"""Changes of level with both levels over all runs: also those that did not finish count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import polars as pl

from trimtab.base.error import code_of
from trimtab.base.series import DIRECTION, ChangePoint, ChangeStatus, SeriesJudgement
from trimtab.explain.spell import SHORT, row_from
from trimtab.judge.bootstrap import N_MINIMUM, ratio_interval

UNFINISHED: Final = 0.1
"""Share of the runs. If this many more do not finish than before, the level covers all runs: those
that still finish may be as fast as ever."""
LEVEL_RUNS: Final = 336
"""Runs of a level that determine its scatter: two weeks of hourly ones."""
SAME_LEVEL: Final = 0.005
"""A level this close to the previous one may as well be the same."""


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A level change, with both levels over all runs.

    Attributes
    ----------
    before, after
        Median of the finished runs, minus the unfinished share if that changed too.
    lost
        Unfinished runs after it, and how many runs there were; ``None`` if no more than before.
    direction_known
        ``False`` if the runs changed, confirmed, but the interval of the ratio includes 1.
    """

    point: ChangePoint
    before: float | None
    after: float | None
    lost: tuple[int, int] | None
    direction_known: bool = True

    @property
    def confirmed(self) -> bool:
        """Whether later runs confirmed it."""
        return self.point.status is ChangeStatus.CONFIRMED

    @property
    def fell_too(self) -> bool:
        """Whether runs were lost and the level of the finished ones fell as well."""
        return self.lost is not None and _fell(self.point)

    @property
    def is_only_lost(self) -> bool:
        """Whether runs were lost and those that finished were as fast as ever."""
        return self.lost is not None and not self.fell_too

    def is_worse(self, *, more_is_better: bool) -> bool:
        """Whether it is for the worse; never if no run finished before."""
        if self.before is None:
            return False
        if self.after is None:
            return True
        return self.after < self.before if more_is_better else self.after > self.before

    @property
    def size(self) -> float:
        """Fraction of the level that was lost; without a direction, the most it may have moved."""
        interval = self.point.effect_interval
        if not self.direction_known and interval is not None:
            return max(abs(1 - interval.low), abs(interval.high - 1))
        return 1.0 if not self.before or self.after is None else abs(self.after / self.before - 1)


def changes_of(judgement: SeriesJudgement, frame: pl.DataFrame) -> list[LevelChange]:
    """Return the changes of a series that were not dismissed.

    One without a known direction only if it is confirmed.
    """
    points = _staged(
        [
            point
            for point in judgement.changes
            if point.dismissed_at is None and code_of(point.reason) != DIRECTION
        ],
        frame,
    )
    ended = ~frame["unfinished"].fill_null(value=True)
    edges = [
        row_from(frame, point.at) for point in points if point.status is ChangeStatus.CONFIRMED
    ]
    changes: list[LevelChange] = []
    for point in points:
        place = row_from(frame, point.at)
        begin = max((edge for edge in edges if edge < place), default=0)
        end = min((edge for edge in edges if edge > place), default=frame.height)
        sides = ended[max(begin, place - LEVEL_RUNS) : place], ended[place:end][:LEVEL_RUNS]
        shares = [float(side.mean() or 0.0) if len(side) else 1.0 for side in sides]  # pyrefly: ignore[bad-argument-type]
        before, after, lost = point.before, point.after, None
        # A duration has no value for an unfinished run, which is left out of the series.
        # Runs lost before, perhaps long before, do not turn a lower level into a better one.
        more_lost = shares[1] <= shares[0] - UNFINISHED
        fewer_lost = shares[1] >= shares[0] + UNFINISHED and not _fell(point)
        if judgement.key.more_is_better and (more_lost or fewer_lost):
            before, after = (before or 0.0) * shares[0], (after or 0.0) * shares[1]
            if more_lost:
                lost = len(sides[1]) - int(sides[1].sum()), len(sides[1])
        changes.append(LevelChange(point, before, after, lost))
    changes += [
        LevelChange(point, point.before, point.after, None, direction_known=False)
        for point in judgement.changes
        if point.status is ChangeStatus.CONFIRMED and code_of(point.reason) == DIRECTION
    ]
    return sorted(changes, key=lambda change: change.point.at)


def _staged(points: Sequence[ChangePoint], frame: pl.DataFrame) -> list[ChangePoint]:
    """Merge changes that are stages of one fall, or of one rise.

    While a level falls over hours, its runs scatter over the whole fall, so the effect is uncertain
    however far the level fell in the end. If the interval of a confirmed change is wider than the
    change, or it has too few runs for one, and another follows in the same direction within
    `SHORT`, the levels before and after both are compared.
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
    if point.effect is None or later.effect is None or later.at - point.at >= SHORT:
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
    values = [side["value"].to_list() for side in (before.tail(LEVEL_RUNS), after.head(LEVEL_RUNS))]
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
    return point.effect_interval is not None and point.effect_interval.high < 1 - SAME_LEVEL


def _is_sized(point: ChangePoint) -> bool:
    """Return whether the size of a change is known, not just its existence."""
    interval, effect = point.effect_interval, point.effect
    if interval is None or not effect or interval.low <= 0:
        return min(point.n_before, point.n_after) >= N_MINIMUM
    return math.log(interval.high / interval.low) <= abs(math.log(effect))
