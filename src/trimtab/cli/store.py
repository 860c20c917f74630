"""``trimtab store``: the store itself, copied from one kind of database to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.units import plural

if TYPE_CHECKING:
    from trimtab.report.documents.kept import StoreCopyDocument


@click.group("store")
def command() -> None:
    """Copy the store: trimtab store copy SOURCE TARGET."""


@command.command("copy")
@click.argument("source")
@click.argument("target")
@options.as_json
def copy(source: str, target: str) -> None:
    """Copy a store into an empty one: from SQLite to PostgreSQL, or back.

    SOURCE and TARGET are files or URLs (postgresql://user@host/name). Stop the watch first. The
    copy is whole or empty; SOURCE stays as it is.
    """
    from trimtab.cli.render.progress import QUIET_S, progress_bar
    from trimtab.loop.stores import copy_store
    from trimtab.report import documents

    with progress_bar(quiet_s=QUIET_S) as progress:
        places, copied = copy_store(source, target, progress=progress)
    document = documents.kept.StoreCopyDocument(
        *places, copied.rows, copied.outputs, copied.missing
    )
    show(lambda: document, lambda: _print(document))


def _print(document: StoreCopyDocument) -> None:
    rows = document.rows
    print(
        f"Copied {plural(rows['run'], 'run')} with {plural(rows['sample'], 'sample')} and "
        f"{plural(rows['snapshot'], 'snapshot')} to {document.target}."
    )
    if document.outputs:
        print(f"{plural(document.outputs, 'raw output')} copied beside it.")
    if document.missing:
        print(f"{plural(len(document.missing), 'raw output')} missing in {document.source}.")
