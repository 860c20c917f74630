"""``trimtab event``: the site's log book."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.text import console, moment, table
from trimtab.model.event import EventKind
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trimtab.model.event import Event


@click.group("event")
def command() -> None:
    """Write what has happened to a file system into its log book, and read it.

    What is written here is held against every incident: a change of settings that nobody wrote
    down is the hardest cause to find.
    """


@command.command("add")
@click.argument("where", metavar="SITE")
@click.argument("detail", metavar="TEXT")
@options.as_json
@options.store
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in EventKind]),
    required=True,
    help="What sort of thing.",
)
@click.option("--at", metavar="TIME", help="When it was or began. Default: now.")
@click.option("--until", metavar="TIME", help="When it ended. Default: it was a moment.")
@click.option("--targets", metavar="SET", help="Only these: OST[0000-0003],MDT0000.")
def add(where: str, detail: str, store_url: str | None, **fields: str | None) -> None:
    """Write one thing that has happened: trimtab event add SITE --kind note "words"."""
    from trimtab.loop.event_log import add_event
    from trimtab.loop.sites import clock_of, site_file, with_store
    from trimtab.loop.stores import open_store
    from trimtab.report import documents

    loaded = site_file(where)
    with open_store(with_store(loaded and loaded.site, store_url)) as store:
        event = add_event(
            store,
            where,
            kind=fields["kind"] or "note",
            detail=detail,
            now=clock_of(loaded and loaded.site)(),
            at=fields["at"],
            until=fields["until"],
            targets=fields["targets"],
        )
        kept_in = str(store.location)
    show(lambda: documents.kept.EventsDocument(kept_in, (event,)), lambda: print_event(event))


@command.command("list")
@click.argument("where", metavar="SITE")
@options.as_json
@options.store
@click.option("--since", metavar="TIME", help="What began before is left out.")
@click.option("--until", metavar="TIME", help="What began after is left out.")
def list_(where: str, store_url: str | None, since: str | None, until: str | None) -> None:
    """List what has happened, the oldest first."""
    from trimtab.loop.event_log import place_of
    from trimtab.loop.sites import site_file, with_store
    from trimtab.loop.stores import open_store
    from trimtab.report import documents
    from trimtab.units import parse_moment

    loaded = site_file(where)
    with open_store(with_store(loaded and loaded.site, store_url)) as store:
        place = place_of(store, where)
        events = store.events(
            site=place.name,
            since=None if since is None else parse_moment(since, place.timezone),
            until=None if until is None else parse_moment(until, place.timezone),
        )
        kept_in = str(store.location)
    show(
        lambda: documents.kept.EventsDocument(kept_in, tuple(events)), lambda: print_events(events)
    )


_TARGETS_SHOWN = 4


def print_event(event: Event) -> None:
    """Print an event that was just written."""
    out = console()
    out.print(f"kept  {event.kind.value} of {moment(event.at)}: {visible(event.detail)}")
    out.print(f"      {event.id} in the log book of {visible(event.site)}", style="dim")


def print_events(events: Sequence[Event]) -> None:
    """Print the log book, the oldest first."""
    out = console()
    if not events:
        out.print("Nothing is written in its log book yet.")
        out.print('hint: trimtab event add SITE --kind config-change "checksums on"')
        return
    made = table("at", "until", "kind", "targets", "what", "source")
    for event in events:
        until = "" if event.until is None else moment(event.until)
        row = (moment(event.at), until, event.kind.value, _targets(event), event.detail)
        made.add_row(*map(visible, (*row, event.source)))
    out.print(made)


def _targets(event: Event) -> str:
    more = len(event.targets) - _TARGETS_SHOWN
    named = ", ".join(event.targets[:_TARGETS_SHOWN]) or "all"
    return named + (f" and {more} more" if more > 0 else "")
