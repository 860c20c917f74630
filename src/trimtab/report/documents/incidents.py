"""``trimtab incidents`` and ``explain`` with ``--json``: what happened, and why if it is known."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from trimtab.model.incident import Assessment, Explanation, Incident
from trimtab.report.documents.base import Bounds, Document, bounds, fields, level


class EvidenceDocument(Document):
    """One thing that was looked for; ``weight`` is log10 of the likelihood ratio."""

    found: str
    what: str
    route: str
    weight: float
    value: float | str | None
    reference: float | str | None
    unit: str | None
    targets: tuple[str, ...]
    at: datetime | None
    source: str | None
    reason: str | None


class CauseDocument(Document):
    """One cause held against one incident."""

    id: str
    title: str
    confidence: float
    because_of: str | None
    standing: bool
    evidence: tuple[EvidenceDocument, ...]


class InstrumentDocument(Document):
    """A probe or survey, and the rate of one target below which it notices."""

    name: str
    metric: str
    notices_below: float | None
    saw: bool
    reason: str


class IncidentDocument(Document):
    """A stretch in which a site was not well, with its explanation."""

    id: str
    site: str
    probe: str | None
    metric: str | None
    unit: str | None
    shape: str
    state: str
    certainty: str
    at: datetime
    until: datetime | None
    detected_at: datetime
    effect: float | None
    effect_interval: Bounds
    level: float | None
    runs: int
    unfinished: int
    summary: str
    moved_with: tuple[str, ...]
    unmoved: tuple[str, ...]
    targets: tuple[str, ...]
    unexplained: bool
    causes: tuple[CauseDocument, ...]
    cleared: tuple[CauseDocument, ...]
    not_assessed: tuple[CauseDocument, ...]
    standing: tuple[CauseDocument, ...]
    deciding: str
    instruments: tuple[InstrumentDocument, ...]
    notes: tuple[str, ...]


class IncidentsDocument(Document):
    """``trimtab incidents --json``: open ones first; ``standing``: wrong in all of the record."""

    store: str
    site: str
    judged_at: datetime
    judged_until: datetime | None
    incidents: tuple[IncidentDocument, ...]
    standing: tuple[CauseDocument, ...]


class ExplainDocument(Document):
    """``trimtab explain --json``: everything that is known about one moment."""

    store: str
    site: str
    at: datetime
    incidents: tuple[IncidentDocument, ...]
    moment: IncidentDocument


def incidents_document(
    site: str,
    explanations: Iterable[Explanation],
    standing: Iterable[Assessment],
    *,
    store: str,
    judged_at: datetime,
    judged_until: datetime | None,
) -> IncidentsDocument:
    """Return the incidents of a site as their JSON document."""
    return IncidentsDocument(
        store=store,
        site=site,
        judged_at=judged_at,
        judged_until=judged_until,
        incidents=tuple(map(incident_document, explanations)),
        standing=tuple(map(cause_document, standing)),
    )


def explain_document(
    site: str,
    at: datetime,
    explanations: Iterable[Explanation],
    moment: Explanation,
    *,
    store: str,
) -> ExplainDocument:
    """Return all that is known about one moment as its JSON document."""
    return ExplainDocument(
        store=store,
        site=site,
        at=at,
        incidents=tuple(map(incident_document, explanations)),
        moment=incident_document(moment),
    )


def incident_document(one: Explanation) -> IncidentDocument:
    """Return an incident with its explanation as its JSON document."""
    incident = one.incident
    return IncidentDocument.model_validate(
        {
            **fields(incident, IncidentDocument),
            **_of_series(incident),
            "shape": incident.shape.value,
            "state": incident.state.value,
            "certainty": incident.certainty.value,
            "effect_interval": bounds(incident.effect_interval),
            "level": level(incident.effect_interval),
            "unexplained": one.unexplained,
            "causes": [cause_document(cause) for cause in one.causes],
            "cleared": [cause_document(cause) for cause in one.cleared],
            "not_assessed": [cause_document(cause) for cause in one.not_assessed],
            "standing": [cause_document(cause) for cause in one.standing],
            "deciding": one.deciding,
            "instruments": [fields(each, InstrumentDocument) for each in one.instruments],
            "notes": one.notes,
        }
    )


def cause_document(one: Assessment) -> CauseDocument:
    """Return a cause with its evidence as its JSON document."""
    return CauseDocument(
        id=one.cause,
        title=one.title,
        confidence=one.confidence,
        because_of=one.because_of,
        standing=one.standing,
        evidence=tuple(
            EvidenceDocument.model_validate(
                {
                    **fields(piece, EvidenceDocument),
                    "found": piece.found.value,
                    "route": piece.route.value,
                }
            )
            for piece in one.evidence
        ),
    )


def _of_series(incident: Incident) -> dict[str, Any]:
    key = incident.key
    return {
        "probe": None if key is None else key.probe,
        "metric": None if key is None else key.metric,
        "unit": None if key is None else key.unit,
    }
