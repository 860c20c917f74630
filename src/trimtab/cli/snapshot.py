"""``trimtab snapshot``: take a snapshot and store it."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.render.document import show_page


@click.command("snapshot")
@click.argument("where", metavar="PATH|SITE")
@options.output
@options.store
def snapshot_command(where: str, store_url: str | None) -> None:
    """Take a snapshot of every target and machine of a site, and store it.

    One round trip to each server. `trimtab targets SITE --at TIME` shows it again.
    """
    from trimtab.cli.render.snapshot import snapshot_document
    from trimtab.loop.sites import open_driver, open_site
    from trimtab.loop.stores import open_store
    from trimtab.loop.targets import keep, refuse_silence
    from trimtab.report.documents.measured import SnapshotDocument

    site = open_site(where).site
    with open_store(store_url, site, create=True) as store:
        identifier, standing = keep(site, open_driver(site), store)
        place = str(store.location)
    state = standing.state
    assert state is not None  # it was stored just now
    show_page(
        lambda: SnapshotDocument(place, identifier, state),
        lambda: snapshot_document(identifier, place, standing),
    )
    refuse_silence(state, reported=options.wants_json())
