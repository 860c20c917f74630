"""``trimtab snapshot``: take a snapshot and store it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from trimtab.cli import options
from trimtab.cli.render.document import show_page
from trimtab.report.sections import Document
from trimtab.report.text import local_moment
from trimtab.units import plural

if TYPE_CHECKING:
    from trimtab.model.standing import SiteStanding

_SHORT_ID: Final = 13


@click.command("snapshot")
@click.argument("where", metavar="PATH|SITE")
@options.output
@options.store
def snapshot_command(where: str, store_url: str | None) -> None:
    """Take a snapshot of every target and machine of a site, and store it.

    One round trip to each server. `trimtab targets SITE --at TIME` shows it again.
    """
    from trimtab.loop.sites import open_driver, open_site
    from trimtab.loop.stores import open_store
    from trimtab.loop.targets import keep, refuse_silence
    from trimtab.report import documents

    site = open_site(where).site
    with open_store(store_url, site, create=True) as store:
        identifier, standing = keep(site, open_driver(site), store)
        place = str(store.location)
    state = standing.state
    assert state is not None  # it was stored just now
    show_page(
        lambda: documents.measured.SnapshotDocument(place, identifier, state),
        lambda: kept_document(identifier, place, standing),
    )
    refuse_silence(state, reported=options.wants_json())


def kept_document(identifier: str, store: str, standing: SiteStanding) -> Document:
    """Return the page of a stored snapshot."""
    from trimtab.report.headline import targets_headline

    state = standing.state
    assert state is not None  # it was stored just now
    answered = sum(host.answered for host in state.snapshot.hosts)
    count = plural(len(state.snapshot.hosts), "machine")
    hosts = "" if answered == len(state.snapshot.hosts) else f"; {answered} of {count} answered"
    return Document(
        f"Snapshot kept. {targets_headline(standing).rstrip('.')}{hosts}.",
        more=(
            f"snapshot {identifier[:_SHORT_ID]}, {local_moment(state.snapshot.at)}",
            f"stored in {store}",
            f"trimtab targets {options.site_argument(state.site)} lists each target",
        ),
    )
