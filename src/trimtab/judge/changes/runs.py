"""A series as plain arrays, turned so that up is better and equal ratios are equal distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

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
        The same times, for people and for arithmetic (seconds since 1970).
    hour
        Of the week, in the time zone in which people's weeks run: Monday 00:00 is 0.
    value
        In the unit of the series; NaN where there is none.
    height
        Natural logarithm of the value, with its sign turned where less is better; NaN where the
        run did not finish or its value has no logarithm.
    """

    at: tuple[datetime, ...]
    time_s: Floats
    hour: Ints
    value: Floats
    height: Floats

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
        pl.when(~pl.col("unfinished")).then(pl.col("value").cast(pl.Float64)).alias("value"),
    ).sort("at", maintain_order=True)
    local = tidy["at"].dt.convert_time_zone(timezone)
    value = tidy["value"].fill_null(math.nan).to_numpy()
    return Runs(
        at=tuple(tidy["at"].to_list()),
        time_s=tidy["at"].to_physical().to_numpy() / _MICROSECONDS,
        hour=((local.dt.weekday().cast(pl.Int64) - 1) * 24 + local.dt.hour()).to_numpy(),
        value=value,
        height=_heights(value, more_is_better=more_is_better),
    )


def grouped(runs: Runs, size: int) -> Runs:
    """Return runs of which each is ``size`` of these, one after another: their median.

    Unfinished runs are the worst; where they are the most the whole is unfinished. Times are those
    of the first of each, values are none.
    """
    import numpy as np

    count = -(-len(runs) // size)
    padded = np.full(count * size, math.nan)
    padded[: len(runs)] = np.where(np.isnan(runs.height), -math.inf, runs.height)
    height = np.nanmedian(padded.reshape(count, size), axis=1)
    return Runs(
        at=runs.at[::size],
        time_s=runs.time_s[::size],
        hour=runs.hour[::size],
        value=np.full(count, math.nan),
        height=np.where(np.isinf(height), math.nan, height),
    )


def of_sequences(
    at: Sequence[datetime],
    values: Sequence[float | None],
    *,
    more_is_better: bool,
    timezone: str,
) -> Runs:
    """Return the runs at the given times; a value of ``None`` is a run that did not finish.

    Raises
    ------
    ValueError
        Not as many values as times.
    """
    import numpy as np

    pairs = sorted(zip(map(_aware, at), values, strict=True), key=lambda pair: pair[0])
    zone = ZoneInfo(timezone)
    value = np.array([math.nan if v is None else float(v) for _, v in pairs], dtype=np.float64)
    return Runs(
        at=tuple(time for time, _ in pairs),
        time_s=np.array([time.timestamp() for time, _ in pairs], dtype=np.float64),
        hour=np.array([_hour_of_week(time.astimezone(zone)) for time, _ in pairs], dtype=np.int64),
        value=value,
        height=_heights(value, more_is_better=more_is_better),
    )


def _heights(value: Floats, *, more_is_better: bool) -> Floats:
    import numpy as np

    measurable = np.isfinite(value) & (value > 0)
    height = np.full(len(value), math.nan)
    height[measurable] = np.log(value[measurable]) * (1.0 if more_is_better else -1.0)
    return height


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _hour_of_week(local: datetime) -> int:
    return local.weekday() * 24 + local.hour
