"""The best setting, the settings statistically tied with it, and the factors that matter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Final

import numpy as np

from trimtab.base.error import Message, UsageError
from trimtab.base.run import METRIC_UNITS, higher_is_better
from trimtab.base.units import format_percent, parse_bytes
from trimtab.base.verdict import LEVEL, Interval
from trimtab.judge.array import Floats
from trimtab.judge.quantile import bisected, f_above, normal_lower, t_quantile
from trimtab.judge.sweep_result import (
    BestSetting,
    FactorEffect,
    HeatMap,
    Level,
    MeasuredPoint,
    SettingResult,
)

METHOD: Final = (
    "multiple comparisons with the best (Hsu): log values without the effect of their round, "
    "pooled scatter, the larger of Dunnett's one-sided and Student's two-sided quantile; a setting "
    "whose interval stays below 100 % differs significantly from the best"
)
_MATTERS: Final = 0.05
_PROTECTIONS: Final = (
    "checksum", "integrity", "mitigation", "saferet", "spectre", "srso", "permission", "encrypt",
    "security", "t10", "squash", "krb", "verify",
)  # fmt: skip


def best_settings(
    points: Sequence[MeasuredPoint], metric: str, *, workload: Iterable[str] = ()
) -> tuple[BestSetting, ...]:
    """Return the best setting for each workload, with those statistically tied with it.

    Parameters
    ----------
    points, metric
        The measured points of a sweep, and a key of `METRIC_UNITS`.
    workload
        Factors that are not a choice: the best of the others is searched at each of their levels.
        Integrity and security settings always belong to them (`is_protection`).

    Raises
    ------
    KeyError
        The metric is unknown.
    ValueError
        A value is negative or not finite.
    """
    names = (*workload, *(name for name in _factors(points) if is_protection(name)))
    groups: dict[tuple[Level | None, ...], list[MeasuredPoint]] = {}
    for point in points:
        groups.setdefault(tuple(point.levels.get(name) for name in names), []).append(point)
    best = []
    for key, group in groups.items():
        levels = {name: level for name, level in zip(names, key, strict=True) if level is not None}
        best.append(_best(group, metric, levels))
    return tuple(best)


def factor_effects(points: Sequence[MeasuredPoint], metric: str) -> tuple[FactorEffect, ...]:
    """Return how much each factor and each pair of factors matters, largest share first.

    Raises
    ------
    KeyError
        The metric is unknown.
    ValueError
        A value is negative or not finite.

    Notes
    -----
    Analysis of variance on log scale, where factors combine additively: the share of a factor is
    what the sum of all single factors loses without it, that of a pair is what it adds to that sum
    (type II). An F test compares it with the residuals between rounds; probabilities are Holm's, so
    one in twenty sweeps without any effect shows one.
    """
    rounds = fit_blocks(points, metric)
    factors = _factors(rounds.points)
    if len(rounds.points) < 2 or not factors:
        return ()
    y, weights = rounds.effects, rounds.counts
    singles = [_indicators(rounds.points, (name,)) for name in factors]
    whole = _left(y, weights, singles)
    terms: list[tuple[tuple[str, ...], tuple[float, int]]] = []
    for place, name in enumerate(factors):
        without = _left(y, weights, singles[:place] + singles[place + 1 :])
        terms.append(((name,), (without[0] - whole[0], whole[1] - without[1])))
    for pair in combinations(factors, 2):
        with_pair = _left(y, weights, [*singles, _indicators(rounds.points, pair)])
        terms.append((pair, (whole[0] - with_pair[0], with_pair[1] - whole[1])))
    chance = (rounds.scatter or 0.0) ** 2
    total = _left(y, weights, [])[0] + chance * rounds.degrees
    terms = [(names, (max(0.0, squares), rank)) for names, (squares, rank) in terms if rank > 0]
    raw: list[float | None] = []
    for _, (squares, rank) in terms:
        if not rounds.degrees:
            raw.append(None)
        elif chance == 0:
            raw.append(0.0 if squares > 1e-12 else 1.0)
        else:
            raw.append(f_above(squares / rank / chance, rank, rounds.degrees))
    adjusted = _holm(raw)
    effects = [
        FactorEffect(
            factors=names,
            share=squares / total if total > 0 else 0.0,
            ratio=_ratio(rounds, names[0]) if len(names) == 1 else None,
            probability=probability,
            matters=None if probability is None else probability < _MATTERS,
        )
        for (names, (squares, _)), probability in zip(terms, adjusted, strict=True)
    ]
    return tuple(sorted(effects, key=lambda effect: -effect.share))


def heat_map(
    points: Sequence[MeasuredPoint],
    metric: str,
    *,
    row_factor: str,
    column_factor: str,
    fixed: Mapping[str, Level],
) -> HeatMap:
    """Return a metric over two factors, at fixed levels of the others.

    Raises
    ------
    KeyError
        The metric is unknown.
    """
    unit = METRIC_UNITS[metric]
    others = {k: v for k, v in fixed.items() if k not in (row_factor, column_factor)}
    fitting = [p for p in points if all(p.levels.get(k) == v for k, v in others.items())]
    rows, columns = (
        ordered_levels(point.levels[name] for point in fitting if name in point.levels)
        for name in (row_factor, column_factor)
    )
    cells: dict[tuple[Level | None, Level | None], float | None] = {
        (point.levels.get(row_factor), point.levels.get(column_factor)): geometric_mean(
            point, metric
        )
        for point in fitting
    }
    table = tuple(tuple(cells.get((row, column)) for column in columns) for row in rows)
    return HeatMap(metric, unit, row_factor, column_factor, rows, columns, table, others)


def is_protection(factor: str) -> bool:
    """Return whether a factor protects data or the system: show its cost, recommend no level.

    Examples
    --------
    >>> is_protection("checksums"), is_protection("stripe_count")
    (True, False)
    """
    return any(word in factor.lower() for word in _PROTECTIONS)


def ordered_levels(levels: Iterable[Level]) -> tuple[Level, ...]:
    """Return distinct levels, numbers and sizes ascending, others in their original order.

    Examples
    --------
    >>> ordered_levels(["16MiB", "4KiB", "1MiB"]), ordered_levels(["on", "off"])
    (('4KiB', '1MiB', '16MiB'), ('on', 'off'))
    """
    different = tuple(dict.fromkeys(levels))
    amounts = [amount_of(level) for level in different]
    if any(amount is None for amount in amounts):
        return different
    return tuple(sorted(different, key=lambda level: amount_of(level) or 0.0))


def amount_of(level: Level) -> float | None:
    """Return a level as a number, a size in bytes; ``None`` if it is neither."""
    if isinstance(level, bool):
        return None
    if isinstance(level, (int, float)):
        return float(level)
    try:
        return float(parse_bytes(level))
    except UsageError:
        return None


def geometric_mean(point: MeasuredPoint, metric: str) -> float | None:
    """Return the geometric mean over rounds; ``None`` without values, 0 if a run is at 0."""
    values = [value for value in point.values.get(metric, ()) if value is not None]
    if not values:
        return None
    if 0 in values:
        return 0.0
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def dunnett_quantile(probability: float, count: int, degrees: float) -> float:
    """Return the quantile of the largest of ``count`` differences to a common mean.

    One-sided, all means with the same error, in standard errors of a difference.

    Notes
    -----
    C. W. Dunnett (1955): with z0 for the common mean and S the root of chi-square over its degrees,
    the probability of at most d is E[Phi(sqrt(2) d S + z0)^count], integrated here by
    Gauss-Legendre quadrature: five digits for up to 300 differences.

    Examples
    --------
    >>> round(dunnett_quantile(0.95, 1, 20), 2), round(dunnett_quantile(0.95, 5, 20), 2)
    (1.72, 2.39)
    """
    z, z_weights = _nodes(64, -8.0, 8.0)
    spread = 8 / math.sqrt(degrees)
    s, s_weights = _nodes(96, max(0.0, 1 - spread), 1 + spread)
    logs = (degrees - 1) * np.log(s) - degrees * s * s / 2
    s_weights = s_weights * np.exp(logs - logs.max())
    z_weights = z_weights * np.exp(-z * z / 2)
    weights = np.outer(s_weights / s_weights.sum(), z_weights / z_weights.sum())
    return bisected(
        lambda difference: _dunnett(difference, count, (s, z, weights)),
        probability,
        start=4.0,
        within=1e-6,
        most=1e4,
    )


@cache
def _legendre(count: int) -> tuple[Floats, Floats]:
    """Return quadrature points from -1 to 1, cached: finding them costs as much as using them."""
    from numpy.polynomial.legendre import leggauss

    return leggauss(count)


def _nodes(count: int, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the points and weights of Gauss-Legendre quadrature over an interval."""
    nodes, weights = _legendre(count)
    return low + (nodes + 1) / 2 * (high - low), weights


def _dunnett(d: float, count: int, grids: tuple[Floats, Floats, Floats]) -> float:
    s, z, weights = grids
    below = normal_lower(math.sqrt(2) * d * s[:, None] + z[None, :])
    return float((weights * below**count).sum())


def _best(points: Sequence[MeasuredPoint], metric: str, workload: dict[str, Level]) -> BestSetting:
    rounds = fit_blocks(points, metric)
    sign = 1.0 if higher_is_better(metric) else -1.0
    order = sorted(range(len(rounds.points)), key=lambda place: -rounds.effects[place])
    left_out = tuple(
        SettingResult(point.levels, None, count, None, None, False, reason)
        if (count := sum(value is not None for value in point.values.get(metric, ())))
        else SettingResult(point.levels, None, 0, reason=reason)
        for point, reason in rounds.left_out
    )
    if not order:
        return BestSetting(
            metric, METRIC_UNITS[metric], workload, None, left_out,
            _why_none(left_out), METHOD,
        )  # fmt: skip
    quantile = None
    if rounds.degrees and len(order) > 1:
        # With two equal settings the one-sided quantile excludes one twice as often as promised,
        # and disagrees with the F test of their factor.
        quantile = max(
            dunnett_quantile(LEVEL, len(order) - 1, rounds.degrees),
            t_quantile((1 + LEVEL) / 2, rounds.degrees),
        )
    settings = tuple(_beside(rounds, place, order[0], quantile, sign) for place in order)
    return BestSetting(
        metric=metric,
        unit=METRIC_UNITS[metric],
        workload=workload,
        best=rounds.points[order[0]].levels,
        settings=settings + left_out,
        reason=_reason(settings, rounds),
        method=METHOD,
        scatter=rounds.scatter,
        degrees=rounds.degrees,
    )


def _why_none(left_out: Sequence[SettingResult]) -> Message:
    """Return why no setting has a figure: the most common reason."""
    reasons = Counter(setting.reason for setting in left_out if setting.reason is not None)
    commonest = reasons.most_common(1)[0][0] if reasons else "not measured"
    return Message("no-setting-usable", f"no setting can be judged: {commonest}")


def _beside(
    rounds: RandomisedBlocks, place: int, best: int, quantile: float | None, sign: float
) -> SettingResult:
    difference = float(rounds.effects[place] - rounds.effects[best])
    error = rounds.error(place, best)
    interval, may_be = None, None
    if place == best:
        may_be = True
    elif error is not None and quantile is not None:
        half = quantile * error
        # Equal to the last digits of a logarithm is equal.
        may_be = -difference <= half + 1e-12
        # Hsu's bounds are constrained: they show that a setting is behind, not by how much at
        # least.
        high = max(1.0, math.exp(difference + half)) if may_be else 1.0
        interval = Interval(math.exp(difference - half), high)
    return SettingResult(
        levels=rounds.points[place].levels,
        middle=math.exp(sign * float(rounds.effects[place])),
        n=int(rounds.counts[place]),
        of_best=math.exp(difference),
        of_best_interval=interval,
        may_be_best=may_be,
    )


def _reason(settings: Sequence[SettingResult], blocks: RandomisedBlocks) -> Message:
    if len(settings) == 1:
        return Message("one-setting", "only one setting")
    if not blocks.degrees or blocks.scatter is None:
        return Message(
            "one-round",
            "each setting was measured once, so the noise is unknown: measure at least two rounds",
        )
    scatter = f"noise of a run {format_percent(blocks.scatter)}"
    tied = [setting for setting in settings[1:] if setting.may_be_best]
    if not tied:
        lead = (1 / (settings[1].of_best or 1.0)) - 1
        return Message("best-distinct", f"{format_percent(lead)} ahead of the next; {scatter}")
    others = "one other" if len(tied) == 1 else f"{len(tied)} others"
    worst = min(setting.of_best or 1.0 for setting in tied)
    return Message(
        "best-tied",
        f"statistically tied with {others}, down to {format_percent(1 - worst)} slower; {scatter}",
    )


def _factors(points: Sequence[MeasuredPoint]) -> list[str]:
    """Return the names of factors with at least two levels."""
    names = dict.fromkeys(name for point in points for name in point.levels)
    return [name for name in names if len({repr(point.levels.get(name)) for point in points}) > 1]


def _indicators(points: Sequence[MeasuredPoint], names: Sequence[str]) -> Floats:
    """Return one column of 0 and 1 per combination of levels of these factors."""
    keys = [tuple(repr(point.levels.get(name)) for name in names) for point in points]
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    columns = np.zeros((len(points), len(places)))
    columns[np.arange(len(points)), [places[key] for key in keys]] = 1.0
    return columns


def _left(y: Floats, weights: Floats, blocks: Sequence[Floats]) -> tuple[float, int]:
    """Return the weighted residual sum of squares of a sum of factors, and the model's rank."""
    root = np.sqrt(weights)
    design = np.hstack([np.ones((len(y), 1)), *blocks]) * root[:, None]
    solution, _, rank, _ = np.linalg.lstsq(design, y * root, rcond=1e-10)
    return float(((y * root - design @ solution) ** 2).sum()), int(rank)


def _ratio(rounds: RandomisedBlocks, name: str) -> float:
    """Return the best level's mean over the worst one's, each point counting once."""
    by_level: dict[str, list[float]] = {}
    for point, effect in zip(rounds.points, rounds.effects, strict=True):
        by_level.setdefault(repr(point.levels.get(name)), []).append(float(effect))
    means = [math.fsum(values) / len(values) for values in by_level.values()]
    return math.exp(max(means) - min(means))


def _holm(probabilities: Sequence[float | None]) -> list[float | None]:
    """Return the probabilities adjusted for their number (S. Holm, 1979)."""
    known = sorted((p, place) for place, p in enumerate(probabilities) if p is not None)
    adjusted: list[float | None] = [None] * len(probabilities)
    highest = 0.0
    for rank, (probability, place) in enumerate(known):
        highest = max(highest, min(1.0, probability * (len(known) - rank)))
        adjusted[place] = highest
    return adjusted


@dataclass(frozen=True, slots=True)
class RandomisedBlocks:
    """Points with the effect of their rounds removed.

    Attributes
    ----------
    points
        Those with a value in at least one round and no unfinished run.
    left_out
        The others, each with the reason.
    effects
        Natural logarithm of each point's rate (of a time: of its reciprocal), without rounds.
    counts
        Number of rounds in which each point has a value.
    scatter
        Standard deviation of the residuals on log scale: a fraction of the value. ``None`` if no
        point was measured twice.
    degrees
        Its degrees of freedom.
    """

    points: tuple[MeasuredPoint, ...]
    left_out: tuple[tuple[MeasuredPoint, Message], ...]
    effects: Floats
    counts: Floats
    scatter: float | None
    degrees: int
    _seen: Floats
    _inverse: Floats

    def error(self, first: int, second: int) -> float | None:
        """Return the standard error of the difference of two points; ``None`` without scatter."""
        if self.scatter is None:
            return None
        # The difference of two points measured in different rounds is less certain.
        apart = self._seen[first] / self.counts[first] - self._seen[second] / self.counts[second]
        square = 1 / self.counts[first] + 1 / self.counts[second]
        return self.scatter * math.sqrt(square + float(apart @ self._inverse @ apart))


def fit_blocks(points: Sequence[MeasuredPoint], metric: str) -> RandomisedBlocks:
    """Return the points of a sweep with the effect of its rounds removed.

    Raises
    ------
    KeyError
        The metric is unknown.
    ValueError
        A value is negative or not finite.
    """
    sign = 1.0 if higher_is_better(metric) else -1.0
    usable, left_out, rows = [], [], []
    width = max((len(point.values.get(metric, ())) for point in points), default=0)
    for point in points:
        values = point.values.get(metric, ())
        reason = _why_not(values, point.doubts.get(metric))
        if reason is not None:
            left_out.append((point, reason))
            continue
        logs = [math.nan if value is None else sign * math.log(value) for value in values]
        usable.append(point)
        rows.append(logs + [math.nan] * (width - len(logs)))
    y = np.array(rows).reshape(len(usable), width)
    seen = np.isfinite(y).astype(float)
    counts = seen.sum(axis=1)
    effects, squares, inverse, used = _fitted(np.nan_to_num(y), seen, counts)
    degrees = int(seen.sum()) - len(usable) - used
    scatter = math.sqrt(squares / degrees) if degrees > 0 else None
    return RandomisedBlocks(
        tuple(usable), tuple(left_out), effects, counts, scatter, max(0, degrees), seen, inverse
    )


def _why_not(values: Sequence[float | None], doubt: str | None) -> Message | None:
    measured = [value for value in values if value is not None]
    for value in measured:
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"{value} cannot be judged")
    if not measured:
        if doubt is None:
            return Message("not-measured", "not measured")
        return Message("not-believed", f"no credible value: {doubt}")
    return Message("unfinished-run", "a run did not finish in time") if 0 in measured else None


def _fitted(y: Floats, seen: Floats, counts: Floats) -> tuple[Floats, float, Floats, int]:
    """Return the points' effects, the residual sum of squares, and the rounds' share of an error.

    Points are eliminated first, which leaves a system as small as the number of rounds: with D the
    indicators of rounds minus their mean over each point, D'D r = D'y. It is singular by one (or
    more, if points and rounds fall into parts): the pseudo-inverse takes the shortest r.
    """
    if not len(counts):
        return np.zeros(0), 0.0, np.zeros((y.shape[1], y.shape[1])), 0
    system = np.diag(seen.sum(axis=0)) - seen.T @ (seen / counts[:, None])
    means = y.sum(axis=1) / counts
    right = (y - seen * means[:, None]).sum(axis=0)
    pseudo = np.linalg.pinv(system, rcond=1e-10, hermitian=True)
    inverse = np.asarray(pseudo, dtype=np.float64)
    rounds = inverse @ right
    effects = ((y - seen * rounds) * seen).sum(axis=1) / counts
    left = (y - rounds - effects[:, None]) * seen
    used = int(np.linalg.matrix_rank(system, tol=1e-8, hermitian=True))
    squares = float((left**2).sum())
    # Equal values leave the last digits of their logarithms, which are not noise.
    floor = float(seen.sum()) * (1e-13 * max(1.0, float(np.abs(y).max()))) ** 2
    return effects, squares if squares > floor else 0.0, inverse, used
