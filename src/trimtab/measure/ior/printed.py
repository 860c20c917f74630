"""What IOR prints, as values: its runs, their tests, and the results of those.

IOR prints one of three things, and puts its warnings between the lines of each::

    text   options as ``name : value`` (3.2 and later) or ``name = value`` (3.0, 3.1), a row of a
           table for each repetition, a row of a summary for each test and access
    JSON   the same, one key a line; with the warnings in it, it is not JSON
    CSV    rows of results alone (4.0 and later; 3.2 and 3.3 print no result in theirs)

Whatever the form, results go by the names of the text's columns without their units (`COLUMNS`),
summaries by the headings of the text.
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
"""Of the results, by their number, as IOR 3.0 to 3.2 and those since 3.3 have them; for a table
whose headings were lost."""


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the results, or one object of the list of results.

    Attributes
    ----------
    figures
        By column: ``bw`` in MiB/s, ``iops``, ``block`` and ``xfer`` in KiB, ``wr/rd`` and
        ``total`` in s.
    iteration
        As printed; ``None`` in JSON, where it is the how-many-eth of its access.
    countable
        Whether every result before it was whole, so that it can be counted.
    tasks
        As a CSV says it beside each result.
    lines
        Where ``bw`` and ``iops`` are.
    doubt
        Why it is not to be believed whatever its figures are.
    in_files_bytes, moved_bytes
        Of the warning before it, which IOR prints where it is not what was asked for; 0 bytes in
        files where ``stat`` told nothing.
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
    """One row of the summary, by the headings of the text, whatever it was printed as."""

    access: Access
    values: dict[str, str]
    line: int


@dataclass(slots=True)
class Test:
    """One test: an output without a script has one.

    Attributes
    ----------
    summary_alone
        No repetition was printed, as with ``verbose=-1``, but the summary was.
    result_lost
        A result was not whole.
    commas
        A figure of it stands with a decimal comma.
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
    """Repetitions were printed, whether or not they can be read."""
    refused: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    early: Test = field(default_factory=Test)
    """What was said before the first test; its errors and warnings only."""
    tests: list[Test] = field(default_factory=list)
