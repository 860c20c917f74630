"""The lower tail of targets in surveys, and the loss of a job striped over many of them.

Surveys are a table of one row per survey and one column per target. The targets of one survey are
correlated (same night, same load), so intervals come from resampling whole surveys, in blocks of
neighbouring ones, since nights are autocorrelated too.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import polars as pl

from trimtab.base.series import SlowEnd
from trimtab.base.verdict import LEVEL, Interval
from trimtab.judge.array import Floats
from trimtab.judge.bootstrap import block_length, widening
from trimtab.judge.quantile import t_quantile
from trimtab.judge.spread import excess_kurtosis


@dataclass(frozen=True, slots=True)
class SurveyTable:
    """Surveys of one metric.

    Attributes
    ----------
    at
        Start time of each survey, ascending.
    runs, targets
        Names of the rows and of the columns.
    servers
        Server of each target in its latest survey; ``None`` if unknown.
    values
        Shape (surveys, targets), in the metric's unit; NaN if a target was not measured. 0 is a
        target that delivered nothing.
    """

    at: tuple[datetime, ...]
    runs: tuple[str, ...]
    targets: tuple[str, ...]
    servers: tuple[str | None, ...]
    values: Floats


def survey_table(surveys: pl.DataFrame, metric: str) -> SurveyTable:
    """Return the surveys of one metric as a table.

    Parameters
    ----------
    surveys
        ``at``, ``run``, ``target``, ``metric``, ``value``, and ``server`` if known. A target
        measured more than once in a survey gets the median; values that are missing, negative or
        not finite count as not measured.
    """
    valid = surveys.filter(
        (pl.col("metric") == metric)
        & pl.col("value").is_finite()
        & (pl.col("value") >= 0)
        & pl.col("at").is_not_null()
    )
    rows = valid.group_by("run").agg(pl.min("at")).sort("at", "run")
    server = pl.col("server") if "server" in valid.columns else pl.lit(None, dtype=pl.String)
    columns = (
        valid.sort("at").group_by("target").agg(server=server.drop_nulls().last()).sort("target")
    )
    cells = valid.group_by("run", "target").agg(pl.median("value"))
    place = {name: number for number, name in enumerate(rows["run"])}
    column = {name: number for number, name in enumerate(columns["target"])}
    values = np.full((len(place), len(column)), np.nan)
    for run, target, value in cells.iter_rows():
        values[place[run], column[target]] = value
    return SurveyTable(
        tuple(rows["at"]),
        tuple(rows["run"]),
        tuple(columns["target"]),
        tuple(columns["server"]),
        values,
    )


SURVEYS_MINIMUM: Final = 10
"""Fewer have too few distinct stretches to resample, and in fewer a slow week of a target looks
like a target that is always slow."""

_RESAMPLES: Final = 1000
"""2.5 % of 1000 is twenty-five beyond each end: the end is known to a fifth of its tail."""

_CANDIDATES: Final = 250
"""Values at which the resampled distributions are evaluated, on either side of the quantile."""

_REACH: Final = 3.0
"""In log odds: p10 is searched from p0.5 to p69, p1 from p0.05 to p17."""


def expected_minimum(values: Sequence[float], drawn: int) -> float:
    """Return the expected minimum of ``drawn`` of these values, drawn without replacement.

    Parameters
    ----------
    values
        One rate per target, of one survey; any unit.
    drawn
        Number of targets drawn; capped at the number of values.

    Returns
    -------
    float
        The expected minimum, in the unit of the values.

    Raises
    ------
    ValueError
        There are no values, or ``drawn`` is less than 1.

    Notes
    -----
    Exact: of m sorted values the i-th is the minimum of N drawn with probability
    C(m - i, N - 1) / C(m, N), since the others are among the m - i above it.

    Examples
    --------
    >>> expected_minimum([1.0, 2.0, 3.0], 1), expected_minimum([1.0, 2.0, 3.0], 3)
    (2.0, 1.0)
    """
    if not values or drawn < 1:
        raise ValueError(f"no minimum of {drawn} of {len(values)} values")
    if drawn >= len(values):
        return min(values)
    return math.fsum(
        weight * value
        for weight, value in zip(_weights(len(values), drawn), sorted(values), strict=True)
    )


def lower_tail(
    table: SurveyTable,
    rows: Sequence[int],
    *,
    stripe_count: int | None = None,
) -> SlowEnd | None:
    """Return the slow end of some surveys of a table; ``None`` if nothing was measured.

    Parameters
    ----------
    rows
        Indices of the surveys, by time.
    stripe_count
        Number of targets that the job is striped over, for its loss; ``None``: all that a survey
        measured.

    Notes
    -----
    Minimum, quantiles, median and mean are over all targets and surveys. A survey with fewer
    targets than the stripe contributes its own minimum. Rate at which the intervals contain the
    truth, nominal 95 % (300 records per case of 40 targets, nights that differ by 10 % with
    autocorrelation 0 / 0.5): p10 95 / 91 % for 12 surveys, 96 / 94 % for 30, 94 / 92 % for 90; p1
    88 / 85, 87 / 83 and 87 / 86 %, since the few worst nights determine it.
    """
    values = table.values[list(rows)]
    measured = [row[np.isfinite(row)] for row in values]
    times = [table.at[row] for row, survey in zip(rows, measured, strict=True) if survey.size]
    measured = [survey for survey in measured if survey.size]
    if not measured:
        return None
    every = np.concatenate(measured)
    most = max(len(survey) for survey in measured)
    stripes = most if stripe_count is None else stripe_count
    lowest = float(np.mean([expected_minimum(survey.tolist(), stripes) for survey in measured]))
    mean = float(every.mean())
    intervals = _intervals(measured, (0.01, 0.10))
    return SlowEnd(
        from_=times[0],
        to=times[-1],
        surveys=len(measured),
        targets=int(np.isfinite(values).any(axis=0).sum()),
        mean=mean,
        minimum=float(every.min()),
        p1=float(np.quantile(every, 0.01)),
        p1_interval=intervals[0],
        p10=float(np.quantile(every, 0.10)),
        p10_interval=intervals[1],
        median=float(np.median(every)),
        of_targets=stripes,
        expected_minimum=lowest,
        stripe_loss=1 - lowest / mean if mean > 0 else 0.0,
    )


def _weights(m: int, drawn: int) -> list[float]:
    """Return the probability that each of m sorted values is the minimum of ``drawn``."""
    drawn = min(drawn, m)
    weights = []
    weight = drawn / m  # of the smallest: it is among those drawn
    for i in range(1, m + 1):
        weights.append(weight)
        left = m - i
        # C(left - 1, N - 1) / C(left, N - 1)
        weight *= (left - drawn + 1) / left if left > 0 else 0.0
    return weights


@dataclass(frozen=True, slots=True)
class _TailCounts:
    """Number of values of each survey at or below each candidate: shape (surveys, candidates)."""

    candidates: Floats
    counts: Floats
    sizes: Floats


def _intervals(surveys: Sequence[Floats], fractions: Sequence[float]) -> list[Interval | None]:
    """Return intervals of quantiles over all values, by resampling stretches of surveys."""
    if len(surveys) < SURVEYS_MINIMUM:
        return [None] * len(fractions)
    n = len(surveys)
    every = np.sort(np.concatenate(surveys))
    generator = np.random.default_rng(_seed(every, n))
    length = block_length(n)
    starts = generator.integers(0, n, (_RESAMPLES, -(-n // length)))
    drawn = ((starts[:, :, None] + np.arange(length)) % n).reshape(_RESAMPLES, -1)[:, :n]
    cells = drawn + np.arange(_RESAMPLES)[:, None] * n
    counted = np.bincount(cells.ravel(), minlength=_RESAMPLES * n)
    multiplicity = counted.reshape(_RESAMPLES, n).astype(np.float64)
    ordered = [np.sort(survey) for survey in surveys]
    intervals: list[Interval | None] = []
    for fraction in fractions:
        seen = _counted(ordered, every, fraction)
        share = (multiplicity @ seen.counts) / (multiplicity @ seen.sizes)[:, None]
        place = np.minimum((share < fraction).sum(axis=1), len(seen.candidates) - 1)
        middle = float(np.quantile(every, fraction))
        below = [float((survey <= middle).mean()) for survey in surveys]
        factor = widening(below) * _few_nights(below)
        intervals.append(_widened(seen.candidates[place], middle, factor))
    return intervals


def _few_nights(below: Sequence[float]) -> float:
    """Return the factor by which an interval grows if few surveys determine the quantile.

    Parameters
    ----------
    below
        Share of each survey's targets below the quantile.

    Notes
    -----
    The variance of these shares is known as well as from n 2 / (2 + excess kurtosis) normal
    numbers: the few worst nights determine p1, and a record has only a handful.
    """
    n = len(below)
    degrees = max(1.0, (n - 1) * 2 / (2 + max(0.0, excess_kurtosis(below))))
    probability = (1 + LEVEL) / 2
    return t_quantile(probability, degrees) / t_quantile(probability, n - 1)


def _widened(drawn: Floats, middle: float, factor: float) -> Interval:
    """Return percentiles of resampled quantiles, with their distances from the estimate widened.

    As ratios if possible: rates are positive.
    """
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    low, high = min(float(low), middle), max(float(high), middle)
    if low <= 0:
        return Interval(
            max(0.0, middle - factor * (middle - low)), middle + factor * (high - middle), LEVEL
        )
    return Interval(middle * (low / middle) ** factor, middle * (high / middle) ** factor, LEVEL)


def _counted(surveys: Sequence[Floats], every: Floats, fraction: float) -> _TailCounts:
    """Return the counts at candidates that are densest at the quantile.

    The values of each survey are sorted.
    """
    ranks = np.arange(len(every))
    if len(every) > _CANDIDATES:
        # Evenly spaced in log odds around the fraction, which is fine-grained near 0 as well.
        spaced = np.linspace(-_REACH, _REACH, _CANDIDATES) + math.log(fraction / (1 - fraction))
        ranks = np.unique(np.round(len(every) / (1 + np.exp(-spaced))).astype(int))
        ranks = np.clip(ranks, 0, len(every) - 1)
    candidates = np.unique(every[ranks])
    counts = np.array(
        [np.searchsorted(survey, candidates, side="right") for survey in surveys],
        dtype=np.float64,
    )
    return _TailCounts(candidates, counts, np.array([float(len(survey)) for survey in surveys]))


def _seed(values: Floats, n: int) -> int:
    digest = hashlib.sha256(values.tobytes() + str(n).encode()).hexdigest()
    return int(digest[:32], 16)
