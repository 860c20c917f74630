"""Array types, and medians, scatter and q-values over arrays."""

from __future__ import annotations

import numpy as np

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Bools = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


_CELLS_AT_ONCE = 1_000_000
"""Numbers of all stretches held in memory at once."""


def median(values: Floats) -> float:
    """Return the median of a flat array without NaN.

    Identical to `numpy.median` to the last bit, which takes ten times as long for two months of
    runs because it checks axes and NaN.

    Raises
    ------
    ValueError
        The array is empty.
    """
    half = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, half)[half])
    below, above = np.partition(values, (half - 1, half))[half - 1 : half + 1]
    return float(below + above) / 2


def scatter(values: Floats) -> float:
    """Return 1.4826 x the median absolute deviation: for normal values, the standard deviation."""
    return 1.4826 * median(np.abs(values - median(values)))


def medians(values: Floats, axis: int) -> Floats:
    """Return medians of the values that are not NaN, NaN if none; faster than `numpy.nanmedian`."""
    known = np.maximum(np.isfinite(values).sum(axis=axis, keepdims=True), 1)
    ordered = np.sort(values, axis=axis)  # NaN comes last
    middle = [np.take_along_axis(ordered, at, axis) for at in ((known - 1) // 2, known // 2)]
    return np.squeeze((middle[0] + middle[1]) / 2, axis=axis)


def medians_of(values: Floats, begins: Ints, ends: Ints) -> Floats:
    """Return the `median` of each stretch of numbers without NaN; NaN of an empty one."""
    sizes = ends - begins
    medians_ = np.full(len(sizes), np.nan)
    for size in np.unique(sizes[sizes > 0]).tolist():
        middle = (size - 1) // 2, size // 2
        places, step = np.flatnonzero(sizes == size), max(1, _CELLS_AT_ONCE // size)
        for part in (places[at : at + step] for at in range(0, len(places), step)):
            rows = np.partition(values[begins[part][:, None] + np.arange(size)], middle, axis=1)
            medians_[part] = (rows[:, middle[0]] + rows[:, middle[1]]) / 2
    return medians_


def benjamini_hochberg(p_values: Floats) -> Floats:
    """Return q-values: the false discovery rate at which each hypothesis would just be rejected.

    Notes
    -----
    Y. Benjamini and Y. Hochberg, J. R. Stat. Soc. B 57 (1995): the smallest m p / rank of this or
    any larger p, at most 1.
    """
    m = len(p_values)
    order = np.argsort(p_values)
    scaled = p_values[order] * m / np.arange(1, m + 1)
    q = np.empty(m)
    q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q


def log_likelihood_of_share(number: Ints, of: Ints) -> Floats:
    """Return the highest log-likelihood of k among n, k ln(k / n) + (n - k) ln(1 - k / n).

    Examples
    --------
    >>> log_likelihood_of_share(np.array([0, 1, 2]), np.array([0, 2, 2])).round(3).tolist()
    [0.0, -1.386, 0.0]
    """
    return _times_log(number) + _times_log(of - number) - _times_log(of)


def _times_log(number: Ints) -> Floats:
    """Return n ln(n) of each number, 0 for 0."""
    return np.asarray(number * np.log(np.maximum(number, 1)), dtype=np.float64)
