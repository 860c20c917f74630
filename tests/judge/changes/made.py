"""Hourly runs whose truth is known, and what the walk tells of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from trimtab.judge.change import of_sequences
from trimtab.judge.walk_forward import WalkForward

START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
LEVEL = 1.0e11

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def ar1(seed: int, n: int, phi: float) -> Floats:
    """Return ``n`` numbers of an AR(1) series with mean 0 and variance 1."""
    shocks = np.random.default_rng(seed).standard_normal(n + 100) * np.sqrt(1 - phi * phi)
    found, last = np.empty(n + 100), 0.0
    for place, shock in enumerate(shocks):
        last = phi * last + shock
        found[place] = last
    return found[100:]


def noisy(seed: int, n: int, phi: float = 0.5, cov: float = 0.05) -> Floats:
    """Return ``n`` values about `LEVEL`, in B/s."""
    return LEVEL * np.exp(cov * ar1(seed, n, phi))


def times(n: int, step_s: float = 3600.0) -> list[datetime]:
    """Return ``n`` times, an hour apart unless said."""
    return [START + timedelta(seconds=step_s * place) for place in range(n)]


def walked(values: Sequence[float | None] | Floats, step_s: float = 3600.0) -> WalkForward:
    """Return the walk along runs of the values, hourly unless said."""
    listed = [None if value is None else float(value) for value in values]
    at = times(len(listed), step_s)
    walk = WalkForward(of_sequences(at, listed, more_is_better=True, timezone="UTC"))
    walk.go()
    return walk
