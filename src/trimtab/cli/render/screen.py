"""A screen: the answer first, then the rows that carry it, then how to see more.

Commands that list something print through `print_screen` and `print_rows`, so that ``--all``,
``--brief`` and ``--top`` mean the same everywhere and nothing is wider than the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trimtab.cli.options import extent, rest_option
from trimtab.cli.render.text import GAP, console, fixed_table, natural_width, taken_width
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    Cell = str | Text

SCREEN_LINES: Final = 40
"""Lines that are printed unless ``--all`` or ``--top`` asks for more."""
ROWS: Final = 15
"""Rows of the main table on a screen."""
_WRAPPED_LEAST: Final = 24
"""Characters of a column of sentences: in fewer they cannot be read."""
_WORD_MOST: Final = 40
"""Characters of a word for which room is made; a longer one is broken."""
_CELL_LEAST: Final = 8
"""Characters of any column that wraps, where nothing else is left to give way."""
_NOTHING: Final = ("", "-")
_BOUND: Final = "\ue000"
"""Stands for a space at which no line is broken; it is of no writing."""
_FIGURE: Final = re.compile(r"(?<=\d) (?=(?:%|[kKMGTP]?i?B(?:/s)?|UTC|[+-]\d{4})(?![A-Za-z]))")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `print_rows`.

    Attributes
    ----------
    title
        Its heading.
    right
        Whether it holds numbers.
    drop
        Columns of the highest number are left out first where the terminal is narrow; those of 0
        never are.
    wraps
        Whether its cells may be wrapped between words, down to ``least`` characters.
    """

    title: str
    right: bool = False
    drop: int = 0
    wraps: bool = False
    least: int = _WRAPPED_LEAST


def print_screen(
    answer: Cell,
    body: Callable[[Console], None],
    *,
    more: Iterable[str] = (),
    command: str = "",
    style: str = "bold",
    whole: bool = False,
) -> None:
    """Print the answer to a command's question, what carries it, and how to see more.

    Parameters
    ----------
    answer
        One sentence; ``--brief`` prints nothing else.
    body
        Prints the rest, `ROWS` rows of a table at most. It is cut to a screen unless ``--all`` or
        ``--top`` is given.
    more
        Lines at the end: commands that show more.
    command
        One to copy, at the very end: it is never broken.
    whole
        Print all of the body, since an option asked for it.
    """
    from rich.text import Text

    out, requested = console(), extent()
    head = _captured(out, lambda: print_wrapped(out, answer, style))
    out.file.write(head)
    if requested.brief:
        return
    lines = tuple(more)
    tail = _captured(out, lambda: [print_wrapped(out, line, "dim") for line in lines])
    if command:
        paste = Text(f"  {visible(command)}", style="cyan")
        tail += _captured(out, lambda: out.print(paste, soft_wrap=True))
    if whole or requested.everything or requested.top is not None:
        body(out)
    else:
        room = SCREEN_LINES - head.count("\n") - tail.count("\n")
        _print_cut(out, _captured(out, lambda: body(out)).splitlines(), room)
    out.file.write(tail)


def _captured(out: Console, printing: Callable[[], object]) -> str:
    with out.capture() as captured:
        printing()
    return captured.get()


def _print_cut(out: Console, lines: Sequence[str], room: int) -> None:
    shown = lines if len(lines) <= room else lines[: room - 1]
    out.file.writelines(f"{line}\n" for line in shown)
    if len(lines) > len(shown):
        out.print(f"... {len(lines) - len(shown):,} more lines: {rest_option()}", style="dim")


def print_wrapped(
    out: Console, text: Cell, style: str = "", *, indent: int = 0, hang: int = 2
) -> None:
    """Print a paragraph, wrapped between words to the page.

    Parameters
    ----------
    indent, hang
        Spaces before its first line, and as many more before the others.
    """
    from rich.text import Text

    paragraph = Text(visible(text), style=style) if isinstance(text, str) else text.copy()
    # A figure is not parted from its unit.
    paragraph.plain = _FIGURE.sub(_BOUND, paragraph.plain)
    room = max(out.width - indent, _WRAPPED_LEAST + hang)
    first, *rest = paragraph.wrap(out, room) or [paragraph]
    if rest:
        following = paragraph[len(first.plain) :]
        following = following[len(following.plain) - len(following.plain.lstrip()) :]
        rest = following.wrap(out, room - hang)
    for place, line in enumerate((first, *rest)):
        line.plain = line.plain.replace(_BOUND, " ")
        line.rstrip()
        out.print(Text(" " * (indent + (hang if place else 0))).append_text(line), soft_wrap=True)


def print_rows(
    out: Console, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, indent: int = 0
) -> None:
    """Print a table that fits the page.

    Words are not broken, and rows that are alike say it once.

    Columns without any content are left out, and those that may give way on a narrow page.

    Parameters
    ----------
    rows
        Cells that are shown as they are: make hostile text `visible` first.
    """
    from rich.padding import Padding
    from rich.text import Text

    if not rows:
        return
    widths = {
        place: natural_width((column.title, *(_plain(row[place]) for row in rows)))
        for place, column in enumerate(columns)
        if any(_plain(row[place]) not in _NOTHING for row in rows)
    }
    room = out.width - indent + GAP
    words = {
        place: min(_longest_word(row[place] for row in rows), _WORD_MOST)
        for place in widths
        if columns[place].wraps
    }
    for place in sorted(widths, key=lambda place: -columns[place].drop):
        if columns[place].drop == 0 or _least(columns, widths, words) <= room:
            break
        del widths[place]
    # Narrow columns are better than broken words, and those better than what is cut.
    for kept_words in (words, {}):
        for least in (_WRAPPED_LEAST, _CELL_LEAST):
            _narrow(columns, widths, room, kept_words, least)
    titles = [columns[place].title for place in widths]
    made = fixed_table(zip(titles, widths.values(), strict=True), show_header=any(titles))
    for column, place in zip(made.columns, widths, strict=True):
        column.justify = "right" if columns[place].right else "left"
        column.no_wrap = not columns[place].wraps
        column.overflow = "fold" if columns[place].wraps else "ellipsis"
    for row in rows:
        made.add_row(*(_bound(row[place]) for place in widths))
    for line in out.render_lines(Padding(made, (0, 0, 0, indent), expand=False), pad=False):
        parts = ((part.text.replace(_BOUND, " "), part.style or "") for part in line)
        text = Text.assemble(*parts)
        text.rstrip()
        out.print(text, soft_wrap=True)


def _bound(cell: Cell) -> Cell:
    """Return a cell whose figures are not parted from their units."""
    if isinstance(cell, str):
        return _FIGURE.sub(_BOUND, cell)
    copy = cell.copy()
    copy.plain = _FIGURE.sub(_BOUND, copy.plain)
    return copy


def _longest_word(cells: Iterable[Cell]) -> int:
    return max((natural_width(_plain(cell).split() or [""]) for cell in cells), default=0)


def _least(columns: Sequence[Column], widths: dict[int, int], words: Mapping[int, int]) -> int:
    return taken_width(
        min(width, max(columns[place].least, words[place])) if columns[place].wraps else width
        for place, width in widths.items()
    )


def _narrow(
    columns: Sequence[Column],
    widths: dict[int, int],
    room: int,
    words: Mapping[int, int],
    least: int,
) -> None:
    """Narrow the columns that wrap, the widest first, to fit the room.

    None is narrower than ``least``, or than its longest word where ``words`` has it.
    """
    while (excess := taken_width(widths.values()) - room) > 0:
        least_of = {p: max(min(columns[p].least, least), words.get(p, 0)) for p in widths}
        wide = [p for p in widths if columns[p].wraps and widths[p] > least_of[p]]
        if not wide:
            return
        widest, *others = sorted(wide, key=lambda place: -widths[place])
        next_width = max([least_of[widest], *(widths[place] for place in others)])
        step = min(excess, max(widths[widest] - next_width, 1))
        widths[widest] -= step


def _plain(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.plain
