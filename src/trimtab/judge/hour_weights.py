"""Balance the hours of the week between two sides: a busy Monday must not look like a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from trimtab.message import Message

NOT_BALANCED: Final = "hours of the week are not balanced"

WEEK_S: Final = 7 * 86400.0

NEARLY_A_WEEK_S: Final = 0.99 * WEEK_S
"""A week that lacks a run or two at its ends still counts as a week."""

_HOURS_TOGETHER: Final = (1, 3, 6, 12, 24)
_SHARE_MINIMUM: Final = 0.9


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each run on either side; ``None``: equal weights.

    ``method`` says how they were computed, or why there are none.
    """

    before: tuple[float, ...] | None
    after: tuple[float, ...] | None
    method: Message


def hour_weights(
    before: Sequence[datetime], after: Sequence[datetime], *, timezone: str = "UTC"
) -> Weights:
    """Return weights that give every hour of the week equal weight on both sides.

    Parameters
    ----------
    before, after
        Aware times of the runs of either side.
    timezone
        IANA name of the time zone for hours of the week.

    Notes
    -----
    The week is cut into parts of 1, 3, 6, 12 or 24 hours; the finest cut in which 90 % of the runs
    of either side share a part with a run of the other is used. Each part present on both sides
    weighs 1 on both, divided among its runs; runs in parts of only one side weigh 0. It needs a
    week per side: in less, hours and days are confounded.
    """
    if min(covered_s(before), covered_s(after)) < NEARLY_A_WEEK_S:
        return Weights(
            None, None, Message("under-a-week", f"{NOT_BALANCED}: that needs a week per side")
        )
    zone = ZoneInfo(timezone)
    for hours in _HOURS_TOGETHER:
        parts = [[_part(at, zone, hours) for at in side] for side in (before, after)]
        common = set(parts[0]) & set(parts[1])
        if all(
            sum(part in common for part in side) / len(side) >= _SHARE_MINIMUM for side in parts
        ):
            weights = [_weights_within(side, common) for side in parts]
            step = "hour" if hours == 1 else "day" if hours == 24 else f"{hours} hours"
            return Weights(
                weights[0],
                weights[1],
                Message(
                    "hours-balanced", f"every {step} of the week has equal weight on both sides"
                ),
            )
    return Weights(
        None, None, Message("hours-not-shared", f"{NOT_BALANCED}: the sides share too few")
    )


def covered_s(times: Sequence[datetime]) -> float:
    """Return the time that runs cover, including the last one's interval; 0 for fewer than two.

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


def _weights_within(parts: Sequence[int], common: set[int]) -> tuple[float, ...]:
    counts = Counter(parts)
    return tuple(1 / counts[part] if part in common else 0.0 for part in parts)
