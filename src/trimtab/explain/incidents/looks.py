"""The data an incident may depend on: four weeks of a fixed calendar, with context around.

::

    ├── eight weeks, and 1,344 runs ──┼─── four weeks ───┼── two weeks ──┤
                                    from_               to              end

Each look reports the spells in its four weeks. Nothing after its end is used, nor the length of the
record, so an incident that ended long ago never changes. The first look at a series starts with the
series and is extended until the next look has enough context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl

from trimtab.judge.arrays import median
from trimtab.judge.occasions import usual_gap_s
from trimtab.judge.spread import corrected_autocorrelation
from trimtab.model.series import SeriesJudgement, SeriesKey

EVERY: Final = timedelta(days=28)
"""Whole weeks, so that every look has each weekday equally often; counted from 1970."""
BEFORE: Final = timedelta(days=56)
RUNS_BEFORE: Final = 1344
"""Context before a look, whichever is longer: the same for hourly runs, nearly four years for daily
ones."""
AFTER: Final = timedelta(days=14)
"""Context after a look."""
_RUNS_LEAST: Final = 24
"""Fewest runs in the first look at a series."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EVER: Final = datetime.min.replace(tzinfo=UTC)
_WEEK: Final = 7 * 86400.0
_LEVEL_RUNS: Final = 15
"""Fewest runs in a level if runs are a day or more apart."""
_SCALE_LEAST: Final = 0.005
"""Half a per cent: steadier series would otherwise report every hiccup."""

Judged = Sequence[tuple[SeriesJudgement, pl.DataFrame]]
"""Series with their runs: ``at``, ``value``, ``unfinished``."""


@dataclass(frozen=True, slots=True)
class Look:
    """Reports ``from_`` (inclusive) to ``to`` (exclusive) and uses nothing after ``end``."""

    from_: datetime
    to: datetime
    end: datetime

    @property
    def earliest(self) -> datetime:
        """Start of the context if runs are hourly."""
        return self.from_ - BEFORE if self.from_ > _EVER else _EVER


@dataclass(frozen=True)
class Part:
    """The runs of one series used by one look.

    Attributes
    ----------
    frame
        ``at``, ``value``, ``unfinished``; its first row is row ``first`` of the series.
    within
        Rows of ``frame`` reported by the look.
    levels
        First run of each level after the first, for changes confirmed by the end of the look.
    beside
        Number of series with runs at that time, including this one.
    """

    key: SeriesKey
    look: Look
    frame: pl.DataFrame
    first: int
    within: slice
    levels: tuple[datetime, ...]
    beside: int

    @cached_property
    def times(self) -> list[datetime]:
        """Time of each row."""
        return self.frame["at"].to_list()

    @cached_property
    def runs(self) -> Residuals:
        """Each run relative to its level."""
        return residuals_of(self.key, self.frame, self.levels)


class Looked:
    """The series of a site, divided into looks.

    Parameters
    ----------
    now
        Last run of the site.
    """

    def __init__(self, judged: Judged, now: datetime) -> None:
        self._judged = {judgement.key: (judgement, frame) for judgement, frame in judged}
        self._now = now
        self._ends = [(frame["at"][0], frame["at"][-1]) for _, frame in judged]
        self._parts: dict[tuple[SeriesKey, Look], Part] = {}

    def of(self, key: SeriesKey) -> list[Part]:
        """Return the looks at one series, earliest first."""
        frame = self._judged[key][1]
        enough = frame["at"][min(_RUNS_LEAST, frame.height) - 1]
        begin = max(frame["at"][0] + BEFORE, enough)
        return [self._part(key, look) for look in _looks(begin, self._now)]

    def together(self) -> list[list[Part]]:
        """Return all series in each look, earliest first."""
        if not self._ends:
            return []
        begin = min(first for first, _ in self._ends) + BEFORE
        return [
            [self._part(key, look) for key in self._judged] for look in _looks(begin, self._now)
        ]

    def around(self, key: SeriesKey, from_: datetime, to: datetime) -> Part:
        """Return a series with the context of a stretch of time."""
        return self._part(key, Look(from_, to, to + AFTER))

    def _part(self, key: SeriesKey, look: Look) -> Part:
        if (key, look) not in self._parts:
            self._parts[key, look] = self._cut(key, look)
        return self._parts[key, look]

    def _cut(self, key: SeriesKey, look: Look) -> Part:
        judgement, frame = self._judged[key]
        times = frame["at"]
        begin = int(times.search_sorted(look.from_))
        earlier = int(times.search_sorted(look.earliest))
        first = max(0, min(earlier, begin - RUNS_BEFORE))
        end = int(times.search_sorted(look.end, side="right"))
        known = {
            point.at
            for point in judgement.changes
            if (point.confirmed_at or point.detected_at) <= look.end
        }
        return Part(
            key=key,
            look=look,
            frame=frame[first:end],
            first=first,
            within=slice(begin - first, int(times.search_sorted(look.to)) - first),
            levels=tuple(level.from_ for level in judgement.regimes[1:] if level.from_ in known),
            beside=max(1, sum(a <= look.end and b >= look.from_ for a, b in self._ends)),
        )


def _looks(begin: datetime, now: datetime) -> list[Look]:
    """Return the looks of a record whose second look may not begin before ``begin``."""
    edges, at = [_EVER], _EPOCH - ((_EPOCH - begin) // EVERY) * EVERY
    while at <= now:
        edges.append(at)
        at += EVERY
    return [Look(from_, to, to + AFTER) for from_, to in pairwise([*edges, at])]


@dataclass(frozen=True, slots=True)
class Residuals:
    """Runs as arrays: seconds, log residual from their level, whether they did not finish.

    Attributes
    ----------
    scale, phi
        Robust standard deviation of the residuals, and their lag-1 correlation.
    """

    times: Any
    residuals: Any
    unfinished: Any
    scale: float
    phi: float


def residuals_of(key: SeriesKey, frame: pl.DataFrame, levels: Sequence[datetime]) -> Residuals:
    """Return the runs of a series relative to the median of the surrounding runs.

    Parameters
    ----------
    levels
        First runs of its levels after the first: surrounding runs are up to half a week to either
        side within one level.
    """
    times = frame["at"].dt.epoch("us").to_numpy() / 1e6
    values = frame["value"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    unfinished = frame["unfinished"].fill_null(value=True).to_numpy() | ~(values > 0)
    sign = 1.0 if key.more_is_better else -1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.where(unfinished, np.nan, sign * np.log(values))
    residuals = np.full(len(logs), np.nan)
    for part in _parts(times, levels):
        residuals[part] = logs[part] - _level(times[part], logs[part])
    known = residuals[np.isfinite(residuals)]
    scale = 1.4826 * float(np.median(np.abs(known))) if len(known) else _SCALE_LEAST
    # Outliers are the target: they must not make the rest look uncorrelated.
    clipped = np.clip(known, -3 * scale, 3 * scale)
    phi = corrected_autocorrelation(clipped[-720:].tolist())
    return Residuals(times, residuals, unfinished, max(scale, _SCALE_LEAST), phi)


def _parts(times: Any, levels: Sequence[datetime]) -> list[slice]:
    starts = [at.timestamp() for at in levels]
    cuts = [0, *np.searchsorted(times, starts).tolist(), len(times)]
    return [slice(a, b) for a, b in pairwise(cuts) if b > a]


def _level(times: Any, logs: Any) -> Any:
    """Return the median of the week around each run, computed at every sixth and carried over.

    If a week has fewer than `_LEVEL_RUNS` runs, use that many runs, computed at each of them.
    """
    apart_s = usual_gap_s(times.tolist())
    sparse = apart_s * _LEVEL_RUNS > _WEEK
    step = 1 if sparse else 6
    half_s = max(_WEEK, apart_s * _LEVEL_RUNS) / 2
    centres = np.arange(0, len(times), step)
    left = np.searchsorted(times, times[centres] - half_s)
    right = np.searchsorted(times, times[centres] + half_s, side="right")
    levels = np.array(
        [
            median(window) if len(window := logs[a:b][np.isfinite(logs[a:b])]) else np.nan
            for a, b in zip(left, right, strict=True)
        ]
    )
    return np.repeat(levels, step)[: len(times)]
