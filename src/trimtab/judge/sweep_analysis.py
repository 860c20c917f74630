"""Analysis of a sweep: best settings, factors that matter, heat maps, and scaling with its knee.

On logarithmic axes a rate that grows with a power of the amount is a straight line, and a limit
shows as a knee. Two curves with a knee are compared with the straight line::

    log rate                 ______            a broken line: two lines that meet at the knee, or
                          .-'                  a saturating curve: plateau x^b / (1 + x^b), whose
                        .'  knee               asymptotes meet at the knee x = 1
                      .'
                    .'        log amount

Every round has its own intercept. The best of all places finds a knee in any noise, so its gain is
tested against the gains in simulated noise about a straight line at the same amounts. Akaike's
criterion then selects the curve that locates the knee.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Final

import numpy as np

from trimtab.base.error import Message
from trimtab.base.run import METRIC_UNITS, Run, RunStatus, higher_is_better
from trimtab.base.units import format_percent
from trimtab.base.verdict import LEVEL, Interval
from trimtab.judge.array import Floats
from trimtab.judge.best_setting import (
    amount_of,
    best_settings,
    factor_effects,
    geometric_mean,
    heat_map,
    is_protection,
    ordered_levels,
)
from trimtab.judge.quantile import t_quantile
from trimtab.judge.sweep_result import (
    BestSetting,
    FactorEffect,
    HeatMap,
    Level,
    MeasuredPoint,
    Scaling,
    ScalingPoint,
    ScalingShape,
    SweepAnalysis,
)

_SIMULATED: Final = 999
_PLACES: Final = 61
_GROWTHS: Final = tuple(0.1 + 0.05 * step for step in range(49))


@dataclass(frozen=True, slots=True)
class Curve:
    """Logarithms of amounts and rates, and the round of each."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    rounds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KneeFit:
    """A fitted curve with a knee at each place tried; ``before`` and ``after`` are its slopes."""

    places: tuple[float, ...]
    squares: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    parameters: int
    soft: bool = False

    @property
    def best(self) -> int:
        """Index of the place with the smallest sum of squares."""
        return min(range(len(self.squares)), key=self.squares.__getitem__)


def line_parameters(curve: Curve) -> int:
    """Return the number of parameters of the straight line: an intercept per round, and a slope."""
    return 1 + len(set(curve.rounds))


def _design(curve: Curve, *columns: Floats) -> Floats:
    """Return a design matrix with an intercept per round and these columns."""
    numbers = sorted(set(curve.rounds))
    intercepts = np.array(
        [[number == of_column for of_column in numbers] for number in curve.rounds], dtype=float
    )
    return np.column_stack([intercepts, *columns])


def straight_line(curve: Curve) -> tuple[float, float, float]:
    """Return a straight line's residual sum of squares, slope and standard error of the slope."""
    design, y = _design(curve, np.asarray(curve.x)), np.asarray(curve.y)
    solution, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    squares = float(((y - design @ solution) ** 2).sum())
    degrees = max(1, len(y) - int(rank))
    inverse = np.linalg.pinv(design.T @ design)
    return squares, float(solution[-1]), math.sqrt(squares / degrees * float(inverse[-1, -1]))


def _places(curve: Curve) -> tuple[float, ...]:
    """Return the candidate places of a knee: from the second amount to the last but one."""
    amounts = sorted(set(curve.x))
    low, high = amounts[1], amounts[-2]
    even = [low + (high - low) * step / (_PLACES - 1) for step in range(_PLACES)]
    return tuple(sorted({*even, *amounts[1:-1]}))


def broken_line(curve: Curve) -> KneeFit:
    """Return the broken line: the best-fitting slopes at each place."""
    x, y = np.asarray(curve.x), np.asarray(curve.y)
    places, squares, before, after = _places(curve), [], [], []
    for place in places:
        design = _design(curve, np.minimum(x, place), np.maximum(x - place, 0.0))
        solution = np.linalg.lstsq(design, y, rcond=None)[0]
        squares.append(float(((y - design @ solution) ** 2).sum()))
        before.append(float(solution[-2]))
        after.append(float(solution[-1]))
    return KneeFit(places, tuple(squares), tuple(before), tuple(after), line_parameters(curve) + 2)


def saturating_curve(curve: Curve) -> KneeFit:
    """Return the saturating curve: the best-fitting growth at each place."""
    x, y = np.asarray(curve.x), np.asarray(curve.y)
    basis, _ = np.linalg.qr(_design(curve))
    places, squares, before = _places(curve), [], []
    for place in places:
        shapes = np.array([g * (x - place) - np.logaddexp(0.0, g * (x - place)) for g in _GROWTHS])
        left = y - shapes
        sums = (left**2).sum(axis=1) - ((left @ basis) ** 2).sum(axis=1)
        best = int(np.argmin(sums))
        squares.append(max(0.0, float(sums[best])))
        before.append(_GROWTHS[best])
    flat = (0.0,) * len(places)
    return KneeFit(
        places, tuple(squares), tuple(before), flat, line_parameters(curve) + 1, soft=True
    )


def better_fit(curve: Curve, lines: KneeFit, soft: KneeFit) -> KneeFit:
    """Return the curve with the lower Akaike information criterion, corrected for few runs."""
    return min((lines, soft), key=lambda fit: _criterion(curve, fit))


def _criterion(curve: Curve, fit: KneeFit) -> float:
    n, k = len(curve.y), fit.parameters + 1  # the scatter is a parameter too
    squares = max(fit.squares[fit.best], _nothing(curve))
    correction = 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else math.inf
    return n * math.log(squares / n) + 2 * k + correction


def _nothing(curve: Curve) -> float:
    """Return the sum of squares from rounding of the logarithms alone."""
    return len(curve.y) * (1e-12 * max(1.0, *(abs(value) for value in curve.y))) ** 2


def knee_interval(curve: Curve, fit: KneeFit) -> Interval:
    """Return the confidence interval of the knee: amounts with a sum of squares near the least."""
    least = max(fit.squares[fit.best], _nothing(curve))
    degrees = max(1, len(curve.y) - fit.parameters)
    limit = least * (1 + t_quantile((1 + LEVEL) / 2, degrees) ** 2 / degrees)
    squares = enumerate(fit.squares)
    within = [place for place, square in squares if square <= limit] or [fit.best]
    # The end is somewhere up to the next place tried.
    low, high = max(0, within[0] - 1), min(len(fit.places) - 1, within[-1] + 1)
    return Interval(math.exp(fit.places[low]), math.exp(fit.places[high]))


def knee_p_value(curve: Curve, straight: float, bent: float) -> float:
    """Return the p-value of a knee: how often noise about a straight line gains as much."""
    nothing = _nothing(curve)
    if straight <= nothing:
        return 1.0
    gain = straight / max(bent, nothing)
    gains = _gains_by_chance(curve.x, curve.rounds)
    return (1 + sum(by_chance >= gain for by_chance in gains)) / (1 + len(gains))


@lru_cache(maxsize=64)
def _gains_by_chance(x: tuple[float, ...], rounds: tuple[int, ...]) -> tuple[float, ...]:
    """Return the factors by which the best knee lowers the squares of noise about a straight line.

    The same for every straight line and scatter: only amounts and rounds matter. Seeded, so the
    same sweep always gives the same answer.
    """
    curve = Curve(x, (0.0,) * len(x), rounds)
    noise = np.random.default_rng(20).standard_normal((_SIMULATED, len(x)))
    total = (noise**2).sum(axis=1)

    def left(*columns: Floats) -> Floats:
        basis, _ = np.linalg.qr(_design(curve, *columns))
        return total - ((noise @ basis) ** 2).sum(axis=1)

    amounts = np.asarray(x)
    bent = np.min(
        [
            left(np.minimum(amounts, place), np.maximum(amounts - place, 0.0))
            for place in _places(curve)
        ],
        axis=0,
    )
    return tuple((left(amounts) / bent).tolist())


AMOUNTS_MINIMUM: Final = 4
"""Two on either side of a knee."""

_CHANCE: Final = 0.05
_STILL_GROWING: Final = 0.1
"""At this exponent twice the amount gives 7 % more: not worth doubling a job."""

_UNDECIDED: Final = Message("growth-unclear", "not decided yet")


def scaling(
    points: Sequence[MeasuredPoint],
    metric: str,
    factor: str,
    *,
    fixed: Mapping[str, Level] | None = None,
    margin: float = 0.05,
) -> Scaling:
    """Return how a rate scales with one factor: growth, and the knee with its interval if any.

    Parameters
    ----------
    points, metric
        The measured points of a sweep, and a key of `METRIC_UNITS`.
    factor
        The factor whose levels are amounts (or sizes, as text).
    fixed
        Levels of the other factors; points with different levels are ignored.
    margin
        `Scaling.enough` is the smallest amount that gives all but this fraction of the best.

    Raises
    ------
    KeyError
        The metric is unknown.
    ValueError
        A value is negative or not finite.

    Notes
    -----
    A knee is reported if it is significant at 5 % and the growth exponent beyond it is less than
    half. Its interval contains the places whose sum of squares exceeds the least by no more than
    the 95 % quantile of t^2 allows. Simulated (1 to 32 nodes in powers of two, three rounds, 3 and
    8 % scatter, 200 series per case): without a knee (growth 0, 0.4, 0.7, 1) 0 to 2 % had one; with
    a sharp one at 4, 8 or 12.5 all had, and the interval contained it in 96 to 99 %; with a soft
    one at 4 all had, contained in 90 and 95 %.
    """
    others = {} if fixed is None else {k: v for k, v in fixed.items() if k != factor}
    fitting = [p for p in points if all(p.levels.get(key) == v for key, v in others.items())]
    curve = _curve_of(fitting, metric, factor)
    undecided = Scaling(
        metric, METRIC_UNITS[metric], factor, others, _points(fitting, metric, factor),
        ScalingShape.CANNOT_TELL, _UNDECIDED,
    )  # fmt: skip
    lacking = _lacking(curve, fitting, metric)
    if lacking is not None:
        return replace(undecided, reason=lacking)
    return _judged(curve, replace(undecided, enough=_enough(undecided, margin)))


def _curve_of(points: Sequence[MeasuredPoint], metric: str, factor: str) -> Curve:
    sign = 1.0 if higher_is_better(metric) else -1.0
    x, y, rounds = [], [], []
    for point in points:
        amount = amount_of(point.levels.get(factor, "not set"))
        for number, value in enumerate(point.values.get(metric, ())):
            if value is not None and (not math.isfinite(value) or value < 0):
                raise ValueError(f"{value} cannot be judged")
            if value and amount is not None and amount > 0:
                x.append(math.log(amount))
                y.append(sign * math.log(value))
                rounds.append(number)
    return Curve(tuple(x), tuple(y), tuple(rounds))


def _points(points: Sequence[MeasuredPoint], metric: str, factor: str) -> tuple[ScalingPoint, ...]:
    scaling_points = []
    for point in points:
        amount = amount_of(point.levels.get(factor, "not set"))
        middle = geometric_mean(point, metric)
        if amount is not None and amount > 0 and middle is not None:  # -1 stripes are all of them
            n = sum(value is not None for value in point.values[metric])
            scaling_points.append(ScalingPoint(amount, middle, n))
    return tuple(sorted(scaling_points, key=lambda point: point.amount))


def _lacking(curve: Curve, points: Sequence[MeasuredPoint], metric: str) -> Message | None:
    """Return what is missing for an answer; ``None`` if nothing."""
    if any(0 in point.values.get(metric, ()) for point in points):
        return Message("unfinished-run", "a run did not finish in time: its rate is unknown")
    amounts = len(set(curve.x))
    if amounts < AMOUNTS_MINIMUM:
        return Message(
            "too-few-amounts", f"{amounts} amounts measured; a knee needs {AMOUNTS_MINIMUM}"
        )
    if len(curve.x) < line_parameters(curve) + 5:  # two for the knee, three for Akaike's criterion
        return Message(
            "too-few-runs", f"{len(curve.x)} runs are too few to estimate noise: add a round"
        )
    return None


def _enough(series: Scaling, margin: float) -> float:
    sign = 1.0 if higher_is_better(series.metric) else -1.0
    best = max(sign * math.log(point.middle) for point in series.points)
    near = best + math.log(1 - margin)
    return min(point.amount for point in series.points if sign * math.log(point.middle) >= near)


def _judged(curve: Curve, undecided: Scaling) -> Scaling:
    """Return the curve with its shape, and the knee if there is one."""
    straight, slope, error = straight_line(curve)
    lines = broken_line(curve)
    probability = knee_p_value(curve, straight, lines.squares[lines.best])
    degrees = len(curve.x) - line_parameters(curve)
    half = t_quantile((1 + LEVEL) / 2, degrees) * error
    interval = Interval(slope - half, slope + half)
    series = replace(undecided, probability=probability, growth=slope)
    if probability >= _CHANCE:
        shape, reason = _shape_of_line(interval, slope, series)
        return replace(series, shape=shape, reason=reason, growth_interval=interval)
    fit = better_fit(curve, lines, saturating_curve(curve))
    before, after = fit.before[fit.best], fit.after[fit.best]
    within = knee_interval(curve, fit)
    knee = math.exp(fit.places[fit.best])
    where = f"about {_round(knee)} ({_in_words(within, fit)}) {series.factor}"
    series = replace(series, growth=before, growth_after=after)
    if after >= before / 2 or before <= _STILL_GROWING:
        shape = ScalingShape.FALLING if after < 0 else ScalingShape.FLAT
        if after > _STILL_GROWING:
            shape = ScalingShape.GROWING
        reason = Message(
            "growth-changes",
            f"no knee: at {where} the growth exponent changes from {before:.2f} to {after:.2f} "
            "(1: twice the amount, twice the rate)",
        )
        return replace(series, shape=shape, reason=reason)
    reason = _reason_of_knee(series, where, fit)
    return replace(series, shape=ScalingShape.KNEE, reason=reason, knee=knee, knee_interval=within)


def _reason_of_knee(series: Scaling, where: str, fit: KneeFit) -> Message:
    before, after = fit.before[fit.best], fit.after[fit.best]
    beyond = "it falls" if after < -_STILL_GROWING else "it hardly grows"
    if fit.soft:
        beyond = "it saturates; at the knee it has half of its limit"
    elif after > _STILL_GROWING:
        beyond = f"it grows with exponent {after:.2f}"
    middles = [point.middle for point in series.points]
    enough = next(point for point in series.points if point.amount == series.enough)
    share = enough.middle / max(middles)
    if not higher_is_better(series.metric):
        share = min(middles) / enough.middle
    return Message(
        "knee",
        f"knee at {where}: up to it the rate grows with exponent {before:.2f} (1: twice the "
        f"amount, twice the rate), beyond {beyond}; {_round(enough.amount)} give "
        f"{format_percent(share, 0)} of the best",
    )


def _shape_of_line(
    interval: Interval, slope: float, series: Scaling
) -> tuple[ScalingShape, Message]:
    growth = f"growth exponent {slope:.2f} ({interval.low:.2f} to {interval.high:.2f})"
    least, most = (_round(series.points[place].amount) for place in (0, -1))
    within = f"no knee from {least} to {most} {series.factor}"
    if interval.high < -_STILL_GROWING:
        return ScalingShape.FALLING, Message("falling", f"{within}: more is slower, {growth}")
    if interval.low > _STILL_GROWING:
        return ScalingShape.GROWING, Message(
            "growing", f"{within}: still growing at the end, {growth}"
        )
    if max(-interval.low, interval.high) <= 2 * _STILL_GROWING:
        return ScalingShape.FLAT, Message(
            "flat",
            f"{within}: hardly any change, {growth}; the limit was reached before, or is elsewhere",
        )
    return ScalingShape.CANNOT_TELL, Message(
        "growth-unclear", f"{within} detected; whether the rate grows is inconclusive: {growth}"
    )


def _in_words(interval: Interval, fit: KneeFit) -> str:
    """Return a knee's interval as text, open-ended at the limits of the search."""
    low, high = _round(interval.low), _round(interval.high)
    if interval.low <= math.exp(fit.places[0]):
        low = f"{low} or less"
    if interval.high >= math.exp(fit.places[-1]):
        high = f"{high} or more"
    return f"{low} to {high}"


def _round(amount: float) -> str:
    """Return an amount with two figures and a half: 12, 3.5, 1048576."""
    if amount >= 100 or float(amount).is_integer():
        return f"{amount:.0f}"
    return f"{amount:.2g}" if amount < 10 else f"{amount:.0f}"


AMOUNTS: Final = frozenset(
    {"nodes", "tasks", "tasks_per_node", "stripe_count", "threads", "targets", "processes"}
)
"""Factors that are amounts: their curves are searched for a knee."""


def analyse_sweep(
    points: Sequence[MeasuredPoint],
    *,
    workload: Iterable[str] = (),
) -> SweepAnalysis:
    """Return best settings, effects, heat maps, scaling curves and notes of a sweep.

    Parameters
    ----------
    points
        One per combination of levels, with a value per round.
    workload
        Factors set by the application, not chosen: the best of the others is searched at each of
        their levels.

    Raises
    ------
    KeyError
        A metric is unknown.
    ValueError
        A value is negative or not finite.
    """
    names = _metrics(points)
    workload = tuple(workload)
    best: list[BestSetting] = []
    effects: dict[str, tuple[FactorEffect, ...]] = {}
    maps: list[HeatMap] = []
    curves: list[Scaling] = []
    for metric in names:
        of_metric = best_settings(points, metric, workload=workload)
        best += of_metric
        effects[metric] = factor_effects(points, metric)
        bests = [setting.best for setting in of_metric if setting.best is not None]
        curves += [c for levels in bests for c in _curves(points, metric, levels)]
        if bests:
            maps += _maps(points, metric, effects[metric], bests[0])
    rounds = max((len(v) for point in points for v in point.values.values()), default=0)
    return SweepAnalysis(
        points=len(points),
        rounds=rounds,
        best=tuple(best),
        effects=effects,
        maps=tuple(maps),
        scaling=tuple(curves),
        notes=(*_notes(points, rounds), *_differing_without_factor(best, effects)),
    )


def measured_points(
    runs: Iterable[tuple[Mapping[str, Level], int, Run | None]],
) -> tuple[MeasuredPoint, ...]:
    """Return the points of a sweep from its runs.

    A value is the median of a run's credible repetitions. A run that did not finish has 0 for every
    metric of the sweep in which more is better; a failed or different run has none.

    Parameters
    ----------
    runs
        Levels and round of each, from 0, with its run; ``None`` if nothing was measured.
    """
    grid: dict[str, tuple[Mapping[str, Level], dict[int, Run | None]]] = {}
    for levels, number, run in runs:
        key = repr(sorted((name, repr(level)) for name, level in levels.items()))
        grid.setdefault(key, (levels, {}))[1][number] = run
    measured = [run for _, rounds in grid.values() for run in rounds.values() if run is not None]
    metrics = {
        sample.metric for run in measured for sample in run.samples if sample.statistic == "total"
    }
    count = 1 + max((number for _, rounds in grid.values() for number in rounds), default=-1)
    return tuple(
        MeasuredPoint(
            levels,
            {
                metric: tuple(_figure(rounds.get(number), metric) for number in range(count))
                for metric in METRIC_UNITS
                if metric in metrics
            },
            _doubts(rounds.values()),
        )
        for levels, rounds in grid.values()
    )


def _doubts(runs: Iterable[Run | None]) -> dict[str, str]:
    """Return metric to why most runs' figures of it are not credible."""
    reasons_of: dict[str, Counter[str]] = {}
    for run in runs:
        for sample in run.samples if run is not None else ():
            if sample.is_total and sample.reason is not None:
                reasons_of.setdefault(sample.metric, Counter())[sample.reason] += 1
    return {metric: reasons.most_common(1)[0][0] for metric, reasons in reasons_of.items()}


def _figure(run: Run | None, metric: str) -> float | None:
    if run is None:
        return None
    if run.status is RunStatus.UNFINISHED:
        return 0.0 if higher_is_better(metric) else None
    if run.status not in (RunStatus.OK, RunStatus.PARTIAL):
        return None
    values = run.believed(metric)
    return median(values) if values else None


def _metrics(points: Sequence[MeasuredPoint]) -> tuple[str, ...]:
    measured = {metric for point in points for metric in point.values}
    return tuple(
        metric for metric, unit in METRIC_UNITS.items() if metric in measured and unit != "B"
    )


def _curves(
    points: Sequence[MeasuredPoint],
    metric: str,
    best: Mapping[str, Level],
) -> list[Scaling]:
    curves = []
    for factor in best:
        if factor not in AMOUNTS:
            continue
        levels = ordered_levels(p.levels[factor] for p in points if factor in p.levels)
        if len(levels) >= AMOUNTS_MINIMUM and all(amount_of(level) for level in levels):
            curves.append(scaling(points, metric, factor, fixed=best))
    return curves


def _maps(
    points: Sequence[MeasuredPoint],
    metric: str,
    effects: Sequence[FactorEffect],
    best: Mapping[str, Level],
) -> list[HeatMap]:
    """Return the map over the two factors with the largest shares; none for fewer than two."""
    singles = [effect.factors[0] for effect in effects if len(effect.factors) == 1]
    if len(singles) < 2:
        return []
    rows, columns = (name for name in best if name in singles[:2])
    return [heat_map(points, metric, row_factor=rows, column_factor=columns, fixed=best)]


def _differing_without_factor(
    best: Sequence[BestSetting], effects: Mapping[str, Sequence[FactorEffect]]
) -> list[Message]:
    """Return a note for each metric whose settings differ without any significant factor."""
    notes = []
    for metric, of_metric in effects.items():
        differing = any(
            setting.of_best is not None and setting.may_be_best is False
            for result in best
            if result.metric == metric
            for setting in result.settings
        )
        if differing and of_metric and all(effect.matters is False for effect in of_metric):
            notes.append(
                Message(
                    "no-single-factor",
                    f"{metric}: some settings differ significantly from the best, but no factor by "
                    "itself does, as settings differ in several factors; measure more rounds",
                )
            )
    return notes


def _notes(points: Sequence[MeasuredPoint], rounds: int) -> tuple[Message, ...]:
    notes = []
    if rounds < 2 and len(points) > 1:
        notes.append(
            Message("one-round", "one round does not show the noise: differences may be chance")
        )
    for factor in dict.fromkeys(name for point in points for name in point.levels):
        if is_protection(factor):
            notes.append(
                Message(
                    "protection",
                    f"{factor} protects data or the system: cost shown, no level recommended",
                )
            )
    return tuple(notes)
