"""``trimtab purge recover``: list files put aside by interrupted runs, and put them back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page
from trimtab.purge.plan.names import escape
from trimtab.report.kit import ROWS, row, table
from trimtab.report.purge import owner_text
from trimtab.report.sections import Document, Section
from trimtab.units import format_bytes, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trimtab.loop.purging.recovering import Recovered

_FATES = {
    "waits": "can be put back",
    "restored": "is back",
    "name_taken": "its name is taken: move the other file, or this one by hand",
    "directory_gone": "its directory is gone: name another with --into",
    "origin_unknown": "its original place is unknown: check the owner",
    "in_use": "a run is using the quarantine",
    "failed": "could not be put back",
}

_QUIET_FATES = ("waits", "restored")


@click.command("recover")
@click.argument("root", metavar="ROOT", type=terms.PATH)
@click.option("--restore", is_flag=True, help="Put the files back. Default: list them.")
@click.option(
    "--into", type=terms.PATH, metavar="DIR",
    help="A directory beneath ROOT for files whose own directory is gone.",
)  # fmt: skip
@terms.place
@options.output
def purge_recover_command(root: Path, restore: bool, into: Path | None, place: str | None) -> None:
    """List files that interrupted runs put aside beneath ROOT; put them back with --restore.

    Deletes nothing and replaces no file. A run of another plan does not start while such files
    exist, or while a batch is unfinished. `run` of its own plan puts the files of an interrupted
    batch back and reports the outcome of each row; --restore does so without the plan.
    """
    from trimtab.loop import documents
    from trimtab.loop.purging.place import purge_place
    from trimtab.loop.purging.recovering import recover

    recovered = recover(root.absolute(), place=purge_place(place), restore=restore, into=into)
    show_page(
        lambda: documents.purged.PurgeRecoverDocument(
            root=visible(recovered.root),
            restored=restore,
            files=recovered.files,
            interrupted=recovered.interrupted,
        ),
        lambda: recovered_document(recovered),
    )


def recovered_document(recovered: Recovered) -> Document:
    """Return the files put aside, and how to put them back."""
    # Files that cannot be put back at once need a person, and come first.
    rows = (
        row(
            "-" if file.origin is None else escape(file.origin),
            owner_text(file.uid),
            format_bytes(file.size_bytes),
            _FATES.get(file.fate, file.fate),
            escape(file.place),
        )
        for file in sorted(recovered.files, key=lambda file: file.fate in _QUIET_FATES)
    )
    columns = ("was at", "owner", "size>", "now", "put aside at??")
    return Document(
        _answer(recovered),
        (Section(tables=(table(columns, rows, first=ROWS),)),),
        more=tuple(_next(recovered)),
    )


def _answer(recovered: Recovered) -> str:
    root = visible(recovered.root)
    if not recovered.files:
        return f"Nothing is put aside beneath {root}."
    fates = Counter(_FATES.get(file.fate, file.fate).partition(":")[0] for file in recovered.files)
    each = ", ".join(f"{count:,} {fate}" for fate, count in fates.most_common())
    count = plural(len(recovered.files), "file", ",")
    return f"{count} put aside beneath {root}: {each}."


def _next(recovered: Recovered) -> Iterator[str]:
    for plan in recovered.interrupted:
        yield (
            f"A run of plan {visible(plan)} was interrupted: trimtab purge run PLAN --apply "
            "accounts for its batch. If the plan is lost, --restore ends the batch, and counts all "
            "of it against the caps."
        )
    if any(file.fate == "waits" for file in recovered.files):
        yield "--restore puts back the others."
