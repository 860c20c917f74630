"""Series for the tests: points at a fixed step from a fixed time, and AR(1) noise."""

from datetime import UTC, datetime, timedelta

import numpy as np

from trimtab.base.verdict import HistoryPoint

START = datetime(2026, 3, 1, tzinfo=UTC)


def points(values, *, step_s=3600.0, metric="write_bandwidth", unfinished=()):
    """Return one point for each value, ``step_s`` apart; indices in ``unfinished`` did not end."""
    return [
        HistoryPoint(
            START + timedelta(seconds=step_s * index),
            metric,
            0.0 if index in unfinished else float(value),
            index in unfinished,
            f"run-{index}",
        )
        for index, value in enumerate(values)
    ]


def noise(count, n, *, phi=0.0, cov=0.08, seed=1):
    """Return ``count`` stationary AR(1) series of mean 1 and the given COV, shape (count, n)."""
    shocks = np.random.default_rng(seed).standard_normal((count, n))
    series = np.empty_like(shocks)
    series[:, 0] = shocks[:, 0]
    for t in range(1, n):
        series[:, t] = phi * series[:, t - 1] + np.sqrt(1 - phi * phi) * shocks[:, t]
    return 1 + cov * series


def with_cov(n, cov):
    """Return ``n`` normal-looking independent values whose COV is exactly ``cov``."""
    raw = np.random.default_rng(n).standard_normal(n)
    raw = (raw - raw.mean()) / raw.std(ddof=1)
    return (1e9 * (1 + cov * raw)).tolist()
