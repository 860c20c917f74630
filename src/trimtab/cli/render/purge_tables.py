"""What the pages of a purge share: tables, sentences, owners by name."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from trimtab.purge.horizon.usage import Usage
from trimtab.purge.index.owners import user_name
from trimtab.units import format_percent
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def table(*names: str) -> Table:
    """Return an empty table; a name that ends in ``>`` is a column of numbers."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        justify = "right" if name.endswith(">") else "left"
        made.add_column(name.rstrip(">"), justify=justify, overflow="fold")
    return made


def print_table(out: Console, made: Table) -> None:
    """Print a table, set in by two."""
    from rich.padding import Padding

    out.print(Padding(made, (0, 0, 0, 2), expand=False))


def print_facts(out: Console, facts: Iterable[tuple[str, str]]) -> None:
    """Print names with what they are, one a line."""
    from rich.text import Text

    facts = list(facts)
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        out.print(Text(f"  {name:<{width}}  {value}"), soft_wrap=True)


def print_sentences(out: Console, sentences: Iterable[str], style: str = "") -> None:
    """Print sentences, set in by two and wrapped to the page."""
    from rich.text import Text

    for sentence in dict.fromkeys(sentences):
        for line in textwrap.wrap(_ended(sentence), max(20, out.width - 4)):
            out.print(Text(f"  {line}", style=style), soft_wrap=True)


def owner(uid: int) -> str:
    """Return a user's name, or the number where nobody has it."""
    name = user_name(uid)
    return str(uid) if name is None else visible(name)


def fullness(usage: Usage | None) -> str:
    """Return how full it is; ``-`` where that cannot be told."""
    return "-" if usage is None else format_percent(usage.fullness, 2)


def _ended(sentence: str) -> str:
    text = visible(sentence)
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!", ":")) else f"{text}."
