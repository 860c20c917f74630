"""Points measured in rounds: what each is worth beside what a whole round was faster or slower.

The logarithm of a rate is taken as point + round + chance, with chance of the same relative size
everywhere. Rounds are what makes a sweep honest (all points once, then all once more), and taking
them out is what they pay back: a slow night lowers a whole round and no single setting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.judge.variability import higher_is_better
from trimtab.model.sweep import MeasuredPoint

if TYPE_CHECKING:
    import numpy

    Floats = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]


@dataclass(frozen=True, slots=True)
class RandomisedBlocks:
    """Points with their rounds taken out.

    Attributes
    ----------
    points
        Those that have a value in a round at least, and none that did not finish.
    left_out
        The others, each with the reason.
    effects
        Natural logarithm of each point's rate (of a time: of its reciprocal), rounds balanced.
    counts
        Rounds that each point has a value in.
    scatter
        Standard deviation of what is left, on log scale: a fraction of the value. ``None`` where
        no point was measured twice.
    degrees
        Degrees of freedom of it.
    """

    points: tuple[MeasuredPoint, ...]
    left_out: tuple[tuple[MeasuredPoint, str], ...]
    effects: Floats
    counts: Floats
    scatter: float | None
    degrees: int
    _seen: Floats
    _inverse: Floats

    def error(self, one: int, other: int) -> float | None:
        """Return the standard error of the difference of two points; ``None`` without scatter."""
        if self.scatter is None:
            return None
        # Two points that were measured in different rounds know less of their difference.
        apart = self._seen[one] / self.counts[one] - self._seen[other] / self.counts[other]
        square = 1 / self.counts[one] + 1 / self.counts[other]
        return self.scatter * math.sqrt(square + float(apart @ self._inverse @ apart))


def fit_blocks(points: Sequence[MeasuredPoint], metric: str) -> RandomisedBlocks:
    """Return the points of a sweep with what its rounds did taken out.

    Raises
    ------
    KeyError
        The metric is not known.
    ValueError
        A value is not finite, or negative.
    """
    import numpy as np

    sign = 1.0 if higher_is_better(metric) else -1.0
    kept, left_out, rows = [], [], []
    width = max((len(point.values.get(metric, ())) for point in points), default=0)
    for point in points:
        values = point.values.get(metric, ())
        reason = _why_not(values, point.doubts.get(metric))
        if reason is not None:
            left_out.append((point, reason))
            continue
        logs = [math.nan if value is None else sign * math.log(value) for value in values]
        kept.append(point)
        rows.append(logs + [math.nan] * (width - len(logs)))
    y = np.array(rows).reshape(len(kept), width)
    seen = np.isfinite(y).astype(float)
    counts = seen.sum(axis=1)
    effects, squares, inverse, used = _fitted(np.nan_to_num(y), seen, counts)
    degrees = int(seen.sum()) - len(kept) - used
    scatter = math.sqrt(squares / degrees) if degrees > 0 else None
    return RandomisedBlocks(
        tuple(kept), tuple(left_out), effects, counts, scatter, max(0, degrees), seen, inverse
    )


def _why_not(values: Sequence[float | None], doubt: str | None) -> str | None:
    there = [value for value in values if value is not None]
    for value in there:
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"{value} cannot be judged")
    if not there:
        return "nothing was measured" if doubt is None else f"nothing is believed: {doubt}"
    return "a run did not finish in its time" if 0 in there else None


def _fitted(y: Floats, seen: Floats, counts: Floats) -> tuple[Floats, float, Floats, int]:
    """Return the points' effects, the sum of squares left, and what rounds add to an error.

    Points are eliminated first, which leaves a system as small as there are rounds: with D the
    indicators of rounds less their mean over each point, D'D r = D'y. It is singular by one (or
    more, where points and rounds fall into parts): the pseudo-inverse takes the shortest r.
    """
    import numpy as np

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
    # Equal values leave the last digits of their logarithms, which are no chance.
    floor = float(seen.sum()) * (1e-13 * max(1.0, float(np.abs(y).max()))) ** 2
    return effects, squares if squares > floor else 0.0, inverse, used
