"""``trimtab purge query``: usage by owner, or SQL over an index."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page
from trimtab.errors import UsageError
from trimtab.report.kit import row, table
from trimtab.report.sections import Document, Section
from trimtab.report.text import sentences
from trimtab.units import format_bytes, format_percent, plural

if TYPE_CHECKING:
    from trimtab.purge.index.query import Answer


_ROWS_MOST: Final = 10_000
_ROWS: Final = 30
"""Rows of an answer that are printed unless ``--all`` or ``--top`` is given."""
_BY = ("user", "group", "project", "age", "size", "ost", "pool")


@click.command("query")
@click.argument("statement", metavar='["SQL"]', required=False)
@terms.index
@click.option("--by", type=click.Choice(_BY), help="Report usage by this key, instead of SQL.")
@options.dask
@options.output
def purge_query_command(
    statement: str | None, directory: Path, by: str | None, dask: str | None
) -> None:
    """Query an index: one SELECT over its tables `names` and `files`, or --by.

    `names` has one row per name, `files` one per regular file, however many names it has. Columns:
    path, directory, user, group, size_bytes, allocated_bytes, age_days, last_use and those of the
    index. Names are shown as visible text.
    """
    from trimtab.loop import documents

    if (statement is None) == (by is None):
        raise UsageError(
            "give one SELECT, or --by",
            code="query-missing",
            hint='trimtab purge query --index DIR "SELECT user, count(*) FROM files GROUP BY user"',
        )
    most = min(options.extent().top or _ROWS_MOST, _ROWS_MOST)
    if statement is not None and dask is not None:
        raise UsageError(
            "--dask goes with --by: an arbitrary SELECT cannot be divided",
            code="options-exclusive",
            hint="leave --dask or the SELECT out",
        )
    if statement is not None:
        from trimtab.purge.index.query import ask

        answer = ask(directory, statement, rows_maximum=most)
    else:
        from trimtab.loop.purging.by_shards import holdings_by
        from trimtab.purge.index.questions import By

        assert by is not None
        answer = holdings_by(directory, By(by), top=most, dask=dask)
    show_page(lambda: documents.purged.query_document(answer), lambda: answer_document(answer))


def answer_document(answer: Answer) -> Document:
    """Return an answer; bytes and shares of known columns in readable units."""
    frame = answer.frame
    columns = [
        # A name may itself end in one of the marks of `Table.columns`.
        f"{name}{' ' * name.endswith(('>', '?'))}{'>' * kind.is_numeric()}"
        for name, kind in frame.schema.items()
    ]
    rows = (
        row(*(_shown(name, value) for name, value in named.items()))
        for named in frame.iter_rows(named=True)
    )
    return Document(
        _answer_text(answer),
        (
            Section(tables=(table(columns, rows, first=_ROWS),)),
            Section(lines=sentences(answer.notes), tone="warning"),
        ),
    )


def _answer_text(answer: Answer) -> str:
    frame = answer.frame
    if not frame.height:
        return "No row matches."
    count = plural(frame.height, "row", ",")
    if answer.cut_off:
        count = f"the first {count}, there are more"
    if "share" not in frame.columns:
        return f"{count[:1].upper()}{count[1:]}."
    largest = max(frame.iter_rows(named=True), key=lambda row: row["share"] or 0.0)
    name, value = next(iter(largest.items()))
    held = format_bytes(largest.get("allocated_bytes") or 0)
    share = format_percent(largest["share"] or 0.0)
    return f"{name} {_shown(name, value)} holds {held}, {share} of all; {count}."


def _shown(name: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and name.endswith("_bytes"):
        return format_bytes(value)
    if isinstance(value, float):
        return format_percent(value) if name == "share" else f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}" if name not in ("uid", "gid", "project") else str(value)
    if isinstance(value, (datetime, date)):
        return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, list):
        return ", ".join(str(cell) for cell in value)
    return str(value)
