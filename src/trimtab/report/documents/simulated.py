"""Documents of the twin: whatif, size and ``twin wa|list|show|run``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.report.documents.encode import mapped, shape
from trimtab.twin.amplification import Amplification
from trimtab.twin.kept import TwinRun
from trimtab.twin.scenario import facts
from trimtab.twin.scenario.geometry import capacity_bytes
from trimtab.twin.scenario.model import Scenario
from trimtab.whatif import sweep
from trimtab.whatif.figures import KINDS
from trimtab.whatif.sizing.figures import Figure
from trimtab.whatif.sizing.sizing import Sizing


@dataclass(frozen=True, slots=True)
class AmplificationDocument:
    """Units that a drive writes per unit from the host, in steady state."""

    amplification: Amplification
    drive: str | None


@dataclass(frozen=True, slots=True)
class ScenarioSummary:
    """One scenario of a list; bytes are those at the start."""

    scenario: Scenario


@dataclass(frozen=True, slots=True)
class ScenariosDocument:
    """The scenarios that come with Trimtab."""

    scenarios: tuple[ScenarioSummary, ...]


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure of a combination over its seeds; differences are from the first combination."""

    figure: sweep.SummedFigure
    unit: str


@dataclass(frozen=True, slots=True)
class WhatIfDocument:
    """A sweep; all of it is simulation."""

    scenario: Scenario
    swept: sweep.Swept


def _figures(row: sweep.Row) -> list[FigureRow]:
    return [FigureRow(row.figure(kind.name), kind.unit) for kind in KINDS]


shape(Amplification, derive={"relative_error": "relative_error"})
shape(AmplificationDocument, inline={"amplification": ()})
shape(facts.Setting, omit=["text"])
shape(
    Scenario,
    omit=[
        *("osts", "mdts", "server", "clients", "users", "resolution", "allocator", "queue"),
        *("trim", "placement", "purge", "gating"),
    ],
    derive={
        "end": "end",
        "capacity_bytes": (float, capacity_bytes),
        "capacity_at_end_bytes": (
            float,
            lambda scenario: capacity_bytes(facts.at_the_end(scenario)),
        ),
        "settings": (tuple[facts.Setting, ...], facts.settings),
        "lifetimes": "users.lifetimes",
    },
)
shape(
    ScenarioSummary,
    inline={"scenario": ("name", "title", "start", "end", "capacity_bytes")},
    derive={
        "osts": "scenario.osts.count",
        "probes": mapped("scenario.probes", len, int),
        "changes": mapped("scenario.changes", len, int),
        "faults": mapped("scenario.faults", len, int),
    },
)
shape(
    TwinRun,
    omit=["statuses"],
    derive={"scenario": "scenario.name", "seed": "scenario.seed", "runs": "statuses"},
)
shape(
    FigureRow,
    inline={"figure": ()},
    derive={
        "reason": (
            str | None,
            lambda row: None if row.figure.mean is not None else "no run has this figure",
        )
    },
)
shape(
    sweep.Row,
    omit=["combination"],
    derive={
        "settings": mapped("combination.settings", dict, Mapping[str, str]),
        "figures": (tuple[FigureRow, ...], _figures),
    },
)
shape(
    WhatIfDocument,
    omit=["swept"],
    derive={
        "scenario": "scenario.name",
        "seed": "scenario.seed",
        "seeds": "swept.seeds",
        "until_s": "swept.until_s",
        "combinations": "swept.rows",
        "without_effect": "swept.without_effect",
        "assumptions": (
            tuple[str, ...],
            lambda document: (*document.swept.assumptions, *document.scenario.assumption_lines),
        ),
    },
)
shape(
    Sizing,
    omit=["request", "amplified", "sections"],
    derive={
        "drive": "request.drive.name",
        "trim": mapped("request.trim", str, str),
        "seed": "request.seed",
        "figures": (
            tuple[Figure, ...],
            lambda sizing: [figure for section in sizing.sections for figure in section.figures],
        ),
        "schedules": "amplified",
    },
)
