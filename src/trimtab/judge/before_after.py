"""A series before and after a time: distributions, means, and the ratio.

The time is that of a logged change (checksums enabled) or of a change point. For a change point
that was detected in the same runs the interval is too narrow: the time was selected because the
sides differ there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean, stdev
from typing import Final

import numpy as np
import polars as pl

from trimtab.judge.compare import CompareTerms, compare
from trimtab.judge.frame import counted, normalised
from trimtab.model.compare import Effect, Stretch
from trimtab.model.series import SeriesKey

WIDTH_S: Final = 240 * 3600.0
"""Ten days on each side, as in figures 3 and 4 of [S1]."""

FRACTIONS: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
_BINS_MAXIMUM: Final = 40


@dataclass(frozen=True, slots=True)
class Distribution:
    """The runs of one side.

    Attributes
    ----------
    from_, to
        First and last run, aware; ``None`` for an empty side.
    n, unfinished
        Number of runs, and of unfinished ones among them.
    mean, standard_deviation
        In the unit of the series; unfinished runs count as 0, in a time metric they are excluded.
    quantiles
        Pairs of fraction (0.05, 0.25, 0.5, 0.75, 0.95) and value in the unit of the series, over
        the finished runs; empty where none finished.
    counts
        Finished runs in each bin between neighbouring ``edges``: one count fewer than edges.
    """

    from_: datetime | None
    to: datetime | None
    n: int
    unfinished: int
    mean: float | None
    standard_deviation: float | None
    quantiles: tuple[tuple[float, float], ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """The distributions before and after a time, and the effect.

    Attributes
    ----------
    at
        The time of the change, aware; a run at this time is on the later side.
    metric, unit
        Of all values.
    edges
        Bin edges that both sides share, ascending, in the unit of the series.
    ratio_of_means
        Mean after over mean before; ``None`` where it is undefined.
    effect
        The ratio of medians with its interval, and whether it is provisional.
    """

    at: datetime
    metric: str
    unit: str
    before: Distribution
    after: Distribution
    edges: tuple[float, ...]
    ratio_of_means: float | None
    effect: Effect


def before_after(
    frame: pl.DataFrame,
    at: datetime,
    key: SeriesKey,
    *,
    width_s: float = WIDTH_S,
    wash_out_s: float = 0.0,
    timezone: str = "UTC",
) -> BeforeAfter:
    """Compare the runs before ``at`` with those after it.

    Parameters
    ----------
    frame
        ``at`` (UTC), ``value`` (in ``key.unit``; null: unfinished), ``unfinished``; a row per run.
    at, width_s
        Aware time, and length of each side in seconds; a run at ``at`` is on the later side.
    key
        Names, unit and sense of the series.
    wash_out_s
        Seconds at the start of the later side that the effect excludes; distributions do not.
    timezone
        IANA name of the site's time zone, for hours of the week.

    Returns
    -------
    BeforeAfter
        Distribution of each side over shared bins, ratio of means, and the effect.

    Raises
    ------
    UsageError
        The frame lacks a column or a column has the wrong type.

    Notes
    -----
    The effect is that of `compare.compare`: ratio of medians, block bootstrap, every hour of the
    week with equal weight on both sides where a side lasts a week; below that it is provisional.
    Unfinished runs count as 0; in a time metric they are excluded.
    """
    tidy, _ = normalised(frame)
    width = timedelta(seconds=width_s)
    sides = [_between(tidy, at - width, at), _between(tidy, at, at + width)]
    more = key.more_is_better
    judged = [counted(side, more_is_better=more) for side in sides]
    edges = _edges([value for side in sides for value in side["value"].drop_nulls()])
    shown = [
        _distribution(side, runs["value"].to_list(), edges)
        for side, runs in zip(sides, judged, strict=True)
    ]
    effect = compare(
        _stretch(judged[0]),
        _stretch(judged[1]),
        metric=key.metric,
        terms=CompareTerms(wash_out_s=wash_out_s, timezone=timezone),
        unit=key.unit,
        more_is_better=more,
    )
    first, second = shown[0].mean, shown[1].mean
    return BeforeAfter(
        at=at,
        metric=key.metric,
        unit=key.unit,
        before=shown[0],
        after=shown[1],
        edges=edges,
        ratio_of_means=None if not first or second is None else second / first,
        effect=effect,
    )


def _between(frame: pl.DataFrame, begin: datetime, end: datetime) -> pl.DataFrame:
    return frame.filter((pl.col("at") >= begin) & (pl.col("at") < end))


def _stretch(side: pl.DataFrame) -> Stretch:
    return Stretch(tuple(side["value"]), tuple(side["at"]), tuple(side["unfinished"]))


def _edges(values: Sequence[float]) -> tuple[float, ...]:
    """Return edges of bins over all values, by the rule of Freedman and Diaconis (1981).

    Twice the distance of the quartiles over the cube root of how many there are.
    """
    if not values:
        return ()
    low, high = min(values), max(values)
    if low == high:
        return (low, high)
    first, third = np.quantile(values, [0.25, 0.75])
    width = 2 * (third - first) / len(values) ** (1 / 3)
    bins = _BINS_MAXIMUM if width <= 0 else int(np.ceil((high - low) / width))
    bins = min(max(bins, 1), _BINS_MAXIMUM)
    return tuple(float(edge) for edge in np.linspace(low, high, bins + 1))


def _distribution(
    side: pl.DataFrame, values: Sequence[float], edges: Sequence[float]
) -> Distribution:
    finished = side["value"].drop_nulls().to_list()
    quantiles: tuple[tuple[float, float], ...] = ()
    if len(finished):
        at_fractions = np.quantile(finished, FRACTIONS)
        quantiles = tuple(
            (fraction, float(q)) for fraction, q in zip(FRACTIONS, at_fractions, strict=True)
        )
    times = side["at"].to_list()
    return Distribution(
        from_=times[0] if times else None,
        to=times[-1] if times else None,
        n=len(times),
        unfinished=len(times) - len(finished),
        mean=fmean(values) if values else None,
        standard_deviation=stdev(values) if len(values) > 1 else None,
        quantiles=quantiles,
        counts=_counts(finished, edges),
    )


def _counts(finished: Sequence[float], edges: Sequence[float]) -> tuple[int, ...]:
    """Return how many lie in each bin; of one value alone all lie in the one bin there is."""
    if len(edges) < 2:
        return ()
    if edges[0] == edges[-1]:
        return (len(finished),)
    return tuple(int(count) for count in np.histogram(finished, bins=np.asarray(edges))[0])
