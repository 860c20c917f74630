"""Purges on the dashboard, as pages and as documents: horizon, owners, plans, runs, approvals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from trimtab.base.error import Message, TrimtabError
from trimtab.base.event import Event, EventKind
from trimtab.base.finding import Tone
from trimtab.show.document import Document
from trimtab.web.access import Admin, Identity, Person, Role
from trimtab.web.api import ENTRY, PREFIX, WrittenEntry, answer, document, log_book
from trimtab.web.desk import Desk, DeskOf
from trimtab.web.request_guard import form_field
from trimtab.web.template import MARKED, ROWS, Address, Offset, figures, link, page, part, sections

if TYPE_CHECKING:
    from trimtab.purge.horizon.horizon_answer import HorizonAnswer
    from trimtab.purge.plan.site_plan import SitePlan
    from trimtab.purge.run.purge_report import PurgeReport
    from trimtab.show.chart import Chart
    from trimtab.web.api_document import HorizonsPage, PlanEntry, PlansPage

router = APIRouter(include_in_schema=False)
api_router = APIRouter(prefix=PREFIX)
PLANS: Final = "plans"
_SNAPSHOTS: Final = 60
_EVENTS: Final = 20


# Plans and runs on this host


def plans_of(desk: Desk, site: str) -> tuple[tuple[SitePlan, ...], tuple[Message, ...]]:
    """Return the purge plans of a site on this host, and why some are not shown."""
    from trimtab.purge.plan.site_plan import site_plans

    place, events = desk.place(site), desk.events(site)
    return desk.recent(
        PLANS, site, lambda: site_plans(place, desk.purges, events, desk.now(site)), events
    )


def runs_of(desk: Desk, site: str) -> PurgeReport:
    """Return what runs of purges on this host deleted of a site."""
    from trimtab.purge.plan.site_plan import site_runs

    place = desk.place(site)
    return desk.recent("purge-runs", site, lambda: site_runs(place, desk.purges))


# Pages


@dataclass(frozen=True, slots=True)
class PurgeParts:
    """Contents of the page of purges; without a horizon there is no answer.

    Attributes
    ----------
    answer, tone, details, subtitle
        Parts of the horizon that is shown.
    record
        The end of the page, as text.
    """

    answer: str
    tone: Tone
    details: tuple[str, ...]
    subtitle: str
    record: str


@router.get("/s/{site:path}/purge")
def purge_page(
    request: Request,
    desk: DeskOf,
    identity: Person,
    site: str,
    *,
    result: Address = "",
    offset: Offset = 0,
) -> Response:
    """Show horizon, owners, plans and past runs; a viewer sees of owners themselves alone."""
    from trimtab.purge.plan.site_plan import own_lists

    only, now, of_file = shown_owners(identity), desk.now(site), desk.place(site).site

    def make() -> PurgeParts:
        return _purge_parts(desk, site, result, only)

    noun, tables = f"purge {result}", ("result", "snapshot", *MARKED)
    # Of viewers there may be many.
    of_record = desk.remembered(site, noun, PurgeParts, make, *tables) if only is None else make()
    plans, problems = plans_of(desk, site)
    of_runs = _runs(desk, site, only)
    return page(
        request,
        site,
        "purge",
        "purge.html.j2",
        of_record=of_record,
        report=of_runs,
        runs=() if of_runs is None else sections(desk, site, "runs of purges", of_runs),
        plans=plans,
        now=now,
        plans_directory=None if of_file is None else of_file.policies.purge.directory,
        plan_problems=problems,
        lists=tuple(own_lists(plans, identity.user, now, offset=offset, limit=ROWS)),
        result=result,
        offset=offset,
        rows_each=ROWS,
        may_approve=identity.role.covers(Role.ADMIN),
        record=Markup(of_record.record),
    )


def _purge_parts(desk: Desk, site: str, result: str, only: frozenset[int] | None) -> PurgeParts:
    from trimtab.purge.horizon.horizon_answer import HorizonResult
    from trimtab.purge.horizon.page import horizon_document

    horizons = desk.results(site, HorizonResult)
    chosen = horizons.chosen(result)
    document, noun = Document(""), ""
    if chosen is not None:
        document, noun = horizon_document(chosen.value, only), f"horizon {chosen.id}"
    events = desk.store.events(site=site, kinds=[EventKind.PURGE])
    record = part(
        "purge_record.html.j2",
        site=site,
        horizons=horizons,
        chosen=chosen,
        sections=sections(desk, site, noun, document),
        space=Markup(figures(desk, site, "space", [_space(desk, site)])),
        events=events[: -_EVENTS - 1 : -1],
        events_total=len(events),
    )
    subtitle = "" if chosen is None else f"{document.heading}: {document.subtitle}."
    return PurgeParts(document.answer, document.tone, document.details, subtitle, record)


def _runs(desk: Desk, site: str, only: frozenset[int] | None) -> Document | None:
    """Return the page of what runs did; ``None`` where none is recorded."""
    from trimtab.purge.run.page import runs_document
    from trimtab.show.document import Section

    try:
        report = runs_of(desk, site)
    except TrimtabError as error:
        problem = Section("Runs of purges", lines=(f"Not known: {error.message}.",))
        return Document("", (problem,), kind="purge report", heading=site, tone="unclear")
    return runs_document(report, site, only) if report.days or report.plans else None


def _space(desk: Desk, site: str) -> Chart | None:
    """Return how full the site was over its snapshots, with its purges."""
    from trimtab.answers.page_month import space_chart
    from trimtab.show.chart import thinned
    from trimtab.store.snapshot_record import space_at

    times = desk.store.snapshot_times(site)
    space = space_at(desk.store, site, thinned(times, _SNAPSHOTS))
    chart = space_chart(space)
    if chart is None:
        return None
    caption = f"{len(space)} of {len(times):,} stored snapshots."
    return replace(chart, caption=caption)


@router.post("/s/{site:path}/purge/approve")
async def approve_form(request: Request, desk: DeskOf, admin: Admin, site: str) -> Response:
    """Record that an admin approves a plan, by its hash, and show it again."""
    sha256 = await form_field(request, "sha256")
    await run_in_threadpool(approved, desk, site, admin, sha256)
    return Response(status_code=303, headers={"location": link(site, "purge") + "#plans"})


# Documents


def shown_owners(identity: Identity) -> frozenset[int] | None:
    """Return the uids whose files a person may see; ``None``: everybody's."""
    if identity.role is not Role.VIEWER:
        return None
    from trimtab.purge.owner import number_of

    number = number_of("user", identity.user)
    return frozenset() if number is None else frozenset({number})


@document(api_router, "horizons")
def horizons(desk: DeskOf, identity: Person, site: str) -> HorizonsPage:
    """List the horizons of a site; a viewer sees of users themselves alone, and no project."""
    from trimtab.purge.horizon.horizon_answer import HorizonResult
    from trimtab.web.api_document import HorizonEntry, HorizonsPage

    only = shown_owners(identity)

    def shown(answer: HorizonAnswer) -> HorizonAnswer:
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


@document(api_router, "plans")
def plans(desk: DeskOf, site: str) -> PlansPage:
    """List the purge plans of a site on this host, the newest first."""
    from trimtab.web.api_document import PlanEntry, PlansPage

    listed, problems = plans_of(desk, site)
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


class Approval(WrittenEntry):
    """Approval of the plan with a hash by an admin."""

    sha256: str = Field(max_length=64)


@api_router.post("/sites/{site:path}/plans/approve", responses=ENTRY)
def approve_plan(
    request: Request, desk: DeskOf, admin: Admin, site: str, entry: Approval
) -> Response:
    """Record that an admin approves a purge plan by its hash. It arms nothing."""
    return answer(request, log_book(desk, [approved(desk, site, admin, entry.sha256)]))


def approved(desk: Desk, site: str, admin: Identity, sha256: str) -> Event:
    """Write into the log book that an admin approves a purge plan, and return the entry."""
    from trimtab.purge.plan.site_plan import approve

    place = desk.place(site)
    desk.forget(PLANS, site)
    listed, _ = plans_of(desk, site)
    return approve(
        desk.store,
        place,
        listed,
        place=desk.purges,
        sha256=sha256,
        who=admin.user,
        now=desk.now(site),
    )
