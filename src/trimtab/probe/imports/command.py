"""``trimtab import``: results of other tools."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import click

from trimtab.base.visible import shell_text
from trimtab.show import command_options
from trimtab.show.screen_document import print_document, print_section

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMED: Final = 3
"""Files in a command that is printed again."""


@click.command("import", cls=command_options.GroupedCommand)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@command_options.store
@click.option("--kind", metavar="KIND", help="The format. Default: detected per file.")
@click.option("--site", metavar="SITE", help="Site to store them under. Default: imported.")
@click.option("--probe", metavar="NAME", help="Probe to store them under. Default: imported.")
@click.option(
    "--layer",
    type=click.Choice(["drive", "raid", "ost", "network", "client", "application"]),
    help="Layer at which it was measured, if the file does not show it.",
)
@click.option("--at", metavar="TIME", help="Time of the measurement, for files without one.")
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Zone of times printed without one: Europe/Zurich. Default: the site's.",
)
@click.option("--dry-run", is_flag=True, help="Read and show everything, keep nothing.")
@command_options.output
def import_command(
    files: tuple[str, ...],
    store_url: str | None,
    kind: str | None,
    dry_run: bool,
    **terms_given: str | None,
) -> None:
    """Import result files as benchmarks printed them.

    Directories are searched. Each file is recognised by its content; one of unknown format is
    listed as unreadable. Results imported before are not stored twice.
    """
    from trimtab.probe.imports.importer import check_kind, import_files, terms_of
    from trimtab.probe.imports.page import (
        Tally,
        file_section,
        imported_document,
        is_unknown,
        refuse_nothing,
    )
    from trimtab.show.screen_document import console, progress_bar
    from trimtab.site.lookup import open_store

    check_kind(kind)
    terms, site = terms_of(**terms_given)  # type: ignore[arg-type]
    opened = nullcontext() if dry_run else open_store(store_url, site, create=True)
    tallied, again = Tally(), _again(files, kind, store_url, terms_given)
    remains = "what was stored is kept: the same command skips it and continues"
    with opened as store, progress_bar(remains=remains) as progress:
        imported = tallied.of(import_files(files, terms, store, kind=kind, progress=progress))
        where = None if store is None else str(store.location)
        if command_options.wants_json():
            from trimtab.probe.imports.import_result import import_json

            for piece in import_json(imported, store=where, site=terms.site):
                click.echo(piece, nl=False)
        else:
            out, everything = console(), command_options.extent().everything
            for file in imported:
                if everything and not is_unknown(file):
                    print_section(out, file_section(file, sys.maxsize))
            print_document(imported_document(tallied, where, again, apart=everything))
    refuse_nothing(tallied, again[0])


def _again(
    files: Sequence[str], kind: str | None, store_url: str | None, terms_given: Mapping[str, Any]
) -> tuple[str, str]:
    """Return the command as typed, and its store option, for use in another command."""
    values = {"kind": kind, "store": store_url, **terms_given}
    options_given = [(f"--{name}", value) for name, value in values.items() if value is not None]
    words = [word for option in options_given for word in option]
    named = shell_text(files) if len(files) <= _NAMED else "FILE..."
    command = " ".join(filter(None, ("trimtab", "import", named, shell_text(words))))
    return command, "" if store_url is None else f" --store {shell_text([store_url])}"
