"""``trimtab event add`` and ``event list`` with ``--json``."""

from __future__ import annotations

from datetime import datetime

from trimtab.model.event import Event
from trimtab.report.documents.base import Document


class EventDocument(Document):
    """Something that happened; no targets: the whole site. Without ``until`` it was a moment."""

    id: str
    site: str
    kind: str
    at: datetime
    until: datetime | None
    targets: tuple[str, ...]
    detail: str
    source: str


class EventsDocument(Document):
    """Events of a site, the oldest first."""

    store: str
    events: tuple[EventDocument, ...]


def event_document(event: Event) -> EventDocument:
    """Return one event as its JSON document."""
    return EventDocument(
        id=event.id,
        site=event.site,
        kind=event.kind.value,
        at=event.at,
        until=event.until,
        targets=event.targets,
        detail=event.detail,
        source=event.source,
    )
