"""A change of level as ``judge``, ``status`` and ``watch`` tell it."""

from __future__ import annotations

from datetime import datetime

from trimtab.model.series import ChangePoint
from trimtab.report.documents.base import Bounds, Document, bounds, fields, level


class ChangePointDocument(Document):
    """A time from which a series has another level; ``effect`` is after over before."""

    at: datetime
    detected_at: datetime
    status: str
    effect: float | None
    effect_interval: Bounds
    level: float | None
    before: float | None
    after: float | None
    n_before: int
    n_after: int
    suspected_at: datetime | None
    confirmed_at: datetime | None
    dismissed_at: datetime | None
    reason: str


def change_document(change: ChangePoint) -> ChangePointDocument:
    """Return a change of level as its JSON document."""
    return ChangePointDocument.model_validate(
        {
            **fields(change, ChangePointDocument),
            "status": change.status.value,
            "effect_interval": bounds(change.effect_interval),
            "level": level(change.effect_interval),
        }
    )
