"""The report of a change point: when, how large, how certain, and whether the unit changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np

from trimtab.base.error import Message
from trimtab.base.series import DIRECTION, UNIT_CHANGE, ChangePoint, ChangeStatus
from trimtab.base.verdict import Interval
from trimtab.judge.array import Bools, Floats, median
from trimtab.judge.bootstrap import Statistic, estimate, ratio_interval
from trimtab.judge.change import Runs
from trimtab.judge.change_tier import EXACT_RUNS, LARGE
from trimtab.judge.spread import usual_gap_s
from trimtab.judge.walk_forward import Detection

UNIT_FACTORS: Final = {
    f"{base:,}{power}": float(base) ** exponent
    for exponent, power in ((1, ""), (2, " squared"), (3, " cubed"))
    for base in (1000, 1024)
}
SMALL_UNIT_FACTORS: Final = {f"{ratio:g}": ratio for ratio in (1.024, 1.048576)}
"""1024 over 1000, and its square: KiB and KB, MiB and MB."""

_SLACK: Final = 0.03
"""Relative: an interval is sometimes too narrow, and runs with so large a factor have none."""
_NEAR: Final = 0.15
"""Maximum distance of a large factor, in logarithms, if the interval is wide or missing."""
_NEAR_SMALL: Final = 0.06
"""Maximum distance of a small factor, as a share of its logarithm."""
_NARROW: Final = 0.25
"""Maximum half-width of a small factor's interval, as a share of its logarithm."""


def unit_change(effect: float, interval: Interval | None) -> str | None:
    """Return the possible change of unit for a ratio of levels as text; ``None``: none.

    Nothing else shifts a level by exactly 1000. A step of 2.4 % may well be one of performance, so
    small factors are reported only if the ratio is known far more precisely than that.

    Examples
    --------
    >>> unit_change(0.00101, None)
    'the unit seems to have changed: 1/1,000 or 1/1,024 of before'
    >>> unit_change(0.83, None) is None
    True
    """
    if effect <= 0:
        return None
    ratio = max(effect, 1 / effect)
    low, high = _range(effect, interval)
    names = [
        name
        for name, factor in UNIT_FACTORS.items()
        if low * (1 - _SLACK) <= factor <= high * (1 + _SLACK)
        and abs(math.log(ratio / factor)) <= _NEAR
    ]
    if interval is not None:
        names += [
            name
            for name, factor in SMALL_UNIT_FACTORS.items()
            if abs(math.log(ratio / factor)) <= _NEAR_SMALL * math.log(factor)
            and math.log(high / low) <= 2 * _NARROW * math.log(factor)
        ]
    if not names:
        return None
    part = [f"1/{name}" if effect < 1 else f"{name} times" for name in names]
    return f"the unit seems to have changed: {' or '.join(part)} of before".replace(
        "times of before", "times what it was"
    )


def _range(effect: float, interval: Interval | None) -> tuple[float, float]:
    """Return the range of the ratio, inverted if needed so that it is above 1."""
    if interval is None or interval.low <= 0:
        ratio = max(effect, 1 / effect)
        return ratio * math.exp(-_NEAR), ratio * math.exp(_NEAR)
    if effect < 1:
        return 1 / interval.high, 1 / interval.low
    return interval.low, interval.high


NEAR_RUNS: Final = 336
"""Maximum number of runs per side for a level, the nearest ones: two weeks of hourly runs. More
distant runs say less about the change, and resampling them takes longer than detecting it."""

LEVEL_RUNS: Final = 3
"""Fewest finished runs for a level."""

_GAP: Final = 3.0
"""Multiple of the usual gap from which a change has no date, only a gap."""

_ALIKE: Final = 0.25
_NARROWER: Final = 0.5
"""Maximum distance, in parts of the change, between the ratios of medians and of means of the same
shape; and how much narrower the interval of the means is for a mixture (0.8 for normal runs)."""

_DOMINATED: Final = (0.5, 0.75)
"""Dominance from which the direction of a level change is known, and from which it is not a
mixture: both kinds of runs moved by less than the distance between them."""

_LEAST: Final = 1e-12


@dataclass(frozen=True, slots=True)
class _Effect:
    """The levels on both sides, their ratio and its interval; ``None`` if unknown."""

    before: float | None
    after: float | None
    ratio: float | None = None
    interval: Interval | None = None


def change_point(runs: Runs, detection: Detection, begin: int, end: int) -> ChangePoint:
    """Return the report of a change, with levels from the runs ``begin`` to ``end``.

    Parameters
    ----------
    begin, end
        First run of the level before, and first run that belongs to neither side.
    """
    place = detection.place
    parts = (
        slice(max(begin, place - NEAR_RUNS), place),
        slice(place, min(end, place + NEAR_RUNS)),
    )
    sides = (runs.value[parts[0]], runs.value[parts[1]])
    before, after = (side[_is_finished(side)] for side in sides)
    counts = [int(runs.count[part][_is_finished(runs.value[part])].sum()) for part in parts]
    effect = _effect(before, after)
    places = [detection.suspected, detection.confirmed, detection.dismissed]
    suspected, confirmed, dismissed = (None if k is None else runs.until[k] for k in places)
    detected = suspected if suspected is not None else confirmed
    assert detected is not None, "a detection is suspected or confirmed"
    code, support = _support(confirmed, dismissed)
    size = _size(effect, counts, (len(before), len(after)))
    unfinished = tuple(_unfinished(sides, (before, after)))
    unit = None if effect.ratio is None else unit_change(effect.ratio, effect.interval)
    if unit is not None:
        code, size = UNIT_CHANGE, f"{unit}; {size}"
    elif (
        effect.interval is not None
        and confirmed is not None
        and _is_unknown(
            before, after, effect, up=detection.up == runs.more_is_better, lost=bool(unfinished)
        )
    ):
        ends = f"{effect.interval.low:.2f} to {effect.interval.high:.2f}"
        code, size = DIRECTION, f"changed, direction not known: {ends} times the level before"
        effect = replace(effect, ratio=None)
    return ChangePoint(
        at=runs.at[place],
        detected_at=detected,
        status=ChangeStatus.SUSPECT if confirmed is None else ChangeStatus.CONFIRMED,
        effect=effect.ratio,
        effect_interval=effect.interval,
        before=effect.before,
        after=effect.after,
        n_before=counts[0],
        n_after=counts[1],
        reason=Message(code, "; ".join((size, *unfinished, support))),
        suspected_at=suspected,
        confirmed_at=confirmed,
        dismissed_at=dismissed,
        between=_onset(runs, parts[0].start, place, parts[1].stop),
    )


def _effect(before: Floats, after: Floats) -> _Effect:
    """Return the change from one side to the other: of medians, or of means for a mixture.

    If half of the runs are of another kind (on other nodes), the median lies between the kinds and
    jumps: then the means show the change, and their interval is narrower.
    """
    levels = [float(np.median(side)) if len(side) else None for side in (before, after)]
    if min(len(before), len(after)) < LEVEL_RUNS or not levels[0]:
        return _Effect(levels[0], levels[1])
    effect = _ratio(before, after, "median")
    means = float(np.mean(after) / np.mean(before))
    if effect.interval is None or effect.ratio is None:
        return effect
    apart = abs(math.log(max(effect.ratio, _LEAST) / max(means, _LEAST)))
    if not _holds_one(effect.interval) and apart < _ALIKE * abs(math.log(max(means, _LEAST))):
        return effect
    if _dominance(before, after) >= _DOMINATED[1]:
        return effect
    other = _ratio(before, after, "mean")
    if other.interval is None or _width(other.interval) > _NARROWER * _width(effect.interval):
        return effect
    return other


def _ratio(before: Floats, after: Floats, statistic: Statistic) -> _Effect:
    first, then = (estimate(side.tolist(), statistic) for side in (before, after))
    interval = ratio_interval(after.tolist(), before.tolist(), statistic=statistic)
    return _Effect(first, then, then / first, interval)


def _width(interval: Interval) -> float:
    return math.log(max(interval.high, _LEAST) / max(interval.low, _LEAST))


def _holds_one(interval: Interval) -> bool:
    return interval.low <= 1 <= interval.high


def _is_unknown(before: Floats, after: Floats, effect: _Effect, *, up: bool, lost: bool) -> bool:
    """Return whether the direction of a level change is unknown.

    It is known if nearly all runs are on one side of those before, however wide the interval: a
    level that keeps falling has a wide one.

    Parameters
    ----------
    up
        Direction for the detectors, which treat a lost run as the worst of all.
    lost
        Whether runs were lost, which may be all that changed.
    """
    if effect.ratio is None or effect.interval is None or lost:
        return False
    if not _holds_one(effect.interval) and (effect.ratio > 1) == up:
        return False
    return _dominance(before, after) < _DOMINATED[0]


def _dominance(before: Floats, after: Floats) -> float:
    """Return how far two sets of runs are separated, 0 to 1.

    Notes
    -----
    |P(after > before) - P(after < before)|: N. Cliff, "Dominance statistics", Psychological
    Bulletin 114 (1993).
    """
    ordered = np.sort(before)
    ranks = np.searchsorted(ordered, after) + np.searchsorted(ordered, after, side="right")
    return abs(float(ranks.mean()) / len(before) - 1)


def _onset(runs: Runs, begin: int, place: int, end: int) -> tuple[datetime, datetime] | None:
    """Return the last run before a change and the first after it if they are far apart.

    For a gap between runs, or if the first runs of a far lower level are not yet that low.
    """
    heights = runs.height[begin:end]
    split = place - begin
    known = np.isfinite(heights)
    first = place
    if known[:split].any() and known[split:].any():
        before, after = (median(side[np.isfinite(side)]) for side in np.split(heights, [split]))
        about = np.abs(heights - np.where(np.arange(len(heights)) < split, before, after))
        if abs(after - before) > LARGE * 1.4826 * median(about[known]):
            near = heights[split : split + EXACT_RUNS]
            nearer = np.nan_to_num(np.abs(near - before) - np.abs(near - after))
            first += int(np.argmin(np.concatenate(([0.0], np.cumsum(nearer)))))
    usual_s = usual_gap_s(runs.time_s[begin:end].tolist())
    ends = runs.until[place - 1], runs.at[min(first, end - 1)]
    return ends if (ends[1] - ends[0]).total_seconds() > _GAP * usual_s else None


def _is_finished(values: Floats) -> Bools:
    return np.isfinite(values) & (values >= 0)


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


def _size(effect: _Effect, counts: Sequence[int], occasions: tuple[int, int]) -> str:
    """Return the size of a change, with the number of runs and occasions behind it."""
    if effect.ratio is None:
        if min(occasions) < LEVEL_RUNS:
            return f"{counts[0]} finished runs before and {counts[1]} after: too few for a ratio"
        return "the level before is 0: no ratio"
    number = f"{counts[0]} runs before and {counts[1]} after"
    if tuple(counts) != occasions:
        number += f" ({occasions[0]} and {occasions[1]} occasions)"
    size = f"level {100 * (effect.ratio - 1):+.1f} %"
    if effect.interval is None:
        return f"{size} from {number}, too few for an interval"
    low, high = (100 * (end - 1) for end in (effect.interval.low, effect.interval.high))
    return f"{size} ({low:+.1f} to {high:+.1f} %) from {number}"
