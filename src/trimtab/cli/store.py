"""``trimtab store``: the store itself, copied from one kind of database to another."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import print_screen, print_wrapped
from trimtab.units import plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

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
    show(lambda: document, lambda: print_copied(document))


def print_copied(document: StoreCopyDocument) -> None:
    """Print what was copied, what is missing, and how the copy is used."""
    rows = document.rows
    print_screen(
        f"Copied {plural(rows['run'], 'run', ',')} with {plural(rows['sample'], 'sample', ',')} "
        f"and {plural(rows['snapshot'], 'snapshot', ',')} to {visible(document.target)}.",
        partial(_print_outputs, document),
        more=["It is used where [store] url of the site file, or --store, names it."],
    )


def _print_outputs(document: StoreCopyDocument, out: Console) -> None:
    if document.outputs:
        out.print(f"{plural(document.outputs, 'raw output', ',')} copied beside it.")
    if document.missing:
        missing = plural(len(document.missing), "raw output", ",")
        print_wrapped(out, f"{missing} missing in {visible(document.source)}.", "yellow")
