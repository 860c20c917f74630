"""The API for results of commands: ladder, sweeps, what-ifs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Query

from trimtab.base.error import UsageError, visible
from trimtab.judge.sweep_result import SweepAnalysis, SweepPoint
from trimtab.web.api import PREFIX, Moment, document, moment
from trimtab.web.desk import Desk, DeskOf
from trimtab.web.request_guard import heavy_with

if TYPE_CHECKING:
    from trimtab.base.inventory import InventoryDocument
    from trimtab.judge.efficiency_ladder import Ladder
    from trimtab.judge.sweep_result import SweepDocument
    from trimtab.probe.sweep import StoredSweep
    from trimtab.web.api_document import WhatIfsPage

api_router = APIRouter(prefix=PREFIX)
Scale = Literal["whole", "server", "ost", "drive"]


@document(api_router, "ladder", is_kept=True)
def ladder(desk: DeskOf, site: str, per: Scale | None = None) -> Ladder:
    """Return what `trimtab ladder SITE --json` prints."""
    return ladder_of(desk, site, per)


@document(api_router, "sweeps/{name}", is_kept=True, dependencies=heavy_with("workload"))
def sweep(
    desk: DeskOf,
    site: str,
    name: str,
    workload: Annotated[list[str], Query(max_length=20)] = [],  # noqa: B006 (FastAPI copies it)
) -> SweepDocument:
    """Return a sweep as far as it was measured; its file has what is left to measure."""
    from trimtab.judge.sweep_result import SweepDocument

    stored, analysis = sweep_of(desk, site, name, tuple(workload))
    points = tuple(SweepPoint(*point) for point in stored.measured)
    place = str(desk.store.location)
    return SweepDocument(place, site, name, points, stored.doubts, analysis)


def ladder_of(desk: Desk, site: str, scale: Scale | None = None) -> Ladder:
    """Return the ladder of the newest results of each layer."""
    from trimtab.judge.ladder_analysis import build_ladder
    from trimtab.probe.ladder import of_store

    return build_ladder(of_store(desk.store, desk.site(site)), scale=scale)


def sweep_of(
    desk: Desk, site: str, sweep: str, workload: tuple[str, ...] = ()
) -> tuple[StoredSweep, SweepAnalysis]:
    """Return a sweep as far as it was measured, and what it shows.

    Raises
    ------
    UsageError
        No sweep has that name, or a factor of the workload is not one of the sweep's.
    """
    from trimtab.judge.sweep_analysis import analyse_sweep, measured_points
    from trimtab.probe.sweep import stored_sweep

    if sweep not in {entry.name for entry in desk.status(site).sweeps}:
        raise UsageError("no such sweep", code="sweep-unknown")
    stored = stored_sweep(desk.store, site, sweep)
    if unknown := set(workload) - stored.varying:
        raise UsageError(
            f"{visible(min(unknown)[:80])} is no factor of this sweep", code="factor-unknown"
        )
    return stored, analyse_sweep(measured_points(stored.measured), workload=workload)


@document(api_router, "inventory")
def inventory(
    desk: DeskOf, site: str, *, since: Moment = None, until: Moment = None
) -> InventoryDocument:
    """Return what `trimtab inventory SITE --until TIME` prints: a kept inventory."""
    from trimtab.probe.inventory import compared

    return compared(desk.store, site, None, moment(since), moment(until, end=True))


@document(api_router, "whatif")
def what_ifs(desk: DeskOf, site: str) -> WhatIfsPage:
    """List the questions put to the twin, newest first; all of it is simulation."""
    from trimtab.twin.whatif.whatif_sweep import WhatIfResult
    from trimtab.web.api_document import WhatIfEntry, WhatIfsPage

    results = desk.results(site, WhatIfResult)
    entries = (
        WhatIfEntry(each.id, each.at, each.value.scenario, each.value.seed, each.value.swept)
        for each in results.held
    )
    return WhatIfsPage(tuple(entries), results.problems)
