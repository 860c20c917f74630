"""What is told of a change: when, how large, how sure, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trimtab.judge.bootstrap import ratio_interval
from trimtab.model.series import ChangePoint, ChangeStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from trimtab.judge.changes.runs import Floats, Runs
    from trimtab.judge.changes.walk_forward import Detection
    from trimtab.model.verdict import Interval

NEAR_RUNS: Final = 336
"""Runs on a side that a level rests on at most: two weeks of hourly ones, the nearest. Further
ones know less of the change, and resampling them takes longer than finding it."""

LEVEL_RUNS: Final = 3
"""Finished runs that make a level: of one or two, nothing is said."""


def change_point(runs: Runs, found: Detection, begin: int, end: int) -> ChangePoint:
    """Return what is told of a change, its levels taken from the runs ``begin`` to ``end``.

    Parameters
    ----------
    begin, end
        First run of the level before, and first run that belongs to neither side.
    """
    import numpy as np

    sides = (
        runs.value[max(begin, found.place - NEAR_RUNS) : found.place],
        runs.value[found.place : min(end, found.place + NEAR_RUNS)],
    )
    before, after = (_finished(side) for side in sides)
    levels = [float(np.median(side)) if len(side) else None for side in (before, after)]
    effect = None
    enough = min(len(before), len(after)) >= LEVEL_RUNS
    if enough and levels[0] is not None and levels[1] is not None and levels[0] > 0:
        effect = levels[1] / levels[0]
    interval = None if effect is None else ratio_interval(after.tolist(), before.tolist())
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
        reason="; ".join(
            (
                _size(effect, interval, (len(before), len(after))),
                *_unfinished(sides, (before, after)),
                _sureness(confirmed, dismissed),
            )
        ),
        suspected_at=suspected,
        confirmed_at=confirmed,
        dismissed_at=dismissed,
    )


def _finished(values: Floats) -> Floats:
    import numpy as np

    return values[np.isfinite(values) & (values >= 0)]


def _sureness(confirmed: datetime | None, dismissed: datetime | None) -> str:
    if confirmed is not None:
        return "runs and daily medians both show the change"
    if dismissed is not None:
        return "given up: the runs after it did not bear it out"
    return "not yet borne out by the days after it"


def _unfinished(sides: tuple[Floats, Floats], finished: tuple[Floats, Floats]) -> Iterator[str]:
    for name, side, kept in zip(("before", "after"), sides, finished, strict=True):
        lost = len(side) - len(kept)
        if lost:
            yield f"{lost} of {len(side)} runs {name} did not finish"


def _size(effect: float | None, interval: Interval | None, counts: tuple[int, int]) -> str:
    if effect is None:
        if min(counts) < LEVEL_RUNS:
            return f"{counts[0]} finished runs before and {counts[1]} after: too few for a ratio"
        return "the level before is 0: there is no ratio"
    runs = f"{counts[0]} runs before and {counts[1]} after"
    size = f"level {100 * (effect - 1):+.1f} %"
    if interval is None:
        return f"{size} from {runs}, too few for an interval"
    low, high = (100 * (end - 1) for end in (interval.low, interval.high))
    return f"{size} ({low:+.1f} to {high:+.1f} %) from {runs}"
