"""The console, and text on it: paragraphs and tables that fit it without broken words."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

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
        Headings, as in `trimtab.report.kit.Table`.
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
