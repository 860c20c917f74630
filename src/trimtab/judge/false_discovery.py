"""Many questions at once: how many of the answers come by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

    Floats = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]


def benjamini_hochberg(p_values: Floats) -> Floats:
    """Return q-values: the false discovery rate at which each would just be named.

    Notes
    -----
    Y. Benjamini and Y. Hochberg, J. R. Stat. Soc. B 57 (1995): the smallest m p / rank of this or
    any larger p, at most 1.
    """
    import numpy as np

    m = len(p_values)
    order = np.argsort(p_values)
    scaled = p_values[order] * m / np.arange(1, m + 1)
    q = np.empty(m)
    q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q
