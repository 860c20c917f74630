"""The log book as text."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.cli.render.text import console, moment, table
from trimtab.model.event import Event
from trimtab.visible import visible

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
