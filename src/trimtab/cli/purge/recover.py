"""``trimtab purge recover``: list files put aside by interrupted runs, and put them back."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page


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
    from trimtab.cli.render.purge_run import recovered_document
    from trimtab.loop.purging.place import purge_place
    from trimtab.loop.purging.recovering import recover

    recovered = recover(root.absolute(), place=purge_place(place), restore=restore, into=into)
    show_page(lambda: recovered, lambda: recovered_document(recovered))
