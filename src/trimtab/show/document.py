"""A page with its answer, sections and tables: declared once, written as HTML or as Markdown.

The templates are in ``templates/``; `trimtab.show.screen_document` prints the same page on a
terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trimtab.base import text
from trimtab.base.finding import Severity, Tone
from trimtab.base.text import one_line
from trimtab.base.verdict import VerdictStatus
from trimtab.show.chart import Chart, drawn, environment

if TYPE_CHECKING:
    from markupsafe import Markup


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


if TYPE_CHECKING:
    Drawings = tuple[tuple[Chart, Markup], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a page.

    Attributes
    ----------
    title
        Empty if its lines and tables directly follow the answer.
    lines
        Sentences, each a paragraph.
    charts
        Called when drawn, since a terminal shows none; ``None``: nothing to draw.
    tables
        ``None`` if there is nothing to show.
    notes
        What a reader should also know.
    folds
        Title and table each, behind a line that opens it; the first is open.
    commands
        For copying: never broken.
    folded
        Whether only the title is shown: until a click on a page, without ``--all`` on a terminal.
    tone
        Tone of a finding, whose title names it; without a title, tone of the lines.
    """

    title: str = ""
    lines: tuple[str, ...] = ()
    charts: tuple[Callable[[], Chart | None], ...] = ()
    tables: tuple[Table | None, ...] = ()
    notes: tuple[str, ...] = ()
    folds: tuple[tuple[str, Table | None], ...] = ()
    commands: tuple[str, ...] = ()
    folded: bool = False
    tone: Tone | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read beneath the title; charts may still be drawn."""
        return not (self.lines or self.commands or any(self.tables) or self.folds or self.notes)


@dataclass(frozen=True, slots=True)
class Document:
    """A page, with the answer first; a terminal screen needs neither heading nor tone.

    Attributes
    ----------
    kind
        The command behind it: ``purge horizon``.
    details
        Sentences after the answer.
    more
        Last lines on a terminal: commands that show more, or continue.
    command
        The last of them, for copying: never broken.
    """

    answer: str
    sections: tuple[Section, ...] = ()
    kind: str = ""
    heading: str = ""
    subtitle: str = ""
    tone: Tone = "info"
    details: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    command: str = ""


def render_document(document: Document) -> str:
    """Return a self-contained HTML page: no network, no script, deterministic."""
    page = environment().get_template("sections.html.j2")
    return page.render(document=document, sections=drawn_sections(document))


def drawn_sections(document: Document) -> tuple[tuple[Section, Drawings], ...]:
    """Return the sections of a page, each with its charts drawn."""
    return tuple(
        (section, drawn(chart() for chart in section.charts)) for section in document.sections
    )


def document_markdown(document: Document) -> str:
    """Return a page as Markdown, without its charts: their figures are in its tables."""
    return "\n\n".join(_blocks(document)) + "\n"


def _blocks(document: Document) -> Iterator[str]:
    yield f"# {escaped(document.heading)}"
    yield escaped(document.subtitle)
    yield f"**{escaped(document.answer)}**"
    yield from map(escaped, document.details)
    for section in document.sections:
        yield f"## {escaped(section.title)}"
        yield from map(escaped, section.lines)
        yield from (f"    {command}" for command in section.commands)
        yield from (markdown(table) for table in section.tables if table is not None)
        for title, table in section.folds:
            yield f"### {escaped(title)}"
            if table is not None:
                yield markdown(table)
        if section.notes:
            yield "\n".join(f"- {escaped(text.sentence(note))}" for note in section.notes)
