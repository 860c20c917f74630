"""Parsed outputs of IOR: runs, their tests, and the tests' results.

IOR prints one of three formats, with warnings between the lines of each::

    text   options as ``name : value`` (3.2 and later) or ``name = value`` (3.0, 3.1), a row of a
           table for each repetition, a row of a summary for each test and access
    JSON   the same, one key a line; with the warnings in it, it is not JSON
    CSV    rows of results alone (4.0 and later; 3.2 and 3.3 print no result in theirs)

In every format, results use the names of the text's columns without units (`COLUMNS`), summaries
the headings of the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from trimtab.measure.plain import Figure
from trimtab.model.run import Access

COLUMNS: Final[dict[int, tuple[str, ...]]] = {
    9: ("access", "bw", "block", "xfer", "open", "wr/rd", "close", "total", "iter"),
    11: (
        *("access", "bw", "iops", "latency", "block", "xfer"),
        *("open", "wr/rd", "close", "total", "iter"),
    ),
}
"""Columns of the results by their number, in IOR 3.0 to 3.2 and since 3.3; for a table without
headings."""


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the results, or one object in their list.

    Attributes
    ----------
    figures
        By column: ``bw`` in MiB/s, ``iops``, ``block`` and ``xfer`` in KiB, ``wr/rd`` and
        ``total`` in s.
    iteration
        As printed; ``None`` in JSON, where the position among its access counts.
    countable
        Whether every earlier result was complete, so that it can be counted.
    tasks
        From CSV, which has it for each result.
    lines
        Lines of ``bw`` and ``iops``.
    doubt
        Reason to doubt it whatever its figures are.
    in_files_bytes, moved_bytes
        From the warning before it, which IOR prints if they differ from the request; 0 bytes in
        files if ``stat`` returned nothing.
    """

    access: Access
    figures: dict[str, Figure]
    lines: dict[str, int]
    iteration: int | None = None
    countable: bool = True
    tasks: int | None = None
    doubt: str | None = None
    in_files_bytes: int | None = None
    moved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of the summary, by the headings of the text, in any format."""

    access: Access
    values: dict[str, str]
    line: int


@dataclass(slots=True)
class Test:
    """One test; an output without a script has one.

    Attributes
    ----------
    summary_alone
        Whether only the summary was printed, as with ``verbose=-1``.
    result_lost
        Whether a result was incomplete.
    commas
        Whether a figure has a decimal comma.
    """

    number: int = 0
    started: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    summary_alone: bool = False
    integrity_lost: bool = False
    result_lost: bool = False
    commas: bool = False
    ended: bool = False


@dataclass(slots=True)
class IorRun:
    """One start of IOR."""

    version: str | None = None
    began: str | None = None
    finished: str | None = None
    command_line: str | None = None
    machine: str | None = None
    is_csv: bool = False
    has_table: bool = False
    """Whether repetitions were printed, readable or not."""
    refused: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    early: Test = field(default_factory=Test)
    """Errors and warnings before the first test."""
    tests: list[Test] = field(default_factory=list)
