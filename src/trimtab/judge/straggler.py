"""Analysis of surveys of single targets: the lower tail, and stragglers among the targets.

In a survey of m targets the k slowest are marked. If no target is slower than another, each is
marked with probability k / m, independently in every survey; a target marked in 9 of 30 surveys,
where 1.5 are expected, is a straggler. The number of marks includes ties, so equal values at the
border raise the probability, not the alarm.

How slow a target is relative to its surveys follows from Tukey's median polish (Exploratory Data
Analysis, 1977) on logarithms::

    log rate[survey, target] = whole + survey effect + target effect + residual

A night in which every target was slow is in the survey effect, a target that is always slow is in
the target effect: a large residual is a target that was slow in that night only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from trimtab.base.error import Message
from trimtab.base.run import METRIC_UNITS
from trimtab.base.series import SlowEnd, Straggler, TargetTails
from trimtab.base.units import plural
from trimtab.judge.array import Bools, Floats, benjamini_hochberg, medians
from trimtab.judge.lower_tail import SURVEYS_MINIMUM, SurveyTable, lower_tail, survey_table
from trimtab.judge.quantile import beta_binomial_above, binomial_above

_SWEEPS_MAXIMUM: Final = 20
_SETTLED: Final = 1e-4
"""Of a logarithm: a hundredth of a per cent."""


@dataclass(frozen=True, slots=True)
class MedianPolish:
    """A decomposed table; every figure is a logarithm.

    Attributes
    ----------
    survey_effects, target_effects
        Effect of each row and column, NaN for one without a positive value. Their medians are 0.
    residuals
        Shape (surveys, targets); NaN if there is no positive value.
    """

    whole: float
    survey_effects: Floats
    target_effects: Floats
    residuals: Floats


def median_polish(values: Floats) -> MedianPolish:
    """Return a table of rates decomposed by median polish.

    Parameters
    ----------
    values
        Shape (surveys, targets). 0 (a silent target) has no logarithm: it is excluded and does not
        affect the others.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        residuals = np.where(values > 0, np.log(values), np.nan)
    rows, columns = np.zeros(values.shape[0]), np.zeros(values.shape[1])
    for _ in range(_SWEEPS_MAXIMUM):
        by_row = medians(residuals, 1)
        residuals = residuals - by_row[:, None]
        by_column = medians(residuals, 0)
        residuals = residuals - by_column[None, :]
        rows, columns = rows + by_row, columns + by_column
        moved = np.concatenate([by_row, by_column])
        if not np.any(np.abs(moved[np.isfinite(moved)]) > _SETTLED):
            break
    middles = [float(medians(effects, 0)) if effects.size else 0.0 for effects in (rows, columns)]
    middles = [middle if np.isfinite(middle) else 0.0 for middle in middles]
    return MedianPolish(sum(middles), rows - middles[0], columns - middles[1], residuals)


WORST: Final = 0.05
"""The share of a survey's targets that are marked as slow."""

FALSE_DISCOVERIES: Final = 0.05
"""False discovery rate: share of the named targets that may be due to chance."""

TIMES_MINIMUM: Final = 3
"""A target marked once or twice was slow, but not repeatedly."""

_NOW: Final = 5
"""Surveys that define a target's current loss: days of loss would vanish over the whole record."""

_LAGS_PART: Final = 3
"""Correlation is estimated up to a third of the record: beyond, too few pairs are left."""

_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class SlowMarks:
    """Which targets were marked as slow in which survey.

    Attributes
    ----------
    measured, slow
        Shape (surveys, targets).
    chance
        For each survey: the share of its measured targets that is marked.
    """

    measured: Bools
    slow: Bools
    chance: Floats


def marks(values: Floats, worst: float = WORST) -> SlowMarks:
    """Return the slowest ``worst`` share of each survey's targets, at least one of two or more.

    A survey in which all targets are equal, or with only one, marks none.
    """
    measured = np.isfinite(values)
    slow = np.zeros(values.shape, dtype=bool)
    chance = np.zeros(values.shape[0])
    for row, present in enumerate(measured):
        rates = values[row, present]
        if len(rates) < 2 or rates.min() == rates.max():
            continue
        border = np.partition(rates, _marked(len(rates), worst) - 1)[_marked(len(rates), worst) - 1]
        slow[row] = present & (np.where(present, values[row], np.inf) <= border)
        chance[row] = slow[row].sum() / len(rates)
    return SlowMarks(measured, slow, chance)


def _marked(targets: int, worst: float) -> int:
    return max(1, round(worst * targets))


def straggler_p_values(marked: SlowMarks) -> Floats:
    """Return for each target the probability of its number of marks if all targets were equal.

    Notes
    -----
    This treats marks of one target in different surveys as independent; their number is then a sum
    of trials with the surveys' own chances. Neighbouring surveys are correlated (a target that is
    slow for a week and then recovers), which multiplies the variance of the number by f: the tail
    is that of the beta-binomial distribution with that variance.
    """
    counts = marked.slow.sum(axis=0)
    inflation = _inflation(marked)
    used = marked.measured & (marked.chance > 0)[:, None]
    trials = used.sum(axis=0)
    chances = np.where(used, marked.chance[:, None], 0.0).sum(axis=0) / np.maximum(trials, 1)
    # Most targets were measured in every survey, and many have equal counts: cache.
    tail = cache(lambda count, n, p: _beta_binomial_tail(count, n, p, inflation))
    return np.array(
        [
            tail(int(count), int(n), float(p))
            for count, n, p in zip(counts, trials, chances, strict=True)
        ]
    )


def _inflation(marked: SlowMarks) -> float:
    """Return the factor by which correlation of neighbouring surveys raises a count's variance.

    Notes
    -----
    1 + 2 x the sum of the autocorrelations of the marks, around each target's own share and over
    all targets, from lag 1 until one is within chance. Around an estimated share each is too
    low by f / n, so f is computed iteratively; one standard error is added, which matters for few
    targets in few surveys.
    """
    used = marked.measured & (marked.chance > 0)[:, None]
    cells = float(used.sum())
    n = used.sum(axis=0)
    share = np.where(used, marked.slow, 0).sum(axis=0) / np.maximum(n, 1)
    about = np.where(used, marked.slow - share, 0.0)
    total = float((about**2).sum())
    rows = len(about)
    if total <= 0 or rows < 3:
        return 1.0
    chance = 1 / math.sqrt(cells)
    correlations = [
        float((about[lag:] * about[:-lag]).sum()) / total * rows / (rows - lag)
        for lag in range(1, max(2, rows // _LAGS_PART))
    ]
    inflation = 1.0
    for _ in range(_ROUNDS):
        likeness = 0.0
        for lag, raw in enumerate(correlations, start=1):
            correlation = raw + inflation / rows
            if correlation <= 2 * chance:
                break
            likeness += correlation * (1 - lag / rows)
        inflation = min(1 + 2 * likeness + 2 * chance, rows / 2)
    return max(1.0, inflation)


def _beta_binomial_tail(count: int, n: int, p: float, inflation: float) -> float:
    """Return P(X >= count) for n trials at chance p with a variance ``inflation`` times larger."""
    if count == 0 or n == 0 or p <= 0:
        return 1.0
    if p >= 1:
        return 1.0
    if n == 1:
        return p
    likeness = min(0.999, (inflation - 1) / (n - 1))
    if likeness <= 0:
        return binomial_above(count - 1, n, p)
    a, b = ((1 / likeness - 1) * share for share in (p, 1 - p))
    return beta_binomial_above(count, n, a, b)


def stragglers(table: SurveyTable) -> tuple[Straggler, ...]:
    """Return the targets that are repeatedly slow, slowest first.

    Notes
    -----
    None are named from fewer than `SURVEYS_MINIMUM` surveys. Series in which a target was named
    although none was slower than another, nominal at most 5 % (60 each; lag-1 autocorrelation of
    each target between surveys 0 / 0.5 / 0.8): 30 surveys of 274 targets 3 / 2 / 3 %, 365 of 60 at
    0.8 3 %, 90 of 274 with heavy tails (t, 3 degrees) at 0.5 5 %; 12 surveys of 24 targets 0 % at 0
    and 13 % at 0.7. A target that loses a quarter at COV 8 % was named in every series of 30
    surveys of 274 targets, even at 0.8.
    """
    marked = marks(table.values)
    if len(table.at) < SURVEYS_MINIMUM or not marked.slow.any():
        return ()
    p_values = straggler_p_values(marked)
    q_values = benjamini_hochberg(p_values)
    relative = _relative(table.values)
    counts, measured = marked.slow.sum(axis=0), marked.measured.sum(axis=0)
    named = np.flatnonzero((q_values <= FALSE_DISCOVERIES) & (counts >= TIMES_MINIMUM))
    named_targets = [
        Straggler(
            target=table.targets[place],
            server=table.servers[place],
            surveys=int(measured[place]),
            slow=int(counts[place]),
            relative=float(relative[place]),
            p_value=float(p_values[place]),
            q_value=float(q_values[place]),
        )
        for place in named
    ]
    return tuple(
        sorted(named_targets, key=lambda straggler: (straggler.relative, straggler.target))
    )


def _relative(values: Floats) -> Floats:
    """Return each target's current ratio to its surveys: 0 if most of the last values are 0."""
    parts = median_polish(values)
    middles = np.exp(parts.whole + parts.survey_effects)
    ratios = values / middles[:, None]
    medians = np.full(values.shape[1], np.nan)
    for column in range(values.shape[1]):
        known = ratios[:, column][np.isfinite(ratios[:, column])]
        if known.size:
            medians[column] = np.median(known[-_NOW:])
    return medians


def target_tails(
    surveys: pl.DataFrame,
    metric: str,
    *,
    timezone: str = "UTC",
    stripe_count: int | None = None,
) -> TargetTails:
    """Analyse surveys of single targets: lower tail overall and by month, and stragglers.

    Parameters
    ----------
    surveys
        ``at`` (UTC), ``run``, ``target``, ``metric``, ``value`` in the metric's unit, and
        ``server`` if known; one row per target and survey.
    metric
        A rate or bandwidth, a key of `METRIC_UNITS`.
    timezone
        IANA name of the time zone for calendar months.
    stripe_count
        Number of targets that the job of ``stripe_loss`` is striped over; ``None``: all.

    Returns
    -------
    TargetTails
        Lower tails, stragglers and the reason.

    Raises
    ------
    KeyError
        The metric is unknown.
    ValueError
        The metric is a time.
    """
    unit = METRIC_UNITS[metric]
    if unit == "s":
        raise ValueError(f"{metric} is a time: surveys of targets are judged by rates")
    table = survey_table(surveys, metric)
    overall = lower_tail(table, range(len(table.at)), stripe_count=stripe_count)
    named = stragglers(table)
    return TargetTails(
        metric=metric,
        unit=unit,
        surveys=len(table.at),
        targets=len(table.targets),
        overall=overall,
        by_month=_months(table, timezone, stripe_count),
        stragglers=named,
        reason=_reason(table, overall, len(named)),
    )


def _months(table: SurveyTable, timezone: str, stripe_count: int | None) -> tuple[SlowEnd, ...]:
    zone = ZoneInfo(timezone)
    months: dict[tuple[int, int], list[int]] = {}
    for row, at in enumerate(table.at):
        local = at.astimezone(zone)
        months.setdefault((local.year, local.month), []).append(row)
    tails = (
        lower_tail(table, rows, stripe_count=stripe_count) for _, rows in sorted(months.items())
    )
    return tuple(tail for tail in tails if tail is not None)


def _reason(table: SurveyTable, overall: SlowEnd | None, named: int) -> Message:
    if overall is None:
        return Message("not-measured", "no survey measured single targets")
    surveys = plural(len(table.at), "survey")
    if len(table.targets) < 2:
        return Message("one-target", f"only one target in {surveys}: nothing to compare it with")
    of_targets = f"{surveys} of {len(table.targets)} targets"
    if len(table.at) < SURVEYS_MINIMUM:
        return Message(
            "too-few-surveys", f"{of_targets}; detecting stragglers needs {SURVEYS_MINIMUM}"
        )
    if not named:
        return Message("no-straggler", f"no target is slow repeatedly in {of_targets}")
    return Message("stragglers", f"{plural(named, 'straggler')} detected in {of_targets}")
