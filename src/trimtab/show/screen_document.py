"""A command's page on a terminal, without its charts, and the progress of long work.

The answer comes first, then its supporting rows, then how to see more: ``--all``, ``--brief`` and
``--top`` mean the same everywhere. Nothing is wider than the terminal, and no word is broken if it
can be avoided. Progress of long work goes to standard error: a bar on a terminal, occasional lines
elsewhere.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trimtab.base.error import Interrupted, visible
from trimtab.base.units import RATE_NOW, format_duration, plural
from trimtab.show import command_options
from trimtab.show.command_options import wants_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from trimtab.base.error import TrimtabError
    from trimtab.base.finding import Tone
    from trimtab.show.document import Cell, Document, Row, Section, Table


_GAP: Final = 2
"""Gap between two columns of a table."""
_SENTENCE_LEAST: Final = 24
"""Minimum width of a column that gives way: narrower, its sentences are unreadable."""
_COLUMN_LEAST: Final = 10
"""Width to which any other column is narrowed before its words are broken."""
_CELL_LEAST: Final = 8
"""Minimum width of any column, if nothing else can give way."""
_WORD_MOST: Final = 40
"""Maximum word length to make room for; a longer word is broken."""
_NOTHING: Final = ("", "-")
_BOUND: Final = "\ue000"
"""Stands for a non-breaking space; it occurs in no script."""
_FIGURE: Final = re.compile(r"(?<=\d) (?=(?:%|[kKMGTP]?i?B(?:/s)?|UTC|[+-]\d{4})(?![A-Za-z]))")


WIDTH_WITHOUT_TERMINAL: Final = 120
"""Unless ``COLUMNS`` is exported."""
WIDTH_LEAST: Final = 40


def console(*, to_error: bool = False) -> Console:
    """Return a console on standard output (or error) that respects ``NO_COLOR``."""
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    stream = sys.stderr if to_error else sys.stdout
    width = None if stream.isatty() else _width_without_terminal()
    return PlainConsole(
        file=stream, highlight=False, markup=False, emoji=False, soft_wrap=False, width=width
    )


def _width_without_terminal() -> int:
    columns = os.environ.get("COLUMNS", "")
    return max(int(columns), WIDTH_LEAST) if columns.isdecimal() else WIDTH_WITHOUT_TERMINAL


def print_wrapped(
    out: Console, text: str, style: str = "", *, indent: int = 0, hang: int = 2
) -> None:
    """Print a paragraph, wrapped at words to the width of the console.

    Parameters
    ----------
    indent, hang
        Spaces before its first line, and additional ones before the others.
    """
    from rich.text import Text

    # Never separate a figure from its unit.
    paragraph = Text(_FIGURE.sub(_BOUND, visible(text)), style=style)
    room = max(out.width - indent, _SENTENCE_LEAST + hang)
    first, *rest = paragraph.wrap(out, room) or [paragraph]
    if rest:
        following = paragraph[len(first.plain) :]
        following = following[len(following.plain) - len(following.plain.lstrip()) :]
        rest = following.wrap(out, room - hang)
    for place, line in enumerate((first, *rest)):
        line.plain = line.plain.replace(_BOUND, " ")
        line.rstrip()
        out.print(Text(" " * (indent + (hang if place else 0))).append_text(line), soft_wrap=True)


def natural_width(cells: Iterable[str]) -> int:
    """Return the width of the longest line in terminal cells: East Asian characters take two."""
    from rich.cells import cell_len

    return max(cell_len(line) for cell in cells for line in cell.split("\n"))


def taken_width(widths: Iterable[int]) -> int:
    """Return the total width of columns, each with the gap after it."""
    return sum(width + _GAP for width in widths)


def print_rows(
    out: Console, columns: Sequence[str], rows: Sequence[Sequence[Text]], *, indent: int = 0
) -> None:
    """Print a table that fits the console.

    Empty columns are left out, as are those that may give way on a narrow console.

    Parameters
    ----------
    columns
        Headings, as in `trimtab.show.document.Table`.
    rows
        Cells, printed as they are: make untrusted text `visible` first.
    """
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    titles = [visible(column.rstrip(">?")) for column in columns]
    signs = [column[len(column.rstrip(">?")) :] for column in columns]
    widths = {
        place: natural_width((title, *(row[place].plain for row in rows)))
        for place, title in enumerate(titles)
        if any(row[place].plain not in _NOTHING for row in rows)
    }
    least = {p: _SENTENCE_LEAST if "?" in signs[p] else _COLUMN_LEAST for p in widths}
    words = {p: min(_longest_word(row[p].plain for row in rows), _WORD_MOST) for p in widths}
    room = out.width - indent + _GAP
    for place in [place for place in widths if "?" in signs[place]]:
        most = _SENTENCE_LEAST if "??" in signs[place] else 0
        if taken_width(min(widths[p], max(least[p], most, words[p])) for p in widths) > room:
            del widths[place]
    # Narrow columns are better than broken words, and those better than truncation.
    for kept_words in (words, {}):
        for most in (_SENTENCE_LEAST, _CELL_LEAST):
            _narrow(
                widths, room, {p: max(min(least[p], most), kept_words.get(p, 0)) for p in widths}
            )
    made = Table(
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        header_style="dim",
        show_header=any(titles[place] for place in widths),
    )
    for place, width in widths.items():
        justify = "right" if ">" in signs[place] else "left"
        made.add_column(titles[place], justify=justify, width=width, overflow="fold")
    for row in rows:
        made.add_row(*(_bound(row[place]) for place in widths))
    for line in out.render_lines(Padding(made, (0, 0, 0, indent), expand=False), pad=False):
        parts = ((part.text.replace(_BOUND, " "), part.style or "") for part in line)
        text = Text.assemble(*parts)
        text.rstrip()
        out.print(text, soft_wrap=True)


def _bound(cell: Text) -> Text:
    """Return a cell whose figures stay with their units."""
    copy = cell.copy()
    copy.plain = _FIGURE.sub(_BOUND, copy.plain)
    return copy


def _longest_word(cells: Iterable[str]) -> int:
    return max(natural_width(cell.split() or [""]) for cell in cells)


def _narrow(widths: dict[int, int], room: int, least: Mapping[int, int]) -> None:
    """Narrow columns, widest first, to fit the room: none below its minimum."""
    while (excess := taken_width(widths.values()) - room) > 0:
        wide = [place for place in widths if widths[place] > least[place]]
        if not wide:
            return
        widest, *others = sorted(wide, key=lambda place: -widths[place])
        next_width = max([least[widest], *(widths[place] for place in others)])
        step = min(excess, max(widths[widest] - next_width, 1))
        widths[widest] -= step


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
    if command_options.wants_json():
        from trimtab.base.encode import to_json

        click.echo(to_json(document()))
    else:
        text()
    if error is not None:
        error.reported = command_options.wants_json()
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
        from trimtab.reach.bounded import write_report
        from trimtab.show.document import render_document

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
    out, requested = console(), command_options.extent()
    head = _captured(out, lambda: print_wrapped(out, document.answer, "bold"))
    out.file.write(head)
    if requested.brief:
        return
    waits = not requested.everything and any(map(_holds_more, document.sections))
    hint = (f"{command_options.rest_option()} shows every row and note",) if waits else ()
    tail = _captured(out, lambda: _print_tail(out, document, (*hint, *more)))
    lines = _captured(out, lambda: _print_body(out, document)).splitlines()
    room = SCREEN_LINES - head.count("\n") - tail.count("\n")
    whole = requested.everything or requested.top is not None or len(lines) <= room
    shown = lines if whole else lines[: room - 1]
    out.file.writelines(f"{line}\n" for line in shown)
    if len(lines) > len(shown):
        out.print(
            f"... {len(lines) - len(shown):,} more lines: {command_options.rest_option()}",
            style="dim",
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
    everything = command_options.extent().everything
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
    shown = command_options.extent().rows(_NOTES)
    for note in section.notes[:shown]:
        print_wrapped(out, f"- {note}", indent=2)
    _print_left(out, len(section.notes) - shown, "note")


def _print_table(out: Console, table: Table | None, indent: int = 2) -> None:
    """Print the first rows of a table, and the number of remaining ones."""
    from trimtab.show.document import FACTS

    if table is None:
        return
    shown = table.rows[: command_options.extent().rows(table.first)]
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
    if table.caption and command_options.extent().everything:
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


QUIET_S: Final = 2.0
"""For commands that read stored data: show progress if they take longer than this."""
NOTHING_KEPT: Final = "nothing was changed or stored: the same command starts again"
"""State after interrupting work that only reads or computes."""
RUN_KEPT: Final = "files of the probe are removed; what it measured is stored: trimtab runs"
POINTS_KEPT: Final = "what was measured is stored: the same command continues"
Show = Callable[[str, float | None], None]
"""Called with the current step, and the completed part of the whole if known."""


@contextmanager
def progress_bar(
    *, quiet_s: float = 0.0, remains: str = NOTHING_KEPT, counts: bool = False
) -> Iterator[Show]:
    """Yield a progress display: a bar on a terminal, nothing with ``--json``, else lines.

    Parameters
    ----------
    quiet_s
        Seconds without a line: most commands of this kind end sooner.
    remains
        State after an interruption, and how to continue: the hint of its error.
    counts
        Whether the texts are counts that include what is left, instead of steps with a line
        each.
    """
    try:
        if sys.stderr.isatty():
            with _bar(counts=counts) as show:
                yield show
        else:
            lines = _Lines(quiet_s, counts=counts)
            yield (lambda text, part: None) if wants_json() else lines
    except Interrupted as error:
        error.hint = error.hint or remains
        raise


class _Left:
    """Estimate the remaining time at the current pace; nothing in the first seconds.

    Work that is resumed starts with a completed part, which does not count for the pace.
    """

    def __init__(self) -> None:
        self._begun_s = time.monotonic()
        self._before: float | None = None

    def __call__(self, part: float | None) -> str:
        if part is None:
            return ""
        if self._before is None:
            self._before = part
        elapsed_s, done = time.monotonic() - self._begun_s, part - self._before
        if elapsed_s < QUIET_S or not done > 0.0 or part >= 1.0:
            return ""
        left_s = elapsed_s * (1.0 - part) / done
        return f", about {format_duration(left_s)} left" if left_s >= 1.0 else ""


@contextmanager
def _bar(*, counts: bool) -> Iterator[Show]:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
    if not counts:
        columns.insert(2, TaskProgressColumn())
    with Bar(*columns, console=console(to_error=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        left = _Left()

        def show(text: str, part: float | None) -> None:
            total = None if part is None else 1.0
            words = text if counts else text + left(part)
            bar.update(task, description=words, completed=part or 0.0, total=total)

        yield show


_LINE_EVERY_S: Final = 10.0
"""Seconds between lines of one step."""


class _Lines:
    """Print a line at once, at each new step, and occasionally: readable in a log."""

    def __init__(self, quiet_s: float, *, counts: bool) -> None:
        self._last = ""
        self._from_s = time.monotonic() + quiet_s
        self._again_s = 0.0
        self._left = _Left()
        self._counts = counts

    def __call__(self, step: str, part: float | None) -> None:
        now_s = time.monotonic()
        name, left = step.partition(RATE_NOW)[0], self._left(part)
        due = now_s >= self._again_s or (name != self._last and not self._counts)
        if due and now_s >= self._from_s:
            self._last, self._again_s = name, now_s + _LINE_EVERY_S
            share = "" if part is None else f"[{part:4.0%}] "
            words = step if self._counts else f"{step}{left}"
            print(f"{share}{words}", file=sys.stderr, flush=True)
