"""Hours of the week balanced between two sides: a busy Monday must not pass for a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

WEEK_S: Final = 7 * 86400.0

NEARLY_A_WEEK_S: Final = 0.99 * WEEK_S
"""A week of which a run or two at the ends are missing is one."""

_HOURS_TOGETHER: Final = (1, 3, 6, 12, 24)
_SHARE_MINIMUM: Final = 0.9


@dataclass(frozen=True, slots=True)
class Weights:
    """What each run of either side counts; ``None``: all alike.

    ``how`` says in words how they came about, or why there are none.
    """

    before: tuple[float, ...] | None
    after: tuple[float, ...] | None
    how: str


def hour_weights(
    before: Sequence[datetime], after: Sequence[datetime], *, timezone: str = "UTC"
) -> Weights:
    """Return weights under which every hour of the week counts the same on both sides.

    Parameters
    ----------
    before, after
        Aware times of the runs of either side.
    timezone
        IANA name of the zone in which people's weeks run.

    Notes
    -----
    The week is cut into parts of 1, 3, 6, 12 or 24 hours; the finest cut is taken in which nine
    in ten runs of either side have a run of the other in their part. Each part that both sides
    have weighs 1 on both, shared among its runs; runs in parts that one side alone has weigh 0.
    It takes a week a side: before that, hours stand for days.
    """
    if min(covered_s(before), covered_s(after)) < NEARLY_A_WEEK_S:
        return Weights(None, None, "hours of the week are not balanced: that takes a week a side")
    zone = ZoneInfo(timezone)
    for hours in _HOURS_TOGETHER:
        parts = [[_part(at, zone, hours) for at in side] for side in (before, after)]
        common = set(parts[0]) & set(parts[1])
        if all(_share(side, common) >= _SHARE_MINIMUM for side in parts):
            weights = [_weights_within(side, common) for side in parts]
            step = "hour" if hours == 1 else "day" if hours == 24 else f"{hours} hours"
            return Weights(
                weights[0], weights[1], f"every {step} of the week counts the same on both sides"
            )
    return Weights(None, None, "hours of the week are not balanced: the sides share too few")


def covered_s(times: Sequence[datetime]) -> float:
    """Return how long runs went on, the last one's own share included; 0 for fewer than two.

    Examples
    --------
    >>> from datetime import UTC, timedelta
    >>> hourly = [datetime(2026, 3, 2, tzinfo=UTC) + timedelta(hours=h) for h in range(168)]
    >>> covered_s(hourly) == WEEK_S
    True
    """
    if len(times) < 2:
        return 0.0
    span_s = (max(times) - min(times)).total_seconds()
    return span_s * len(times) / (len(times) - 1)


def _part(at: datetime, zone: ZoneInfo, hours: int) -> int:
    local = at.astimezone(zone)
    return (local.weekday() * 24 + local.hour) // hours


def _share(parts: Sequence[int], common: set[int]) -> float:
    return sum(part in common for part in parts) / len(parts)


def _weights_within(parts: Sequence[int], common: set[int]) -> tuple[float, ...]:
    counts = Counter(parts)
    return tuple(1 / counts[part] if part in common else 0.0 for part in parts)
