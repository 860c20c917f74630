"""How often an interval holds what it is said to hold, on series whose truth is known."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from tests.calibration import series

from trimtab.base.site import LIMITS
from trimtab.base.verdict import HistoryPoint, Interval, VerdictStatus
from trimtab.judge.comparison import compare
from trimtab.judge.comparison_result import Stretch
from trimtab.judge.spread import cov_interval_of_history
from trimtab.judge.variability import judge_history

HOUR = timedelta(hours=1)
_METRIC = "write_bandwidth"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often an interval for 95 % held the truth.

    Attributes
    ----------
    n
        Runs; of a comparison, on either side.
    series
        That were tried; ``without`` of them gave no interval and count as neither.
    held
        Share whose interval held the truth.
    over, under
        Share whose interval lay wholly over, wholly under it.
    """

    kind: str
    n: int
    phi: float
    series: int
    without: int
    held: float
    over: float
    under: float


def cov_coverage(kind: str, n: int, phi: float, *, count: int, seed: int = 1) -> Coverage:
    """Return the coverage of the interval of the COV of a window of ``n`` hourly runs."""
    truth = true_cov(kind, phi)

    def interval(rng: np.random.Generator) -> Interval | None:
        return cov_interval_of_history(values_of(kind, n, phi, rng).tolist())

    return _counted(interval, truth, (kind, n, phi, count), seed)


POWER_PHIS = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9)
POWER_COVS = (0.04, 0.05, 0.06, 0.08, 0.10, 0.12, 0.15)
GOAL = 0.08
"""The goal of a COV that verdicts are tried on."""


@dataclass(frozen=True, slots=True)
class CovPower:
    """How often a goal of 8 % is found to be met or missed, by the true COV.

    Attributes
    ----------
    phi, cov
        Lag-1 autocorrelation and true COV of the noise.
    series
        That were tried: two weeks of hourly runs, at one level.
    met, missed
        Of them, over the window that autocorrelation asks for.
    met_alone, missed_alone
        Over the last 48 h alone.
    window_days
        Mean length of the window.
    """

    phi: float
    cov: float
    series: int
    met: int
    missed: int
    met_alone: int
    missed_alone: int
    window_days: float


def cov_power(phi: float, cov: float, *, count: int, seed: int = 1) -> CovPower:
    """Return how often a COV is found to be on its side of the goal, log-normal noise."""
    rng = np.random.default_rng([seed, round(1000 * phi), round(1000 * cov)])
    asked, alone, days = Counter[VerdictStatus](), Counter[VerdictStatus](), 0.0
    for _ in range(count):
        values = series.lognormal(series.ar1(336, phi, rng), cov)
        points = [
            HistoryPoint(series.START + HOUR * place, _METRIC, float(value), False, f"run-{place}")
            for place, value in enumerate(values)
        ]
        verdict, short = (
            judge_history(points, metric=_METRIC, probe="probe", goal=GOAL, level_from=level_from)
            for level_from in (series.START, None)
        )
        asked[verdict.status] += 1
        alone[short.status] += 1
        days += (verdict.window_s or LIMITS.window_s) / 86400
    met, missed = VerdictStatus.MET, VerdictStatus.MISSED
    of_both = asked[met], asked[missed], alone[met], alone[missed]
    return CovPower(phi, cov, count, *of_both, days / count)


def ratio_coverage(kind: str, n: int, phi: float, *, count: int, seed: int = 1) -> Coverage:
    """Return the coverage of the interval of a before/after ratio, nothing having changed.

    Through `trimtab.judge.comparison.compare`, as a user meets it: hours of the week are balanced
    from a week a side on, and under 12 runs a side the exact interval answers.
    """

    def interval(rng: np.random.Generator) -> Interval | None:
        before, after = (values_of(kind, n, phi, rng).tolist() for _ in range(2))
        return ratio_of(before, after)

    return _counted(interval, 1.0, (kind, n, phi, count), seed)


def ratio_of(before: list[float], after: list[float]) -> Interval | None:
    """Return the interval of the ratio after over before of two neighbouring hourly stretches."""
    sides = []
    for values, begin in ((before, 0), (after, len(before))):
        times = tuple(series.START + HOUR * (begin + place) for place in range(len(values)))
        sides.append(Stretch(tuple(values), times))
    return compare(*sides, metric="write_bandwidth").ratio_interval


def values_of(kind: str, n: int, phi: float, rng: np.random.Generator) -> series.Floats:
    """Return ``n`` values of a kind of `series.KINDS` in B/s."""
    innovations = kind if kind in ("t3", "laplace") else "normal"
    values = series.lognormal(series.ar1(n, phi, rng, innovations=innovations))
    return series.with_dips(values, rng) if kind == "dips" else values


def true_cov(kind: str, phi: float) -> float:
    """Return the COV of the distribution that ``kind`` is drawn from, exactly.

    Notes
    -----
    ``normal``: the COV asked for. ``laplace``: the logarithm is a sum of independent Laplace
    numbers with scales b phi^k, and E[exp(t X)] of one is 1 / (1 - t^2 b^2). ``dips``: a
    product of two independent numbers. The exponential of Student's t has no mean: no COV.
    """
    scatter = series.COV
    if kind == "normal":
        return scatter
    if kind == "laplace":
        sigma = np.sqrt(np.log1p(scatter * scatter))
        scales = np.sqrt(0.5) * np.sqrt(1 - phi * phi) * sigma * phi ** np.arange(200.0)
        first, second = (1 / np.prod(1 - t * t * scales * scales) for t in (1.0, 2.0))
        return float(np.sqrt(second / first**2 - 1))
    if kind == "dips":
        share, low, high = 0.03, 0.3, 0.8
        mean = 1 - share + share * (low + high) / 2
        square = 1 - share + share * (high**3 - low**3) / (3 * (high - low))
        return float(np.sqrt((1 + scatter * scatter) * square / mean**2 - 1))
    raise ValueError(f"{kind} has no COV")


def _counted(
    interval: Callable[[np.random.Generator], Interval | None],
    truth: float,
    of: tuple[str, int, float, int],
    seed: int,
) -> Coverage:
    kind, n, phi, count = of
    rng = np.random.default_rng([seed, n, round(1000 * phi), len(kind), ord(kind[0])])
    made = [interval(rng) for _ in range(count)]
    found = [one for one in made if one is not None]
    if not found:
        raise ValueError(f"no interval at all from {n} runs")
    over = sum(one.low > truth for one in found) / len(found)
    under = sum(one.high < truth for one in found) / len(found)
    return Coverage(kind, n, phi, count, count - len(found), 1 - over - under, over, under)
