"""``trimtab snapshot``: take one and keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import print_screen
from trimtab.cli.render.text import moment, site_argument
from trimtab.units import plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.model.standing import SiteStanding

_SHORT_ID: Final = 13


@click.command("snapshot")
@click.argument("where", metavar="PATH|SITE")
@options.extent_options
@options.as_json
@options.store
def command(where: str, store_url: str | None) -> None:
    """Take a snapshot of every target and machine of a site, and keep it.

    One round trip to each server. `trimtab targets SITE --at TIME` shows it again.
    """
    from trimtab.loop.sites import open_driver, open_site, with_store
    from trimtab.loop.stores import open_store
    from trimtab.loop.targets import keep, refuse_silence
    from trimtab.report import documents

    site = open_site(where).site
    with open_store(with_store(site, store_url), create=True) as store:
        identifier, standing = keep(site, open_driver(site), store)
        place = str(store.location)
    state = standing.state
    assert state is not None  # it was kept just now
    show(
        lambda: documents.measured.SnapshotDocument(place, identifier, state),
        lambda: print_kept(identifier, place, standing),
    )
    refuse_silence(state, reported=options.wants_json())


def print_kept(identifier: str, store: str, standing: SiteStanding) -> None:
    """Print that a snapshot is kept, and what it shows."""
    from trimtab.report.headline import targets_headline

    state = standing.state
    assert state is not None  # it was kept just now
    answered = sum(host.answered for host in state.snapshot.hosts)
    silent = [host for host in state.snapshot.hosts if not host.answered]
    hosts = f"; {answered} of {plural(len(state.snapshot.hosts), 'machine')} answered"
    answer = f"Snapshot kept. {targets_headline(standing).rstrip('.')}{hosts if silent else ''}."

    more = (
        f"snapshot {identifier[:_SHORT_ID]}, {moment(state.snapshot.at)}",
        f"stored in {visible(store)}",
        f"trimtab targets {site_argument(state.site)} lists each target",
    )
    print_screen(answer, lambda out: None, more=more)
