"""``trimtab purge query``: usage by owner, or SQL over an index."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page
from trimtab.errors import UsageError

_ROWS_MOST: Final = 10_000
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
    from trimtab.cli.render.purge_index import answer_document
    from trimtab.purge.index.query import query_document

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
        from trimtab.loop.purging.by_shards import holdings
        from trimtab.purge.index.questions import By

        assert by is not None
        answer = holdings(directory, By(by), top=most, dask=dask)
    show_page(lambda: query_document(answer), lambda: answer_document(answer))
