"""What every screen is made of: the console, tables, names with values, sentences, figures."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from trimtab.visible import shell_text, site_word, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


WIDTH_WITHOUT_TERMINAL: Final = 120
"""Unless ``COLUMNS`` is exported."""
WIDTH_LEAST: Final = 40
GAP: Final = 2
"""Between two columns of a table."""


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


def moment(at: datetime | None) -> str:
    """Return a time in this host's zone, with its offset; ``-`` where it is not known."""
    return "-" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M %z")


def local_times(times: Sequence[datetime | None]) -> list[str]:
    """Return times in this host's zone to the minute; offsets only where they differ."""
    local = [None if at is None else at.astimezone() for at in times]
    offsets = {at.utcoffset() for at in local if at is not None}
    form = "%Y-%m-%d %H:%M" if len(offsets) < 2 else "%Y-%m-%d %H:%M %z"
    return ["-" if at is None else at.strftime(form) for at in local]


def site_argument(name: str) -> str:
    """Return a site as the next command takes it: as this command was given it, else by name."""
    context = click.get_current_context(silent=True)
    where = None if context is None else context.params.get("where")
    return shell_text([str(where)]) if where else site_word(name)


def utc_moment(at: datetime) -> str:
    """Return a time in UTC with its offset, for a page whose sentences name times in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M %z")


def table(*names: str, **options: Any) -> Table:
    """Return an empty table without lines.

    Parameters
    ----------
    names
        Of the columns. One that ends in ``>`` holds numbers, one that ends in ``!`` is never
        folded; ``>!`` is both.
    options
        Of `rich.table.Table`, in place of its own.
    """
    from rich.table import Table

    usual: dict[str, Any] = {"box": None, "pad_edge": False, "header_style": "dim"}
    made = Table(**(usual | options))
    for name in names:
        title = name.removesuffix("!").removesuffix(">")
        made.add_column(
            title,
            justify="right" if ">" in name[len(title) :] else "left",
            no_wrap=name.endswith("!"),
            overflow="ellipsis" if name.endswith("!") else "fold",
        )
    return made


def fixed_table(columns: Iterable[tuple[str, int]], **options: Any) -> Table:
    """Return an empty table with columns of these widths."""
    columns = list(columns)
    made = table(*(name for name, _ in columns), padding=(0, GAP, 0, 0), **options)
    for column, (_, width) in zip(made.columns, columns, strict=True):
        column.width = width
    return made


def print_table(out: Console, made: Table) -> None:
    """Print a table, indented by two."""
    from rich.padding import Padding

    out.print(Padding(made, (0, 0, 0, 2), expand=False))


def natural_width(cells: Iterable[str]) -> int:
    """Return the width of the longest line in cells: letters of Asia are two wide."""
    from rich.cells import cell_len

    return max(cell_len(line) for cell in cells for line in cell.split("\n"))


def taken_width(widths: Iterable[int]) -> int:
    """Return the width that columns take, each with the gap after it."""
    return sum(width + GAP for width in widths)


def print_facts(out: Console, facts: Iterable[tuple[str, str]], width: int = 0) -> None:
    """Print names with their values, one a line; names are padded to ``width`` at least."""
    from rich.text import Text

    pairs = list(facts)
    width = max([width, *(len(name) for name, _ in pairs)])
    for name, value in pairs:
        out.print(Text(f"  {name:<{width}}  {visible(value)}"), soft_wrap=True)


def print_sentences(out: Console, sentences: Iterable[str], style: str = "") -> None:
    """Print sentences, each once, indented by two and wrapped to the page."""
    from rich.text import Text

    for sentence in dict.fromkeys(sentences):
        for line in textwrap.wrap(_ended(sentence), max(20, out.width - 4)):
            out.print(Text(f"  {line}", style=style), soft_wrap=True)


_VERDICTS = {"met": "green", "missed": "bold red", "cannot_tell": "yellow"}


def _ended(sentence: str) -> str:
    text = visible(sentence)
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!", ":")) else f"{text}."
