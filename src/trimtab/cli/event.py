"""``trimtab event``: the site's log book."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.output import show
from trimtab.cli.render.text import console, moment, table
from trimtab.model.event import EventKind
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trimtab.model.event import Event


@click.group("event")
def command() -> None:
    """Record events in a file system's event log, and list them.

    Every incident is compared with this log. Unlogged changes are the hardest causes to find.
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
    help="Kind of event.",
)
@click.option("--at", metavar="TIME", help="Time or start of the event. Default: now.")
@click.option("--until", metavar="TIME", help="End of the event. Default: none, a single moment.")
@click.option("--targets", metavar="SET", help="Only these: OST[0000-0003],MDT0000.")
def add(where: str, detail: str, store_url: str | None, **fields: Any) -> None:
    """Record one event: trimtab event add SITE --kind note "words"."""
    from trimtab.loop.event_log import add_event
    from trimtab.report import documents

    with opened(where, store_url) as record:
        event = add_event(record.store, where, detail=detail, now=record.now, **fields)
    show(
        lambda: documents.kept.EventsDocument(record.location, (event,)),
        lambda: print_event(event),
    )


@command.command("list")
@click.argument("where", metavar="SITE")
@options.as_json
@options.store
@options.since("Only events that began at or after this time.")
@click.option("--until", metavar="TIME", help="Only events that began at or before this time.")
def list_(where: str, store_url: str | None, since: str | None, until: str | None) -> None:
    """List events, the oldest first."""
    from trimtab.report import documents

    with opened(where, store_url) as record:
        place = record.place
        begin, end = place.moment(since), place.moment(until)
        events = record.store.events(site=place.name, since=begin, until=end)
    show(
        lambda: documents.kept.EventsDocument(record.location, tuple(events)),
        lambda: print_events(events),
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
