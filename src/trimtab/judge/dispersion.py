"""How a series spreads and what its COV is made of: steps, a few bad events, or broad noise.

A year of public data has both extremes: 20 % COV with 2.5 % MAD-CV (a probe on Mira, a few deep
dips) and 21 % with 22 % (one on Cori, noise all the time).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import fmean, median
from typing import TYPE_CHECKING, Final

from trimtab.judge.frame import counted, whole
from trimtab.judge.spread import (
    corrected_autocorrelation,
    cov,
    cov_interval_of_history,
    effective_n_cov,
    mad_cv,
    quartile_dispersion,
)
from trimtab.model.series import Dispersion, Noise
from trimtab.units import plural

if TYPE_CHECKING:
    import polars as pl

RUNS_MINIMUM: Final = 24
"""As for a verdict: fewer runs do not tell a dip from a wide spread."""

HALF_OF_VARIANCE: Final = math.sqrt(2)
"""A COV so many times that of the bulk: more than half of the variance is not the bulk's."""

_MAD_AGAINST_DEVIATION: Final = 1.72
"""Variance of the logarithm of the ratio of a normal sample's standard deviation and MAD, times
2 n: 1 / 0.367 - 1, from the MAD's efficiency of 36.7 %."""

_SURE: Final = 2.33
"""One in a hundred of normal numbers; a ratio of few runs is skewed, which doubles it."""

_FAR: Final = 3.5
"""Robust standard deviations from the middle beyond which a normal run lies once in 2,000."""


@dataclass(frozen=True, slots=True)
class _Levelled:
    """Runs over the mean of their regime, unfinished ones as 0 or left out."""

    finished: tuple[float, ...]
    every: tuple[float, ...]
    regimes: int


def dispersion(
    frame: pl.DataFrame,
    *,
    more_is_better: bool = True,
    changes: Sequence[datetime] = (),
    level: float = 0.95,
) -> Dispersion:
    """Return how the runs of a frame spread, and what the spread is made of.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``unfinished``.
    changes
        Times of the first runs after each confirmed change of level.

    Notes
    -----
    ``cov`` counts unfinished runs as 0 (of a time: not at all); every other measure leaves them
    out. Autocorrelation and the COV within regimes are taken on each run over the mean of its
    regime; the variance has one degree of freedom less for each regime.

    The noise is ``steps`` where more than half of the variance goes when the levels are taken
    out; else ``few_bad_events`` where, within regimes, the COV is over `HALF_OF_VARIANCE` times
    the MAD-CV and by more than such a ratio scatters by chance, which goes by how many
    independent runs there are; else ``always_noisy``. Of 1,000 series of normal noise (lag-1
    autocorrelation 0 / 0.5) 3.6 / 1.5 % pass for bad events with 24 runs, 1.3 / 0.6 % with 48,
    none with 168; of 400 with 3 % of 168 runs dipping to 30 to 80 % all but 2 % are told as such.
    Laplace noise and Student's t with 3 degrees, whose tails hold half of the variance, may be
    called either.
    """
    tidy, _ = whole(frame)
    values = counted(tidy, more_is_better=more_is_better)["value"].to_list()
    rows = list(tidy.select("at", "value").iter_rows())
    finished = [value for _, value in rows if value is not None]
    levelled = _levelled(rows, changes, more_is_better=more_is_better)
    k, robust = cov(values), mad_cv(finished)
    measured = Dispersion(
        n=len(rows),
        unfinished=len(rows) - len(finished),
        cov=k,
        cov_interval=cov_interval_of_history(values, level),
        cov_finished=cov(finished),
        cov_within_regimes=_pooled(levelled.finished, levelled.regimes),
        mad_cv=robust,
        quartile_dispersion=quartile_dispersion(finished),
        cov_over_mad_cv=k / robust if k is not None and robust else None,
        autocorrelation=corrected_autocorrelation(levelled.finished) if len(rows) >= 6 else None,
        noise=Noise.CANNOT_TELL,
        reason="",
    )
    noise, reason = _noise(measured, levelled)
    return replace(measured, noise=noise, reason=reason)


def _levelled(
    rows: Sequence[tuple[datetime, float | None]],
    changes: Sequence[datetime],
    *,
    more_is_better: bool,
) -> _Levelled:
    """Return runs over the mean of the finished runs of their regime.

    A regime without a finished run, or with a mean of 0, has no level: its finished runs say
    nothing of the spread within, its unfinished ones stay 0.
    """
    edges = sorted(changes)
    regimes: dict[int, list[float | None]] = {}
    place = 0
    for at, value in rows:
        while place < len(edges) and edges[place] <= at:
            place += 1
        regimes.setdefault(place, []).append(value)
    finished, every, levels = [], [], 0
    for values in regimes.values():
        known = [value for value in values if value is not None]
        mean = fmean(known) if known else 0.0
        if mean > 0:
            levels += 1
            finished.extend(value / mean for value in known)
            every.extend(value / mean for value in known)
        if more_is_better:
            every.extend([0.0] * (len(values) - len(known)))
    return _Levelled(tuple(finished), tuple(every), levels)


def _pooled(relative: Sequence[float], regimes: int) -> float | None:
    """Return the COV within regimes from runs over their regime's mean."""
    degrees = len(relative) - regimes
    if degrees < 1 or regimes < 1:
        return None
    if min(relative) == max(relative):  # means that are off by the last digit make no spread
        return 0.0
    return math.sqrt(math.fsum((value - 1) ** 2 for value in relative) / degrees)


def _noise(measured: Dispersion, levelled: _Levelled) -> tuple[Noise, str]:
    """Return what the noise is made of and why."""
    n, k = measured.n, measured.cov
    if n < RUNS_MINIMUM:
        return Noise.CANNOT_TELL, f"{n} runs: it takes {RUNS_MINIMUM} to tell"
    if k is None:
        return Noise.CANNOT_TELL, "the mean is 0: COV is not defined"
    if k == 0:
        return Noise.CANNOT_TELL, f"all {n} runs gave the very same value: there is no spread"
    within_all = cov(levelled.every)
    if within_all is None:
        return Noise.CANNOT_TELL, "no run finished: there is no level to spread about"
    if levelled.regimes > 1 and within_all * HALF_OF_VARIANCE < k:
        share, changes = 1 - (within_all / k) ** 2, plural(levelled.regimes - 1, "change")
        return Noise.STEPS, (
            f"{100 * share:.0f} % of the variance goes with {changes} of level: COV {_percent(k)}, "
            f"{_percent(within_all)} without"
        )
    return _events_or_breadth(measured, levelled, within_all)


def _events_or_breadth(
    measured: Dispersion, levelled: _Levelled, within_all: float
) -> tuple[Noise, str]:
    bulk = mad_cv(levelled.finished)
    events = _far_out(levelled, bulk or 0.0, measured.unfinished)
    if not bulk:
        return Noise.FEW_BAD_EVENTS, f"more than half of the runs gave the very same value{events}"
    ratio = within_all / bulk
    found = f"COV {_percent(within_all)} is {ratio:.1f} times the MAD-CV of {_percent(bulk)}"
    if ratio < HALF_OF_VARIANCE:
        return Noise.ALWAYS_NOISY, f"{found}: most of the runs spread as wide as the COV says"
    phi = corrected_autocorrelation(levelled.finished)
    independent = max(1.0, effective_n_cov(len(levelled.finished), phi))
    if ratio < math.exp(_SURE * math.sqrt(_MAD_AGAINST_DEVIATION / (2 * independent))):
        return Noise.CANNOT_TELL, (
            f"{found}, which {len(levelled.finished)} runs (counting as {independent:.0f} "
            "independent ones) may give by chance"
        )
    return Noise.FEW_BAD_EVENTS, f"{found}: most runs are steady{events}"


def _far_out(levelled: _Levelled, bulk: float, unfinished: int) -> str:
    """Return in words how many runs lie far from the rest, and on which side."""
    middle = median(levelled.finished) if levelled.finished else 0.0
    reach = _FAR * bulk * middle
    below = sum(value < middle - reach for value in levelled.finished)
    above = sum(value > middle + reach for value in levelled.finished)
    parts = [f"{below} {'lies' if below == 1 else 'lie'} far below the rest"] if below else []
    if above:
        parts.append(f"{above} far above it")
    if unfinished:
        parts.append(f"{unfinished} did not finish")
    if not parts:
        return ""
    return f"; of {plural(len(levelled.finished) + unfinished, 'run')}, {', '.join(parts)}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"
