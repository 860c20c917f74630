"""``trimtab whatif --json``."""

from __future__ import annotations

from trimtab.report.documents.base import Bounds, Document, bounds, level
from trimtab.twin.scenario.model import Scenario
from trimtab.whatif.figures import KINDS
from trimtab.whatif.sweep import Row, Swept


class ToldDocument(Document):
    """One figure of a combination over its seeds; differences are from the first combination."""

    name: str
    unit: str
    n: int
    mean: float | None
    interval: Bounds
    difference: float | None
    difference_interval: Bounds
    level: float | None
    reason: str | None


class CombinationDocument(Document):
    """One combination of what is varied."""

    settings: dict[str, str]
    figures: list[ToldDocument]


class WhatIfDocument(Document):
    """A sweep; all of it is simulation."""

    scenario: str
    seed: int
    seeds: int
    until_s: float
    combinations: list[CombinationDocument]
    assumptions: list[str]


def whatif_document(scenario: Scenario, swept: Swept) -> WhatIfDocument:
    """Return a sweep as its JSON document."""
    own = [f"{key}: {why}" for key, why in sorted(scenario.assumptions.items())]
    return WhatIfDocument(
        scenario=scenario.name,
        seed=scenario.seed,
        seeds=swept.seeds,
        until_s=swept.until_s,
        combinations=[_combination(row) for row in swept.rows],
        assumptions=[*swept.assumptions, *own],
    )


def _combination(row: Row) -> CombinationDocument:
    return CombinationDocument(
        settings=dict(row.combination.settings),
        figures=[_told(row, kind.name, kind.unit) for kind in KINDS],
    )


def _told(row: Row, name: str, unit: str) -> ToldDocument:
    one = row.figure(name)
    return ToldDocument(
        name=name,
        unit=unit,
        n=one.n,
        mean=one.mean,
        interval=bounds(one.interval),
        difference=one.difference,
        difference_interval=bounds(one.difference_interval),
        level=level(one.interval, one.difference_interval),
        reason=None if one.mean is not None else "no run tells it",
    )
