"""``trimtab store``, ``trimtab runs`` and ``trimtab show``: the store, its runs, one run traced."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from trimtab.base.error import UnreadableError, visible
from trimtab.base.units import plural
from trimtab.show import command_options
from trimtab.show.screen_document import show_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trimtab.probe.up_to_date import StoreRebuildDocument
    from trimtab.show.document import Document
    from trimtab.store.maintenance import StoreCheck
    from trimtab.store.page import StoreCopyDocument


@click.group("store")
def store_command() -> None:
    """Check the store, copy it, or rejudge its contents.

    trimtab store check, trimtab store copy SOURCE TARGET, trimtab store rebuild.
    """


@store_command.command("check")
@command_options.store
@click.option("--contents", is_flag=True, help="Also compare every raw output with its hash.")
@command_options.as_json
def check(store_url: str | None, contents: bool) -> None:
    """List what is damaged in the store, and what is intact (read-only).

    The exit code is 5 if something is damaged.
    """
    from trimtab.site.lookup import open_store
    from trimtab.store.page import StoreCheckDocument

    with open_store(store_url) as store:
        result, place = store.check(contents=contents), str(store.location)
    show_page(
        lambda: StoreCheckDocument(place, result),
        lambda: checked_document(result),
        error=_damaged(place, result),
    )


def _damaged(store: str, check: StoreCheck) -> UnreadableError | None:
    if check.whole:
        return None
    rows = sum(len(table.damaged) for table in check.tables)
    return UnreadableError(
        f"the store {store} is damaged: {plural(rows, 'row')} and "
        f"{plural(len(check.problems), 'other problem')}",
        code="store-damaged",
        hint="restore a backup; or trimtab store copy STORE NEW, which leaves damaged rows out, "
        "then import the raw outputs that are whole; `sqlite3 FILE .recover` where pages of the "
        "file are lost",
    )


@store_command.command("copy")
@click.argument("source")
@click.argument("target")
@command_options.as_json
def copy(source: str, target: str) -> None:
    """Copy a store into an empty one: from SQLite to PostgreSQL, or back.

    SOURCE and TARGET are files or URLs (postgresql://user@host/name). Stop the watch first. The
    copy is complete or empty; SOURCE stays as it is. Damaged rows are left out, and named.
    """
    from trimtab.show.screen_document import QUIET_S, progress_bar
    from trimtab.site.lookup import open_store
    from trimtab.store.page import StoreCopyDocument

    with (
        progress_bar(quiet_s=QUIET_S) as progress,
        open_store(source) as original,
        open_store(target, create=True) as new,
    ):
        copied = original.copy_to(new, now=datetime.now(UTC), progress=progress)
        document = StoreCopyDocument(str(original.location), str(new.location), copied)
    show_page(lambda: document, lambda: copied_document(document))


@store_command.command("rebuild")
@click.argument("where", metavar="[SITE]", required=False)
@command_options.store
@command_options.as_json
def rebuild(where: str | None, store_url: str | None) -> None:
    """Drop all stored verdicts and incidents, and judge from scratch, for one site or all.

    Runs, snapshots and the log book stay as they are.
    """
    from trimtab.probe.up_to_date import StoreRebuildDocument, rebuilt
    from trimtab.show.screen_document import progress_bar
    from trimtab.site.place import opened

    with opened(where, store_url) as record, progress_bar() as progress:
        places = None if where is None else (record.place,)
        sites = tuple(rebuilt(record.store, places, progress=progress))
        document = StoreRebuildDocument(record.location, sites)
    show_page(lambda: document, lambda: rebuilt_document(document))


def rebuilt_document(document: StoreRebuildDocument) -> Document:
    """Return the page of a rebuilt store."""
    from trimtab.show.document import Document, Section

    series = sum(site.series for site in document.sites)
    incidents = sum(site.incidents for site in document.sites)
    lines = (
        f"{visible(site.site)}: {plural(site.series, 'series', ',')}, "
        f"{plural(site.incidents, 'incident', ',')}"
        + ("" if site.reason is None else f"; {visible(site.reason)}")
        for site in document.sites
    )
    return Document(
        f"Judged {plural(series, 'series', ',')} of {plural(len(document.sites), 'site')} from "
        f"scratch: {plural(incidents, 'incident', ',')}.",
        (Section(lines=tuple(lines) if len(document.sites) > 1 else ()),),
    )


def checked_document(check: StoreCheck) -> Document:
    """Return what is intact, what is damaged, and which series that affects."""
    from trimtab.show.document import Document, Section

    rows = sum(table.rows for table in check.tables)
    answer = f"{plural(rows, 'row', ',')} checked, none damaged."
    if not check.whole:
        damaged = sum(len(table.damaged) for table in check.tables)
        answer = f"{plural(damaged, 'row', ',')} of {rows:,} damaged."
    tables = (
        f"{table.table}: {', '.join(table.damaged)}" for table in check.tables if table.damaged
    )
    return Document(
        answer,
        (
            Section(lines=(*check.problems, *tables), tone="critical"),
            Section(lines=tuple(_affected(check))),
        ),
    )


def _affected(check: StoreCheck) -> Iterator[str]:
    series = Counter(f"{run.probe} ({run.kind})" for run in check.runs)
    for name, count in series.items():
        yield f"Series affected: {name}, {plural(count, 'run')} lost"
    whole = [run.id for run in check.runs if run.raw_is_whole]
    if whole:
        yield f"Raw outputs are intact, and can be imported again, of {', '.join(whole)}"
    if check.by_server:
        yield "Pages are PostgreSQL's to check: SHOW data_checksums; pg_amcheck."


def copied_document(document: StoreCopyDocument) -> Document:
    """Return what was copied, what is missing, and how to use the copy."""
    from trimtab.show.document import Document, Section

    copy, rows = document.copied, document.copied.rows
    copied = f"{plural(copy.outputs, 'raw output', ',')} copied beside it."
    missing = plural(len(copy.missing), "raw output", ",")
    lost = (
        f"Damaged and left out: {plural(len(names), table, ',')} ({', '.join(names)})"
        for table, names in copy.damaged.items()
    )
    gaps = (f"{missing} missing in {document.source}.",) if copy.missing else ()
    return Document(
        f"Copied {plural(rows['run'], 'run', ',')} with {plural(rows['sample'], 'sample', ',')} "
        f"and {plural(rows['snapshot'], 'snapshot', ',')} to {document.target}.",
        (
            Section(lines=(copied,) if copy.outputs else ()),
            Section(lines=(*gaps, *lost), tone="warning"),
        ),
        more=("To use it, name it in [store] url of the site file, or with --store.",),
    )


@click.command("runs")
@command_options.as_json
@command_options.store
@click.option("--site", metavar="NAME", help="Only runs of this site or path.")
@click.option("--probe", metavar="NAME", help="Only runs of this probe.")
@click.option(
    "--top",
    type=command_options.COUNT,
    default=20,
    show_default=True,
    metavar="N",
    help="Print N rows.",
)
def runs_command(store_url: str | None, site: str | None, probe: str | None, top: int) -> None:
    """List stored runs, newest first."""
    from trimtab.site.lookup import site_of
    from trimtab.site.place import opened
    from trimtab.store.page import RunsDocument, runs_document

    with opened(site, store_url) as record:
        named = site if record.site is None else record.site.name
        name = None if named is None else site_of(record.store, named)
        runs = record.store.runs(site=name, probe=probe, limit=top)
    show_page(
        lambda: RunsDocument(record.location, tuple(runs)),
        lambda: runs_document(runs, requested=top),
    )


@click.command("show")
@click.argument("run")
@command_options.as_json
@command_options.store
@click.option(
    "--output",
    "ordinal",
    type=click.IntRange(min=0),
    help="Print only this raw output, as the tool printed it.",
)
def show_command(run: str, store_url: str | None, ordinal: int | None) -> None:
    """Trace every number of RUN to the command, its version and the raw output.

    RUN is a run's id or any unique beginning of it, as listed by `trimtab runs`.
    """
    from trimtab.site.lookup import open_store
    from trimtab.store.page import raw_output, run_document, show_run

    with open_store(store_url) as store:
        if ordinal is not None:
            sys.stdout.buffer.write(raw_output(store, run, ordinal))
            return
        shown = show_run(store, run)
    show_page(lambda: shown, lambda: run_document(shown))
