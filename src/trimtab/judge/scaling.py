"""A rate against nodes, tasks per node or stripe count: where it stops paying, and how surely.

On logarithmic axes a rate that grows with a power of the amount is a straight line, and a limit is
a bend. Two curves with a bend are fitted beside the straight line::

    log rate                 ______            two lines that meet at the knee, or
                          .-'                  a soft approach: plateau x^b / (1 + x^b), whose
                        .'  knee               straight beginnings meet at the knee x = 1
                      .'
                    .'        log amount

That there is a bend at all must hold against chance: the best place for one is searched for among
all, which finds one in any noise. So the gain is set against gains in simulated noise about a
straight line, measured at the same amounts. Which of the two curves then says where it is, Akaike's
criterion decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from trimtab.judge.quantiles import t_quantile
from trimtab.judge.settings import amount_of, geometric_mean
from trimtab.judge.variability import higher_is_better
from trimtab.model.run import METRIC_UNITS
from trimtab.model.sweep import Level, MeasuredPoint, Scaling, ScalingPoint, Shape
from trimtab.model.verdict import Interval
from trimtab.units import format_percent

if TYPE_CHECKING:
    import numpy

    Floats = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]

AMOUNTS_MINIMUM: Final = 4
"""Two on either side of a knee, one of which may be the knee."""

LEVEL: Final = 0.95
_CHANCE: Final = 0.05
_SIMULATED: Final = 999
_PLACES: Final = 61
_GROWTHS: Final = tuple(0.1 + 0.05 * step for step in range(49))
_STILL_GROWING: Final = 0.1
"""Under this exponent twice the amount gives 7 % more: nobody doubles a job for that."""


def scaling(
    points: Sequence[MeasuredPoint],
    metric: str,
    factor: str,
    *,
    fixed: Mapping[str, Level] | None = None,
    margin: float = 0.05,
) -> Scaling:
    """Return how a rate goes with one factor, and the knee if there is one.

    Parameters
    ----------
    factor
        Whose levels are amounts (or sizes, as text).
    fixed
        Levels of the other factors; points with others are passed over.
    margin
        `Scaling.enough` is the least amount that gives all but this fraction of the best.

    Raises
    ------
    KeyError
        The metric is not known.
    ValueError
        A value is not finite, or negative.

    Notes
    -----
    A knee is stated when a bend holds against chance at 5 %, and beyond it the rate grows with less
    than half the exponent. Its interval is where the sum of squares stays under its least by what
    the 95 % quantile of t^2 allows. Simulated (1 to 32 nodes in powers of two, three rounds, 3 and
    8 % scatter, 200 series a case): without a bend (growth 0, 0.4, 0.7, 1) 0 to 2 % had a knee;
    with a sharp one at 4, 8 or 12.5 all had, and the interval held it in 96 to 99 %; with a soft
    one at 4 all had, held in 90 and 95 %.
    """
    others = {} if fixed is None else {k: v for k, v in fixed.items() if k != factor}
    own = [p for p in points if all(p.levels.get(key) == one for key, one in others.items())]
    data = _data(own, metric, factor)
    about = _About(metric, factor, others, _curve(own, metric, factor))
    lacking = _lacking(data, own, metric)
    if lacking is not None:
        return about.scaling(Shape.CANNOT_TELL, lacking, enough=None)
    sign = 1.0 if higher_is_better(metric) else -1.0
    enough = _enough(about.points, sign, margin)
    return _judged(data, about, enough)


@dataclass(frozen=True, slots=True)
class _Data:
    """Logarithms of amounts and rates, and the round of each."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    rounds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _About:
    metric: str
    factor: str
    fixed: Mapping[str, Level]
    points: tuple[ScalingPoint, ...]

    def scaling(
        self,
        shape: Shape,
        reason: str,
        *,
        enough: float | None,
        knee: float | None = None,
        knee_interval: Interval | None = None,
        growth: float | None = None,
        growth_interval: Interval | None = None,
        growth_after: float | None = None,
        probability: float | None = None,
    ) -> Scaling:
        return Scaling(
            self.metric,
            METRIC_UNITS[self.metric],
            self.factor,
            self.fixed,
            self.points,
            shape,
            reason,
            knee=knee,
            knee_interval=knee_interval,
            growth=growth,
            growth_interval=growth_interval,
            growth_after=growth_after,
            enough=enough,
            probability=probability,
        )


@dataclass(frozen=True, slots=True)
class _Bend:
    """A fitted curve with a bend, at each place tried for it."""

    places: tuple[float, ...]
    squares: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    parameters: int
    soft: bool = False

    @property
    def best(self) -> int:
        return min(range(len(self.squares)), key=self.squares.__getitem__)


def _data(points: Sequence[MeasuredPoint], metric: str, factor: str) -> _Data:
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
    return _Data(tuple(x), tuple(y), tuple(rounds))


def _curve(points: Sequence[MeasuredPoint], metric: str, factor: str) -> tuple[ScalingPoint, ...]:
    found = []
    for point in points:
        amount = amount_of(point.levels.get(factor, "not set"))
        middle = geometric_mean(point, metric)
        if amount is not None and middle is not None:
            n = sum(value is not None for value in point.values[metric])
            found.append(ScalingPoint(amount, middle, n))
    return tuple(sorted(found, key=lambda one: one.amount))


def _lacking(data: _Data, points: Sequence[MeasuredPoint], metric: str) -> str | None:
    """Return what is missing for an answer; ``None`` when nothing."""
    if any(0 in point.values.get(metric, ()) for point in points):
        return "a run did not finish in its time: what it would have been is not known"
    amounts = len(set(data.x))
    if amounts < AMOUNTS_MINIMUM:
        return f"{amounts} amounts were measured; a knee takes {AMOUNTS_MINIMUM}"
    if len(data.x) < _parameters(data) + 5:  # two more for the bend, and Akaike's own three
        return f"{len(data.x)} runs leave too little to tell chance by: it takes another round"
    return None


def _parameters(data: _Data) -> int:
    """Return how many parameters the straight line takes: height, slope, and each further round."""
    return 1 + len(set(data.rounds))


def _enough(points: Sequence[ScalingPoint], sign: float, margin: float) -> float:
    best = max(sign * math.log(point.middle) for point in points)
    near = best + math.log(1 - margin)
    return min(point.amount for point in points if sign * math.log(point.middle) >= near)


def _judged(data: _Data, about: _About, enough: float) -> Scaling:
    straight, slope, error = _straight(data)
    lines = _two_lines(data)
    probability = _probability(data, straight, lines.squares[lines.best])
    degrees = len(data.x) - _parameters(data)
    half = t_quantile((1 + LEVEL) / 2, degrees) * error
    interval = Interval(slope - half, slope + half, LEVEL)
    most, least = about.points[-1].amount, about.points[0].amount
    if probability >= _CHANCE:
        shape, reason = _shape_of_line(interval, slope, about.factor, most, least)
        return about.scaling(
            shape, reason, enough=enough, growth=slope, growth_interval=interval,
            probability=probability,
        )  # fmt: skip
    bend = _chosen(data, lines, _soft(data))
    place = bend.best
    knee, before, after = math.exp(bend.places[place]), bend.before[place], bend.after[place]
    place_interval = _place_interval(data, bend)
    where = f"about {_round(knee)} ({_in_words(place_interval, bend)})"
    if after >= before / 2 or before <= _STILL_GROWING:
        shape = (
            Shape.GROWING if after > _STILL_GROWING else Shape.FALLING if after < 0 else Shape.FLAT
        )
        reason = (
            f"no knee: at {where} {about.factor} the growth changes from {before:.2f} to "
            f"{after:.2f} (1: twice as many, twice the rate)"
        )
        return about.scaling(
            shape, reason, enough=enough, growth=before, growth_after=after,
            probability=probability,
        )  # fmt: skip
    return about.scaling(
        Shape.KNEE,
        _reason_of_knee(about, where, bend, enough=enough),
        enough=enough,
        knee=knee,
        knee_interval=place_interval,
        growth=before,
        growth_after=after,
        probability=probability,
    )


def _reason_of_knee(about: _About, where: str, bend: _Bend, *, enough: float) -> str:
    before, after = bend.before[bend.best], bend.after[bend.best]
    beyond = "it falls" if after < -_STILL_GROWING else "it hardly grows"
    if bend.soft:
        beyond = "it nears its limit, half of which it has at the knee"
    elif after > _STILL_GROWING:
        beyond = f"it grows with {after:.2f}"
    best = max if higher_is_better(about.metric) else min
    top = best(point.middle for point in about.points)
    own = next(point.middle for point in about.points if point.amount == enough)
    share = own / top if higher_is_better(about.metric) else top / own
    return (
        f"knee at {where} {about.factor}: up to it the rate grows with {before:.2f} (1: twice as "
        f"many, twice the rate), beyond {beyond}; {_round(enough)} give {format_percent(share, 0)} "
        "of the best"
    )


def _shape_of_line(
    interval: Interval, slope: float, factor: str, most: float, least: float
) -> tuple[Shape, str]:
    found = f"growth {slope:.2f} ({interval.low:.2f} to {interval.high:.2f})"
    within = f"no knee from {_round(least)} to {_round(most)} {factor}"
    if interval.high < -_STILL_GROWING:
        return Shape.FALLING, f"{within}: the more, the slower, {found}"
    if interval.low > _STILL_GROWING:
        return Shape.GROWING, f"{within}: it still grows at the end, {found}"
    if max(-interval.low, interval.high) <= 2 * _STILL_GROWING:
        why = "the limit was reached before, or lies elsewhere"
        return Shape.FLAT, f"{within}: it hardly changes, {found}; {why}"
    return Shape.CANNOT_TELL, f"{within} is shown, and whether it grows is not: {found}"


def _design(data: _Data, *columns: Floats) -> Floats:
    """Return a design with a height for each round and these columns."""
    import numpy as np

    numbers = sorted(set(data.rounds))
    heights = np.array([[number == own for own in numbers] for number in data.rounds], dtype=float)
    return np.column_stack([heights, *columns])


def _straight(data: _Data) -> tuple[float, float, float]:
    """Return the squares left by a straight line, its slope and the slope's standard error."""
    import numpy as np

    design, y = _design(data, np.asarray(data.x)), np.asarray(data.y)
    solution, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    squares = float(((y - design @ solution) ** 2).sum())
    degrees = max(1, len(y) - int(rank))
    inverse = np.linalg.pinv(design.T @ design)
    return squares, float(solution[-1]), math.sqrt(squares / degrees * float(inverse[-1, -1]))


def _places(data: _Data) -> tuple[float, ...]:
    """Return where a knee is looked for: from the second amount to the last but one."""
    amounts = sorted(set(data.x))
    low, high = amounts[1], amounts[-2]
    even = [low + (high - low) * step / (_PLACES - 1) for step in range(_PLACES)]
    return tuple(sorted({*even, *amounts[1:-1]}))


def _two_lines(data: _Data) -> _Bend:
    import numpy as np

    x, y = np.asarray(data.x), np.asarray(data.y)
    places, squares, before, after = _places(data), [], [], []
    for place in places:
        design = _design(data, np.minimum(x, place), np.maximum(x - place, 0.0))
        solution = np.linalg.lstsq(design, y, rcond=None)[0]
        squares.append(float(((y - design @ solution) ** 2).sum()))
        before.append(float(solution[-2]))
        after.append(float(solution[-1]))
    return _Bend(places, tuple(squares), tuple(before), tuple(after), _parameters(data) + 2)


def _soft(data: _Data) -> _Bend:
    """Return the soft approach to a plateau, at each place the growth that fits best."""
    import numpy as np

    x, y = np.asarray(data.x), np.asarray(data.y)
    basis, _ = np.linalg.qr(_design(data))
    places, squares, before = _places(data), [], []
    for place in places:
        curves = np.array([g * (x - place) - np.logaddexp(0.0, g * (x - place)) for g in _GROWTHS])
        left = y - curves
        sums = (left**2).sum(axis=1) - ((left @ basis) ** 2).sum(axis=1)
        best = int(np.argmin(sums))
        squares.append(max(0.0, float(sums[best])))
        before.append(_GROWTHS[best])
    flat = (0.0,) * len(places)
    return _Bend(places, tuple(squares), tuple(before), flat, _parameters(data) + 1, soft=True)


def _chosen(data: _Data, lines: _Bend, soft: _Bend) -> _Bend:
    """Return the curve with the lower criterion of Akaike, corrected for few runs."""
    return min((lines, soft), key=lambda bend: _criterion(data, bend))


def _criterion(data: _Data, bend: _Bend) -> float:
    n, k = len(data.y), bend.parameters + 1  # the scatter is a parameter too
    squares = max(bend.squares[bend.best], _nothing(data))
    correction = 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else math.inf
    return n * math.log(squares / n) + 2 * k + correction


def _nothing(data: _Data) -> float:
    """Return squares that are but the last digits of the logarithms."""
    return len(data.y) * (1e-12 * max(1.0, *(abs(value) for value in data.y))) ** 2


def _place_interval(data: _Data, bend: _Bend) -> Interval:
    least = max(bend.squares[bend.best], _nothing(data))
    degrees = max(1, len(data.y) - bend.parameters)
    limit = least * (1 + t_quantile((1 + LEVEL) / 2, degrees) ** 2 / degrees)
    squares = enumerate(bend.squares)
    within = [place for place, one in squares if one <= limit] or [bend.best]
    # The end lies somewhere up to the next place that was tried.
    low, high = max(0, within[0] - 1), min(len(bend.places) - 1, within[-1] + 1)
    return Interval(math.exp(bend.places[low]), math.exp(bend.places[high]), LEVEL)


def _in_words(interval: Interval, bend: _Bend) -> str:
    """Return a knee's interval; at the ends of what can be seen it says so."""
    low, high = _round(interval.low), _round(interval.high)
    if interval.low <= math.exp(bend.places[0]):
        low = f"{low} or less"
    if interval.high >= math.exp(bend.places[-1]):
        high = f"{high} or more"
    return f"{low} to {high}"


def _probability(data: _Data, straight: float, bent: float) -> float:
    """Return how often noise about a straight line gains as much by the best bend."""
    nothing = _nothing(data)
    if straight <= nothing:
        return 1.0
    gain = straight / max(bent, nothing)
    gains = _gains_by_chance(data.x, data.rounds)
    return (1 + sum(one >= gain for one in gains)) / (1 + len(gains))


@lru_cache(maxsize=64)
def _gains_by_chance(x: tuple[float, ...], rounds: tuple[int, ...]) -> tuple[float, ...]:
    """Return by what factor the best bend lowers the squares of noise about a straight line.

    The same for every straight line and scatter: only amounts and rounds matter. Seeded, so that
    the same sweep always gives the same answer.
    """
    import numpy as np

    data = _Data(x, (0.0,) * len(x), rounds)
    noise = np.random.default_rng(20).standard_normal((_SIMULATED, len(x)))
    total = (noise**2).sum(axis=1)

    def left(*columns: Floats) -> Floats:
        basis, _ = np.linalg.qr(_design(data, *columns))
        return total - ((noise @ basis) ** 2).sum(axis=1)

    amounts = np.asarray(x)
    bent = np.min(
        [
            left(np.minimum(amounts, place), np.maximum(amounts - place, 0.0))
            for place in _places(data)
        ],
        axis=0,
    )
    return tuple((left(amounts) / bent).tolist())


def _round(amount: float) -> str:
    """Return an amount with two figures and a half: 12, 3.5, 1048576."""
    if amount >= 100 or float(amount).is_integer():
        return f"{amount:.0f}"
    return f"{amount:.2g}" if amount < 10 else f"{amount:.0f}"
