"""The pages of commands' results: ladder, sweeps, twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from fastapi import APIRouter, Request, Response

from trimtab.base.error import TrimtabError
from trimtab.base.text import minute_text
from trimtab.web.api_result import ladder_of, sweep_of
from trimtab.web.desk import DeskOf
from trimtab.web.request_guard import heavy_with
from trimtab.web.template import Address, framed, part, sections

if TYPE_CHECKING:
    from trimtab.twin.scenario import Scenario
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
    """Show the efficiency of each layer, from the newest results."""

    def make() -> str:
        from trimtab.probe.page_comparison import ladder_document

        document = ladder_document(ladder_of(desk, site, per or None))
        drawn = sections(desk, site, noun, document)
        return part("ladder.html.j2", site=site, document=document, sections=drawn, per=per)

    noun = f"ladder {per}"
    return framed(request, site, "ladder", desk.remembered(site, noun, str, make))


# Inventory


@router.get("/s/{site:path}/inventory")
def inventory_page(request: Request, desk: DeskOf, site: str) -> Response:
    """Show in what the servers differed when they were last asked, and what had changed."""

    def make() -> str:
        from trimtab.base.inventory import Inventory
        from trimtab.probe.inventory import compared
        from trimtab.probe.page_inventory import inventory_document

        newest = desk.results(site, Inventory, limit=2).held
        if not newest:
            return part("inventory.html.j2", site=site, document=None)
        since = newest[1].at if len(newest) > 1 else None
        document = inventory_document(compared(desk.store, site, newest[0].value, since, None))
        drawn = sections(desk, site, "inventory", document)
        return part("inventory.html.j2", site=site, document=document, sections=drawn)

    body = desk.remembered(site, "inventory", str, make, "result")
    return framed(request, site, "inventory", body)


# Sweeps


@router.get("/s/{site:path}/sweeps", dependencies=heavy_with("workload"))
def sweeps_page(
    request: Request, desk: DeskOf, site: str, *, name: Address = "", workload: Address = ""
) -> Response:
    """List the sweeps of a site, and show one: best setting, what matters, maps, knees."""

    def make() -> str:
        from trimtab.base.run import doubts_text
        from trimtab.probe.page_sweep import sweep_document

        sweeps = desk.status(site).sweeps
        chosen = name or (sweeps[0].name if sweeps else "")
        if not chosen:
            return part("sweeps.html.j2", sweeps=(), chosen="")
        stored, analysis = sweep_of(desk, site, chosen, (workload,) if workload else ())
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


# Twin


@router.get("/s/{site:path}/twin")
def twin_page(request: Request, desk: DeskOf, site: str, *, result: Address = "") -> Response:
    """Show questions put to the twin, the scenario of a simulated site, and all scenarios."""
    of_file, scenario, problem = desk.place(site).site, None, None
    try:
        if of_file is not None:
            from trimtab.twin.whatif.whatif_request import scenario_of_site

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
    """Return the body of the page of the twin; ``problem``: why its scenario is unknown."""
    from trimtab.twin.page import scenario_document, scenarios_document
    from trimtab.twin.scenario_file import load_scenario, preset_names
    from trimtab.twin.whatif.page import whatif_document
    from trimtab.twin.whatif.whatif_sweep import WhatIfResult

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
