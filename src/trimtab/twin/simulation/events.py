"""Events of a simulation, with ids that are the same in each run of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime

from trimtab.config.targets import ost_name
from trimtab.model.event import Event, EventKind
from trimtab.model.identifier import identifier_with

SOURCE = "twin"


class EventLog:
    """What happened, in the order in which it began to be known.

    Attributes
    ----------
    scripted
        Ids of the events that tell what the scenario scripts.
    """

    def __init__(self, site: str, seed: int) -> None:
        self.site = site
        self.seed = seed
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
        targets = tuple(map(ost_name, osts))
        made = self._id(at)
        if scripted:
            self.scripted.add(made)
        self.events.append(Event(made, self.site, kind, at, detail, SOURCE, until, targets))

    def _id(self, at: datetime) -> str:
        """Return a UUIDv7 of the event's time and number; nothing of it comes from a clock."""
        text = f"{self.site}\0{self.seed}\0{len(self.events)}"
        low = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=10).digest(), "big")
        return identifier_with(at, low)
