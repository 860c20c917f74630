"""The record of a simulation: the true state in each epoch, and the probes' results."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.arrays import Array, Flags
from trimtab.twin.simulation.probes import JobRun, SurveyRun

NAMES = ("fullness", "amplification", "useless_per_request", "walks_per_request", "open")
"""Values of each column, in single precision; ``open`` is 0 or 1."""
_BLOCK = 256


@dataclass(slots=True)
class Trace:
    """The truth.

    Attributes
    ----------
    jobs, surveys
        Runs of the probes.
    """

    jobs: list[JobRun] = field(default_factory=list)
    surveys: list[SurveyRun] = field(default_factory=list)
    _ends: list[float] = field(default_factory=list)
    _blocks: list[NDArray[np.float32]] = field(default_factory=list)
    _row: int = _BLOCK

    def record(self, end_s: float, *values: Array | Flags) -> None:
        """Record an epoch that ended at ``end_s``, seconds since 1970; values as in `NAMES`."""
        columns = len(values[0])
        if self._row == _BLOCK or self._blocks[-1].shape[2] != columns:
            if self._blocks and self._row < _BLOCK:
                self._blocks[-1] = self._blocks[-1][: self._row]
            self._blocks.append(np.empty((_BLOCK, len(NAMES), columns), np.float32))
            self._row = 0
        for place, of_columns in enumerate(values):
            self._blocks[-1][self._row, place] = of_columns
        self._row += 1
        self._ends.append(end_s)

    def last(self) -> dict[str, NDArray[np.float32]]:
        """Return the values of the last epoch, by name."""
        return dict(zip(NAMES, self._blocks[-1][self._row - 1], strict=True))

    @property
    def ends_s(self) -> Array:
        """End of each epoch, seconds since 1970 UTC."""
        return np.array(self._ends)

    def of(self, name: str) -> NDArray[np.float32]:
        """Return epochs x columns of a name in `NAMES`; NaN before a column existed."""
        place = NAMES.index(name)
        if not self._blocks:
            return np.empty((0, 0), np.float32)
        columns = self._blocks[-1].shape[2]
        result = np.full((len(self._ends), columns), np.nan, np.float32)
        row = 0
        for number, block in enumerate(self._blocks):
            rows = self._row if number == len(self._blocks) - 1 else len(block)
            result[row : row + rows, : block.shape[2]] = block[:rows, place]
            row += rows
        return result
