"""Events of a simulation, with reproducible ids."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from trimtab.config.targets import ost_name
from trimtab.model.event import Event, EventKind
from trimtab.model.identifier import identifier_of

SOURCE = "twin"


class EventLog:
    """The events, in the order in which they became known.

    Attributes
    ----------
    scripted
        Ids of events scripted by the scenario.
    """

    def __init__(self, site: str) -> None:
        self.site = site
        self.events: list[Event] = []
        self.scripted: set[str] = set()

    def add(
        self,
        kind: EventKind,
        at: datetime,
        detail: str,
        *,
        until: datetime | None = None,
        osts: Iterable[int] = (),
        scripted: bool = False,
    ) -> None:
        """Record an event; without OSTs it concerns the whole file system."""
        at, targets = at.astimezone(UTC), tuple(map(ost_name, osts))
        until = None if until is None else until.astimezone(UTC)
        made = identifier_of(at, self.site, kind.value, detail, *targets)
        if scripted:
            self.scripted.add(made)
        self.events.append(Event(made, self.site, kind, at, detail, SOURCE, until, targets))
