"""The table of what is printed and what the twin says, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trimtab.cli.render.text import console, table
from trimtab.report.reproduce import error_text, kind_text, printed_text, sections, twin_text
from trimtab.whatif.reproduce.reproduce import Reproduction, Summary

if TYPE_CHECKING:
    from rich.table import Table

    from trimtab.validation.statements import SeededRow


def print_reproduction(found: Reproduction, report: str | None = None) -> None:
    """Print a table a document, what contradicts itself, and how many rows are met."""
    out = console()
    for title, rows in sections(found):
        out.print(title, style="bold")
        out.print(_table(rows))
    for one in found.tensions:
        out.print()
        out.print(f"{one.title} ({one.document}): {one.verdict}", style="bold")
        out.print(one.text)
    out.print()
    out.print(summary_text(found.summary), soft_wrap=True)
    if report is not None:
        click.echo(f"report    {report}")


def summary_text(summary: Summary) -> str:
    """Return the line at the end."""
    return (
        f"{summary.rows} rows: {summary.within} within 10 %, {summary.missed} missed, "
        f"{summary.silent} of which the twin says nothing; {summary.fitted} are fitted, "
        f"{summary.data} are data, {summary.not_printed} have no printed number"
    )


def _table(rows: list[SeededRow]) -> Table:
    names = ("row", "quantity", "printed>", "twin>", "error>!", "kind")
    made = table(*names, padding=(0, 2, 0, 0), header_style="bold")
    for column in made.columns[2:4]:
        column.max_width = 32
    for one in rows:
        style = "red" if one.row.missed else None
        made.add_row(
            one.row.id,
            one.row.quantity,
            printed_text(one),
            twin_text(one),
            error_text(one),
            kind_text(one),
            style=style,
        )
    return made
