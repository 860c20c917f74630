"""``trimtab purge import``: convert another tool's list into an index."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.purge import terms

_FORMATS = ("gnu-find", "lfs-find", "mfu", "csv", "parquet")


@click.command("import", cls=options.GroupedCommand)
@click.argument("file", metavar="FILE", type=terms.PATH)
@terms.index
@click.option("--root", required=True, metavar="DIR", help="Directory that was listed, absolute.")
@click.option(
    "--format",
    "source",
    type=click.Choice(_FORMATS),
    required=True,
    help="Tool that made the list.",
)
@click.option(
    "--printf",
    metavar="TEXT",
    help="Format given to -printf, if not the usual one.",
)
@click.option(
    "--map",
    "column_map",
    metavar="COLUMN=NAME",
    multiple=True,
    help="Columns of a table: uid=owner_id,atime_ns=atime:s. Repeatable, or separated by commas.",
)
@click.option("--delimiter", default=",", show_default=True, help="Delimiter of a CSV file.")
@click.option(
    "--users", type=terms.PATH, metavar="FILE",
    help="Output of `getent passwd`, for user names. Default: this host's accounts.",
)  # fmt: skip
@click.option(
    "--groups",
    type=terms.PATH,
    metavar="FILE",
    help="Output of `getent group`, for group names.",
)
@click.option("--beneath", metavar="PATH", help="Prefix of relative paths in the list.")
@click.option("--started", metavar="TIME", help="When the tool was started: 2026-11-20T02:00Z.")
@click.option("--ended", metavar="TIME", help="When the tool ended.")
@click.option(
    "--complete",
    is_flag=True,
    help="Confirm that the tool ended without an error: the list is complete.",
)
@click.option(
    "--mounted",
    is_flag=True,
    help="Confirm that the list describes the current mount of the root; required for a plan.",
)
@options.as_json
def purge_import_command(
    file: Path, directory: Path, root: str, source: str, **options_given: Any
) -> None:
    """Convert an index or list of another tool, or a table, into an index.

    Tools: find, lfs find, mpiFileUtils. Others export a table: Spectrum Scale, Robinhood, GUFI.

    Records which columns the list lacks. A plan also needs what a list cannot state itself: when
    it was made, that it is complete, and its file system.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.purge_index import show_index
    from trimtab.cli.render.purge_progress import import_progress
    from trimtab.loop.purging.importing import import_index
    from trimtab.purge.index.importing import ListDescription
    from trimtab.purge.index.manifest import Source

    described = ListDescription(
        Source(source),
        os.fsencode(root),
        complete=options_given.pop("complete"),
        beneath=os.fsencode(options_given.pop("beneath") or ""),
        format_text=options_given.pop("printf"),
        column_map=options_given.pop("column_map"),
        delimiter=options_given.pop("delimiter"),
    )
    with progress_bar(counts=True) as display:
        progress = import_progress(display)
        manifest = import_index(file, directory, described, progress=progress, **options_given)
    show_index(manifest, directory)
