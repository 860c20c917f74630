"""The API of what commands worked out: ladder, sweeps, horizons, plans, what-ifs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from trimtab.model.event import Event
from trimtab.model.sweep import SweepPoint
from trimtab.web.access import Admin, Identity, Person, Role
from trimtab.web.api import ENTRY, PREFIX, Entry, answer, document, log_book
from trimtab.web.desk import Desk, DeskOf
from trimtab.web.turns import heavy_with

if TYPE_CHECKING:
    from trimtab.loop.purging.plans import SitePlan
    from trimtab.purge.horizon.answer import Answer
    from trimtab.web.documents import (
        HorizonsPage,
        Ladder,
        PlanEntry,
        PlansPage,
        SweepDocument,
        WhatIfsPage,
    )

router = APIRouter(prefix=PREFIX)
Scale = Literal["whole", "server", "ost", "drive"]


@document(router, "ladder", is_kept=True)
def ladder(desk: DeskOf, site: str, per: Scale | None = None) -> Ladder:
    """Return what `trimtab ladder SITE --json` prints."""
    return desk.ladder(site, per)


@document(router, "sweeps/{name}", is_kept=True, dependencies=heavy_with("workload"))
def sweep(
    desk: DeskOf,
    site: str,
    name: str,
    workload: Annotated[list[str], Query(max_length=20)] = [],  # noqa: B006 (FastAPI copies it)
) -> SweepDocument:
    """Return a sweep as far as it was measured; what is left to measure stands in its file."""
    from trimtab.web.documents import SweepDocument

    stored, analysis = desk.sweep(site, name, tuple(workload))
    points = tuple(SweepPoint(*point) for point in stored.measured)
    place = str(desk.store.location)
    return SweepDocument(place, site, name, points, stored.doubts, analysis)


def shown_owners(identity: Identity) -> frozenset[int] | None:
    """Return the uids whose files a person may see; ``None``: everybody's."""
    if identity.role is not Role.VIEWER:
        return None
    from trimtab.purge.index.owners import number_of

    number = number_of("user", identity.user)
    return frozenset() if number is None else frozenset({number})


@document(router, "horizons")
def horizons(desk: DeskOf, identity: Person, site: str) -> HorizonsPage:
    """List the horizons of a site; a viewer sees of users themselves alone, and no project."""
    from trimtab.purge.horizon.answer import HorizonResult
    from trimtab.web.documents import HorizonEntry, HorizonsPage

    only = shown_owners(identity)

    def shown(answer: Answer) -> Answer:
        if only is None:
            return answer
        users = tuple(owned for owned in answer.users if owned.owner in only)
        return replace(answer, users=users, projects=())

    results = desk.results(site, HorizonResult)
    entries = (
        HorizonEntry(
            each.id, each.at, each.value.root, each.value.usage, each.value.total,
            shown(each.value.answer),
        )
        for each in results.held
    )  # fmt: skip
    return HorizonsPage(tuple(entries), results.problems)


@document(router, "plans")
def plans(desk: DeskOf, site: str) -> PlansPage:
    """List the purge plans of a site on this host, the newest first."""
    from trimtab.web.documents import PlanEntry, PlansPage

    listed, problems = desk.plans(site)
    now = desk.now(site)

    def entry(plan: SitePlan) -> PlanEntry:
        made, publication = plan.loaded.plan, plan.loaded.publication
        return PlanEntry(
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

    return PlansPage(tuple(map(entry, listed)), problems)


class Approval(Entry):
    """That an admin approves the plan of a hash."""

    sha256: str = Field(max_length=64)


@router.post("/sites/{site:path}/plans/approve", responses=ENTRY)
def approve_plan(
    request: Request, desk: DeskOf, admin: Admin, site: str, entry: Approval
) -> Response:
    """Record that an admin approves a purge plan by its hash. It arms nothing."""
    return answer(request, log_book(desk, [approved(desk, site, admin, entry.sha256)]))


def approved(desk: Desk, site: str, admin: Identity, sha256: str) -> Event:
    """Write into the log book that an admin approves a purge plan, and return the entry."""
    from trimtab.loop.purging.plans import approve

    place = desk.place(site)
    desk.forget_plans(site)
    listed, _ = desk.plans(site)
    return approve(
        desk.store,
        place,
        listed,
        place=desk.purges,
        sha256=sha256,
        who=admin.user,
        now=desk.now(site),
    )


@document(router, "whatif")
def what_ifs(desk: DeskOf, site: str) -> WhatIfsPage:
    """List what was asked of the twin, the newest first; all of it is simulation."""
    from trimtab.loop.results import WhatIfResult
    from trimtab.web.documents import WhatIfEntry, WhatIfsPage

    results = desk.results(site, WhatIfResult)
    entries = (
        WhatIfEntry(each.id, each.at, each.value.scenario, each.value.seed, each.value.swept)
        for each in results.held
    )
    return WhatIfsPage(tuple(entries), results.problems)
