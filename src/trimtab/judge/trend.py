"""The trend of a series over days.

Theil-Sen: the median of the slopes between all pairs of days, each day being the median of
its runs (24 h counted back from the last run), which removes daily seasonality and most of
the autocorrelation between runs. The interval is Sen's (JASA 63, 1968), from the normal
approximation of Kendall's S; the variance of S is multiplied by (1 + phi) / (1 - phi) for the
autocorrelation phi of the residuals. A direction is reported if the interval excludes 0: in
600 hourly series without any trend per case that happened in 1 to 5 % (7 to 30 days, hourly
autocorrelation up to 0.7), in 6 % at 0.9, and in 9 % of series of 30 single runs a day apart
with 0.5 (22 % without the larger variance); a loss of 0.3 % a day under noise of 8 % was
detected within 30 days in 98 %.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from statistics import median
from typing import Final

from trimtab.base.error import Message
from trimtab.base.units import DAY_S, plural
from trimtab.base.verdict import LEVEL, HistoryPoint, Interval, Trend, TrendDirection
from trimtab.judge.quantile import normal_quantile
from trimtab.judge.spread import corrected_autocorrelation
from trimtab.judge.variability import sense_of

DAYS_MINIMUM: Final = 7
"""Over fewer days weekly seasonality looks like a trend."""

TREND_S: Final = 30 * DAY_S
"""Window of a trend, up to the last run."""
_WINDOW: Final = timedelta(seconds=TREND_S)


def trend(
    points: Sequence[HistoryPoint],
    *,
    metric: str,
    probe: str,
    unit: str | None = None,
    more_is_better: bool | None = None,
) -> Trend:
    """Estimate direction and size of the trend over the last `TREND_S` seconds.

    Parameters
    ----------
    points
        Runs of one probe in any order. Other metrics are ignored and duplicates count once. An
        unfinished run counts as 0; in a time metric it is excluded.
    metric
        A key of `METRIC_UNITS`, or any name if ``unit`` is given.
    probe
        Name shown in the trend.
    unit, more_is_better
        For a custom metric; ``None``: as in `METRIC_UNITS`.

    Returns
    -------
    Trend
        Slope per day as a fraction of the median, with interval, direction and reason.

    Raises
    ------
    KeyError
        The metric is unknown and no unit is given.
    """
    unit, more = sense_of(metric, unit, more_is_better)
    runs = {p.run: p for p in points if p.metric == metric}
    counted = [p for p in runs.values() if more or not p.unfinished]
    days = _daily_medians(counted)
    middle = median(days.values()) if days else 0.0
    slope = interval = None
    if len(days) >= DAYS_MINIMUM and middle > 0:
        slope, interval = _theil_sen(days, middle)
    direction, reason = _direction(len(days), middle, slope, interval)
    times = [p.at for p in counted]
    end = max(times, default=None)
    return Trend(
        metric=metric,
        unit=unit,
        probe=probe,
        direction=direction,
        reason=reason,
        days=len(days),
        from_=None if end is None else min(t for t in times if t > end - _WINDOW),
        to=end,
        change_per_day=slope,
        change_per_day_interval=interval,
    )


def _daily_medians(points: Sequence[HistoryPoint]) -> dict[int, float]:
    """Return the median of each day with runs, by day number; the last day is 0."""
    if not points:
        return {}
    end = max(point.at for point in points)
    days: dict[int, list[float]] = defaultdict(list)
    for point in points:
        age_s = (end - point.at).total_seconds()
        if age_s < TREND_S:
            days[-int(age_s // DAY_S)].append(0.0 if point.unfinished else point.value)
    return {day: median(values) for day, values in sorted(days.items())}


def _theil_sen(days: dict[int, float], middle: float) -> tuple[float, Interval | None]:
    """Return the slope as a fraction of ``middle`` per day, and its interval."""
    numbers, values = list(days), list(days.values())
    n = len(days)
    slopes = sorted(
        (values[j] - values[i]) / (numbers[j] - numbers[i]) / middle
        for i in range(n)
        for j in range(i + 1, n)
    )
    slope = median(slopes)
    about_line = [value - slope * middle * day for day, value in days.items()]
    phi = corrected_autocorrelation(about_line)
    variance = n * (n - 1) * (2 * n + 5) / 18 * (1 + phi) / (1 - phi)
    reach = normal_quantile((1 + LEVEL) / 2) * math.sqrt(variance)
    low = math.floor((len(slopes) - reach) / 2)
    if low < 1:  # too few or too correlated days: even all slopes together do not reach the level
        return slope, None
    return slope, Interval(slopes[low - 1], slopes[len(slopes) - low])


def _direction(
    days: int, middle: float, slope: float | None, interval: Interval | None
) -> tuple[TrendDirection, Message]:
    if days < DAYS_MINIMUM:
        return TrendDirection.CANNOT_TELL, Message(
            "too-few-days", f"runs on {plural(days, 'day')}; a trend needs {DAYS_MINIMUM}"
        )
    if middle <= 0:
        return TrendDirection.CANNOT_TELL, Message(
            "median-zero", "the median of more than half of the days is 0"
        )
    if slope is None or interval is None:
        return TrendDirection.CANNOT_TELL, Message(
            "no-interval",
            f"the {days} days are too strongly correlated to distinguish a slope from chance",
        )
    estimate = (
        f"{slope * 100:+.2g} % a day ({interval.low * 100:+.2g} to {interval.high * 100:+.2g} %) "
        f"over {days} days"
    )
    if interval.low > 0:
        return TrendDirection.RISING, Message("rising", estimate)
    if interval.high < 0:
        return TrendDirection.FALLING, Message("falling", estimate)
    return TrendDirection.NONE_SEEN, Message("no-trend", f"{estimate}: no trend detected")
