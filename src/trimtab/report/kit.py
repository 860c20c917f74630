"""Building blocks of pages besides charts: tables. `templates/kit.html.j2` draws them.

A table is declared once; HTML and Markdown are derived from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from trimtab.model.finding import Severity
from trimtab.model.verdict import VerdictStatus
from trimtab.report.text import one_line

Tone = Literal["critical", "warning", "info", "unclear", "healthy"]
"""Colour of a badge or an answer; it always accompanies a word."""

FACTS: Final = ("", "")
"""Columns of names and values."""
ROWS: Final = 15
"""`Table.first` of a table that fills the screen."""
ALL: Final = sys.maxsize
"""`Table.first` of a table that a terminal always shows in full."""

GOAL_TONES: dict[VerdictStatus, Tone] = {
    VerdictStatus.MET: "healthy",
    VerdictStatus.MISSED: "critical",
    VerdictStatus.CANNOT_TELL: "unclear",
}
SEVERITY_TONES: dict[Severity, Tone] = {
    Severity.CRITICAL: "critical",
    Severity.WARNING: "warning",
    Severity.INFO: "info",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    Attributes
    ----------
    small
        A second line: an interval, a qualification.
    tone
        The text becomes a badge of this colour.
    link
        Link target of the text; standalone pages have none.
    """

    text: str
    small: str = ""
    tone: Tone | None = None
    link: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table.

    Attributes
    ----------
    note
        A sentence below the row, across all columns.
    marked
        Emphasised; a cell says why.
    """

    cells: tuple[Cell, ...]
    note: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings.

    Attributes
    ----------
    columns
        Headings; a trailing ``>`` marks a column of numbers, aligned to the right; a trailing ``?``
        gives way on a narrow terminal, with ``??`` before sentences become narrow.
    caption
        Meaning of the columns, below the table.
    first
        Rows that a terminal shows without ``--all``.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    first: int = 8

    @property
    def heads(self) -> tuple[tuple[str, bool], ...]:
        """Each heading, and whether its column is numeric."""
        titles = (name.rstrip(">?") for name in self.columns)
        return tuple(
            (title, ">" in name[len(title) :])
            for title, name in zip(titles, self.columns, strict=True)
        )


def row(*cells: str | Cell, note: str = "", marked: bool = False) -> Row:
    """Return a row of texts and cells."""
    made = tuple(Cell(cell) if isinstance(cell, str) else cell for cell in cells)
    return Row(made, note, marked)


def table(
    columns: Sequence[str], rows: Iterable[Row], caption: str = "", *, first: int = 8
) -> Table | None:
    """Return a table, ``None`` without rows."""
    made = Table(tuple(columns), tuple(rows), caption, first)
    return made if made.rows else None


def facts(pairs: Iterable[tuple[str, str]]) -> Table | None:
    """Return names with their values: a table without headings, whose values are never broken."""
    return table(FACTS, (row(*pair) for pair in pairs), first=ALL)


def markdown(made: Table) -> str:
    """Return a table as Markdown; a marked row is bold.

    Examples
    --------
    >>> print(markdown(Table(("layer", "rate>"), (row("OST", Cell("3 GB/s", "2 to 4")),))))
    | layer | rate |
    | --- | ---: |
    | OST | 3 GB/s (2 to 4) |
    """
    lines = [
        _line(name for name, _ in made.heads),
        _line("---:" if is_number else "---" for _, is_number in made.heads),
    ]
    for entry in made.rows:
        texts = [escaped(f"{cell.text} ({cell.small})" if cell.small else cell.text)
                 for cell in entry.cells]  # fmt: skip
        lines.append(_line(f"**{text}**" if entry.marked and text else text for text in texts))
    notes = [entry.note for entry in made.rows if entry.note]
    for note in [*notes, *([made.caption] if made.caption else [])]:
        lines += ["", escaped(note)]
    return "\n".join(lines)


def escaped(text: str) -> str:
    r"""Return text that Markdown shows literally.

    Examples
    --------
    >>> escaped("a|b <i> *c* [d](e)")
    'a\\|b &lt;i&gt; \\*c\\* \\[d\\](e)'
    """
    safe = one_line(text).replace("\\", "\\\\").replace("&", "&amp;")
    safe = safe.replace("<", "&lt;").replace(">", "&gt;")
    for sign in "|*_`[]#":
        safe = safe.replace(sign, f"\\{sign}")
    return safe


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
