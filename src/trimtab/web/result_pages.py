"""The pages of what commands worked out: ladder, sweeps, purge, twin; a plan's approval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from trimtab.errors import TrimtabError
from trimtab.model.event import EventKind
from trimtab.report.kit import Tone
from trimtab.report.sections import Document
from trimtab.report.text import minute_text
from trimtab.web.access import Admin, Person, Role
from trimtab.web.desk import DeskOf
from trimtab.web.pages import MARKED, Address, Offset
from trimtab.web.record_pages import form_field
from trimtab.web.render import ROWS, figures, framed, link, page, part, sections
from trimtab.web.result_api import approved, shown_owners
from trimtab.web.turns import heavy_with

if TYPE_CHECKING:
    from trimtab.report.chart import Chart
    from trimtab.twin.scenario.model import Scenario
    from trimtab.web.desk import Desk

router = APIRouter(include_in_schema=False)
_SNAPSHOTS: Final = 60
_EVENTS: Final = 20


# Ladder


@router.get("/s/{site:path}/ladder")
def ladder_page(
    request: Request,
    desk: DeskOf,
    site: str,
    *,
    per: Literal["", "whole", "server", "ost", "drive"] = "",
) -> Response:
    """Show the efficiency of each layer, of the newest results."""

    def make() -> str:
        from trimtab.report.ladder import ladder_document

        document = ladder_document(desk.ladder(site, per or None))
        drawn = sections(desk, site, noun, document)
        return part("ladder.html.j2", site=site, document=document, sections=drawn, per=per)

    noun = f"ladder {per}"
    return framed(request, site, "ladder", desk.remembered(site, noun, str, make))


# Sweeps


@router.get("/s/{site:path}/sweeps", dependencies=heavy_with("workload"))
def sweeps_page(
    request: Request, desk: DeskOf, site: str, *, name: Address = "", workload: Address = ""
) -> Response:
    """List the sweeps of a site, and show one: best setting, what matters, maps, knees."""

    def make() -> str:
        from trimtab.model.excluded_runs import doubts_text
        from trimtab.report.sweep import sweep_document

        sweeps = desk.sweeps(site)
        chosen = name or (sweeps[0].name if sweeps else "")
        if not chosen:
            return part("sweeps.html.j2", sweeps=(), chosen="")
        stored, analysis = desk.sweep(site, chosen, (workload,) if workload else ())
        document = sweep_document(chosen, site, analysis)
        times = sorted(run.at for _, _, run in stored.measured if run.at is not None)
        return part(
            "sweeps.html.j2",
            site=site,
            sweeps=sweeps,
            chosen=chosen,
            workload=workload,
            stored=stored,
            document=document,
            sections=sections(desk, site, noun, document),
            doubts=doubts_text(stored.doubts),
            measured=f"{minute_text(times[0])} to {minute_text(times[-1])}"
            if times
            else "not known",
        )

    noun = f"sweep {[name, workload]}"
    return framed(request, site, "sweeps", desk.remembered(site, noun, str, make, "site"))


# Purge


@dataclass(frozen=True, slots=True)
class PurgeParts:
    """What the page of purges shows of the record; without a horizon no answer.

    Attributes
    ----------
    answer, tone, details, subtitle
        Of the horizon that is shown.
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
    from trimtab.loop.purging.plans import own_lists

    only, now, of_file = shown_owners(identity), desk.now(site), desk.place(site).site

    def make() -> PurgeParts:
        return _purge_parts(desk, site, result, only)

    noun, tables = f"purge {result}", ("result", "snapshot", *MARKED)
    # Of viewers there may be many.
    of_record = desk.remembered(site, noun, PurgeParts, make, *tables) if only is None else make()
    plans, problems = desk.plans(site)
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
    from trimtab.purge.horizon.answer import HorizonResult
    from trimtab.report.purge import horizon_document

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
    from trimtab.report.purge import runs_document
    from trimtab.report.sections import Section

    try:
        report = desk.purge_runs(site)
    except TrimtabError as error:
        problem = Section("Runs of purges", lines=(f"Not known: {error.message}.",))
        return Document("", (problem,), kind="purge report", heading=site, tone="unclear")
    return runs_document(report, site, only) if report.days or report.plans else None


def _space(desk: Desk, site: str) -> Chart | None:
    """Return how full the site was over its snapshots, with its purges."""
    from trimtab.loop.monthly import space_at
    from trimtab.report.chart import thinned
    from trimtab.report.monthly import space_chart

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


# Twin


@router.get("/s/{site:path}/twin")
def twin_page(request: Request, desk: DeskOf, site: str, *, result: Address = "") -> Response:
    """Show what was asked of the twin, the scenario of a simulated site, and those there are."""
    of_file, scenario, problem = desk.place(site).site, None, None
    try:
        if of_file is not None:
            from trimtab.loop.whatif import scenario_of_site

            scenario = scenario_of_site(of_file)
    except TrimtabError as error:
        problem = error.message

    def make() -> str:
        return _twin(desk, site, result, scenario, problem)

    rests_on = scenario, problem
    body = desk.remembered(site, f"twin {result}", str, make, "result", besides=rests_on)
    return framed(request, site, "twin", body)


def _twin(
    desk: Desk, site: str, result: str, scenario: Scenario | None, problem: str | None
) -> str:
    """Return the body of the page of the twin; ``problem``: why its scenario is not known."""
    from trimtab.loop.results import WhatIfResult
    from trimtab.report.scenario import scenario_document, scenarios_document
    from trimtab.report.whatif import whatif_document
    from trimtab.twin.scenario.load import load_scenario, preset_names

    results = desk.results(site, WhatIfResult)
    chosen = results.chosen(result)
    document = None
    if chosen is not None:
        document = whatif_document(chosen.value.scenario, chosen.value.swept)
    of_site = None if scenario is None else scenario_document(scenario)
    presets = scenarios_document([load_scenario(name) for name in preset_names()])
    shown = {f"what-if {chosen.id}" if chosen else "": document, "scenario": of_site,
             "presets": presets}  # fmt: skip
    drawn = [
        section
        for noun, each in shown.items()
        if each is not None
        for section in sections(desk, site, noun, each)
    ]
    return part(
        "twin.html.j2",
        site=site,
        results=results,
        chosen=chosen,
        document=document,
        sections=drawn,
        problem=problem,
        scenario=of_site,
    )
