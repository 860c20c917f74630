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
class NoEffect:
    """A varied setting on which no figure of any run depends."""

    setting: str
    reason: str


@dataclass(frozen=True, slots=True)
class WhatIfDocument:
    """A sweep; all of it is simulation."""

    scenario: Scenario
    swept: sweep.Swept


def _figures(row: sweep.Row) -> list[FigureRow]:
    return [FigureRow(row.figure(kind.name), kind.unit) for kind in KINDS]


def _without_effect(document: WhatIfDocument) -> list[NoEffect]:
    return [NoEffect(name, why) for name, why in document.swept.without_effect.items()]


def _assumptions(document: WhatIfDocument) -> list[str]:
    assumptions = document.scenario.assumptions
    return [
        *document.swept.assumptions,
        *(f"{key}: {why}" for key, why in sorted(assumptions.items())),
    ]


shape(
    Amplification,
    omit=["terms", "warm", "measured"],
    derive={
        "relative_error": "relative_error",
        "warm_drive_writes": "warm",
        "measured_drive_writes": "measured",
        "spare": "terms.spare",
        "pages_per_block": "terms.units",
        "superblocks": "terms.superblocks",
        "policy": mapped("terms.policy", str, str),
        "live": "terms.live",
        "hot": "terms.hot",
        "separate": "terms.separate",
        "seed": "terms.seed",
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
    derive={
        "scenario": "scenario.name",
        "seed": "scenario.seed",
        "site_file": mapped("site_file", str, str),
        "truth": (tuple[str, ...], lambda run: list(map(str, run.truth))),
        "runs": "statuses",
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
        "without_effect": (tuple[NoEffect, ...], _without_effect),
        "assumptions": (tuple[str, ...], _assumptions),
    },
)
shape(
    Amplified,
    omit=["untrimmed", "trimmed"],
    inline={"case": ("fullness", "spare", "discard")},
    derive={
        "trim_every_capacities": "case.trim_every",
        "formula_trimmed": "trimmed",
        "formula_untrimmed": "untrimmed",
    },
)
shape(
    Comparison,
    omit=["own_never", "own_trimmed", "peer_never", "peer_trimmed"],
    inline={"peer": ()},
    derive={
        "never": "peer_never",
        "trimmed": "peer_trimmed",
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
shape(ScenarioDocument, inline={"scenario": ()})
shape(TwinRunDocument, inline={"run": ()})
shape(SizeDocument, inline={"sizing": ()})
