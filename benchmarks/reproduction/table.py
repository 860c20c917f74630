"""Every number of the five documents that lies in the model, side by side with the twin's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.reproduction import aging, eth, perlmutter, seconds
from benchmarks.reproduction.life import Life, LifeRun, with_classes
from benchmarks.reproduction.predict import layers
from benchmarks.reproduction.statements import (
    CLASSES,
    Row,
    RowClass,
    SeededRow,
    seeded_row,
    statements,
)
from benchmarks.reproduction.tensions import Tension, tensions

from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.whatif.whatif_figure import Together, answered, code_version, seeded

DOCUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "nersc24": ("S1", "S2"),
    "sc21": ("S3",),
    "eth21": ("S4",),
    "hpe25": ("S5",),
}
"""Names of the documents and their numbers in docs/sources.md: paper and slides are one."""


SEEDS: Final = 10
"""Runs that an interval takes: the next one lies within the least and the greatest of ten with a
probability of 9/11."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked.

    Attributes
    ----------
    documents
        Names of `DOCUMENTS`.
    seeds
        Runs of each simulation.
    until_s
        Simulated time of Perlmutter and of ETH; ``None``: all of their scenarios.
    classes
        Columns that stand for Perlmutter's OSTs; ``None``: one for each.
    """

    documents: tuple[str, ...] = tuple(DOCUMENTS)
    seeds: int = SEEDS
    until_s: float | None = None
    classes: int | None = None

    @property
    def unscored(self) -> str | None:
        """Why rows that need time have no verdict; ``None``: they have."""
        if self.classes is not None:
            return f"{self.classes} columns stand for all OSTs: only all of them are scored"
        if self.until_s is not None:
            return "the simulations were cut short"
        if self.seeds < SEEDS:
            return f"{self.seeds} seeds: an interval takes {SEEDS}"
        return None


@dataclass(frozen=True, slots=True)
class ClassCount:
    """Rows of one class, by how they stand; the rest have no verdict."""

    row_class: RowClass
    rows: int
    met: int
    open: int
    missed: int


@dataclass(frozen=True, slots=True)
class Summary:
    """How many rows of each class there are, and how they stand.

    Attributes
    ----------
    within
        Rows of any class whose whole interval is where the document has it.
    missed
        Rows of any class of which no seed is there.
    silent
        Printed numbers within the model of which the twin says nothing.
    classes
        In the order of `CLASSES`.
    independent
        Groups of observations among the predictions with a verdict: rows of one group are one, and
        a group that something was fitted on is none.
    unscored
        Why rows that need time have no verdict; ``None``: they have.
    """

    rows: int
    within: int
    missed: int
    fitted: int
    data: int
    not_printed: int
    silent: int
    classes: tuple[ClassCount, ...]
    independent: int
    unscored: str | None

    def of(self, row_class: RowClass) -> ClassCount:
        """Return the counts of a class."""
        return next(count for count in self.classes if count.row_class == row_class)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The table, and what it was made from.

    Attributes
    ----------
    version
        Of the code, with a hash of the simulation's files.
    knees
        Where useless loops begin to cost writes, by thresholds and by the shape of free space.
    """

    terms: Terms
    version: str
    rows: tuple[SeededRow, ...]
    tensions: tuple[Tension, ...]
    knees: tuple[aging.Knee, ...]


def summary_of(seeded: Sequence[SeededRow]) -> Summary:
    """Return how many rows of each class there are, and how they stand."""
    rows = [seeded_row.row for seeded_row in seeded]
    verdicts = Counter(seeded_row.verdict for seeded_row in seeded)
    fitted_groups = {row.group for row in rows if row.row_class == "fitted"}
    predicted_groups = {
        seeded_row.row.group
        for seeded_row in seeded
        if seeded_row.row.row_class == "prediction" and seeded_row.verdict is not None
    }
    return Summary(
        rows=len(rows),
        within=verdicts["met"],
        missed=verdicts["missed"],
        fitted=sum(row.row_class == "fitted" for row in rows),
        data=sum(row.kind == "data" for row in rows),
        not_printed=sum(row.kind == "not printed" for row in rows),
        silent=sum(row.kind in ("fitted", "predicted") and row.twin is None for row in rows),
        classes=tuple(_counts(row_class, seeded) for row_class in CLASSES),
        independent=len(predicted_groups - fitted_groups),
        unscored=next((row.unscored for row in seeded if row.unscored is not None), None),
    )


def _counts(row_class: RowClass, seeded: Sequence[SeededRow]) -> ClassCount:
    class_rows = [seeded_row for seeded_row in seeded if seeded_row.row.row_class == row_class]
    verdicts = Counter(seeded_row.verdict for seeded_row in class_rows)
    return ClassCount(
        row_class, len(class_rows), verdicts["met"], verdicts["open"], verdicts["missed"]
    )


def runs(terms: Terms) -> list[LifeRun]:
    """Return every simulation that the documents need, seed after seed for each name."""
    wanted: list[LifeRun] = []
    nersc = with_classes(load_scenario("perlmutter"), terms.classes)
    if "nersc24" in terms.documents:
        nersc_run = perlmutter.perlmutter_run(nersc)
        wanted.append(replace(nersc_run, until_s=terms.until_s))
        wanted += aging.fullness_runs(nersc)
        wanted += [] if terms.until_s is not None else aging.knee_runs(nersc)
    if "sc21" in terms.documents:
        wanted += aging.young_runs(nersc)
    if "eth21" in terms.documents:
        eth_run = eth.eth_run(load_scenario("eth-euler"))
        wanted.append(replace(eth_run, until_s=terms.until_s))
    return [
        replace(run, scenario=scenario)
        for run in wanted
        for scenario in seeded(run.scenario, min(terms.seeds, run.most_seeds or terms.seeds))
    ]


def reproduce(
    terms: Terms,
    together: Together,
    progress: Callable[[str, float], None] = lambda text, fraction: None,
    *,
    at_once: int = 1,
) -> Reproduction:
    """Live every life that is needed, and return the table.

    Parameters
    ----------
    together
        Answers runs; the figures do not depend on how many processes do.
    at_once
        As `answered` has it.
    """
    life_runs = runs(terms)
    lives: dict[str, list[Life]] = {}
    answers = answered(life_runs, together, progress, noun="simulations", at_once=at_once)
    for run, life in zip(life_runs, answers, strict=True):
        lives.setdefault(run.name, []).append(life)
    curves = aging.curves(lives) if f"before {aging.FULLNESS[0]}" in lives else {}
    seeded_rows = _layers(terms.documents)
    seeded_rows += [
        replace(row, unscored=terms.unscored) for row in timed(terms.documents, lives, curves)
    ]
    seeded_rows += _shown(terms.documents, {row.row.id for row in seeded_rows})
    ordered = sorted(
        seeded_rows,
        key=lambda seeded: (_place(terms.documents, seeded.row), _number(seeded.row.id)),
    )
    throttled = (
        seconds.throttled_text(lives["perlmutter"][0].scenario, curves["before"]) if curves else ""
    )
    contradictions = [
        tension
        for document in terms.documents
        for tension in tensions(document, ordered, throttled)
    ]
    return Reproduction(
        terms,
        code_version(),
        tuple(ordered),
        tuple(contradictions),
        aging.knees(lives),
    )


def timed(
    documents: Sequence[str],
    lives: Mapping[str, Sequence[Life]],
    curves: Mapping[str, Sequence[Sequence[aging.Point]]],
) -> list[SeededRow]:
    """Return the rows that need time."""
    seeded_rows: list[SeededRow] = []
    if "nersc24" in documents:
        seeded_rows += perlmutter.rows(lives["perlmutter"])
        seeded_rows += aging.fullness_rows(curves)
        seeded_rows += seconds.latency_rows(lives["perlmutter"][0].scenario, curves["before"])
    if "sc21" in documents:
        seeded_rows += aging.young_rows(lives)
        seeded_rows += [perlmutter.days_row(lives[f"young {aging.YOUNG[0]}"][0].scenario)]
    if "eth21" in documents:
        seeded_rows += eth.rows(lives["eth"])
    seeds = {number for name in documents for number in DOCUMENTS[name]}
    return [row for row in seeded_rows if row.row.seed in seeds]


def _layers(documents: Sequence[str]) -> list[SeededRow]:
    seeds = {number for name in documents for number in DOCUMENTS[name]}
    return [seeded for seeded in layers() if seeded.row.seed in seeds]


def _shown(documents: Sequence[str], listed_ids: set[str]) -> list[SeededRow]:
    """Return what is only shown, of the documents asked for."""
    seeds = {number for name in documents for number in DOCUMENTS[name]}
    return [
        seeded_row(id, [])
        for id, target in statements().items()
        if target.data and target.seed in seeds and id not in listed_ids
    ]


def _place(documents: Sequence[str], row: Row) -> int:
    return next(at for at, name in enumerate(documents) if row.seed in DOCUMENTS[name])


def _number(id: str) -> tuple[int, str]:
    """Return what a row is sorted by: its number in the list, those without one last."""
    digits = id.split("-", maxsplit=1)[0]
    return (int(digits) if digits.isdecimal() else 10**6, "" if digits.isdecimal() else id)
