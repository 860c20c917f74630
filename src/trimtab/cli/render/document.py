"""The page of a command on a terminal: the same answer, sections and tables, without charts.

The answer comes first, then its supporting rows, then how to see more: ``--all``, ``--brief`` and
``--top`` mean the same everywhere, and nothing is wider than the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trimtab.cli import options
from trimtab.cli.render.screen import console, natural_width, print_rows, print_wrapped, taken_width
from trimtab.report.kit import FACTS
from trimtab.units import plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from trimtab.errors import Interrupted, TrimtabError
    from trimtab.report.kit import Cell, Row, Table, Tone
    from trimtab.report.sections import Document, Section

_STYLES: Final[dict[Tone, str]] = {
    "critical": "red",
    "warning": "yellow",
    "info": "cyan",
    "unclear": "yellow",
    "healthy": "green",
}
SCREEN_LINES: Final = 40
"""Lines that are printed without ``--all`` or ``--top``."""
_NOTES: Final = 3
"""Notes of a section that are printed without ``--all``."""


def show(
    document: Callable[[], object],
    text: Callable[[], object],
    *,
    error: TrimtabError | Interrupted | None = None,
) -> None:
    """Print a result, then raise the error that made it incomplete.

    Parameters
    ----------
    document
        Returns the envelope, which includes the error; called only with ``--json``.
    text
        Prints the result as text.
    error
        Raised after the result was printed; it then prints no document of its own.
    """
    if options.wants_json():
        from trimtab.report.documents.encode import to_json

        click.echo(to_json(document()))
    else:
        text()
    if error is not None:
        error.reported = options.wants_json()
        raise error


def show_page(
    json: Callable[[], object],
    page: Callable[[], Document],
    report: str | None = None,
    *,
    more: Iterable[str] = (),
    error: TrimtabError | Interrupted | None = None,
) -> None:
    """Print a command's result as JSON or as the document of its page; write the page too.

    Parameters
    ----------
    json, page
        Only the requested one is called.
    report
        File of the page; ``None``: not written.
    more
        As in `print_document`.
    error
        As in `show`.
    """
    made = cache(page)
    if report is not None:
        from trimtab.report.sections import render_document
        from trimtab.report.write import write_report

        write_report(Path(report), render_document(made()))
        more = (*more, f"report: {report}")
    show(json, lambda: print_document(made(), more), error=error)


def print_note(text: str) -> None:
    """Print a note beside the result: on standard error."""
    click.echo(f"note: {text}", err=True)


def print_document(document: Document, more: Iterable[str] = ()) -> None:
    """Print a document: its answer, its first rows, and with ``--all`` everything.

    ``--brief`` prints only the answer. The rest is cut to a screen unless ``--all`` or ``--top``
    is given.

    Parameters
    ----------
    more
        Lines at the end, after those of the document.
    """
    out, requested = console(), options.extent()
    head = _captured(out, lambda: print_wrapped(out, document.answer, "bold"))
    out.file.write(head)
    if requested.brief:
        return
    waits = not requested.everything and any(map(_holds_more, document.sections))
    hint = (f"{options.rest_option()} shows every row and note",) if waits else ()
    tail = _captured(out, lambda: _print_tail(out, document, (*hint, *more)))
    lines = _captured(out, lambda: _print_body(out, document)).splitlines()
    room = SCREEN_LINES - head.count("\n") - tail.count("\n")
    whole = requested.everything or requested.top is not None or len(lines) <= room
    shown = lines if whole else lines[: room - 1]
    out.file.writelines(f"{line}\n" for line in shown)
    if len(lines) > len(shown):
        out.print(
            f"... {len(lines) - len(shown):,} more lines: {options.rest_option()}", style="dim"
        )
    out.file.write(tail)


def _captured(out: Console, printing: Callable[[], object]) -> str:
    with out.capture() as captured:
        printing()
    return captured.get()


def _holds_more(section: Section) -> bool:
    """Return whether ``--all`` shows more of a section."""
    tables = (table for table in section.tables if table is not None)
    return (
        section.folded
        or bool(section.folds)
        or len(section.notes) > _NOTES
        or any(table.caption or len(table.rows) > table.first for table in tables)
    )


def _print_tail(out: Console, document: Document, more: Iterable[str]) -> None:
    for line in (*more, *document.more):
        print_wrapped(out, line, "dim")
    if document.command:
        _print_command(out, document.command, indent=2)


def _print_command(out: Console, command: str, indent: int) -> None:
    from rich.text import Text

    out.print(Text(f"{' ' * indent}{visible(command)}", style="cyan"), soft_wrap=True)


def _print_body(out: Console, document: Document) -> None:
    for detail in document.details:
        print_wrapped(out, detail)
    if document.heading:
        print_wrapped(out, f"{document.heading}: {document.subtitle}", "dim")
    for section in document.sections:
        print_section(out, section)


def print_section(out: Console, section: Section) -> None:
    """Print a section; a folded one shows only its title without ``--all``."""
    everything = options.extent().everything
    if not (everything or section.folded):
        section = replace(section, folds=())
    if section.is_empty:
        return  # charts only
    if section.folded and not everything:
        print_wrapped(out, section.title, "dim")
        return
    style = _STYLES[section.tone] if section.tone is not None else ""
    if section.title:
        print_wrapped(out, section.title, f"{style} bold")
    for line in section.lines:
        print_wrapped(out, line, "" if section.title else style, indent=2)
    for command in section.commands:
        _print_command(out, command, indent=4)
    for table in section.tables:
        _print_table(out, table, indent=2 if section.title else 0)
    for title, folded in section.folds:
        print_wrapped(out, title, "bold", indent=2)
        _print_table(out, folded)
    shown = options.extent().rows(_NOTES)
    for note in section.notes[:shown]:
        print_wrapped(out, f"- {note}", indent=2)
    _print_left(out, len(section.notes) - shown, "note")


def _print_table(out: Console, table: Table | None, indent: int = 2) -> None:
    """Print the first rows of a table, and the number of remaining ones."""
    if table is None:
        return
    shown = table.rows[: options.extent().rows(table.first)]
    if table.columns == FACTS:
        _print_facts(out, shown)
    else:
        titles = [visible(name) for name, _ in table.heads]
        beside = [[_words(cell, " ") for cell in row.cells] for row in shown]
        widths = map(natural_width, zip(titles, *beside, strict=True))
        gap = " " if taken_width(widths) <= out.width else "\n"
        cells = [[_cell(cell, row, gap) for cell in row.cells] for row in shown]
        print_rows(out, table.columns, cells, indent=indent)
    notes: dict[str, list[str]] = {}
    for row in shown:
        notes.setdefault(row.note, []).append(row.cells[0].text)
    for note, names in notes.items():
        if note:
            print_wrapped(out, f"{', '.join(dict.fromkeys(names))}: {note}", "dim", indent=indent)
    _print_left(out, len(table.rows) - len(shown), "row", indent)
    if table.caption and options.extent().everything:
        print_wrapped(out, table.caption, "dim", indent=indent)


def _print_facts(out: Console, rows: Iterable[Row]) -> None:
    """Print names with their values, one per line, without breaking values."""
    from rich.text import Text

    pairs = [[visible(cell.text) for cell in row.cells] for row in rows]
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        out.print(Text(f"  {name:<{width}}  {value}"), soft_wrap=True)


def _words(cell: Cell, gap: str) -> str:
    """Return the text of a cell, with its qualification in brackets beside or below it."""
    text, small = visible(cell.text), visible(cell.small)
    return f"{text}{gap}({small})" if text and small else text or small


def _cell(cell: Cell, row: Row, gap: str) -> Text:
    from rich.text import Text

    style = _STYLES[cell.tone] if cell.tone is not None else ""
    return Text(_words(cell, gap), style=f"{style} bold" if row.marked else style)


def _print_left(out: Console, count: int, noun: str, indent: int = 2) -> None:
    if count > 0:
        print_wrapped(out, f"... {plural(count, f'more {noun}', ',')}", "dim", indent=indent)
