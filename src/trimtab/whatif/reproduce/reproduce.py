"""Every number of the five documents that lies in the model, side by side with the twin's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trimtab.twin.scenario.load import load_scenario
from trimtab.twin.stack.predict import layer_rows
from trimtab.validation.statements import Row, SeededRow, seeded_row, statements
from trimtab.whatif.reproduce import aging, eth, perlmutter, seconds
from trimtab.whatif.reproduce.life import Life, LifeRun, with_classes
from trimtab.whatif.reproduce.tensions import Tension, tensions
from trimtab.whatif.runs import code_version, seeded

Together = Callable[[Iterable[Any]], Iterator[Any]]
"""Yields the answers of runs in their order, however many processes answer."""

DOCUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "nersc24": ("000", "001"),
    "sc21": ("002",),
    "eth21": ("003",),
    "hpe25": ("004",),
}
"""Names of the documents and their numbers in docs/sources.md: paper and slides are one."""


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
        Columns that stand for Perlmutter's OSTs; ``None``: as its scenario says.
    layers_only
        Leave out what needs time.
    """

    documents: tuple[str, ...] = tuple(DOCUMENTS)
    seeds: int = 3
    until_s: float | None = None
    classes: int | None = None
    layers_only: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """How many rows of each kind there are.

    Attributes
    ----------
    within
        Rows with an error of at most a tenth, fitted ones among them.
    silent
        Printed numbers of which the twin says nothing.
    """

    rows: int
    within: int
    missed: int
    fitted: int
    data: int
    not_printed: int
    silent: int


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The table, and what it was made from.

    Attributes
    ----------
    version
        Of the code, with a hash of the simulation's files.
    lives
        By name, one a seed: what the charts draw.
    curves
        By settings, one a seed: what OSTs write at each fullness.
    """

    terms: Terms
    version: str
    rows: tuple[SeededRow, ...]
    tensions: tuple[Tension, ...]
    lives: Mapping[str, Sequence[Life]]
    curves: Mapping[str, Sequence[Sequence[aging.Point]]]

    @property
    def summary(self) -> Summary:
        """Counts of the table."""
        return summary_of(self.rows)


def summary_of(seeded: Sequence[SeededRow]) -> Summary:
    """Return how many rows of each kind there are."""
    rows = [seeded_row.row for seeded_row in seeded]
    judged = [row for row in rows if row.error is not None]
    return Summary(
        rows=len(rows),
        within=sum(not row.missed for row in judged),
        missed=sum(row.missed for row in judged),
        fitted=sum(row.kind == "fitted" for row in rows),
        data=sum(row.kind == "data" for row in rows),
        not_printed=sum(row.kind == "not printed" for row in rows),
        silent=sum(row.kind in ("fitted", "predicted") and row.error is None for row in rows),
    )


def runs(terms: Terms) -> list[LifeRun]:
    """Return every simulation that the documents need, seed after seed for each name."""
    if terms.layers_only:
        return []
    wanted: list[LifeRun] = []
    nersc = with_classes(load_scenario("perlmutter"), terms.classes)
    if "nersc24" in terms.documents:
        wanted.append(LifeRun("perlmutter", nersc, terms.until_s))
        wanted += aging.fullness_runs(nersc)
    if "sc21" in terms.documents:
        wanted += aging.young_runs(nersc)
    if "eth21" in terms.documents:
        eth_run = eth.eth_run(load_scenario("eth-euler"))
        wanted.append(LifeRun(eth_run.name, eth_run.scenario, terms.until_s, eth_run.marks))
    return [
        LifeRun(run.name, scenario, run.until_s, run.marks, run.trims)
        for run in wanted
        for scenario in seeded(run.scenario, terms.seeds)
    ]


def reproduce(
    terms: Terms,
    together: Together,
    progress: Callable[[str, float], None] = lambda text, fraction: None,
) -> Reproduction:
    """Live every life that is needed, and return the table.

    Parameters
    ----------
    together
        Answers runs; the figures do not depend on how many processes do.
    """
    life_runs = runs(terms)
    lives: dict[str, list[Life]] = {}
    for done, (run, life) in enumerate(zip(life_runs, together(life_runs), strict=True), start=1):
        lives.setdefault(run.name, []).append(life)
        progress(f"{done} of {len(life_runs)} simulations", done / len(life_runs))
    curves = aging.curves(lives) if f"before {aging.FULLNESS[0]}" in lives else {}
    seeded_rows = [SeededRow(row) for row in _layers(terms.documents)]
    if not terms.layers_only:
        seeded_rows += timed(terms.documents, lives, curves)
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
    return Reproduction(terms, code_version(), tuple(ordered), tuple(contradictions), lives, curves)


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
        seeded_rows.append(seconds.latency_row(lives["perlmutter"][0].scenario, curves["before"]))
    if "sc21" in documents:
        seeded_rows += aging.young_rows(lives)
        seeded_rows += [perlmutter.days_row(lives[f"young {aging.YOUNG[0]}"][0].scenario)]
    if "eth21" in documents:
        seeded_rows += eth.rows(lives["eth"])
    seeds = {number for name in documents for number in DOCUMENTS[name]}
    return [row for row in seeded_rows if row.row.seed in seeds]


def _layers(documents: Sequence[str]) -> list[Row]:
    seeds = {number for name in documents for number in DOCUMENTS[name]}
    return [row for row in layer_rows() if row.seed in seeds]


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
