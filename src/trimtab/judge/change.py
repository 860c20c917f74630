"""Level changes of a series, reported as early as possible without looking ahead.

A series is first turned into plain arrays in which up is better and equal ratios are equal
distances. Two tiers then search it (`judge.change_tier`). The online tier tests after every run
whether the level has just changed, and raises a suspect. The retrospective tier looks back over
weeks, by hour and by day; if both its detectors see a change within a day of each other, it is
confirmed. A suspect that is not confirmed within four days is dismissed. While one is open no other
is raised: one alert per change.

The unit is the occasion (`judge.spread.occasions`): runs made close together are one.

A report for a time uses no later run: a series cut at T gives the same suspects, confirmations and
dismissals up to T as the full series, as long as neither has more than `RUNS_MOST` occasions and
both have the same ones: that runs form a burst may only show later.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from trimtab.base.error import Message
from trimtab.base.series import ChangePoint
from trimtab.judge.spread import OCCASIONS_MINIMUM, occasions

if TYPE_CHECKING:
    import polars

    from trimtab.judge.array import Floats, Ints
    from trimtab.judge.walk_forward import Detection, Places, Walked, WalkForward


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
    """Return the occasions (`judge.spread.occasions`) as single runs: the median of their runs.

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


RECENT_S: Final = 10 * 86400.0
RECENT_RUNS: Final = 30
"""How far back to search for the open suspect: it waits for four days or a dozen runs, possibly
after waiting for an earlier one."""

RUNS_MOST: Final = 100_000
"""Maximum number of single occasions: eleven years of every hour, ten weeks of every minute. Beyond
that, several consecutive ones are merged into their median."""

SEASONALITY_MINIMUM: Final = 0.1
"""Weekly amplitude, as a share of the scatter, from which seasonality is reported."""


@dataclass(frozen=True, slots=True)
class LevelChanges:
    """The level changes of one series.

    Attributes
    ----------
    points
        By time.
    seasonal
        Whether weekly seasonality was removed at the end of the series.
    autocorrelation, scale
        Lag-1 autocorrelation around the level, and the scatter around it (a fraction), at the end
        of the series; 0 if nothing could be detected.
    untested
        Why changes could not be searched; ``None``: they were.
    walked
        State for continuing with this series and later runs.
    """

    points: tuple[ChangePoint, ...]
    seasonal: bool
    autocorrelation: float
    scale: float
    untested: Message | None = None
    walked: Walked | None = field(default=None, compare=False)


def find_changes(
    frame: polars.DataFrame,
    *,
    more_is_better: bool = True,
    timezone: str = "UTC",
    dismissed: bool = False,
    after: Walked | None = None,
) -> LevelChanges:
    """Detect the level changes of a series.

    Parameters
    ----------
    frame
        ``at`` (UTC), ``value`` (null for an unfinished run), ``unfinished``; one row per run.
    more_is_better
        True for bandwidths and rates, false for times; an unfinished run is the worst of either.
    timezone
        IANA name of the time zone for weekly seasonality.
    dismissed
        Whether to include dismissed suspects.
    after
        `LevelChanges.walked` for a prefix of these runs: the same changes, found faster.

    Returns
    -------
    Changes
        Change points by time, with the noise of the series.
    """
    from trimtab.judge.change_point import change_point
    from trimtab.judge.walk_forward import WalkForward

    runs = of_frame(frame, more_is_better=more_is_better, timezone=timezone)
    walk = WalkForward(by_occasion(runs, RUNS_MOST))
    walked = walk.go(after=after)
    earlier = dict(after.points) if after is not None and walk.resumed else {}
    known: dict[Places, ChangePoint] = {}
    for detection, begin, end in _detected(walk, dismissed=dismissed):
        places = _places(detection, begin, end)
        known[places] = earlier.get(places) or change_point(walk.runs, detection, begin, end)
    if walked is not None:
        walked = replace(walked, points=tuple(_settled(known, walked.place)))
    points, noise = tuple(known.values()), walk.noise
    if noise is None:
        return LevelChanges(points, False, 0.0, 0.0, _untested(walk.runs), walked)
    seasonal = (
        walk.seasonality is not None
        and float(abs(walk.seasonality).max()) > SEASONALITY_MINIMUM * noise.scale
    )
    return LevelChanges(points, seasonal, noise.autocorrelation, noise.scale, None, walked)


def _places(detection: Detection, begin: int, end: int) -> Places:
    """Return all positions on which the report of a change depends."""
    from trimtab.judge.change_point import NEAR_RUNS

    place = detection.place
    when = detection.suspected, detection.confirmed, detection.dismissed
    near = max(begin, place - NEAR_RUNS), min(end, place + NEAR_RUNS)
    return (place, int(detection.up), *when, *near)


def _settled(
    points: Mapping[Places, ChangePoint], place: int
) -> Iterator[tuple[Places, ChangePoint]]:
    """Yield the changes that depend only on the runs before a position."""
    for places, point in points.items():
        *earlier, end = (0 if at is None else at for at in places)
        if end <= place and max(earlier) < place:
            yield places, point


@dataclass(frozen=True, slots=True)
class LevelNewest:
    """What the last runs of a series show of its level.

    Attributes
    ----------
    since
        First run of the current level: after the last change, confirmed or suspected; of a series
        that did not change, its first run. ``None``: no runs.
    suspect
        The open suspect.
    """

    since: datetime | None
    suspect: ChangePoint | None


def newest_level(
    at: Sequence[datetime],
    values: Sequence[float | None],
    *,
    more_is_better: bool = True,
    timezone: str = "UTC",
    known: Collection[datetime] = (),
) -> LevelNewest:
    """Return the current level of runs at the given times; ``None`` is an unfinished run.

    Parameters
    ----------
    known
        Begin times of suspects that need not be reported again.
    """
    from trimtab.judge.change_point import change_point
    from trimtab.judge.walk_forward import WalkForward

    runs = of_sequences(at, values, more_is_better=more_is_better, timezone=timezone)
    walk = WalkForward(by_occasion(runs, RUNS_MOST))
    runs = walk.runs
    if not len(runs):
        return LevelNewest(None, None)
    since_s = min(runs.time_s[-1] - RECENT_S, runs.time_s[-min(RECENT_RUNS, len(runs))])
    walk.go(since_s=float(since_s))
    if walk.open is None:
        return LevelNewest(runs.at[walk.levels[-1]], None)
    since = runs.at[walk.open.place]
    if since in known:
        return LevelNewest(since, None)
    begin = max((k for k in walk.levels if k < walk.open.place), default=0)
    return LevelNewest(since, change_point(runs, walk.open, begin, len(runs)))


def _untested(runs: Runs) -> Message:
    if len(runs) >= OCCASIONS_MINIMUM:
        return Message("too-few-runs", "too few finished runs to look for a change")
    unit = "" if int(runs.count.sum()) == len(runs) else " occasions"
    return Message(
        "too-few-runs",
        f"too few runs to look for a change ({len(runs)} of {OCCASIONS_MINIMUM}{unit})",
    )


def _detected(walk: WalkForward, *, dismissed: bool) -> list[tuple[Detection, int, int]]:
    """Return each change with the runs used for its levels, by time.

    They are within the neighbouring regimes.
    """
    edges = [*walk.levels, len(walk.runs)]
    detected: list[tuple[Detection, int, int]] = []
    for detection in sorted(walk.detections, key=lambda detection: detection.place):
        if detection.dismissed is not None and not dismissed:
            continue
        begin = max((k for k in edges if k < detection.place), default=0)
        end = min(k for k in edges if k > detection.place)
        if detection.dismissed is not None:
            end = min(end, detection.dismissed + 1)
        detected.append((detection, begin, end))
    return detected
