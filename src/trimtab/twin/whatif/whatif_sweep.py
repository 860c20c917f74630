"""Answers "what if?": sweeps a scenario or a site with seeds, and finds the best policy for users.

Combinations run in processes. Figures are summarised over seeds, with uncertainty; the best policy
is reported with its ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import ClassVar, Final

import polars as pl

from trimtab.base.encode import mapped, shape
from trimtab.base.error import Message, UsageError
from trimtab.base.site import who_works
from trimtab.base.units import parse_fraction
from trimtab.base.verdict import Interval
from trimtab.reach.dask_worker import answering
from trimtab.reach.worker_process import processors
from trimtab.site.lookup import with_dask
from trimtab.twin.scenario import Scenario
from trimtab.twin.scenario_check import replace_keys
from trimtab.twin.whatif.whatif_figure import (
    KINDS,
    FigureCache,
    FigureKind,
    Figures,
    Model,
    SimulatedRun,
    Together,
    answered,
    seeded,
    twin,
)
from trimtab.twin.whatif.whatif_request import (
    MOST,
    Combination,
    Varied,
    combinations,
    parse_axis,
    scenario_of,
)

ASSUMPTIONS: Final = (
    "This is a simulation: apply nothing before one real target has confirmed it.",
    "Intervals are over seeds: they cover the randomness of users and placement, not errors of the "
    "model.",
    "Differences are between runs with the same seed, against the first combination.",
    "A varied setting keeps its value; later changes of it in the scenario are ignored.",
    "Integrity and security settings are shown with their cost and never recommended off.",
)


@dataclass(frozen=True, slots=True)
class SummedFigure:
    """One figure of a combination over its seeds.

    Attributes
    ----------
    mean, median
        ``None`` if no run has it.
    interval
        Interval of the median, from `seeds_interval`; ``None`` for fewer than `SEEDS_LEAST` runs.
    difference, difference_interval
        Median of the differences to the first combination with the same seed; ``None`` for the
        first itself.
    """

    name: str
    n: int
    mean: float | None
    median: float | None
    interval: Interval | None
    difference: float | None
    difference_interval: Interval | None


@dataclass(frozen=True, slots=True)
class SweptRow:
    """A combination and its figures."""

    combination: Varied
    figures: tuple[SummedFigure, ...]

    def figure(self, name: str) -> SummedFigure:
        """Return a figure by its name."""
        return next(figure for figure in self.figures if figure.name == name)


@dataclass(frozen=True, slots=True)
class SeededRun:
    """One run of a sweep.

    Attributes
    ----------
    row
        Index of its combination in `Swept.rows`.
    """

    row: int
    seed: int
    figures: Figures


@dataclass(frozen=True, slots=True)
class Swept:
    """A finished sweep.

    Attributes
    ----------
    taken_up
        Number of runs with stored figures.
    without_effect
        Setting to the reason why no figure of any run depends on it.
    runs
        Every run, by combination and seed; empty if read from a document.
    """

    rows: tuple[SweptRow, ...]
    seeds: int
    until_s: float
    taken_up: int
    without_effect: Mapping[str, Message]
    assumptions: tuple[str, ...] = ASSUMPTIONS
    runs: tuple[SeededRun, ...] = ()


def sweep(
    combinations: Sequence[Combination],
    *,
    seeds: int,
    until_s: float,
    together: Together,
    cache: FigureCache,
    progress: Callable[[str, float], None] = lambda text, fraction: None,
    at_once: int = 1,
    model: Model = twin,
) -> Swept:
    """Run every combination with every seed, and return the summary.

    Parameters
    ----------
    together
        Executes runs; figures do not depend on the number of processes.
    cache
        Figures of earlier runs, which are not repeated; each new one is stored immediately.
    at_once
        See `answered`.
    """
    runs = [
        SimulatedRun(scenario, until_s, model)
        for combination in combinations
        for scenario in seeded(combination.scenario, seeds)
    ]
    keys = [run.key for run in runs]
    missing = [place for place, key in enumerate(keys) if cache.get(key) is None]
    # Two combinations may be the same scenario, which is run once.
    missing = list({keys[place]: place for place in reversed(missing)}.values())[::-1]
    to_run = [runs[place] for place in missing]
    answers = answered(to_run, together, progress, noun="runs", at_once=at_once)
    for place, figures in zip(missing, answers, strict=True):
        cache.put(keys[place], figures)
    known_figures = [cache.get(key) or {} for key in keys]
    by_combination = [
        known_figures[at * seeds : (at + 1) * seeds] for at in range(len(combinations))
    ]
    rows = tuple(
        SweptRow(combination, summed(figures, by_combination[0] if number else None))
        for number, (combination, figures) in enumerate(
            zip(combinations, by_combination, strict=True)
        )
    )
    idle = without_effect(combinations, by_combination)
    each = tuple(
        SeededRun(number // seeds, run.scenario.seed, figures)
        for number, (run, figures) in enumerate(zip(runs, known_figures, strict=True))
    )
    return Swept(rows, seeds, until_s, len(set(keys)) - len(missing), idle, runs=each)


def run_table(swept: Swept) -> pl.DataFrame:
    """Return a row for each run of a sweep, by combination and seed.

    Returns
    -------
    polars.DataFrame
        ``combination`` (Int64, from 0, in the order of `Swept.rows`), ``setting.NAME`` (String) for
        each varied setting, ``seed`` (Int64), ``until_s`` (Float64), and each of `KINDS`
        (Float64, base units, null if missing).
    """
    varied = [dict(row.combination.settings) for row in swept.rows]
    names = dict.fromkeys(name for settings in varied for name in settings)
    runs = swept.runs
    return pl.DataFrame(
        [
            pl.Series("combination", [run.row for run in runs], pl.Int64),
            *(
                pl.Series(f"setting.{name}", [varied[run.row].get(name) for run in runs], pl.String)
                for name in names
            ),
            pl.Series("seed", [run.seed for run in runs], pl.Int64),
            pl.Series("until_s", [swept.until_s] * len(runs), pl.Float64),
            *(
                pl.Series(kind.name, [run.figures.get(kind.name) for run in runs], pl.Float64)
                for kind in KINDS
            ),
        ]
    )


def without_effect(
    combinations: Sequence[Combination], figures: Sequence[Sequence[Figures]]
) -> dict[str, Message]:
    """Return each varied setting on which no figure of any run depends, and why.

    Parameters
    ----------
    figures
        Figures by combination, for each seed.
    """
    idle: dict[str, Message] = {}
    answers = list(zip((case.settings for case in combinations), figures, strict=True))
    for name, _ in combinations[0].settings if combinations else ():
        values = list(dict.fromkeys(dict(settings)[name] for settings, _ in answers))
        of_others: dict[tuple[tuple[str, str], ...], list[Sequence[Figures]]] = {}
        for settings, runs in answers:
            others = tuple(setting for setting in settings if setting[0] != name)
            of_others.setdefault(others, []).append(runs)
        alike = all(runs == group[0] for group in of_others.values() for runs in group)
        if len(values) > 1 and alike:
            idle[name] = _why_idle(name, values, figures)
    return idle


def _why_idle(name: str, values: Sequence[str], figures: Sequence[Sequence[Figures]]) -> Message:
    figure = {"purge": "fullness", "gating": "fullest", "purge.target": "fullness"}.get(name)
    known = [run.get(figure) for runs in figures for run in runs] if figure is not None else []
    reached = max((value for value in known if value is not None), default=None)
    try:
        least = min(map(parse_fraction, values))
    except UsageError:  # off and on
        least = None
    if reached is not None and least is not None and reached < least:
        return Message(
            "value-not-reached",
            f"fullness stays below every value: it reaches {100 * reached:.1f} %, and the lowest "
            f"value is {100 * least:.1f} %",
        )
    return Message("no-figure-differs", "all figures of all runs are equal for every value")


def summed(runs: Sequence[Figures], first: Sequence[Figures] | None) -> tuple[SummedFigure, ...]:
    """Summarise each figure over seeds, with its difference from ``first`` by seed."""
    return tuple(_summed(kind.name, runs, first) for kind in KINDS)


def _summed(name: str, runs: Sequence[Figures], first: Sequence[Figures] | None) -> SummedFigure:
    values = [value for run in runs if (value := run.get(name)) is not None]
    pairs = [] if first is None else [_pair(name, *both) for both in zip(runs, first, strict=True)]
    differences = [pair for pair in pairs if pair is not None]
    return SummedFigure(
        name,
        len(values),
        fmean(values) if values else None,
        median(values) if values else None,
        seeds_interval(values),
        median(differences) if differences else None,
        seeds_interval(differences),
    )


SEEDS_LEAST: Final = 5
"""With fewer seeds the range covers the median with less than 93 %: no interval."""


_OUTSIDE: Final = 1 - 0.9375
"""Maximum probability outside of an interval over seeds; five seeds reach it."""


def seeds_interval(values: Sequence[float]) -> Interval | None:
    """Return the interval of the median over all seeds, from order statistics.

    It assumes no distribution and is always within the runs' range, so a bandwidth stays between 0
    and its ceiling even if a few seeds collapse. ``None`` for fewer than `SEEDS_LEAST`.

    Notes
    -----
    The median of all seeds is below the (k + 1)-th smallest of n or above the (k + 1)-th largest
    with probability 2^(1 - n) times the sum of C(n, i) for i from 0 to k (order statistics; David
    and Nagaraja 2003, 7.1).
    """
    count = len(values)
    if count < SEEDS_LEAST:
        return None
    ordered, cut, outside = sorted(values), 0, 2.0 ** (1 - count)
    while (more := outside + math.comb(count, cut + 1) * 2.0 ** (1 - count)) <= _OUTSIDE:
        cut, outside = cut + 1, more
    return Interval(ordered[cut], ordered[count - 1 - cut], 1 - outside)


def _pair(name: str, run: Mapping[str, float | None], other: Figures) -> float | None:
    value, before = run.get(name), other.get(name)
    return None if value is None or before is None else value - before


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure of a combination over its seeds; differences are from the first combination."""

    figure: SummedFigure
    unit: str


@dataclass(frozen=True, slots=True)
class WhatIfDocument:
    """A sweep; all of it is simulation."""

    scenario: Scenario
    swept: Swept


def _figures(row: SweptRow) -> list[FigureRow]:
    return [FigureRow(row.figure(kind.name), kind.unit) for kind in KINDS]


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
    SweptRow,
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


GOALS: Final = ("ior_write", "ost_write", "ior_read")
"""Deciding figures: the first one known for every combination counts; more is better."""
NEVER_RECOMMENDED: Final = frozenset({"clients.checksums", "clients.saferet"})
"""Integrity and security settings: their cost is shown, but none is called the best."""
_KINDS: Final = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Best:
    """The best combination by one figure.

    Attributes
    ----------
    row
        Its index in the sweep.
    tied
        Indices of combinations with overlapping intervals; empty without intervals.
    tested
        Whether there are enough seeds for intervals.
    """

    goal: FigureKind
    row: int
    tied: tuple[int, ...]
    tested: bool


def best_of(swept: Swept) -> Best | None:
    """Return the combination with the highest goal figure.

    ``None`` for a single combination, without a goal figure known for all, if all are equal, or if
    an integrity or security setting is varied.
    """
    names = {name for row in swept.rows for name, _ in row.combination.settings}
    if len(swept.rows) < 2 or names & NEVER_RECOMMENDED:
        return None
    for name in GOALS:
        values = [row.figure(name).median for row in swept.rows]
        known = [value for value in values if value is not None]
        if len(known) == len(values) and max(known) > min(known):
            return _best(swept.rows, known, _KINDS[name])
    return None


def _best(rows: tuple[SweptRow, ...], values: list[float], goal: FigureKind) -> Best:
    place = values.index(max(values))
    intervals = [row.figure(goal.name).interval for row in rows]
    best = intervals[place]
    tied = tuple(
        other
        for other, interval in enumerate(intervals)
        if other != place and best is not None and interval and interval.high >= best.low
    )
    return Best(goal, place, tied, tested=None not in intervals)


def varying(swept: Swept) -> tuple[FigureKind, ...]:
    """Return the figures that differ between combinations by more than 1 % of the largest."""
    differing = []
    for kind in KINDS:
        values = [row.figure(kind.name).median for row in swept.rows]
        known = [value for value in values if value is not None]
        if known and max(known) - min(known) > 0.01 * max(abs(value) for value in known):
            differing.append(kind)
    return tuple(differing)


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """A sweep of the twin, without its single runs.

    Attributes
    ----------
    scenario
        Name of the scenario that was varied.
    """

    KEPT_AS: ClassVar = "what-if"

    scenario: str
    seed: int
    swept: Swept


def whatif_result(scenario: Scenario, swept: Swept) -> WhatIfResult:
    """Return the part of a sweep that is stored."""
    rows = tuple(replace(row, combination=Varied(row.combination.settings)) for row in swept.rows)
    return WhatIfResult(scenario.name, scenario.seed, replace(swept, rows=rows, runs=()))


_SEEDS_MOST = 1000


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A question: which scenario or site, varied how.

    Attributes
    ----------
    where
        A preset, a scenario's file, or a site whose driver is the twin.
    vary
        ``NAME=VALUES`` each.
    until_s
        Simulated time; ``None``: all of the scenario.
    workers
        Processes; ``None``: one a processor. The figures do not depend on it.
    dask
        As for `trimtab.site.lookup.with_dask`.
    results
        File that stores the figures; ``None``: they are not stored.
    """

    where: str
    vary: tuple[str, ...] = ()
    seeds: int = 1
    until_s: float | None = None
    classes: int | None = None
    workers: int | None = None
    dask: str | None = None
    most: int = MOST
    results: Path | None = None


def what_if(
    question: WhatIf,
    progress: Callable[[str, float], None] = lambda text, fraction: None,
    *,
    model: Model = twin,
) -> tuple[Scenario, Swept]:
    """Return the scenario that was varied, and what became of it.

    Raises
    ------
    UsageError
        There is no such scenario, setting or value, the sweep is too large, or Dask is not
        installed.
    ToolError
        A worker was killed, or the scheduler cannot be reached.
    """
    if not 1 <= question.seeds <= _SEEDS_MOST:
        raise UsageError(
            f"--seeds: {question.seeds} must be 1 to {_SEEDS_MOST}", code="option-invalid"
        )
    scenario, site = scenario_of(question.where)
    dask = with_dask(site, question.dask, workers=question.workers)
    workers, dask = who_works(question.workers, dask)
    if question.classes is not None:
        scenario = replace_keys(scenario, {"resolution.classes": str(question.classes)})
    until_s = scenario.length_s if question.until_s is None else question.until_s
    if until_s > scenario.length_s:
        raise UsageError(
            f"--until: {until_s / 86400:.0f} days are more than the scenario has "
            f"({scenario.length_s / 86400:.0f})",
            code="until-too-late",
            hint="set scenario.length for a longer one",
        )
    cases = combinations(scenario, [parse_axis(axis) for axis in question.vary], most=question.most)
    hint = "fewer --workers need less memory; completed runs are stored, so start it again"
    most = len(cases) * question.seeds
    with answering(workers, dask, most=most, hint=hint) as together:
        swept = sweep(
            cases,
            seeds=question.seeds,
            until_s=until_s,
            together=together,
            cache=FigureCache(question.results),
            progress=progress,
            at_once=1 if dask is not None else workers or processors(),
            model=model,
        )
    return scenario, swept
