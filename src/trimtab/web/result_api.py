"""The API of what commands worked out: ladder, sweeps, what-ifs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Query

from trimtab.model.sweep import SweepPoint
from trimtab.web.api import PREFIX, document
from trimtab.web.desk import DeskOf
from trimtab.web.turns import heavy_with

if TYPE_CHECKING:
    from trimtab.web.documents import (
        Ladder,
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
