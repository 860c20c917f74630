"""``trimtab import``: results that others made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.errors import UnreadableError
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.model.imported import ImportedFile


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@options.as_json
@options.store
@click.option("--kind", metavar="KIND", help="The format. Default: each file is recognised.")
@click.option("--site", metavar="SITE", help="Under which they are kept. Default: imported.")
@click.option("--probe", metavar="NAME", help="The probe that they are runs of. Default: imported.")
@click.option(
    "--layer",
    type=click.Choice(["drive", "raid", "ost", "network", "client", "application"]),
    help="Where in the stack it was measured, if the file does not show it.",
)
@click.option("--at", metavar="TIME", help="When it was, for files that do not say.")
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Of times that are printed without one: Europe/Zurich. Default: the site's.",
)
@click.option("--dry-run", is_flag=True, help="Read and show everything, keep nothing.")
def command(
    files: tuple[str, ...],
    store_url: str | None,
    kind: str | None,
    dry_run: bool,
    **said: str | None,
) -> None:
    """Keep the results in files that others made, as benchmarks printed them.

    A directory is walked. Each file is recognised by its content; one that is of no known format
    is listed as unreadable. What was imported before is not kept twice.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.importing.importer import check_kind, import_files, terms_of
    from trimtab.loop.sites import with_store
    from trimtab.loop.stores import open_store

    check_kind(kind)
    terms, site = terms_of(**said)  # type: ignore[arg-type]
    opened = nullcontext() if dry_run else open_store(with_store(site, store_url), create=True)
    tally = _Tally()
    with opened as store, progress_bar() as progress:
        found = tally.of(import_files(files, terms, store, kind=kind, progress=progress))
        where = None if store is None else str(store.location)
        if options.wants_json():
            from trimtab.report.documents.measured import import_json

            for piece in import_json(found, store=where, site=terms.site):
                click.echo(piece, nl=False)
        else:
            from trimtab.cli.render.imported import print_imported

            print_imported(found, where)
    tally.refuse_nothing(reported=options.wants_json())


@dataclass(slots=True)
class _Tally:
    """Looks on while files are imported: what was named and could not be read is an error."""

    unreadable: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)

    def of(self, files: Iterable[ImportedFile]) -> Iterator[ImportedFile]:
        for one in files:
            self.statuses[one.status.value] += 1
            if one.named and one.status.value == "unreadable":
                name, reason = visible(one.file), one.reason or ""
                self.unreadable.append(reason if reason.startswith(name) else f"{name}: {reason}")
            yield one

    def refuse_nothing(self, *, reported: bool) -> None:
        """Raise UnreadableError where a file that was named, or every file, is unreadable."""
        if self.unreadable:
            more = f" (and {len(self.unreadable) - 1} more)" if len(self.unreadable) > 1 else ""
            message = f"cannot be imported: {self.unreadable[0]}{more}"
        elif self.statuses.total() == self.statuses["unreadable"]:
            message = "there is nothing to import: no file of a known format"
        else:
            return
        error = UnreadableError(message, hint="docs/import.md lists the formats; --kind names one")
        error.reported = reported
        raise error
