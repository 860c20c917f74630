"""When a target is full: the day on which its fullness passes a level, with an interval. Pure.

The days of its record are drawn as for `trimtab.judge.growth`; each drawn future passes the level
on a day of its own::

    fullness  ▁▁▂▂▃▃▄▄▃▄▅▅ ┊ ▅▅▆▆▇▇█ level      earliest  at  latest
                           last day                 5 %   50 %  95 % of the futures

Purges are days like others: a record with one a week expects one a week.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from trimtab.base.error import Message
from trimtab.judge.bootstrap import widening
from trimtab.judge.growth import LEVEL, daily_growth, drawn_days, scale_of

if TYPE_CHECKING:
    from trimtab.judge.array import Floats, Ints

AHEAD_DAYS: Final = 90
"""No forecast reaches further ahead than the record that it is based on reaches back."""
_DRAWS: Final = 1000
"""Beyond each end lie fifty futures; the end itself is a whole day."""
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Crossing:
    """The day on which fullness passes a level.

    Attributes
    ----------
    level
        Fullness, 0 to 1.
    at, earliest, latest
        Median and ends of the 90 % interval, aware UTC; ``None``: not within `AHEAD_DAYS`, or with
        a ``reason`` unknown.
    days
        Number of days that it is based on.
    is_passed
        Whether the last day is at the level or above; then it has no times.
    """

    level: float
    at: datetime | None = None
    earliest: datetime | None = None
    latest: datetime | None = None
    days: int = 0
    is_passed: bool = False
    reason: Message | None = None


def crossings(points: Sequence[tuple[int, float]], levels: Sequence[float]) -> tuple[Crossing, ...]:
    """Return when fullness passes each level after the last point.

    Parameters
    ----------
    points
        Seconds since 1970 and fullness, 0 to 1, in any order: about one a day.

    Notes
    -----
    docs/calibration.md has how often the interval holds on two years of a public file system.
    """
    reason, daily = daily_growth(points)
    days = 0 if daily is None else len(daily)
    if reason is not None or daily is None:
        short = Message("forecast-too-short", str(reason))
        return tuple(Crossing(level, days=days, reason=short) for level in levels)
    end, now = max(points)
    ahead = None
    made = []
    for level in levels:
        if now >= level:
            made.append(Crossing(level, days=days, is_passed=True))
        elif now + AHEAD_DAYS * float(daily.max()) < level:  # not even with the largest day daily
            made.append(Crossing(level, days=days))
        else:
            ahead = _futures(daily) if ahead is None else ahead
            at, earliest, latest = _passing(ahead, level - now, end)
            made.append(Crossing(level, at, earliest, latest, days))
    return tuple(made)


def _passing(ahead: Floats, needed: float, end: int) -> list[datetime | None]:
    """Return the median and the ends of the times at which futures grow by ``needed``."""
    import numpy as np

    passed = ahead >= needed - _ROUNDING
    first = np.where(passed.any(axis=1), passed.argmax(axis=1) + 1.0, np.inf)
    shares = [0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2]
    begin = datetime.fromtimestamp(end, UTC)
    return [
        begin + timedelta(days=day) if day <= AHEAD_DAYS else None
        for day in np.quantile(first, shares, method="lower").tolist()
    ]


def _futures(daily: Floats) -> Floats:
    """Return drawn growths by day ahead, with the error of the mean; shape (draws, days)."""
    import numpy as np

    past_days, days_ahead = _days(len(daily))
    past, ahead = daily[past_days], np.arange(1, AHEAD_DAYS + 1)
    spread = float(daily.std())
    means, scale = past.mean(axis=1), scale_of(past.std(axis=1), spread)
    errors = (daily[days_ahead].cumsum(axis=1) - means[:, None] * ahead) * scale[:, None]
    factor = widening(daily.tolist(), LEVEL) if spread > 0 else 1.0
    return daily.mean() * ahead + factor * errors


@lru_cache(maxsize=4)
def _days(n: int) -> tuple[Ints, Ints]:
    """Return the days of drawn pasts and futures: the same for all targets of a site."""
    import numpy as np

    generator = np.random.default_rng(n)
    past = drawn_days(n, n, _DRAWS, generator)
    return past, drawn_days(n, AHEAD_DAYS, _DRAWS, generator)
