"""The API: the documents of ``--json`` over HTTP, in pages, and every series as a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from trimtab.errors import UsageError
from trimtab.loop.comparing.compare import Request as Comparison
from trimtab.loop.comparing.compare import compare_sides
from trimtab.loop.event_log import add_event
from trimtab.loop.standing import standing_of, with_series
from trimtab.model.event import Event, EventKind
from trimtab.report import documents
from trimtab.report.documents.encode import to_json
from trimtab.report.headline import site_troubles
from trimtab.units import parse_moment
from trimtab.web import documents as pages
from trimtab.web import sampling
from trimtab.web.access import Identity, Role
from trimtab.web.desk import Desk
from trimtab.web.openapi import answers
from trimtab.web.turns import Turn

if TYPE_CHECKING:
    import polars as pl

Entry = TypeVar("Entry")

PREFIX: Final = "/api/v1"
LIMIT_MAX: Final = 1000
_LIMIT: Final = 100
POINTS_MAX: Final = 20_000
Offset = Annotated[int, Query(ge=0, le=10**9, description="Entries to skip.")]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Entries at most.")]
Moment = Annotated[
    str | None, Query(max_length=40, description="RFC 3339; without an offset it is UTC.")
]

router = APIRouter(prefix=PREFIX)


def desk_of(request: Request) -> Desk:
    """Return the desk of the application."""
    return request.app.state.desk


def identity_of(request: Request) -> Identity:
    """Return the person whom the guard let in."""
    return request.scope["trimtab.identity"]


def operator_of(request: Request) -> Identity:
    """Return the person, who must be an operator."""
    identity = identity_of(request)
    if not identity.role.covers(Role.OPERATOR):
        raise UsageError("this needs the role operator", code="role-too-low")
    return identity


def admin_of(request: Request) -> Identity:
    """Return the person, who must be an admin."""
    identity = identity_of(request)
    if not identity.role.covers(Role.ADMIN):
        raise UsageError("this needs the role admin", code="role-too-low")
    return identity


def turn_of(request: Request) -> Turn:
    """Return the places that the request holds."""
    return request.scope["trimtab.turn"]


async def _heavy(request: Request) -> None:
    await turn_of(request).heavy()


def heavy_with(*names: str) -> Sequence[Any]:
    """Return `HEAVY` for a route that takes long only where all of some parameters have values."""

    async def heavy(request: Request) -> None:
        if all(map(request.query_params.get, names)):
            await turn_of(request).heavy()

    return (Depends(heavy),)


HEAVY: Final = (Depends(_heavy),)
"""Of a route that takes long, or reads much of the store: it waits among those alone."""
DeskOf = Annotated[Desk, Depends(desk_of)]
Operator = Annotated[Identity, Depends(operator_of)]
Admin = Annotated[Identity, Depends(admin_of)]


def answer(request: Request, document: object) -> Response:
    """Return a document, or that it is the one that the client has."""
    return conditional(request, to_json(document).encode(), "application/json")


def remembered(
    request: Request,
    desk: Desk,
    site: str,
    document: Callable[[], object],
    *,
    at_once: bool = False,
) -> Response:
    """Return a document that depends on the store of a site and the address alone."""
    # Without what the route does not know: any number of addresses are the same one.
    route = request.scope["route"]
    known = {field.alias for field in route.dependant.query_params}
    pairs = [pair for pair in request.query_params.multi_items() if pair[0] in known]
    place = (request.url.path, urlencode(sorted(pairs)))
    body = desk.encoded(site, *place, make=lambda: to_json(document()).encode(), at_once=at_once)
    return conditional(request, body, "application/json")


def conditional(request: Request, body: bytes, media_type: str, name: str = "") -> Response:
    """Return a body, or that the client has it already."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if name:
        headers["content-disposition"] = f'attachment; filename="{name}"'
    return Response(body, media_type=media_type, headers=headers)


def paged(
    entries: Sequence[Entry], offset: int, limit: int
) -> tuple[pages.Paging, tuple[Entry, ...]]:
    """Return a page of a list."""
    page = tuple(entries[offset : offset + limit])
    further = offset + limit if offset + limit < len(entries) else None
    return pages.Paging(len(entries), offset, limit, further), page


def moment(text: str | None, *, end: bool = False) -> datetime | None:
    """Return a time of an address; of a date its begin or end."""
    return None if text is None else parse_moment(text, "UTC", end=end)


@router.get("/sites", responses=answers(pages.SitesPage))
def sites(request: Request, desk: DeskOf) -> Response:
    """List the sites that are served."""
    return answer(request, pages.SitesPage(desk.sites()))


@router.get("/sites/{site:path}/overview", responses=answers(pages.OverviewPage))
def overview(request: Request, desk: DeskOf, site: str) -> Response:
    """Return a site at one glance."""
    return answer(request, pages.OverviewPage(desk.overview(site)))


@router.get("/sites/{site:path}/status", responses=answers(documents.kept.StatusDocument))
def status(request: Request, desk: DeskOf, site: str) -> Response:
    """Return what `trimtab status SITE --json` prints."""

    def document() -> documents.kept.StatusDocument:
        standing = with_series(standing_of(desk.store, desk.place(site)), desk.status(site))
        return documents.kept.StatusDocument(desk.status(site), {site: site_troubles(standing)})

    return remembered(request, desk, site, document)


@router.get("/sites/{site:path}/series", responses=answers(pages.SeriesPage))
def series(request: Request, desk: DeskOf, site: str) -> Response:
    """List the series of a site with their verdicts."""

    def document() -> pages.SeriesPage:
        pairs = desk.series_ids(site).items()
        return pages.SeriesPage(tuple(pages.SeriesEntry(name, entry) for name, entry in pairs))

    return remembered(request, desk, site, document)


@router.get("/sites/{site:path}/series/{name}", responses=answers(documents.judged.JudgeDocument))
def one_series(request: Request, desk: DeskOf, site: str, name: str) -> Response:
    """Return one series judged: verdict, levels, change points, days; without single runs."""
    from dataclasses import replace

    def document() -> documents.judged.JudgeDocument:
        judgement, _ = desk.series(site, name)
        judged = desk.judged(site)
        assert judged is not None  # it has this series
        alone = replace(judged.judgement, series=(judgement,), tails=())
        return documents.judged.JudgeDocument(alone, judged.store)

    return remembered(request, desk, site, document)


@router.get("/sites/{site:path}/series/{name}/runs", responses=answers(pages.RunsPage))
def runs(
    request: Request,
    desk: DeskOf,
    site: str,
    name: str,
    *,
    since: Moment = None,
    until: Moment = None,
    points: Annotated[
        int | None,
        Query(
            ge=4,
            le=POINTS_MAX,
            description="About so many runs for a chart, outliers always among them, in place of a "
            "page.",
        ),
    ] = None,
    offset: Offset = 0,
    limit: Limit = _LIMIT,
) -> Response:
    """List the runs of a series by time: a page of them, or a sample for a chart."""
    stretch = (moment(since), moment(until, end=True))
    page = (offset, limit)
    return remembered(
        request, desk, site, lambda: _runs_page(desk, site, name, stretch, points=points, page=page)
    )


def _runs_page(
    desk: Desk,
    site: str,
    name: str,
    stretch: tuple[datetime | None, datetime | None],
    *,
    points: int | None,
    page: tuple[int, int],
) -> pages.RunsPage:
    judgement, frame = desk.series(site, name)
    whole = between(frame, *stretch)
    marked = whole.with_columns(sampling.outliers(whole))
    paging, chosen = None, marked
    if points is None:
        offset, limit = page
        further = offset + limit if offset + limit < marked.height else None
        paging, chosen = pages.Paging(marked.height, *page, further), marked.slice(offset, limit)
    else:
        chosen = sampling.sampled(marked, points)
    rows = chosen.select("at", "value", "unfinished", "run", "outlier").iter_rows()
    key, runs = judgement.key, tuple(pages.RunPoint(*row) for row in rows)
    return pages.RunsPage(name, key.metric, key.unit, whole.height, paging, runs)


def between(frame: pl.DataFrame, since: datetime | None, until: datetime | None) -> pl.DataFrame:
    """Return the rows within a stretch, both ends within."""
    import polars as pl

    at = pl.col("at")
    if since is not None:
        frame = frame.filter(at >= since)
    return frame if until is None else frame.filter(at <= until)


@router.get(
    "/sites/{site:path}/compare",
    responses=answers(documents.judged.CompareResult),
    dependencies=HEAVY,
)
def compare(
    request: Request,
    desk: DeskOf,
    site: str,
    *,
    before: Annotated[str, Query(max_length=90, description="FROM..TO, in UTC.")],
    after: Annotated[str, Query(max_length=90, description="FROM..TO, in UTC.")],
    probe: Annotated[str | None, Query(max_length=200)] = None,
    metric: Annotated[str | None, Query(max_length=60)] = None,
) -> Response:
    """Return by how much the runs of one stretch differ from those of another."""
    result = compared(desk, site, before, after, probe=probe, metric=metric)
    return answer(request, result)


def compared(
    desk: Desk, site: str, before: str, after: str, *, probe: str | None, metric: str | None
) -> Any:
    """Return the comparison of two stretches of a site."""
    place = desk.place(site)
    sides = [_stretch(text) for text in (before, after)]
    return desk.remembered(
        site,
        "compare",
        *sides,
        probe or "",
        metric or "",
        make=lambda: compare_sides(
            Comparison(
                *sides,
                metric=metric,
                probe=probe,
                opened=(desk.store, place),
            )
        ),
    )


def _stretch(text: str) -> str:
    """Return a stretch as `compare` takes it; nothing else is named in an address."""
    begin, dots, end = text.partition("..")
    if not dots:
        raise UsageError("a side is FROM..TO", code="times-missing")
    ends = [parse_moment(part, "UTC").isoformat() if part.strip() else "" for part in (begin, end)]
    return f"@{ends[0]}..{ends[1]}"


@router.get("/sites/{site:path}/incidents", responses=answers(pages.IncidentsPage))
def incidents(
    request: Request,
    desk: DeskOf,
    site: str,
    *,
    state: Annotated[Literal["open", "lasting", "ended"] | None, Query()] = None,
    offset: Offset = 0,
    limit: Limit = _LIMIT,
) -> Response:
    """List incidents as they were last found, the newest first."""

    def document() -> pages.IncidentsPage:
        chosen = [entry for entry in desk.incidents(site) if state in (None, entry.state)]
        return pages.IncidentsPage(*paged(chosen, offset, limit))

    return remembered(request, desk, site, document, at_once=True)


@router.get("/sites/{site:path}/incidents/{identifier}", responses=answers(pages.IncidentsPage))
def incident(request: Request, desk: DeskOf, site: str, identifier: str) -> Response:
    """Return one incident with all its evidence."""
    entry = desk.incident(site, identifier)
    return answer(request, pages.IncidentsPage(pages.Paging(1, 0, 1, None), (entry,)))


@router.get("/sites/{site:path}/targets", responses=answers(pages.TargetsPage))
def targets(
    request: Request, desk: DeskOf, site: str, *, offset: Offset = 0, limit: Limit = LIMIT_MAX
) -> Response:
    """List the targets of the last stored snapshot, those in trouble first."""

    def document() -> pages.TargetsPage:
        state = desk.state(site)
        at = None if state is None else state.snapshot.at
        return pages.TargetsPage(at, *paged(desk.targets(site), offset, limit))

    return remembered(request, desk, site, document)


@router.get("/sites/{site:path}/actions", responses=answers(documents.acting.ActionsDocument))
def actions(
    request: Request,
    desk: DeskOf,
    site: str,
    *,
    since: Moment = None,
    until: Moment = None,
    limit: Limit = LIMIT_MAX,
) -> Response:
    """Return the newest actions of the ledger of a site within a stretch, oldest first."""
    desk.place(site)
    begin, end = moment(since), moment(until, end=True)
    ledger = desk.store.actions(site, since=begin, until=end, limit=limit)
    return answer(request, documents.acting.ActionsDocument(str(desk.store.location), ledger, ()))


@router.get("/sites/{site:path}/events", responses=answers(pages.EventsPage))
def events(
    request: Request,
    desk: DeskOf,
    site: str,
    *,
    since: Moment = None,
    until: Moment = None,
    offset: Offset = 0,
    limit: Limit = _LIMIT,
) -> Response:
    """List the events of a site, the newest first."""
    begin, end = moment(since), moment(until, end=True)

    def document() -> pages.EventsPage:
        stored = [
            event
            for event in desk.events(site)
            if (begin is None or event.at >= begin) and (end is None or event.at <= end)
        ]
        return pages.EventsPage(*paged(stored[::-1], offset, limit))

    desk.place(site)
    return remembered(request, desk, site, document, at_once=True)


class NewEvent(BaseModel):
    """An entry of the log book."""

    model_config = ConfigDict(extra="forbid", strict=True)
    kind: Literal[tuple(kind.value for kind in EventKind)] = "note"  # type: ignore[valid-type]
    detail: str = Field(max_length=2000)
    at: str | None = Field(default=None, max_length=40)
    targets: str | None = Field(default=None, max_length=2000)


class Acknowledgement(BaseModel):
    """That somebody looks after an incident."""

    model_config = ConfigDict(extra="forbid", strict=True)
    detail: str = Field(default="", max_length=1500)


@router.post("/sites/{site:path}/events", responses=answers(pages.EventsPage))
def write_event(
    request: Request, desk: DeskOf, operator: Operator, site: str, entry: NewEvent
) -> Response:
    """Write into the log book of a site."""
    event = recorded(desk, site, operator, **entry.model_dump())
    return answer(request, pages.EventsPage(pages.Paging(1, 0, 1, None), (event,)))


@router.post(
    "/sites/{site:path}/incidents/{identifier}/acknowledge", responses=answers(pages.EventsPage)
)
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
    return answer(request, pages.EventsPage(pages.Paging(1, 0, 1, None), (event,)))


def acknowledged(desk: Desk, site: str, operator: Identity, identifier: str, detail: str) -> Event:
    """Write into the log book that somebody looks after an incident, and return the entry."""
    incident = desk.incident(site, identifier)
    words = f"{ACKNOWLEDGED} {incident.id}" + (f": {detail.strip()}" if detail.strip() else "")
    return recorded(desk, site, operator, kind=EventKind.NOTE.value, detail=words)


ACKNOWLEDGED: Final = "acknowledged incident"
SOURCE: Final = "dashboard"


def recorded(
    desk: Desk,
    site: str,
    operator: Identity,
    *,
    kind: str,
    detail: str,
    at: str | None = None,
    targets: str | None = None,
) -> Event:
    """Write an event in a person's name, and return it."""
    event = add_event(
        desk.store,
        desk.place(site),
        kind=kind,
        detail=detail,
        now=desk.now(site),
        at=at or None,
        targets=targets or None,
        source=f"{SOURCE}: {operator.user}",
    )
    desk.forget_mark(site)
    return event
