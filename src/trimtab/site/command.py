"""``trimtab event``: record events in a site's log book, and list them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trimtab.base.event import WRITTEN
from trimtab.base.text import local_moment, local_times
from trimtab.base.units import plural
from trimtab.show import command_options
from trimtab.show.command_group import SuggestingGroup
from trimtab.show.screen_document import show_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trimtab.base.event import Event
    from trimtab.show.document import Document


@click.group("event", cls=SuggestingGroup)
def event_command() -> None:
    """Record events in a file system's event log, and list them.

    Every incident is compared with this log. Unlogged changes are the hardest causes to find.
    """


@event_command.command("add")
@click.argument("where", metavar="SITE")
@click.argument("detail", metavar="TEXT")
@command_options.as_json
@command_options.store
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in WRITTEN]),
    required=True,
    help="Kind of event.",
)
@click.option("--at", metavar="TIME", help="Time or start of the event. Default: now.")
@click.option("--until", metavar="TIME", help="End of the event. Default: none, a single moment.")
@click.option("--targets", metavar="SET", help="Only these: OST[0000-0003],MDT0000.")
def add(where: str, detail: str, store_url: str | None, **fields: Any) -> None:
    """Record one event: trimtab event add SITE --kind note "words"."""
    from trimtab.site.place import add_event, opened
    from trimtab.store.page import EventsDocument

    with opened(where, store_url) as record:
        event = add_event(record.store, where, detail=detail, now=record.now, **fields)
    show_page(
        lambda: EventsDocument(record.location, (event,)),
        lambda: written_document(event),
    )


@event_command.command("list")
@click.argument("where", metavar="SITE")
@command_options.store
@command_options.output
@command_options.since("Only events that began at or after this time.")
@click.option("--until", metavar="TIME", help="Only events that began until this time or day.")
def list_(where: str, store_url: str | None, since: str | None, until: str | None) -> None:
    """List events, oldest first."""
    from trimtab.site.place import opened
    from trimtab.store.page import EventsDocument

    with opened(where, store_url) as record:
        place = record.place
        begin, end = place.moment(since), place.moment(until, end=True)
        events = record.store.events(site=place.name, since=begin, until=end)
    show_page(
        lambda: EventsDocument(record.location, tuple(events)),
        lambda: events_document(events, command_options.extent().rows(_ROWS)),
    )


_TARGETS_SHOWN = 4
_ROWS = 30


def written_document(event: Event) -> Document:
    """Return the page of a new event."""
    from trimtab.show.document import Document

    return Document(
        f"kept  {event.kind.value} of {local_moment(event.at)}: {event.detail}",
        more=(f"{event.id} in the log book of {event.site}",),
    )


def events_document(events: Sequence[Event], most: int = _ROWS) -> Document:
    """Return the last events of the log book, oldest first.

    Parameters
    ----------
    most
        Maximum number of events.
    """
    from trimtab.show.document import ALL, Document, Section, row, table

    if not events:
        hint = 'hint: trimtab event add SITE --kind config-change "checksums on"'
        return Document("The log book is empty.", more=(hint,))
    last, shown = events[-1], events[-most:]
    before = len(events) - len(shown)
    begins = local_times([event.at for event in shown])
    ends = local_times([event.until for event in shown])
    rows = (
        row(begin, end, event.kind.value, _targets(event), event.detail, event.source)
        for event, begin, end in zip(shown, begins, ends, strict=True)
    )
    columns = ("at", "until??", "kind", "targets", "what", "source??")
    return Document(
        f"{plural(len(events), 'event', ',')}; the last: {last.kind.value}, {last.detail}, "
        f"{local_moment(last.at)}.",
        (
            Section(
                lines=(f"... {before:,} earlier events: --all",) if before else (),
                tables=(table(columns, rows, first=ALL),),
            ),
        ),
    )


def _targets(event: Event) -> str:
    more = len(event.targets) - _TARGETS_SHOWN
    named = ", ".join(event.targets[:_TARGETS_SHOWN]) or "all"
    return named + (f" and {more} more" if more > 0 else "")
