"""Incidents on the dashboard: their pages, their documents, and acknowledging one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from trimtab.base.event import Event, EventKind
from trimtab.base.units import enumerated
from trimtab.web.access import Identity, Operator
from trimtab.web.api import ENTRY, PREFIX, WrittenEntry, answer, document, log_book, recorded
from trimtab.web.desk import Desk, DeskOf
from trimtab.web.request_guard import form_field
from trimtab.web.template import MARKED, ROWS, Offset, figures, framed, likeliest, link, page, part

if TYPE_CHECKING:
    from trimtab.base.incident import IncidentsDocument

router = APIRouter(include_in_schema=False)
api_router = APIRouter(prefix=PREFIX)
ACKNOWLEDGED: Final = "acknowledged incident"


# Pages


@router.get("/s/{site:path}/incidents")
def incidents_page(
    request: Request,
    desk: DeskOf,
    site: str,
    *,
    state: Literal["", "open", "lasting", "ended"] = "",
    offset: Offset = 0,
) -> Response:
    """List the incidents, the newest first."""

    def make() -> str:
        chosen = [entry for entry in desk.incidents(site) if state in ("", entry.state)]
        return part(
            "incidents.html.j2",
            site=site,
            state=state,
            total=len(chosen),
            offset=offset,
            rows_each=ROWS,
            incidents=[(entry, likeliest(entry)) for entry in chosen[offset : offset + ROWS]],
            judged=desk.store.judged(site),
        )

    # Of further rows there is no end: they are made each time.
    noun = f"incidents {state}"
    body = make() if offset else desk.remembered(site, noun, str, make, "incident")
    return framed(request, site, "incidents", body)


@router.get("/s/{site:path}/incident/{identifier}")
def incident_page(request: Request, desk: DeskOf, site: str, identifier: str) -> Response:
    """Show one incident with all its evidence in the order of time."""
    incident = desk.incident(site, identifier)
    document: Mapping[str, Any] = incident.document
    events = desk.events(site)
    prefix = f"{ACKNOWLEDGED} {incident.id}"

    def figure() -> str:
        from trimtab.web.page_dashboard_chart import marks_at
        from trimtab.web.page_series import incident_chart

        marks = replace(marks_at(desk, site), incidents=())  # its own stretch is grey already
        chart = incident_chart(desk, site, incident)
        return figures(desk, site, identifier, [chart], marks=marks)

    return page(
        request,
        site,
        "incidents",
        "incident.html.j2",
        incident=incident,
        document=document,
        cause=likeliest(incident),
        line=_time_line(incident, document, events),
        figure=Markup(desk.remembered(site, f"figure of {identifier}", str, figure, *MARKED)),
        acknowledged=[event for event in events if event.detail.startswith(prefix)],
    )


def _time_line(
    incident: Any, document: Mapping[str, Any], events: Sequence[Any]
) -> list[tuple[datetime, str, str]]:
    """Return everything with a time that belongs to an incident, the oldest first."""
    rows = [
        (incident.at, "incident", "first bad run"),
        (incident.detected_at, "incident", "detected"),
    ]
    if incident.until is not None:
        rows.append((incident.until, "incident", "last bad run"))
    for cause in (document.get("causes") or [])[:3]:
        for evidence in cause.get("evidence") or []:
            if evidence.get("at") and (evidence.get("weight") or 0) > 0:
                at = datetime.fromisoformat(evidence["at"])
                rows.append((at, cause["title"], evidence["what"]))
    begin, end = (
        incident.at.timestamp() - 86400.0,
        (incident.until or incident.at).timestamp() + 3600,
    )
    for logged in document.get("messages") or []:
        at = datetime.fromisoformat(logged["at"])
        rows.append((at, f"kernel log of {', '.join(logged['hosts'])}", _logged(logged)))
    near = [event for event in events if begin <= event.at.timestamp() <= end]
    rows += [(event.at, f"event: {event.kind.value}", event.detail) for event in near[:ROWS]]
    return sorted(rows, key=lambda entry: entry[0])


def _logged(message: Mapping[str, Any]) -> str:
    """Return a `MessageHour` of a document as text."""
    of = f" ({enumerated(message['targets'])})" if message["targets"] else ""
    by = f", by {enumerated(message['clients'])}" if message["clients"] else ""
    return f"{message['what']}, {message['count']} times{of}{by}"


@router.post("/s/{site:path}/incident/{identifier}/acknowledge")
async def acknowledge_form(
    request: Request, desk: DeskOf, operator: Operator, site: str, identifier: str
) -> Response:
    """Record that somebody looks after an incident, and show it again."""
    detail = await form_field(request, "detail")
    await run_in_threadpool(acknowledged, desk, site, operator, identifier, detail)
    return Response(status_code=303, headers={"location": link(site, "incident", identifier)})


# Documents


@document(api_router, "incidents", pages="incidents", is_kept=True)
def incidents(
    desk: DeskOf, site: str, state: Literal["open", "lasting", "ended"] | None = None
) -> IncidentsDocument:
    """Return what `trimtab incidents SITE --json` printed at the last search."""
    from trimtab.probe.incident_search import kept_document

    chosen = [each for each in desk.incidents(site) if state in (None, each.state)]
    return kept_document(desk.store, site, chosen)


@document(api_router, "incidents/{identifier}")
def incident(desk: DeskOf, site: str, identifier: str) -> IncidentsDocument:
    """Return one incident with all its evidence."""
    from trimtab.probe.incident_search import kept_document

    return kept_document(desk.store, site, [desk.incident(site, identifier)])


class Acknowledgement(WrittenEntry):
    """That somebody looks after an incident."""

    detail: str = Field(default="", max_length=1500)


@api_router.post("/sites/{site:path}/incidents/{identifier}/acknowledge", responses=ENTRY)
def acknowledge(
    request: Request,
    desk: DeskOf,
    operator: Operator,
    site: str,
    *,
    identifier: str,
    entry: Acknowledgement,
) -> Response:
    """Record that somebody looks after an incident."""
    event = acknowledged(desk, site, operator, identifier, entry.detail)
    return answer(request, log_book(desk, [event]))


def acknowledged(desk: Desk, site: str, operator: Identity, identifier: str, detail: str) -> Event:
    """Write into the log book that somebody looks after an incident, and return the entry."""
    incident = desk.incident(site, identifier)
    words = f"{ACKNOWLEDGED} {incident.id}" + (f": {detail.strip()}" if detail.strip() else "")
    return recorded(desk, site, operator, kind=EventKind.NOTE.value, detail=words)
