"""Points of a sweep as a randomised block design: the effect of each, without that of its round.

The logarithm of a rate is modelled as point + round + noise of equal relative size. Each round
measures all points once in random order, so a slow night lowers a whole round, not one setting,
and the effect of the round can be removed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.judge.arrays import Floats
from trimtab.judge.variability import higher_is_better
from trimtab.message import Message
from trimtab.model.sweep import MeasuredPoint


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
        Standard deviation of the residuals on log scale: a fraction of the value. ``None`` where
        no point was measured twice.
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
        # The difference of two points that were measured in different rounds is less certain.
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

    Points are eliminated first, which leaves a system as small as there are rounds: with D the
    indicators of rounds less their mean over each point, D'D r = D'y. It is singular by one (or
    more, where points and rounds fall into parts): the pseudo-inverse takes the shortest r.
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
