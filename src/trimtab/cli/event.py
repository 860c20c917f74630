"""``trimtab event``: the site's log book."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli import options
from trimtab.cli.lazy import SuggestingGroup
from trimtab.cli.opened import opened
from trimtab.cli.options import extent
from trimtab.cli.output import show
from trimtab.cli.render.screen import Column, print_rows, print_screen
from trimtab.cli.render.text import console, local_times, moment
from trimtab.model.event import EventKind
from trimtab.units import plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from trimtab.model.event import Event


@click.group("event", cls=SuggestingGroup)
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
@options.extent_options
@options.since("Only events that began at or after this time.")
@click.option("--until", metavar="TIME", help="Only events that began until this time or day.")
def list_(where: str, store_url: str | None, since: str | None, until: str | None) -> None:
    """List events, the oldest first."""
    from trimtab.report import documents

    with opened(where, store_url) as record:
        place = record.place
        begin, end = place.moment(since), place.moment(until, end=True)
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
    """Print the last events of the log book, the oldest first."""
    if not events:
        print_screen(
            "Nothing is written in its log book yet.",
            lambda out: None,
            more=('hint: trimtab event add SITE --kind config-change "checksums on"',),
        )
        return
    last = events[-1]
    answer = f"{plural(len(events), 'event', ',')}; the last: {last.kind.value}, {last.detail}"
    print_screen(f"{answer}, {moment(last.at)}.", partial(_print_rows, events))


_COLUMNS = (
    Column("at"),
    Column("until", drop=2),
    Column("kind"),
    Column("targets", drop=1),
    Column("what", wraps=True),
    Column("source", drop=3),
)
_ROWS = 30


def _print_rows(events: Sequence[Event], out: Console) -> None:
    shown = events[-extent().rows(_ROWS) :]
    if len(events) > len(shown):
        out.print(f"... {len(events) - len(shown):,} earlier events: --all", style="dim")
    begins = local_times([event.at for event in shown])
    ends = local_times([event.until for event in shown])
    rows = [
        (begin, end, event.kind.value, _targets(event), visible(event.detail), event.source)
        for event, begin, end in zip(shown, begins, ends, strict=True)
    ]
    print_rows(out, _COLUMNS, rows)


def _targets(event: Event) -> str:
    more = len(event.targets) - _TARGETS_SHOWN
    named = ", ".join(event.targets[:_TARGETS_SHOWN]) or "all"
    return visible(named + (f" and {more} more" if more > 0 else ""))
