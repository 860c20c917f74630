"""What lies beneath the flow of bytes: the miniature OSTs, and rates over a trailing window.

All sizes are parts of an OST's capacity, so that a miniature stands for a real OST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOOPS = ("c0", "c1", "c2", "c3", "c4")
_SIZES = (24, 48, 96, 192)
_ENOUGH = 0.1
"""Of the capacity: over fewer writes a miniature's amplification is too coarse."""


class Layout(Protocol):
    """Miniature OSTs, one for each column: `trimtab._core.OstFleet` and what tests put in place."""

    def fill(self, fractions: Sequence[float]) -> None:
        """Write files until so much is used."""

    def advance(
        self,
        *,
        written: Sequence[float],
        deleted: Sequence[float],
        purged: Sequence[float],
        burst: Sequence[float],
        burst_files: Sequence[int],
        resets: Sequence[float],
    ) -> None:
        """Let an epoch pass: one value a column."""

    def trim(self, columns: Sequence[int]) -> list[float]:
        """Hand free space to the drives; return how much of it they still held."""

    def reset(self, columns: Sequence[int]) -> None:
        """Send the allocator's goal back to the first group."""

    def configure(
        self,
        columns: Sequence[int],
        *,
        enter: tuple[float, float, float] | None = None,
        discard: bool | None = None,
        family: str | None = None,
    ) -> None:
        """Set what is given of some columns."""

    def add(self, columns: int) -> None:
        """Append empty OSTs."""

    def state(self) -> Mapping[str, Sequence[float]]:
        """Return counts since the start and what is so now: one list a name."""


class Window:
    """Write amplification and allocator's work over the last day, or as long as writes were few.

    Parameters
    ----------
    columns
        How many.
    units
        Of one miniature OST.

    Attributes
    ----------
    amplification
        Units that the drive wrote for each unit of the host.
    useless, considered
        Loops in vain and groups looked at, for each request: criteria x columns.
    """

    _COUNTS = (
        "written_units",
        "copied_units",
        "requests",
        *(f"{kind}_{loop}" for kind in ("useless", "considered") for loop in LOOPS),
    )

    def __init__(self, columns: int, units: float) -> None:
        self._units = units
        self._ring = np.zeros((_SIZES[-1] + 1, len(self._COUNTS), columns))
        self._epochs = 0
        self.amplification = np.ones(columns)
        self.useless = np.zeros((len(LOOPS), columns))
        self.considered = np.zeros((len(LOOPS), columns))

    def start(self, counts: Mapping[str, Array]) -> None:
        """Take the counts after the start's filling as those from which on is counted."""
        self._ring[0] = self._table(counts)

    def add_columns(self, more: int) -> None:
        """Begin to count for so many more columns, at nothing."""
        self._ring = np.pad(self._ring, ((0, 0), (0, 0), (0, more)))
        self.amplification = np.pad(self.amplification, (0, more), constant_values=1.0)
        self.useless = np.pad(self.useless, ((0, 0), (0, more)))
        self.considered = np.pad(self.considered, ((0, 0), (0, more)))

    def step(self, counts: Mapping[str, Array]) -> None:
        """Take the counts after an epoch."""
        now = self._table(counts)
        self._epochs += 1
        self._ring[self._epochs % len(self._ring)] = now
        chosen = np.zeros_like(now)
        missing = np.ones(now.shape[1], bool)
        for size in _SIZES:
            back = min(size, self._epochs)
            passed = now - self._ring[(self._epochs - back) % len(self._ring)]
            chosen[:, missing] = passed[:, missing]
            missing &= passed[0] < _ENOUGH * self._units
            if not missing.any() or back < size:
                break
        written, copied, requests = chosen[:3]
        wrote = written > 0.0
        measured = 1.0 + copied / np.where(wrote, written, 1.0)
        self.amplification = np.where(wrote, measured, self.amplification)
        asked = np.where(requests > 0.0, requests, 1.0)
        self.useless = chosen[3 : 3 + len(LOOPS)] / asked
        self.considered = chosen[3 + len(LOOPS) :] / asked

    def _table(self, counts: Mapping[str, Array]) -> Array:
        nothing = np.zeros(self._ring.shape[2])
        return np.stack([counts.get(name, nothing) for name in self._COUNTS])
