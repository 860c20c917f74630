"""Events of a simulation, with ids that are the same in each run of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from trimtab.config.targets import ost_name
from trimtab.model.event import Event, EventKind
from trimtab.model.identifier import identifier_of

SOURCE = "twin"


class EventLog:
    """What happened, in the order in which it began to be known.

    Attributes
    ----------
    scripted
        Ids of the events that tell what the scenario scripts.
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
        """Keep an event; no OSTs: of the whole."""
        at, targets = at.astimezone(UTC), tuple(map(ost_name, osts))
        until = None if until is None else until.astimezone(UTC)
        made = identifier_of(at, self.site, kind.value, detail, *targets)
        if scripted:
            self.scripted.add(made)
        self.events.append(Event(made, self.site, kind, at, detail, SOURCE, until, targets))
