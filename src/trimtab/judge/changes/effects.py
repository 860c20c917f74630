"""What is told of a change: when, how large, how sure, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trimtab.judge.bootstrap import ratio_interval
from trimtab.model.series import ChangePoint, ChangeStatus

if TYPE_CHECKING:
    from datetime import datetime

    from trimtab.judge.changes.runs import Floats, Runs
    from trimtab.judge.changes.walk import Found
    from trimtab.model.verdict import Interval

NEAR_RUNS: Final = 336
"""Runs on a side that a level rests on at most: two weeks of hourly ones, the nearest. Further
ones know less of the change, and resampling them takes longer than finding it."""


def change_point(runs: Runs, found: Found, begin: int, end: int) -> ChangePoint:
    """Return what is told of a change, its levels taken from the runs ``begin`` to ``end``.

    Parameters
    ----------
    begin, end
        First run of the level before, and first run that belongs to neither side.
    """
    import numpy as np

    before = _finished(runs.value[max(begin, found.place - NEAR_RUNS) : found.place])
    after = _finished(runs.value[found.place : min(end, found.place + NEAR_RUNS)])
    levels = [float(np.median(side)) if len(side) else None for side in (before, after)]
    effect = None
    if levels[0] is not None and levels[1] is not None and levels[0] > 0:
        effect = levels[1] / levels[0]
    interval = None if effect is None else _interval(before, after)
    told = [found.suspected, found.confirmed, found.dismissed]
    suspected, confirmed, dismissed = (None if k is None else runs.at[k] for k in told)
    detected = suspected if suspected is not None else confirmed
    assert detected is not None, "a change that was found was told"
    sure = found.confirmed is not None
    return ChangePoint(
        at=runs.at[found.place],
        detected_at=detected,
        status=ChangeStatus.CONFIRMED if sure else ChangeStatus.SUSPECT,
        effect=effect,
        effect_interval=interval,
        before=levels[0],
        after=levels[1],
        n_before=len(before),
        n_after=len(after),
        reason=_reason(effect, interval, (len(before), len(after)), (confirmed, dismissed)),
        suspected_at=suspected,
        confirmed_at=confirmed,
        dismissed_at=dismissed,
    )


def _finished(values: Floats) -> Floats:
    import numpy as np

    return values[np.isfinite(values) & (values >= 0)]


def _interval(before: Floats, after: Floats) -> Interval | None:
    return ratio_interval(after.tolist(), before.tolist())


def _reason(
    effect: float | None,
    interval: Interval | None,
    counts: tuple[int, int],
    told: tuple[datetime | None, datetime | None],
) -> str:
    confirmed, dismissed = told
    words = [_size(effect, interval, counts)]
    if confirmed is not None:
        words.append("runs and daily medians both show the change")
    elif dismissed is not None:
        words.append("given up: the days after it did not bear it out")
    else:
        words.append("not yet borne out by the days after it")
    return "; ".join(words)


def _size(effect: float | None, interval: Interval | None, counts: tuple[int, int]) -> str:
    if effect is None:
        if 0 in counts:
            side = "before" if counts[0] == 0 else "after"
            return f"no run {side} the change finished: there is no ratio"
        return "the level before is 0: there is no ratio"
    runs = f"{counts[0]} runs before and {counts[1]} after"
    size = f"level {100 * (effect - 1):+.1f} %"
    if interval is None:
        return f"{size} from {runs}, too few for an interval"
    low, high = (100 * (end - 1) for end in (interval.low, interval.high))
    return f"{size} ({low:+.1f} to {high:+.1f} %) from {runs}"
