"""Report of a change point: when, how large, how certain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trimtab.judge.bootstrap import ratio_interval
from trimtab.judge.changes.unit_change import unit_change
from trimtab.message import Message
from trimtab.model.series import UNIT_CHANGE, ChangePoint, ChangeStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from trimtab.judge.arrays import Floats
    from trimtab.judge.changes.runs import Runs
    from trimtab.judge.changes.walk_forward import Detection
    from trimtab.model.verdict import Interval

NEAR_RUNS: Final = 336
"""Runs per side used for a level at most, the nearest ones: two weeks of hourly runs. More distant
runs say less about the change, and resampling them takes longer than detecting it."""

LEVEL_RUNS: Final = 3
"""Finished runs that make a level."""


def change_point(runs: Runs, detection: Detection, begin: int, end: int) -> ChangePoint:
    """Return the report of a change, its levels taken from the runs ``begin`` to ``end``.

    Parameters
    ----------
    begin, end
        First run of the level before, and first run that belongs to neither side.
    """
    import numpy as np

    place = detection.place
    sides = (
        runs.value[max(begin, place - NEAR_RUNS) : place],
        runs.value[place : min(end, place + NEAR_RUNS)],
    )
    before, after = (_finished(side) for side in sides)
    levels = [float(np.median(side)) if len(side) else None for side in (before, after)]
    effect = None
    enough = min(len(before), len(after)) >= LEVEL_RUNS
    if enough and levels[0] is not None and levels[1] is not None and levels[0] > 0:
        effect = levels[1] / levels[0]
    interval = None if effect is None else ratio_interval(after.tolist(), before.tolist())
    places = [detection.suspected, detection.confirmed, detection.dismissed]
    suspected, confirmed, dismissed = (None if k is None else runs.at[k] for k in places)
    detected = suspected if suspected is not None else confirmed
    assert detected is not None, "a detection is suspected or confirmed"
    code, support = _support(confirmed, dismissed)
    size = _size(effect, interval, (len(before), len(after)))
    unfinished = _unfinished(sides, (before, after))
    unit = None if effect is None else unit_change(effect, interval)
    if unit is not None:
        code, size = UNIT_CHANGE, f"{unit}; {size}"
    return ChangePoint(
        at=runs.at[place],
        detected_at=detected,
        status=ChangeStatus.SUSPECT if confirmed is None else ChangeStatus.CONFIRMED,
        effect=effect,
        effect_interval=interval,
        before=levels[0],
        after=levels[1],
        n_before=len(before),
        n_after=len(after),
        reason=Message(code, "; ".join((size, *unfinished, support))),
        suspected_at=suspected,
        confirmed_at=confirmed,
        dismissed_at=dismissed,
    )


def _finished(values: Floats) -> Floats:
    import numpy as np

    return values[np.isfinite(values) & (values >= 0)]


def _support(confirmed: datetime | None, dismissed: datetime | None) -> tuple[str, str]:
    """Return the code and how well the change is supported."""
    if confirmed is not None:
        return "change-confirmed", "confirmed by runs and by daily medians"
    if dismissed is not None:
        return "change-dismissed", "dismissed: later runs do not support it"
    return "change-suspected", "not yet confirmed by later days"


def _unfinished(sides: tuple[Floats, Floats], finished: tuple[Floats, Floats]) -> Iterator[str]:
    for name, side, values in zip(("before", "after"), sides, finished, strict=True):
        lost = len(side) - len(values)
        if lost:
            yield f"{lost} of {len(side)} runs {name} did not finish"


def _size(effect: float | None, interval: Interval | None, counts: tuple[int, int]) -> str:
    if effect is None:
        if min(counts) < LEVEL_RUNS:
            return f"{counts[0]} finished runs before and {counts[1]} after: too few for a ratio"
        return "the level before is 0: no ratio"
    runs = f"{counts[0]} runs before and {counts[1]} after"
    size = f"level {100 * (effect - 1):+.1f} %"
    if interval is None:
        return f"{size} from {runs}, too few for an interval"
    low, high = (100 * (end - 1) for end in (interval.low, interval.high))
    return f"{size} ({low:+.1f} to {high:+.1f} %) from {runs}"
