"""Read owners and sizes of a plan's rows, up to the end of a row group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trimtab.errors import DataError, UsageError
from trimtab.purge.run.state import Listed, Rows

if TYPE_CHECKING:
    from trimtab._core import Candidates


class Listing(Protocol):
    """The rows of a plan."""

    def listed(self, rows: Rows) -> Listed:
        """Return owners and sizes of some rows."""
        ...


class CandidatesListing:
    """The rows of the candidates of a plan.

    A row group is verified when its first row is requested, before it enters a batch, and the
    verified rows stay in memory for the remover.

    Parameters
    ----------
    candidates
        The candidates to read.
    rows
        Number of rows in the plan; a different number is an error.
    """

    def __init__(self, candidates: Candidates, rows: int) -> None:
        if candidates.rows != rows:
            raise DataError(
                f"there are {candidates.rows} candidates, but the plan has {rows}",
                code="candidates-changed",
            )
        self.candidates, self.rows = candidates, rows
        self._stretch: Listed | None = None

    def listed(self, rows: Rows) -> Listed:
        """Return owners and sizes of some rows.

        Raises
        ------
        RefusedError
            They differ from what was signed.
        """
        if rows.end > self.rows:
            raise UsageError(
                f"the plan has {self.rows} rows, but none at {rows.end - 1}",
                code="rows-out-of-range",
            )
        stretch = self._stretch
        if stretch is None or rows.first < stretch.rows.first or rows.end > stretch.rows.end:
            stretch = self._stretch = self._read(rows)
        return stretch.part(rows)

    def _read(self, rows: Rows) -> Listed:
        import numpy as np

        uids, allocated = self.candidates.listed(rows.first, rows.count)
        owners = np.frombuffer(uids, np.uint32)
        return Listed(Rows(rows.first, len(owners)), owners, np.frombuffer(allocated, np.uint64))
