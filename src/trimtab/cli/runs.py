"""``trimtab runs``: what is kept."""

from __future__ import annotations

import click

from trimtab.cli import options


@click.command("runs")
@options.as_json
@options.store
@click.option("--site", metavar="NAME", help="Only runs of this site or path.")
@click.option("--probe", metavar="NAME", help="Only runs of this probe.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many."
)
def command(
    as_json: bool, store_url: str | None, site: str | None, probe: str | None, limit: int
) -> None:
    """List the runs that are kept, the newest first."""
    from trimtab.loop.sites import site_file, with_store
    from trimtab.loop.status import site_of
    from trimtab.loop.stores import open_store

    loaded = site_file(site)
    known = None if loaded is None else loaded.site
    with open_store(with_store(known, store_url)) as store:
        name = None if site is None else site_of(store, site if known is None else known.name)
        found = store.runs(site=name, probe=probe, limit=limit)
        where = str(store.location)
    if as_json:
        from trimtab.report.documents.kept import runs_document

        click.echo(runs_document(where, found).to_json())
    else:
        from trimtab.cli.render.kept import print_runs

        print_runs(found)
