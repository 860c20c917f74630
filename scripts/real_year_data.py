"""The year as the page needs it: read, judged, and asked a few questions of its own."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import tokio_abc
from tokio_abc import Failover, TableRun

from trimtab.base.run import METRIC_UNITS, RunStatus
from trimtab.base.series import SeriesJudgement, SeriesKey
from trimtab.base.verdict import HistoryPoint, Interval
from trimtab.judge.bootstrap import block_length, ratio_interval
from trimtab.judge.series_analysis import judge_series
from trimtab.judge.series_frame import frame_of

if TYPE_CHECKING:
    import numpy

    Places = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.int64]]

WINDOW: Final = timedelta(days=28)
"""48 hours hold three of these runs; a verdict needs 24."""
SITES: Final = ("edison-scratch1", "edison-scratch2", "edison-scratch3", "mira-fs1")
CONTROL: Final = "edison-scratch3"
"""The file system of Edison that had no failover."""
NEAR: Final = timedelta(days=30)
_RESAMPLES: Final = 1000
_SEED: Final = 2017


@dataclass(frozen=True, slots=True)
class YearRun:
    """One run that is judged.

    Attributes
    ----------
    value
        Bandwidth in B/s; ``None`` where it did not finish.
    telemetry
        What the table tells of its moment, see `tokio_abc`.
    """

    at: datetime
    value: float | None
    walltime_s: float | None
    telemetry: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class One:
    """One probe of one file system."""

    judgement: SeriesJudgement
    runs: tuple[YearRun, ...]
    left_out: tuple[TableRun, ...]

    @property
    def site(self) -> str:
        """The file system."""
        return self.judgement.key.site

    @property
    def probe(self) -> str:
        """The benchmark and its mode."""
        return self.judgement.key.probe

    @property
    def writes(self) -> bool:
        """Whether it writes."""
        return self.judgement.key.metric == "write_bandwidth"

    def values(self, from_: datetime | None = None, to: datetime | None = None) -> list[float]:
        """Return the bandwidths of finished runs in B/s, by time, both ends within."""
        return [
            run.value
            for run in self.runs
            if run.value is not None
            and (from_ is None or run.at >= from_)
            and (to is None or run.at <= to)
        ]

    @property
    def median(self) -> float:
        """The median bandwidth of finished runs in B/s."""
        return median(self.values())


@dataclass(frozen=True, slots=True)
class Year:
    """Everything, by file system and then by probe."""

    series: tuple[One, ...]
    runs: Mapping[str, tuple[TableRun, ...]]
    events: Mapping[str, tuple[Failover, ...]]

    def of(self, site: str, probe: str) -> One:
        """Return one series."""
        return next(one for one in self.series if (one.site, one.probe) == (site, probe))

    def at(self, site: str) -> tuple[One, ...]:
        """Return the series of one file system."""
        return tuple(one for one in self.series if one.site == site)


def load(files: Sequence[Path]) -> Year:
    """Return the year: the tables read and their series judged."""
    runs: dict[str, list[TableRun]] = {site: [] for site in SITES}
    events: dict[str, tuple[Failover, ...]] = {}
    for path in files:
        of_table, failovers = tokio_abc.read(path)
        events |= failovers
        for run in of_table:
            runs[run.site].append(run)
    by_time = {site: tuple(sorted(those, key=lambda run: run.at)) for site, those in runs.items()}
    series = tuple(one for those in by_time.values() for one in _series(those))
    return Year(series, by_time, events)


def _series(runs: Sequence[TableRun]) -> list[One]:
    judged: dict[tuple[object, ...], list[TableRun]] = {}
    for run in runs:
        if run.status in (RunStatus.OK, RunStatus.UNFINISHED):
            judged.setdefault((run.probe, run.series), []).append(run)
    found = []
    for those in judged.values():
        first = those[0]
        points = [
            HistoryPoint(
                run.at, run.metric, run.value or 0.0, run.status is RunStatus.UNFINISHED, str(place)
            )
            for place, run in enumerate(those)
        ]
        unit = METRIC_UNITS[first.metric]
        key = SeriesKey(first.site, first.probe, "tokio-abc", first.metric, unit, str(first.series))
        verdict = judge_series(frame_of(points), key, window_s=WINDOW.total_seconds())
        out = (
            run
            for run in runs
            if run.probe == first.probe and run.status is RunStatus.INVALID_WORKLOAD
        )
        found.append(One(verdict, tuple(map(_run, those)), tuple(out)))
    return sorted(found, key=lambda one: (not one.writes, one.probe))


def _run(run: TableRun) -> YearRun:
    value = run.value if run.status is RunStatus.OK else None
    return YearRun(run.at, value, run.walltime_s, run.telemetry or {})


@dataclass(frozen=True, slots=True)
class Ratio:
    """Bandwidth on one side over that on the other, medians, with its interval."""

    value: float
    interval: Interval | None
    n: tuple[int, int]


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Ratio | None:
    """Return the ratio of two stretches of runs; ``None`` where one is empty."""
    if not numerator or not denominator:
        return None
    return Ratio(
        median(numerator) / median(denominator),
        ratio_interval(numerator, denominator),
        (len(numerator), len(denominator)),
    )


def against(found: Ratio | None, control: Ratio | None) -> Ratio | None:
    """Return a ratio over that of a control: a difference of differences, in logarithms.

    The two are of different runs, so the half widths of their intervals add as squares do.
    """
    if found is None or control is None:
        return None
    value = found.value / control.value
    if found.interval is None or control.interval is None:
        return Ratio(value, None, found.n)
    half = math.hypot(
        *(math.log(one.high / one.low) / 2 for one in (found.interval, control.interval))
    )
    interval = Interval(value * math.exp(-half), value * math.exp(half), found.interval.level)
    return Ratio(value, interval, found.n)


def ratio_of_quantiles(
    numerator: Sequence[float], denominator: Sequence[float], fraction: float
) -> Ratio:
    """Return the ratio of a quantile of two stretches of runs, with its interval.

    Other load can only make a run slower: the best runs show what the file system could do. The
    interval is of the circular block bootstrap.
    """
    import numpy as np

    sides = [np.array(numerator), np.array(denominator)]
    generator = np.random.default_rng(_SEED)
    drawn = [np.quantile(side[_places(len(side), generator)], fraction, axis=1) for side in sides]
    low, high = np.quantile(drawn[0] / drawn[1], (0.025, 0.975))
    first, second = (float(np.quantile(side, fraction)) for side in sides)
    interval = Interval(float(low), float(high), 0.95)
    return Ratio(first / second, interval, (len(numerator), len(denominator)))


def _places(n: int, generator: numpy.random.Generator) -> Places:
    """Return `_RESAMPLES` rows of ``n`` places each, drawn in blocks of the series as a ring."""
    import numpy as np

    length = block_length(n)
    starts = generator.integers(0, n, size=(_RESAMPLES, -(-n // length)))
    return ((starts[:, :, None] + np.arange(length)) % n).reshape(_RESAMPLES, -1)[:, :n]


@dataclass(frozen=True, slots=True)
class Rank:
    """Spearman's rank correlation with its interval.

    Attributes
    ----------
    alone
        After what is common to a month to either side was taken from both.
    """

    n: int
    raw: float
    raw_interval: Interval
    alone: float
    alone_interval: Interval


def rank(one: One, of: Callable[[YearRun], float | None]) -> Rank | None:
    """Return how the bandwidth of a series goes with a figure of the same moment.

    Both drift over months, and two things that drift look alike; so it is taken a second time
    from what each run differs from the median of the `NEAR` days to either side. Intervals are
    of the circular block bootstrap, runs resembling their neighbours. ``None`` for a figure that
    is known of fewer than 100 runs, or never changes.
    """
    rows = [(run.at, run.value, of(run)) for run in one.runs]
    known = [(at, value, x) for at, value, x in rows if value is not None and x is not None]
    if len(known) < 100 or len({x for _, _, x in known}) < 3:
        return None
    times = [at for at, _, _ in known]
    alone = []
    for at, value, x in known:
        those = known[bisect_left(times, at - NEAR) : bisect_right(times, at + NEAR)]
        usual = median(v for _, v, _ in those), median(w for _, _, w in those)
        alone.append((value / usual[0], x - usual[1]))
    raw, raw_interval = _spearman([(value, x) for _, value, x in known])
    rest, rest_interval = _spearman(alone)
    return Rank(len(known), raw, raw_interval, rest, rest_interval)


def _spearman(pairs: Sequence[tuple[float, float]]) -> tuple[float, Interval]:
    """Return the correlation of ranks and its interval; a resample keeps the ranks of the whole."""
    import numpy as np
    from scipy.stats import rankdata

    ranks = rankdata(np.array(pairs), axis=0)
    places = _places(len(pairs), np.random.default_rng(_SEED))
    drawn = ranks[places] - ranks[places].mean(axis=1, keepdims=True)
    together = (drawn[:, :, 0] * drawn[:, :, 1]).sum(axis=1)
    found = together / np.sqrt((drawn**2).sum(axis=1).prod(axis=1))
    low, high = np.quantile(found, (0.025, 0.975))
    whole = float(np.corrcoef(ranks[:, 0], ranks[:, 1])[0, 1])
    return whole, Interval(float(low), float(high), 0.95)
