"""Documents of the twin: whatif, reproduce, size and ``twin wa|list|show|run``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from trimtab.report.documents.encode import shape
from trimtab.twin.amplification import Amplification
from trimtab.twin.kept import TwinRun
from trimtab.twin.scenario import facts
from trimtab.twin.scenario.geometry import capacity_bytes
from trimtab.twin.scenario.model import Lifetime, Scenario
from trimtab.validation.statements import Figure as PrintedFigure
from trimtab.validation.statements import Relation, Row, SeededRow
from trimtab.whatif import sweep
from trimtab.whatif.figures import KINDS
from trimtab.whatif.reproduce.reproduce import Reproduction, Summary
from trimtab.whatif.sizing.amplifying import Amplified
from trimtab.whatif.sizing.figures import Figure
from trimtab.whatif.sizing.peer import Comparison
from trimtab.whatif.sizing.sizing import Sizing


@dataclass(frozen=True, slots=True)
class AmplificationDocument:
    """Units that a drive writes for each that it is given, in its steady state."""

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
class ScenarioDocument:
    """A whole scenario."""

    scenario: Scenario


@dataclass(frozen=True, slots=True)
class TwinRunDocument:
    """What was kept of a simulated stretch."""

    run: TwinRun


@dataclass(frozen=True, slots=True)
class SizeDocument:
    """What a file system takes; all of it is simulation or formula."""

    sizing: Sizing


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


@dataclass(frozen=True, slots=True)
class Printed:
    """What a document prints: a number in base units, or words where there is none."""

    value: float | None
    relation: Relation | None
    words: str | None


@dataclass(frozen=True, slots=True)
class ReproduceDocument:
    """The table; all of the twin's figures are simulation."""

    reproduction: Reproduction
    report: str | None = None


def _printed(row: Row) -> Printed:
    if isinstance(row.printed, PrintedFigure):
        return Printed(row.printed.value, row.printed.relation, None)
    return Printed(None, None, row.printed)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _why_no_error(row: Row) -> str | None:
    if _finite(row.error) is not None:
        return None
    if row.kind == "data":
        return "shown, not reproduced"
    return "the twin says nothing" if row.twin is None else "no number is printed"


def _figures(row: sweep.Row) -> list[FigureRow]:
    return [FigureRow(row.figure(kind.name), kind.unit) for kind in KINDS]


def _assumptions(document: WhatIfDocument) -> list[str]:
    own = document.scenario.assumptions
    return [
        *document.swept.assumptions,
        *(f"{key}: {why}" for key, why in sorted(own.items())),
    ]


shape(
    Amplification,
    omit=["terms", "warm", "measured"],
    derive={
        "relative_error": (float | None, lambda result: result.relative_error),
        "warm_drive_writes": (int, lambda result: result.warm),
        "measured_drive_writes": (int, lambda result: result.measured),
        "spare": (float, lambda result: result.terms.spare),
        "pages_per_block": (int, lambda result: result.terms.units),
        "superblocks": (int, lambda result: result.terms.superblocks),
        "policy": (str, lambda result: result.terms.policy),
        "live": (float, lambda result: result.terms.live),
        "hot": (tuple[float, float] | None, lambda result: result.terms.hot),
        "separate": (bool, lambda result: result.terms.separate),
        "seed": (int, lambda result: result.terms.seed),
    },
)
shape(AmplificationDocument, inline={"amplification": ()})
shape(facts.Setting, omit=["text"])
shape(
    Scenario,
    omit=[
        *("osts", "mdts", "server", "clients", "users", "resolution", "allocator", "queue"),
        *("trim", "placement", "purge", "gating"),
    ],
    derive={
        "end": (datetime, lambda scenario: scenario.end),
        "capacity_bytes": (float, capacity_bytes),
        "capacity_at_end_bytes": (
            float,
            lambda scenario: capacity_bytes(facts.at_the_end(scenario)),
        ),
        "settings": (tuple[facts.Setting, ...], facts.settings),
        "lifetimes": (tuple[Lifetime, ...], lambda scenario: scenario.users.lifetimes),
    },
)
shape(
    ScenarioSummary,
    inline={"scenario": ("name", "title", "start", "end", "capacity_bytes")},
    derive={
        "osts": (int, lambda summary: summary.scenario.osts.count),
        "probes": (int, lambda summary: len(summary.scenario.probes)),
        "changes": (int, lambda summary: len(summary.scenario.changes)),
        "faults": (int, lambda summary: len(summary.scenario.faults)),
    },
)
shape(
    TwinRun,
    omit=["statuses"],
    derive={
        "scenario": (str, lambda run: run.scenario.name),
        "seed": (int, lambda run: run.scenario.seed),
        "site_file": (str, lambda run: str(run.site_file)),
        "truth": (tuple[str, ...], lambda run: [str(path) for path in run.truth]),
        "runs": (Mapping[str, int], lambda run: run.statuses),
    },
)
shape(
    FigureRow,
    inline={"figure": ()},
    derive={
        "reason": (
            str | None,
            lambda row: None if row.figure.mean is not None else "no run tells it",
        )
    },
)
shape(
    sweep.Row,
    omit=["combination"],
    derive={
        "settings": (Mapping[str, str], lambda row: dict(row.combination.settings)),
        "figures": (tuple[FigureRow, ...], _figures),
    },
)
shape(
    WhatIfDocument,
    omit=["swept"],
    derive={
        "scenario": (str, lambda document: document.scenario.name),
        "seed": (int, lambda document: document.scenario.seed),
        "seeds": (int, lambda document: document.swept.seeds),
        "until_s": (float, lambda document: document.swept.until_s),
        "combinations": (tuple[sweep.Row, ...], lambda document: document.swept.rows),
        "assumptions": (tuple[str, ...], _assumptions),
    },
)
shape(
    Row,
    derive={
        "printed": (Printed, _printed),
        "twin": (float | None, lambda row: _finite(row.twin)),
        "error": (float | None, lambda row: _finite(row.error)),
        "missed": (bool, lambda row: row.missed),
        "reason": (str | None, _why_no_error),
    },
)
shape(
    SeededRow,
    omit=["low", "high"],
    inline={"row": ()},
    derive={
        "range": (
            tuple[float, float] | None,
            lambda told: None if told.low is None or told.high is None else (told.low, told.high),
        )
    },
)
shape(
    Reproduction,
    omit=["terms", "lives", "curves"],
    derive={
        "documents": (tuple[str, ...], lambda result: result.terms.documents),
        "seeds": (int, lambda result: result.terms.seeds),
        "summary": (Summary, lambda result: result.summary),
    },
)
shape(ReproduceDocument, inline={"reproduction": ()})
shape(
    Amplified,
    omit=["untrimmed", "trimmed"],
    inline={"case": ("fullness", "spare", "discard")},
    derive={
        "trim_every_capacities": (float | None, lambda one: one.case.trim_every),
        "formula_trimmed": (float, lambda one: one.trimmed),
        "formula_untrimmed": (float, lambda one: one.untrimmed),
    },
)
shape(
    Comparison,
    omit=["own_never", "own_trimmed", "peer_never", "peer_trimmed"],
    inline={"peer": ()},
    derive={
        "never": (Amplified | None, lambda comparison: comparison.peer_never),
        "trimmed": (Amplified | None, lambda comparison: comparison.peer_trimmed),
    },
)
shape(
    Sizing,
    omit=["request", "amplified", "sections"],
    derive={
        "drive": (str, lambda sizing: sizing.request.drive.name),
        "trim": (str, lambda sizing: sizing.request.trim),
        "seed": (int, lambda sizing: sizing.request.seed),
        "figures": (
            tuple[Figure, ...],
            lambda sizing: [figure for section in sizing.sections for figure in section.figures],
        ),
        "schedules": (Mapping[str, Amplified], lambda sizing: sizing.amplified),
    },
)
shape(ScenarioDocument, inline={"scenario": ()})
shape(TwinRunDocument, inline={"run": ()})
shape(SizeDocument, inline={"sizing": ()})
