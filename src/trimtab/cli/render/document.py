"""The page of a command on a terminal: the same answer, sections and tables, without its charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import natural_width, taken_width
from trimtab.units import plural
from trimtab.visible import shell_text, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from trimtab.errors import Interrupted, TrimtabError
    from trimtab.model.finding import Finding
    from trimtab.report.kit import Cell, Row, Table, Tone
    from trimtab.report.sections import Document, Section

_STYLES: Final[dict[Tone, str]] = {
    "critical": "red",
    "warning": "yellow",
    "info": "cyan",
    "unclear": "yellow",
    "healthy": "green",
}
_ROWS: Final = 8
"""Rows of a table that are printed without ``--all``, unless a command has more room."""
_NOTES: Final = 3
"""Notes of a section that are printed without ``--all``."""
_COLUMN_LEAST: Final = 10
"""Characters to which a column is narrowed before its words are broken."""


def show_page(
    json: Callable[[], object],
    page: Callable[[], Document],
    report: str | None = None,
    *,
    head: Callable[[Console], object] = lambda out: None,
    more: Iterable[str] = (),
    error: TrimtabError | Interrupted | None = None,
) -> None:
    """Print what a command found, as JSON or as the document of its page; write the page too.

    Parameters
    ----------
    json, page
        Called for what is wanted alone.
    report
        File of the page; ``None``: it is not written.
    head, more
        As `print_document` has them.
    error
        As `trimtab.cli.output.show` has it.
    """
    made = cache(page)
    if report is not None:
        from trimtab.report.sections import render_document
        from trimtab.report.write import write_report

        write_report(Path(report), render_document(made()))
        more = (*more, f"report: {visible(report)}")
    show(json, lambda: print_document(made(), head=head, more=more), error=error)


def print_document(
    document: Document,
    *,
    head: Callable[[Console], object] = lambda out: None,
    more: Iterable[str] = (),
    rows: int = _ROWS,
) -> None:
    """Print a document: its answer, its first rows, and with ``--all`` everything.

    Parameters
    ----------
    head
        Prints what comes before the sections.
    more
        Lines at the end.
    rows
        Of a table that are printed without ``--all``.
    """
    everything = options.extent().everything
    hint = () if everything or not document.sections else ("--all shows every row and note",)
    body = partial(_print_body, document, head, rows)
    print_screen(visible(document.answer), body, more=(*hint, *more))


def _print_body(
    document: Document, head: Callable[[Console], object], rows: int, out: Console
) -> None:
    for detail in document.details:
        print_wrapped(out, detail)
    print_wrapped(out, f"{document.heading}: {document.subtitle}", "dim")
    head(out)
    for section in document.sections:
        _print_section(out, section, rows)


def _print_section(out: Console, section: Section, rows: int) -> None:
    from rich.text import Text

    everything = options.extent().everything
    if not (everything or section.folded):
        section = replace(section, folds=())
    if section.is_empty:
        return  # charts alone
    if section.folded and not everything:
        print_wrapped(out, section.title, "dim")
        return
    style = _STYLES[section.tone] if section.tone is not None else ""
    print_wrapped(out, section.title, f"{style} bold")
    for line in section.lines:
        print_wrapped(out, line, indent=2)
    for command in section.commands:
        out.print(Text(f"    {visible(command)}", style="cyan"), soft_wrap=True)
    for table in section.tables:
        print_table(out, table, rows)
    for title, folded in section.folds:
        print_wrapped(out, title, "bold", indent=2)
        print_table(out, folded, rows)
    shown = options.extent().rows(_NOTES)
    for note in section.notes[:shown]:
        print_wrapped(out, f"- {note}", indent=2)
    _print_left(out, len(section.notes) - shown, "note")


def print_table(out: Console, table: Table | None, rows: int) -> None:
    """Print the first rows of a table, and how many are left."""
    if table is None:
        return
    shown = table.rows[: options.extent().rows(rows)]
    columns = [
        Column(visible(name), right=number, wraps=True, least=_COLUMN_LEAST)
        if not column.endswith("?")
        else Column(visible(name), right=number, wraps=True, drop=1)
        for column, (name, number) in zip(table.columns, table.heads, strict=True)
    ]
    beside = [[_words(cell, " ") for cell in row.cells] for row in shown]
    widths = map(natural_width, zip([column.title for column in columns], *beside, strict=True))
    gap = " " if taken_width(widths) <= out.width else "\n"
    cells = [[_cell(cell, row, gap) for cell in row.cells] for row in shown]
    print_rows(out, columns, cells, indent=2)
    notes: dict[str, list[str]] = {}
    for row in shown:
        notes.setdefault(row.note, []).append(row.cells[0].text)
    for note, names in notes.items():
        if note:
            print_wrapped(out, f"{', '.join(dict.fromkeys(names))}: {note}", "dim", indent=2)
    _print_left(out, len(table.rows) - len(shown), "row")
    if table.caption and options.extent().everything:
        print_wrapped(out, table.caption, "dim", indent=2)


def _words(cell: Cell, gap: str) -> str:
    """Return the text of a cell, what qualifies it in brackets beside it or below."""
    text, small = visible(cell.text), visible(cell.small)
    return f"{text}{gap}({small})" if text and small else text or small


def _cell(cell: Cell, row: Row, gap: str) -> Text:
    from rich.text import Text

    style = _STYLES[cell.tone] if cell.tone is not None else ""
    return Text(_words(cell, gap), style=f"{style} bold" if row.marked else style)


def _print_left(out: Console, count: int, noun: str) -> None:
    if count > 0:
        print_wrapped(out, f"... {plural(count, f'more {noun}', ',')}", "dim", indent=2)


def print_trouble(out: Console, trouble: Finding) -> None:
    """Print one entry of a site's troubles in two lines: what is wrong, and its repair."""
    from trimtab.report.kit import SEVERITY_TONES

    style = f"{_STYLES[SEVERITY_TONES[trouble.severity]]} bold"
    print_wrapped(out, f"{trouble.severity.value}  {visible(trouble.title)}", style, indent=2)
    command = f" {shell_text(trouble.fix.argv)}" if trouble.fix.argv else ""
    print_wrapped(out, f"do  {trouble.fix.prose}{command}", "dim", indent=4, hang=4)
