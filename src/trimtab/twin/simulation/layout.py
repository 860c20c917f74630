"""The miniature OSTs beneath the flow of bytes, and rates over a trailing window.

All sizes are fractions of an OST's capacity, so that a miniature represents a real OST.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab._core import OstFleet
from trimtab.twin.arrays import Array

LOOPS = ("c0", "c1", "c2", "c3", "c4")
"""Criteria of the family with the most; others count nothing in the last."""
COUNTS = (
    *("written_units", "copied_units", "requests"),
    *(f"useless_{loop}" for loop in LOOPS),
    *(f"considered_{loop}" for loop in LOOPS),
)
_WINDOWS_S = (24 * 3600.0, 48 * 3600.0, 96 * 3600.0, 192 * 3600.0)
_LOOK_S = 3600.0
"""Interval at which counts are stored, or once per epoch if that is longer."""
_ENOUGH = 0.1
"""Fraction of the capacity: with fewer writes a miniature's amplification is too coarse."""


def table(layout: OstFleet, names: Sequence[str] = COUNTS) -> Array:
    """Return figures of a layout: names x columns. A missing loop is 0."""
    return np.frombuffer(layout.figures(names)).reshape(len(names), -1)


def walks_per_request(passed: Array, groups: int) -> Array:
    """Return the groups searched in useless loops per request, as a fraction of all groups.

    The number of useless loops per request does not depend on the number of groups, but their cost
    does. Groups searched before a hit are excluded: their number does not grow with the OST, and if
    the goal is reset they belong to the reset, not to each request. A loop over lists, which
    searches few groups or none, counts by the groups it searches.

    Parameters
    ----------
    passed
        `COUNTS` x columns.
    groups
        Number of groups of a miniature.
    """
    useless, considered = passed[3 : 3 + len(LOOPS)], passed[3 + len(LOOPS) :] / groups
    return np.minimum(useless, considered).sum(axis=0) / np.maximum(passed[2], 1.0)


class Window:
    """Write amplification and allocator's work over the last day, or longer if writes were few.

    Parameters
    ----------
    counts
        `COUNTS` x columns at the start.
    units
        Units of one miniature OST.
    epoch_s
        Time from one `step` to the next.

    Attributes
    ----------
    passed
        `COUNTS` x columns, within the window.
    amplification
        Units that the drive wrote per host unit; 1 if nothing was ever written.
    """

    def __init__(self, counts: Array, units: float, epoch_s: float = 3600.0) -> None:
        self._units = units
        self._stride = max(1, round(_LOOK_S / epoch_s))
        look_s = self._stride * epoch_s
        self._sizes = [max(1, round(window / look_s)) for window in _WINDOWS_S]
        self._ring = np.zeros((self._sizes[-1] + 1, *counts.shape))
        self._ring[0] = counts
        self._epochs = 0
        self.passed = np.zeros_like(counts)
        self.amplification = np.ones(counts.shape[1])
        self._walks: tuple[Array, int, Array] | None = None

    def add_columns(self, more: int) -> None:
        """Start counting for additional columns, from zero."""
        self._ring = np.pad(self._ring, ((0, 0), (0, 0), (0, more)))
        self.passed = np.pad(self.passed, ((0, 0), (0, more)))
        self.amplification = np.pad(self.amplification, (0, more), constant_values=1.0)

    def step(self, counts: Array) -> None:
        """Add the counts after an epoch."""
        self._epochs += 1
        if self._epochs % self._stride == 0:
            self._ring[self._looks % len(self._ring)] = counts
        passed = self._since(self._sizes[0], counts)
        for size in self._sizes[1:]:
            few = passed[0] < _ENOUGH * self._units
            if size > self._looks or not np.count_nonzero(few):
                break
            passed = np.where(few, self._since(size, counts), passed)
        self.passed = passed
        wrote = passed[0] > 0.0
        measured = 1.0 + passed[1] / np.where(wrote, passed[0], 1.0)
        self.amplification = np.where(wrote, measured, self.amplification)

    def useless_per_request(self) -> Array:
        """Return useless loops (full scans over all groups) per request."""
        return self.passed[3 : 3 + len(LOOPS)].sum(axis=0) / np.maximum(self.passed[2], 1.0)

    def walks_per_request(self, groups: int) -> Array:
        """Return groups searched in useless loops per request, as a fraction of all groups."""
        if self._walks is None or self._walks[0] is not self.passed or self._walks[1] != groups:
            self._walks = (self.passed, groups, walks_per_request(self.passed, groups))
        return self._walks[2]

    @property
    def _looks(self) -> int:
        return self._epochs // self._stride

    def _since(self, looks: int, counts: Array) -> Array:
        back = min(looks, self._looks)
        return counts - self._ring[(self._looks - back) % len(self._ring)]
