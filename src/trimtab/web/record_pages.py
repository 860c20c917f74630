"""The pages of what was recorded: incidents, actions, the log book, settings; and its two forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from trimtab.errors import UsageError
from trimtab.model.event import EventKind
from trimtab.web.access import Operator
from trimtab.web.api import ACKNOWLEDGED, acknowledged, recorded
from trimtab.web.desk import DeskOf
from trimtab.web.guard import form_field
from trimtab.web.render import MARKED, ROWS, Offset, figures, framed, likeliest, link, page, part

if TYPE_CHECKING:
    from trimtab.config.schema import Entry
    from trimtab.model.site import Site

router = APIRouter(include_in_schema=False)


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
        from trimtab.web import charts

        marks = replace(desk.marks(site), incidents=())  # its own stretch is grey already
        chart = charts.incident_chart(desk, site, incident)
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
    near = [event for event in events if begin <= event.at.timestamp() <= end]
    rows += [(event.at, f"event: {event.kind.value}", event.detail) for event in near[:ROWS]]
    return sorted(rows, key=lambda entry: entry[0])


@router.post("/s/{site:path}/incident/{identifier}/acknowledge")
async def acknowledge_form(
    request: Request, desk: DeskOf, operator: Operator, site: str, identifier: str
) -> Response:
    """Record that somebody looks after an incident, and show it again."""
    detail = await form_field(request, "detail")
    await run_in_threadpool(acknowledged, desk, site, operator, identifier, detail)
    return Response(status_code=303, headers={"location": link(site, "incident", identifier)})


@router.post("/s/{site:path}/log")
async def log_form(request: Request, desk: DeskOf, operator: Operator, site: str) -> Response:
    """Write into the log book, and show it."""
    names = ("kind", "detail", "at", "targets")
    values = {name: await form_field(request, name) for name in names}
    if values["kind"] not in {kind.value for kind in EventKind}:
        raise UsageError("no such kind of event", code="event-kind-unknown")
    await run_in_threadpool(lambda: recorded(desk, site, operator, **values))
    return Response(status_code=303, headers={"location": link(site, "actions")})


# Actions and settings


@router.get("/s/{site:path}/actions")
def actions_page(request: Request, desk: DeskOf, site: str, *, offset: Offset = 0) -> Response:
    """Show what was done and what waits, and the log book."""
    from trimtab.loop.purging.plans import plans_waiting

    place, watch, now = desk.place(site), desk.watch(site), desk.now(site)
    plans, plan_problems = desk.plans(site)
    events = desk.events(site)[::-1]
    return page(
        request,
        site,
        "actions",
        "actions.html.j2",
        armed=() if place.site is None else place.site.policies.armed,
        upcoming=() if watch is None else watch.items,
        plans=plans,
        now=now,
        plan_problems=plan_problems,
        waiting=plans_waiting(place, plans, plan_problems, now),
        ledger=desk.store.actions(site, limit=ROWS)[::-1],
        ledger_total=sum(desk.store.action_counts(site).values()),
        events=events[offset : offset + ROWS],
        total=len(events),
        offset=offset,
        rows_each=ROWS,
        kinds=[kind.value for kind in EventKind],
    )


@router.get("/s/{site:path}/settings")
def settings_page(request: Request, desk: DeskOf, site: str) -> Response:
    """Show the site file, read-only, and what is armed."""
    of_file = desk.place(site).site
    rows = [] if of_file is None else list(_settings(of_file))
    return page(
        request,
        site,
        "settings",
        "settings.html.j2",
        tables=rows,
        armed=() if of_file is None else of_file.policies.armed,
        store=str(desk.store.location),
    )


_HIDDEN: Final = frozenset({"alerts", "webhook", "store", "metrics"})
"""Tables that may lead to a receiver of alerts or a database."""


def _settings(site: Site) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the tables of a site file as they would stand in it, without what has its default."""
    from trimtab.site.schema import SCHEMA

    tables: dict[str, list[tuple[str, str]]] = {}
    for entry in SCHEMA.every_key():
        _add(tables, ".".join(entry.location[:-1]), entry, site)
    for name in ("probe", "launcher"):
        group = SCHEMA.group(name)
        for item in getattr(site, group.path[-1]):
            for entry in group.item.every_key():
                _add(tables, f"{name}.{item.name}", entry, item)
    return ((name, rows) for name, rows in tables.items() if name.split(".")[0] not in _HIDDEN)


def _add(tables: dict[str, list[tuple[str, str]]], name: str, entry: Entry, holder: Any) -> None:
    value = attrgetter(".".join(entry.path))(holder)
    if value in (entry.default, None):
        return
    text = f"{len(value):,} entries" if isinstance(value, Mapping) else entry.kind.write(value)
    if text is not None:
        tables.setdefault(name, []).append((entry.name, text))
