"""``trimtab purge query``: who holds what."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms
from trimtab.errors import UsageError

_BY = ("user", "group", "project", "age", "size", "ost", "pool")


@click.command("query")
@click.argument("statement", metavar='["SQL"]', required=False)
@terms.index
@click.option("--by", type=click.Choice(_BY), help="In place of SQL: who or what holds how much.")
@click.option(
    "--top", type=click.IntRange(1, 10_000), metavar="N", help="So many rows. Default: 10,000."
)
@options.as_json
def command(statement: str | None, directory: Path, by: str | None, top: int | None) -> None:
    """Ask an index who holds what: one SELECT over its tables `names` and `files`, or --by.

    `names` has a row for each name, `files` one for each regular file however many names it has.
    Columns: path, directory, user, group, size_bytes, allocated_bytes, age_days, last_use and
    those of the index. Names are shown as visible text.
    """
    from trimtab.cli.render.purge_query import print_answer
    from trimtab.report import documents

    if (statement is None) == (by is None):
        raise UsageError(
            "the question is one SELECT, or --by",
            hint='trimtab purge query --index DIR "SELECT user, count(*) FROM files GROUP BY user"',
        )
    most = 10_000 if top is None else top
    if statement is not None:
        from trimtab.purge.index.query import ask

        found = ask(directory, statement, rows_maximum=most)
    else:
        from trimtab.purge.index.questions import By, holdings

        assert by is not None
        found = holdings(directory, By(by), top=most)
    show(lambda: documents.purged.query_document(found), lambda: print_answer(found))
