"""A series as plain arrays, oriented so that up is better and equal ratios are equal distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from trimtab.judge.occasions import occasions

if TYPE_CHECKING:
    import polars

    from trimtab.judge.arrays import Floats, Ints


HOURS_A_WEEK: Final = 168
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a series by time.

    Attributes
    ----------
    at, time_s
        The same times, as datetimes and as numbers (seconds since 1970).
    until
        Time of the last run in each; differs only if each is an occasion.
    count
        Number of runs in each.
    hour
        Hour of the week in the local time zone: Monday 00:00 is 0.
    value
        In the unit of the series; NaN if there is none.
    height
        Natural logarithm of the value, negated if less is better; NaN if the run did not finish or
        its value has no logarithm.
    more_is_better
        Whether a greater value is a greater height.
    """

    at: tuple[datetime, ...]
    until: tuple[datetime, ...]
    count: Ints
    time_s: Floats
    hour: Ints
    value: Floats
    height: Floats
    more_is_better: bool

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.at)


def of_frame(frame: polars.DataFrame, *, more_is_better: bool, timezone: str) -> Runs:
    """Return the runs of a frame with ``at``, ``value`` and ``unfinished``, by time."""
    import polars as pl

    utc = pl.Datetime("us", "UTC")
    tidy = frame.select(
        pl.col("at").cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
        if frame.schema["at"].time_zone is None  # type: ignore[attr-defined]
        else pl.col("at").cast(utc),
        value=pl.when(~pl.col("unfinished")).then(pl.col("value").cast(pl.Float64)),
    ).sort("at", maintain_order=True)
    local = tidy["at"].dt.convert_time_zone(timezone)
    return _single(
        tuple(tidy["at"].to_list()),
        tidy["at"].to_physical().to_numpy() / _MICROSECONDS,
        ((local.dt.weekday().cast(pl.Int64) - 1) * 24 + local.dt.hour()).to_numpy(),
        tidy["value"].fill_null(math.nan).to_numpy(),
        more_is_better=more_is_better,
    )


def by_occasion(runs: Runs, most: int) -> Runs:
    """Return the occasions (`judge.occasions`) as single runs: the median of their runs.

    Unfinished runs are the worst; if more than half of an occasion's runs are unfinished, so is the
    occasion. Times are those of its first run.

    Parameters
    ----------
    most
        Beyond this number, several consecutive occasions are merged.
    """
    import numpy as np

    starts = np.asarray(occasions(runs.time_s.tolist()), dtype=np.int64)
    starts = starts[:: max(1, -(-len(starts) // most))]
    if len(starts) == len(runs):
        return runs
    ends = np.append(starts[1:], len(runs))
    value, height = _medians(runs, starts, ends - starts)
    return Runs(
        at=tuple(runs.at[place] for place in starts),
        until=tuple(runs.until[place - 1] for place in ends),
        count=ends - starts,
        time_s=runs.time_s[starts],
        hour=runs.hour[starts],
        value=value,
        height=height,
        more_is_better=runs.more_is_better,
    )


def _medians(runs: Runs, starts: Ints, sizes: Ints) -> tuple[Floats, Floats]:
    """Return the median value and height of each occasion, all of one size at once."""
    import numpy as np

    value, height = runs.value[starts], runs.height[starts]
    for size in np.unique(sizes[sizes > 1]):
        places = np.flatnonzero(sizes == size)
        rows = starts[places][:, None] + np.arange(size)
        heights = np.where(np.isnan(runs.height[rows]), -math.inf, runs.height[rows])
        order = np.argsort(heights, axis=1)
        high = order[:, size // 2, None]
        low = order[:, (size - 1) // 2, None]
        # If one of two runs is lost, the other shows the speed.
        low = np.where(np.isinf(np.take_along_axis(heights, low, axis=1)), high, low)
        for numbers, of in ((value, runs.value), (height, runs.height)):
            ends = np.take_along_axis(of[rows], np.hstack([low, high]), axis=1)
            numbers[places] = ends.sum(axis=1) / 2
    return value, height


def of_sequences(
    at: Sequence[datetime],
    values: Sequence[float | None],
    *,
    more_is_better: bool,
    timezone: str,
) -> Runs:
    """Return the runs at the given times; a value of ``None`` is an unfinished run.

    Raises
    ------
    ValueError
        The numbers of values and times differ.
    """
    import numpy as np

    pairs = sorted(zip(map(_aware, at), values, strict=True), key=lambda pair: pair[0])
    zone = ZoneInfo(timezone)
    local = [time.astimezone(zone) for time, _ in pairs]
    return _single(
        tuple(time for time, _ in pairs),
        np.array([time.timestamp() for time, _ in pairs], dtype=np.float64),
        np.array([time.weekday() * 24 + time.hour for time in local], dtype=np.int64),
        np.array([math.nan if v is None else float(v) for _, v in pairs], dtype=np.float64),
        more_is_better=more_is_better,
    )


def _single(
    at: tuple[datetime, ...], time_s: Floats, hour: Ints, value: Floats, *, more_is_better: bool
) -> Runs:
    """Return single runs, with the heights of their values."""
    import numpy as np

    measurable = np.isfinite(value) & (value > 0)
    height = np.full(len(value), math.nan)
    height[measurable] = np.log(value[measurable]) * (1.0 if more_is_better else -1.0)
    count = np.ones(len(at), dtype=np.int64)
    return Runs(at, at, count, time_s, hour, value, height, more_is_better)


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
