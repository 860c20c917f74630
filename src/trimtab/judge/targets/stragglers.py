"""Stragglers: targets among the slowest of a survey more often than chance explains.

In a survey of m targets the k slowest are marked. If no target is slower than another, each is
marked with probability k / m, independently in every survey; a target marked in 9 of 30 surveys,
where 1.5 are expected, is a straggler. The number of marks includes ties, so equal values at the
border raise the probability, not the alarm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from trimtab.judge.arrays import Bools, Floats, benjamini_hochberg
from trimtab.judge.distributions import beta_binomial_above, binomial_above
from trimtab.judge.targets.median_polish import median_polish
from trimtab.judge.targets.table import SurveyTable
from trimtab.model.series import Straggler

WORST: Final = 0.05
"""The share of a survey's targets that are marked as slow."""

FALSE_DISCOVERIES: Final = 0.05
"""False discovery rate: share of the named targets that may be due to chance."""

SURVEYS_MINIMUM: Final = 10
"""In fewer surveys, a slow week of a target looks like a target that is always slow."""

TIMES_MINIMUM: Final = 3
"""A target marked once or twice was slow, but not repeatedly."""

_NOW: Final = 5
"""Surveys that define a target's current loss: days of loss would vanish over the whole record."""

_LAGS_PART: Final = 3
"""Correlation is estimated up to a third of the record: beyond, too few pairs are left."""

_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class Marks:
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


def marks(values: Floats, worst: float = WORST) -> Marks:
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
    return Marks(measured, slow, chance)


def _marked(targets: int, worst: float) -> int:
    return max(1, round(worst * targets))


def straggler_p_values(marked: Marks) -> Floats:
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


def _inflation(marked: Marks) -> float:
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
