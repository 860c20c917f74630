"""``trimtab runs``: the stored runs."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.render.document import show_page


@click.command("runs")
@options.as_json
@options.store
@click.option("--site", metavar="NAME", help="Only runs of this site or path.")
@click.option("--probe", metavar="NAME", help="Only runs of this probe.")
@click.option(
    "--top", type=options.COUNT, default=20, show_default=True, metavar="N", help="Print N rows."
)
def runs_command(store_url: str | None, site: str | None, probe: str | None, top: int) -> None:
    """List stored runs, newest first."""
    from trimtab.loop.sites import site_of
    from trimtab.report.documents.kept import RunsDocument
    from trimtab.report.runs import runs_document

    with opened(site, store_url) as record:
        named = site if record.site is None else record.site.name
        name = None if named is None else site_of(record.store, named)
        runs = record.store.runs(site=name, probe=probe, limit=top)
    show_page(
        lambda: RunsDocument(record.location, tuple(runs)),
        lambda: runs_document(runs, requested=top),
    )
