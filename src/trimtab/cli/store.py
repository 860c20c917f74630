"""``trimtab store``: the store itself, checked, or copied to another database."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import print_screen, print_wrapped
from trimtab.errors import UnreadableError
from trimtab.units import plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.report.documents.kept import StoreCheckDocument, StoreCopyDocument


@click.group("store")
def command() -> None:
    """Check the store, or copy it: trimtab store check, trimtab store copy SOURCE TARGET."""


@command.command("check")
@options.store
@click.option("--contents", is_flag=True, help="Also compare every raw output with its hash.")
@options.as_json
def check(store_url: str | None, contents: bool) -> None:
    """List what is damaged in the store, and what is whole (read-only).

    The exit code is 5 if something is damaged.
    """
    from trimtab.loop.stores import check_store
    from trimtab.report import documents

    place, result = check_store(store_url, contents=contents)
    tables = tuple(
        documents.kept.StoreTable(name, each.rows, (*each.damaged.values(),))
        for name, each in result.tables.items()
    )
    document = documents.kept.StoreCheckDocument(
        place, result.is_whole, result.problems, tables, result.runs, result.by_server
    )
    show(lambda: document, lambda: print_check(document), error=_damaged(document))


def _damaged(document: StoreCheckDocument) -> UnreadableError | None:
    if document.whole:
        return None
    rows = sum(len(table.damaged) for table in document.tables)
    return UnreadableError(
        f"the store {document.store} is damaged: {plural(rows, 'row')} and "
        f"{plural(len(document.problems), 'other problem')}",
        code="store-damaged",
        hint="restore a backup; or trimtab store copy STORE NEW, which leaves damaged rows out, "
        "then import the raw outputs that are whole; `sqlite3 FILE .recover` where pages of the "
        "file are lost",
    )


@command.command("copy")
@click.argument("source")
@click.argument("target")
@options.as_json
def copy(source: str, target: str) -> None:
    """Copy a store into an empty one: from SQLite to PostgreSQL, or back.

    SOURCE and TARGET are files or URLs (postgresql://user@host/name). Stop the watch first. The
    copy is whole or empty; SOURCE stays as it is. Damaged rows are left out, and named.
    """
    from trimtab.cli.render.progress import QUIET_S, progress_bar
    from trimtab.loop.stores import copy_store
    from trimtab.report import documents

    with progress_bar(quiet_s=QUIET_S) as progress:
        places, copied = copy_store(source, target, progress=progress)
    document = documents.kept.StoreCopyDocument(
        *places, copied.rows, copied.outputs, copied.missing, dict(copied.damaged)
    )
    show(lambda: document, lambda: print_copied(document))


def print_check(document: StoreCheckDocument) -> None:
    """Print what is whole, what is damaged, and which series that affects."""
    rows = sum(table.rows for table in document.tables)
    answer = f"{plural(rows, 'row', ',')} checked, none damaged."
    if not document.whole:
        damaged = sum(len(table.damaged) for table in document.tables)
        answer = f"{plural(damaged, 'row', ',')} of {rows:,} damaged."
    print_screen(answer, partial(_print_damage, document))


def _print_damage(document: StoreCheckDocument, out: Console) -> None:
    for problem in document.problems:
        print_wrapped(out, visible(problem), "red")
    for table in document.tables:
        if table.damaged:
            print_wrapped(out, f"{table.table}: {', '.join(table.damaged)}", "red")
    series = Counter(f"{run.probe} ({run.kind})" for run in document.runs)
    for name, count in series.items():
        print_wrapped(out, f"Series affected: {visible(name)}, {plural(count, 'run')} lost")
    whole = [run.id for run in document.runs if run.raw_is_whole]
    if whole:
        text = "Raw outputs are whole, and can be imported again, of "
        print_wrapped(out, visible(text + ", ".join(whole)))
    if document.by_server:
        text = "Pages are PostgreSQL's to check: SHOW data_checksums; pg_amcheck."
        print_wrapped(out, text)


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
    for table, names in document.damaged.items():
        text = f"Damaged and left out: {plural(len(names), table, ',')} ({', '.join(names)})"
        print_wrapped(out, text, "yellow")
