"""``trimtab purge recover``: what interrupted runs put aside, listed and put back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms
from trimtab.cli.render.purge_tables import owner
from trimtab.cli.render.text import console, print_sentences, print_table, table
from trimtab.purge.plan.names import escape
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
    "origin_unknown": "where it was is not known: look whose it is",
    "in_use": "a run is using the quarantine",
    "failed": "could not be put back",
}


@click.command("recover")
@click.argument("root", metavar="ROOT", type=terms.PATH)
@click.option("--restore", is_flag=True, help="Put the files back. Default: list them.")
@click.option(
    "--into", type=terms.PATH, metavar="DIR",
    help="A directory beneath ROOT for files whose own directory is gone.",
)  # fmt: skip
@terms.place
@options.as_json
def command(root: Path, restore: bool, into: Path | None, place: str | None) -> None:
    """List files that interrupted runs put aside beneath ROOT; put them back with --restore.

    Nothing is deleted and no file is replaced. A run of another plan does not begin while such
    files are there. Files of an interrupted batch are also put back by `run` of its own plan.
    """
    from trimtab.loop.purging.place import purge_place
    from trimtab.loop.purging.recovering import recover
    from trimtab.report import documents

    recovered = recover(root.absolute(), place=purge_place(place), restore=restore, into=into)
    show(
        lambda: documents.purged.PurgeRecoverDocument(
            root=visible(recovered.root),
            restored=restore,
            files=recovered.files,
            interrupted=recovered.interrupted,
        ),
        lambda: print_recovered(recovered),
    )


def print_recovered(recovered: Recovered) -> None:
    """Print what lies aside."""
    out = console()
    count = plural(len(recovered.files), "file", ",")
    out.print(f"{count} put aside beneath {visible(recovered.root)}", style="bold")
    if recovered.files:
        made = table("was at", "owner", "size", "now", "lies in")
        for file in recovered.files:
            origin = "-" if file.origin is None else escape(file.origin)
            now = _FATES.get(file.fate, file.fate)
            size = format_bytes(file.size_bytes)
            made.add_row(origin, owner(file.uid), size, now, escape(file.place))
        print_table(out, made)
    print_sentences(out, list(_next(recovered)), "yellow")


def _next(recovered: Recovered) -> Iterator[str]:
    for plan in recovered.interrupted:
        yield f"a run of plan {visible(plan)} was interrupted: `trimtab purge run` of it ends that"
    if any(file.fate == "waits" for file in recovered.files):
        yield "--restore puts back what can be"
