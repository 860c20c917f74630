"""Growth of usage: its forecast from the record of a file system. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from trimtab.base.encode import bounds, shape
from trimtab.base.units import format_bytes, format_duration, plural
from trimtab.judge.bootstrap import block_length, widening

if TYPE_CHECKING:
    import numpy

    from trimtab.judge.array import Floats, Ints

DAYS_MINIMUM: Final = 14
"""Two weeks: fewer days show neither the weekly pattern nor the variation of days."""
WINDOW_S: Final = 90 * 86400
"""Older snapshots say little about next week's usage."""
LEVEL: Final = 0.9
"""Coverage of the interval: growth exceeds its upper end in one case in twenty."""
DRAWS: Final = 4000
_SPREAD_MINIMUM: Final = 0.2
"""Least spread of a drawn past, as a fraction of the spread of all days."""
_DAY_S: Final = 86400
GAP_MAXIMUM_S: Final = 3 * _DAY_S
"""A longer gap hides how the days in it varied."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Forecast growth of usage over a time, or why there is none.

    Attributes
    ----------
    middle_bytes, low_bytes, high_bytes
        Expected growth and the ends of its interval; ``None`` with a ``reason``.
    level
        Coverage of the interval; half of the rest lies beyond each end.
    days
        Number of days that the forecast is based on.
    """

    ahead_s: int
    middle_bytes: int | None
    low_bytes: int | None
    high_bytes: int | None
    level: float
    days: int
    reason: str | None = None

    @property
    def words(self) -> str:
        """The forecast as a sentence."""
        ahead = format_duration(self.ahead_s)
        if self.middle_bytes is None or self.low_bytes is None or self.high_bytes is None:
            return f"No forecast of growth within {ahead}: {self.reason}."
        return (
            f"Within {ahead} usage is expected to grow by {format_bytes(self.middle_bytes)} "
            f"({format_bytes(self.low_bytes)} to {format_bytes(self.high_bytes)}, "
            f"{self.level:.0%}), based on {self.days} days."
        )


def forecast_growth(
    points: Sequence[tuple[int, int]],
    *,
    ahead_s: int,
    purged: Sequence[tuple[int, int]] = (),
) -> Growth:
    """Forecast the growth of usage over the next ``ahead_s`` seconds after the last point.

    Growth is bytes written less bytes deleted by their owners; lists cover the upper end of its
    interval. Bytes freed by purges are added back, because every purge would otherwise look like
    falling demand::

        used + purged so far   ▁▁▂▂▃▃▃▄▄▅▅▆▆▇▇█   daily differences ──▶ blocks of them, resampled

    Parameters
    ----------
    points
        Seconds since 1970 and bytes used, in any order: a site's snapshots. Those of the last
        `WINDOW_S` count.
    ahead_s
        Length of the forecast, in seconds.
    purged
        Seconds since 1970 and bytes freed, of each purge; added back to the usage.

    Returns
    -------
    Growth
        Expected growth and interval in bytes, or the ``reason`` why there is no forecast: fewer
        than `DAYS_MINIMUM` days since the last gap of more than three days.

    Notes
    -----
    Usage with purges added back is interpolated linearly at whole days before the last point. The
    daily growths are the sample; the interval is their predictive bootstrap. Blocks of consecutive
    days (circular blocks, D. N. Politis and J. P. Romano, 1992) form both another past, for the
    error of the mean, and another future, for the variation of the days to come. The interval is
    widened as in `trimtab.judge.bootstrap`, for variation that short blocks miss. The mean is used
    rather than a robust estimate because the rare day on which a user writes a petabyte is what
    fills a file system.

    Rate at which growth exceeded the upper end, nominal 5 %, from 30 / 60 / 90 days (400 series
    each): independent days 5 / 5 / 4 % within 7 days and 5 / 6 / 4 % within 28; with an
    autocorrelation of 0.5, 4 / 3 / 4 and 5 / 5 / 4 %; lognormal days, whose monthly maximum is
    eight times their median, 9 / 7 / 6 and 7 / 9 / 9 %; days with a weekly pattern, under 2 %.
    """
    reason, daily = daily_growth(points, purged)
    if reason is not None or daily is None:
        days = 0 if daily is None else len(daily)
        return Growth(ahead_s, None, None, None, LEVEL, days, reason)
    import numpy as np

    ahead_days = ahead_s / _DAY_S
    middle = float(daily.mean()) * ahead_days
    errors = _errors(daily, ahead_days)
    low, high = np.quantile(errors, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    widened = widening(list(daily), LEVEL) if float(daily.std()) > 0 else 1.0
    return Growth(
        ahead_s=ahead_s,
        middle_bytes=round(middle),
        low_bytes=round(middle + widened * min(0.0, float(low))),
        high_bytes=round(middle + widened * max(0.0, float(high))),
        level=LEVEL,
        days=len(daily),
    )


def daily_growth(
    points: Sequence[tuple[int, float]], purged: Sequence[tuple[int, float]] = ()
) -> tuple[str | None, Floats | None]:
    """Return why there is no forecast, and the growth of each day, oldest first.

    Days before a gap of more than three days are left out.
    """
    import numpy as np

    end = max((at for at, _ in points), default=0)
    recent = sorted({at: used for at, used in points if at >= end - WINDOW_S}.items())
    first, gap = 0, ""
    for number, ((before, _), (after, _)) in enumerate(pairwise(recent), 1):
        if after - before > GAP_MAXIMUM_S:
            first, gap = number, f" to a gap of {format_duration(after - before)}"
    recent = recent[first:]
    if len(recent) < 2:
        return f"{plural(len(recent), 'snapshot')}{gap}: too few", None
    at = np.array([at for at, _ in recent], np.float64)
    gross = np.array([used for _, used in recent], np.float64)
    for when, freed in purged:
        gross[at >= when] += freed
    days = int((at[-1] - at[0]) // _DAY_S)
    grown = np.diff(np.interp(at[-1] - _DAY_S * np.arange(days, -1, -1), at, gross))
    if days < DAYS_MINIMUM:
        return f"snapshots reach back {days} days{gap}; a forecast needs {DAYS_MINIMUM}", grown
    return None, grown


def _errors(daily: Floats, ahead_days: float) -> Floats:
    """Return the differences between drawn futures and the forecasts of drawn pasts, in bytes."""
    import numpy as np

    n = len(daily)
    # Seeded by the data: the same snapshots give the same lists.
    seed = int.from_bytes(hashlib.sha256(daily.tobytes()).digest()[:16], "big")
    generator = np.random.default_rng(seed)
    whole = int(ahead_days)
    part = ahead_days - whole
    weights = np.append(np.ones(whole), [part] if part > 0 else [])
    past = _drawn(daily, n, generator)
    future = _drawn(daily, len(weights), generator) @ weights
    spread = daily.std()
    # Scaled by the spread of each past: a past without the rare large days both forecasts too
    # little and varies too little, and this corrects for both.
    return (future - ahead_days * past.mean(axis=1)) * scale_of(past.std(axis=1), float(spread))


def scale_of(shown: Floats, spread: float) -> Floats:
    """Return the factor for the errors of drawn pasts with these spreads."""
    import numpy as np

    least = np.maximum(shown, _SPREAD_MINIMUM * spread)
    return np.divide(spread, least, out=np.ones_like(least), where=least > 0)


def _drawn(daily: Floats, length: int, generator: numpy.random.Generator) -> Floats:
    """Return `DRAWS` series of ``length`` days, made of circular blocks of ``daily``."""
    return daily[drawn_days(len(daily), length, DRAWS, generator)]


def drawn_days(n: int, length: int, draws: int, generator: numpy.random.Generator) -> Ints:
    """Return the days of drawn series, in circular blocks of ``n`` days; shape (draws, length)."""
    import numpy as np

    block = block_length(n)
    starts = generator.integers(0, n, (draws, -(-length // block)))
    days = (starts[:, :, None] + np.arange(block)).reshape(draws, -1)[:, :length]
    return days % n


shape(
    Growth,
    omit=["low_bytes", "high_bytes"],
    derive={"interval": bounds("low_bytes", "high_bytes", int)},
)
