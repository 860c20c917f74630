"""The table of what is printed and what the twin says, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trimtab.cli.render.text import console
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
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("row", "quantity"):
        table.add_column(title, overflow="fold")
    for title in ("printed", "twin"):
        table.add_column(title, justify="right", overflow="fold", max_width=32)
    table.add_column("error", justify="right", no_wrap=True)
    table.add_column("kind")
    for one in rows:
        style = "red" if one.row.missed else None
        table.add_row(
            one.row.id,
            one.row.quantity,
            printed_text(one),
            twin_text(one),
            error_text(one),
            kind_text(one),
            style=style,
        )
    return table
