"""The API of what commands worked out: ladder, sweeps, horizons, plans, what-ifs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from trimtab.loop.purging.plans import SitePlan, approve
from trimtab.model.event import Event
from trimtab.model.sweep import SweepPoint
from trimtab.purge.index.owners import user_number
from trimtab.report import documents
from trimtab.web import documents as pages
from trimtab.web.access import Identity, Role
from trimtab.web.api import (
    PREFIX,
    Admin,
    DeskOf,
    answer,
    heavy_with,
    identity_of,
    remembered,
)
from trimtab.web.desk import Desk
from trimtab.web.openapi import answers

router = APIRouter(prefix=PREFIX)
Asking = Annotated[Identity, Depends(identity_of)]
Scale = Literal["whole", "server", "ost", "drive"]


@router.get("/sites/{site:path}/ladder", responses=answers(documents.judged.Ladder))
def ladder(request: Request, desk: DeskOf, site: str, *, per: Scale | None = None) -> Response:
    """Return what `trimtab ladder SITE --json` prints."""

    def document() -> documents.judged.Ladder:
        return desk.ladder(site, per)

    return remembered(request, desk, site, document)


@router.get("/sites/{site:path}/sweeps", responses=answers(pages.SweepsPage))
def sweeps(request: Request, desk: DeskOf, site: str) -> Response:
    """List the sweeps that the store holds runs of."""
    desk.place(site)
    return answer(request, pages.SweepsPage(desk.sweeps(site)))


@router.get(
    "/sites/{site:path}/sweeps/{name}",
    responses=answers(documents.judged.SweepDocument),
    dependencies=heavy_with("workload"),
)
def sweep(
    request: Request,
    desk: DeskOf,
    site: str,
    name: str,
    *,
    workload: Annotated[list[str], Query(max_length=20)] = [],  # noqa: B006 (FastAPI copies it)
) -> Response:
    """Return a sweep as far as it was measured; what is left to measure stands in its file."""
    desk.place(site)

    def document() -> documents.judged.SweepDocument:
        stored, analysis = desk.sweep(site, name, tuple(workload))
        return documents.judged.SweepDocument(
            store=str(desk.store.location),
            site=site,
            name=name,
            points=tuple(SweepPoint(*point) for point in stored.measured),
            waiting=(),
            failures=(),
            doubts=stored.doubts,
            analysis=analysis,
        )

    return remembered(request, desk, site, document)


def shown_owners(identity: Identity) -> frozenset[int] | None:
    """Return the uids whose files a person may see; ``None``: everybody's."""
    if identity.role is not Role.VIEWER:
        return None
    number = user_number(identity.user)
    return frozenset() if number is None else frozenset({number})


@router.get("/sites/{site:path}/horizons", responses=answers(pages.HorizonsPage))
def horizons(request: Request, desk: DeskOf, identity: Asking, site: str) -> Response:
    """List the horizons of a site; a viewer sees of users themselves alone, and no project."""
    only = shown_owners(identity)

    def shown(held: pages.HorizonEntry) -> pages.HorizonEntry:
        if only is None:
            return held
        users = tuple(owned for owned in held.answer.users if owned.owner in only)
        return replace(held, answer=replace(held.answer, users=users, projects=()))

    results = desk.horizons(site)
    entries = (
        pages.HorizonEntry(
            result.id,
            result.at,
            result.value.root,
            result.value.usage,
            result.value.total,
            result.value.answer,
        )
        for result in results.held
    )
    return answer(request, pages.HorizonsPage(tuple(map(shown, entries)), results.problems))


@router.get("/sites/{site:path}/plans", responses=answers(pages.PlansPage))
def plans(request: Request, desk: DeskOf, site: str) -> Response:
    """List the purge plans of a site on this host, the newest first."""
    listed, problems = desk.plans(site)
    now = desk.now(site)

    def entry(plan: SitePlan) -> pages.PlanEntry:
        made, publication = plan.loaded.plan, plan.loaded.publication
        return pages.PlanEntry(
            plan=made.id,
            sha256=plan.loaded.sha256,
            state=plan.state(now),
            root=made.file_system.root,
            before=made.before,
            made_at=made.made_at,
            published_at=None if publication is None else publication.published_at,
            not_before=None if publication is None else publication.not_before,
            expires_at=made.expires_at,
            files=made.candidates.files,
            allocated_bytes=made.candidates.allocated_bytes,
            users=len(made.candidates.users),
            approved=plan.approved,
        )

    return answer(request, pages.PlansPage(tuple(map(entry, listed)), problems))


class Approval(BaseModel):
    """That an admin approves the plan of a hash."""

    model_config = ConfigDict(extra="forbid", strict=True)
    sha256: str = Field(max_length=64)


@router.post("/sites/{site:path}/plans/approve", responses=answers(pages.EventsPage))
def approve_plan(
    request: Request, desk: DeskOf, admin: Admin, site: str, entry: Approval
) -> Response:
    """Record that an admin approves a purge plan by its hash. It arms nothing."""
    event = approved(desk, site, admin, entry.sha256)
    return answer(request, pages.EventsPage(pages.Paging(1, 0, 1, None), (event,)))


def approved(desk: Desk, site: str, admin: Identity, sha256: str) -> Event:
    """Write into the log book that an admin approves a purge plan, and return the entry."""
    place = desk.place(site)
    desk.forget_plans(site)
    listed, _ = desk.plans(site)
    event = approve(
        desk.store,
        place,
        listed,
        place=desk.purges,
        sha256=sha256,
        who=admin.user,
        now=desk.now(site),
    )
    desk.forget_mark(site)
    return event


@router.get("/sites/{site:path}/whatif", responses=answers(pages.WhatIfsPage))
def what_ifs(request: Request, desk: DeskOf, site: str) -> Response:
    """List what was asked of the twin, the newest first; all of it is simulation."""
    desk.place(site)
    results = desk.what_ifs(site)
    entries = tuple(
        pages.WhatIfEntry(
            result.id, result.at, result.value.scenario, result.value.seed, result.value.swept
        )
        for result in results.held
    )
    return answer(request, pages.WhatIfsPage(entries, results.problems))
