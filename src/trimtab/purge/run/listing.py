"""What a plan lists of a batch's rows: owner and size, read up to the end of a row group."""

from __future__ import annotations

from typing import Protocol

from trimtab.errors import DataError, UsageError
from trimtab.purge.run.state import Listed, Rows


class Listing(Protocol):
    """The rows of a plan."""

    def listed(self, rows: Rows) -> Listed:
        """Return what the plan says of some rows."""
        ...


class OpenCandidates(Protocol):
    """The candidates of a plan: ``trimtab._core.Candidates``."""

    @property
    def rows(self) -> int:
        """How many there are."""
        ...

    def listed(self, first: int, count: int, /) -> tuple[bytes, bytes]:
        """Return owners and allocated bytes of rows, and of what follows in the last one's group.

        Raises
        ------
        RefusedError
            They are not what was signed.
        """
        ...


class CandidatesListing:
    """The rows of the candidates of a plan.

    A row group is verified when the first of its rows is asked for, before they are put into a
    batch, and stays in memory, verified, for the remover.

    Parameters
    ----------
    candidates
        What is read.
    rows
        How many the plan says there are; another number is an error.
    """

    def __init__(self, candidates: OpenCandidates, rows: int) -> None:
        if candidates.rows != rows:
            raise DataError(
                f"the candidates are {candidates.rows} rows, not the {rows} that the plan lists",
                code="candidates-changed",
            )
        self.candidates, self.rows = candidates, rows
        self._stretch: Listed | None = None

    def listed(self, rows: Rows) -> Listed:
        """Return what the plan says of some rows.

        Raises
        ------
        RefusedError
            They are not what was signed.
        """
        if rows.end > self.rows:
            raise UsageError(
                f"the plan has {self.rows} rows, and none at {rows.end - 1}",
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
