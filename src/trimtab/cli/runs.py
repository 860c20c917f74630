"""``trimtab runs``: what is kept."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.output import show


@click.command("runs")
@options.as_json
@options.store
@click.option("--site", metavar="NAME", help="Only runs of this site or path.")
@click.option("--probe", metavar="NAME", help="Only runs of this probe.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Maximum number of rows.",
)
def command(store_url: str | None, site: str | None, probe: str | None, limit: int) -> None:
    """List kept runs, the newest first."""
    from trimtab.cli.render.kept import print_runs
    from trimtab.loop.sites import site_file, with_store
    from trimtab.loop.status import site_of
    from trimtab.loop.stores import open_store
    from trimtab.report import documents

    loaded = site_file(site)
    known = None if loaded is None else loaded.site
    with open_store(with_store(known, store_url)) as store:
        name = None if site is None else site_of(store, site if known is None else known.name)
        runs = store.runs(site=name, probe=probe, limit=limit)
        where = str(store.location)
    show(lambda: documents.kept.RunsDocument(where, tuple(runs)), lambda: print_runs(runs))
