"""What a plan lists of a batch's rows: owner and size, read a stretch at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from trimtab.errors import DataError, UsageError
from trimtab.purge.run.state import Listed, Rows
from trimtab.visible import visible

STRETCH_ROWS: Final = 1 << 17
"""Read at once and kept: a batch is far smaller, and a group of rows is decoded whole anyway."""


class Listing(Protocol):
    """The rows of a plan."""

    def listed(self, rows: Rows) -> Listed:
        """Return what the plan says of some rows."""
        ...


class CandidatesListing:
    """The rows of a ``candidates.parquet``.

    Attributes
    ----------
    path
        Its file.
    rows
        How many the plan says there are; another number is an error.
    """

    def __init__(self, path: Path, rows: int) -> None:
        self.path, self.rows = path, rows
        self._stretch: Listed | None = None

    def listed(self, rows: Rows) -> Listed:
        """Return what the plan says of some rows.

        Raises
        ------
        DataError
            The file has other rows, or cannot be read.
        """
        if rows.end > self.rows:
            raise UsageError(
                f"the plan has {self.rows} rows, and none at {rows.end - 1}",
                code="rows-out-of-range",
            )
        stretch = self._stretch
        if stretch is None or rows.first < stretch.rows.first or rows.end > stretch.rows.end:
            count = max(rows.count, min(STRETCH_ROWS, self.rows - rows.first))
            stretch = self._stretch = self._read(Rows(rows.first, count))
        return stretch.part(rows)

    def _read(self, rows: Rows) -> Listed:
        import polars as pl

        shown = visible(str(self.path))
        try:
            source = pl.scan_parquet(self.path, glob=False).slice(rows.first, rows.count)
            frame = source.select(
                pl.col("uid").cast(pl.UInt32), pl.col("allocated_bytes").cast(pl.UInt64)
            ).collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(
                f"it cannot be read as Parquet: {str(error)[:200]}",
                code="candidates-unreadable",
                file=shown,
            ) from (error)
        if len(frame) != rows.count or any(column.null_count() for column in frame):
            raise DataError(
                f"it has not the {self.rows} rows that the plan lists",
                code="candidates-changed",
                file=shown,
            )
        return Listed(rows, frame["uid"].to_numpy(), frame["allocated_bytes"].to_numpy())
