"""Rows of a TOKIO summary table: by the names of the columns, numbers as numbers.

The tables were written by pandas. NERSC's has an index column that the header does not name, so
that every row has one field more than the header; ALCF's names it with nothing. They share the
names of most columns and not always their meaning: fullness is a percentage in one and a fraction
in the other.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trimtab.errors import DataError
from trimtab.measure.plain import time_since_1970
from trimtab.message import Message

REQUIRED: Final = (
    "_file_system",
    "_jobid",
    "darshan_agg_perf_by_slowest_posix",
    "darshan_app",
    "darshan_start_time",
    "darshan_nprocs",
    "darshan_tot_bytes_read_posix",
    "darshan_tot_bytes_written_posix",
    "darshan_tot_opens_posix",
    "darshan_num_opens_posix",
)
"""Without these a row says nothing that could be judged."""
# No count of anything is larger; NaN is not at most this either.
_LARGEST: Final = 1e18


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of the table: one run of a benchmark, with what was known of its moment.

    Attributes
    ----------
    line
        Of the file, from 1.
    fields
        Column to text; empty where the table has nothing.
    damage
        Why the fields are not to be used.
    """

    line: int
    fields: Mapping[str, str]
    damage: str | None = None

    def text(self, column: str) -> str | None:
        """Return a field, ``None`` where it is empty or there is no such column."""
        return self.fields.get(column) or None

    def number(self, column: str) -> float | None:
        """Return a field as a number of zero or more, ``None`` where it is none."""
        try:
            value = float(self.fields.get(column, ""))
        except ValueError:
            return None
        return value if 0 <= value <= _LARGEST else None

    def whole(self, column: str) -> int | None:
        """Return a field as an integer, ``None`` where it is none."""
        value = self.number(column)
        return int(value) if value is not None and value.is_integer() else None

    def time(self, column: str) -> datetime | None:
        """Return a field of seconds since 1970 as a time in UTC, ``None`` where it is none."""
        return time_since_1970(self.number(column))


def header_of(text: str) -> tuple[str, ...]:
    """Return the names of the columns in the first line; empty where they are not of this table."""
    first = text.split("\n", 1)[0].rstrip("\r")
    names = tuple(first.split(","))
    return names if set(REQUIRED) <= set(names) else ()


def rows_of(text: str) -> Iterator[TableRow]:
    """Yield every row, those that are damaged with the reason.

    Raises
    ------
    DataError
        The first line does not name the columns, or the quotes of a line cannot be made out.
    """
    names = header_of(text)
    if not names:
        problem = "the first line does not name the columns of a TOKIO summary"
        raise DataError(problem, code="columns-missing", line=1)
    whole = text.endswith("\n")
    lines = text.count("\n") + (not whole)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    next(reader)
    indexed: bool | None = None
    try:
        for fields in reader:
            if not fields:
                continue
            if indexed is None:
                indexed = len(fields) == len(names) + 1
            # A number that was cut is a number.
            cut = reader.line_num == lines and not whole
            yield _row(names, fields, reader.line_num, indexed=indexed, cut=cut)
    except csv.Error as error:
        raise DataError(
            f"not a line of a table: {error}", code="line-damaged", line=reader.line_num
        ) from error


def _row(
    names: Sequence[str], fields: Sequence[str], line: int, *, indexed: bool, cut: bool
) -> TableRow:
    expected = len(names) + indexed
    if len(fields) != expected:
        text = f"the line has {len(fields)} fields instead of {expected}"
        return TableRow(line, {}, Message("line-damaged", text))
    if cut:
        return TableRow(line, {}, Message("line-cut", "the file ends within this line"))
    return TableRow(line, dict(zip(names, fields[indexed:], strict=True)))
