"""``trimtab snapshot``: take one and keep it."""

from __future__ import annotations

import click

from trimtab.cli import options


@click.command("snapshot")
@click.argument("where", metavar="PATH|SITE")
@options.as_json
@options.store
def command(where: str, as_json: bool, store_url: str | None) -> None:
    """Take a snapshot of every target and machine of a site, and keep it.

    One round trip to each server. `trimtab targets SITE --at TIME` shows it again.
    """
    from trimtab.loop.sites import open_driver, open_site, with_store
    from trimtab.loop.stores import open_store
    from trimtab.loop.targets import keep, refuse_silence

    site = open_site(where).site
    with open_store(with_store(site, store_url), create=True) as store:
        identifier, state = keep(site, open_driver(site), store)
        place = str(store.location)
    if as_json:
        from trimtab.report.documents.site import SnapshotDocument, targets_document

        document = SnapshotDocument(store=place, id=identifier, snapshot=targets_document(state))
        click.echo(document.to_json())
    else:
        from trimtab.cli.render.targets import print_kept

        print_kept(identifier, place, state)
    refuse_silence(state, reported=as_json)
