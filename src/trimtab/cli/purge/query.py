"""``trimtab purge query``: who holds what."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms
from trimtab.cli.render.text import console, print_sentences, print_table, table
from trimtab.errors import UsageError
from trimtab.units import format_bytes, format_percent
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.purge.index.query import Answer


_BY = ("user", "group", "project", "age", "size", "ost", "pool")


@click.command("query")
@click.argument("statement", metavar='["SQL"]', required=False)
@terms.index
@click.option("--by", type=click.Choice(_BY), help="Report usage by this key, in place of SQL.")
@click.option(
    "--top", type=click.IntRange(1, 10_000), metavar="N", help="So many rows. Default: 10,000."
)
@options.dask
@options.as_json
def command(
    statement: str | None, directory: Path, by: str | None, top: int | None, dask: str | None
) -> None:
    """Query an index: one SELECT over its tables `names` and `files`, or --by.

    `names` has a row for each name, `files` one for each regular file however many names it has.
    Columns: path, directory, user, group, size_bytes, allocated_bytes, age_days, last_use and
    those of the index. Names are shown as visible text.
    """
    from trimtab.report import documents

    if (statement is None) == (by is None):
        raise UsageError(
            "the question is one SELECT, or --by",
            code="query-missing",
            hint='trimtab purge query --index DIR "SELECT user, count(*) FROM files GROUP BY user"',
        )
    most = 10_000 if top is None else top
    if statement is not None and dask is not None:
        raise UsageError(
            "--dask goes with --by: a SELECT of any kind cannot be divided",
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
    show(lambda: documents.purged.query_document(answer), lambda: print_answer(answer))


def print_answer(answer: Answer) -> None:
    """Print an answer; bytes and shares of known columns in people's units."""
    out = console()
    frame = answer.frame
    numbers = {name for name, kind in frame.schema.items() if kind.is_numeric()}
    made = table(
        *(f"{visible(name)}>" if name in numbers else visible(name) for name in frame.columns)
    )
    for row in frame.iter_rows(named=True):
        made.add_row(*(_shown(name, value) for name, value in row.items()))
    print_table(out, made)
    if not frame.height:
        print_sentences(out, ["nothing fits"], "dim")
    if answer.cut_off:
        print_sentences(out, [f"only the first {frame.height:,} rows are shown"], "yellow")
    print_sentences(out, answer.notes, "yellow")


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
    return visible(str(value))
