"""A sweep: every combination with every seed, and what it comes to with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

import polars as pl

from trimtab.errors import UsageError
from trimtab.message import Message
from trimtab.model.verdict import Interval
from trimtab.units import parse_fraction
from trimtab.whatif.figures import KINDS
from trimtab.whatif.runs import FigureCache, Figures, Model, Run, Together, answered, seeded, twin
from trimtab.whatif.vary import Combination, Varied

ASSUMPTIONS: Final = (
    "All of it is simulation: nothing of it becomes a setting before one real target has confirmed "
    "it.",
    "Intervals are over seeds: chance of users and placement within the model. That the model is "
    "wrong is not in them.",
    "Differences are between runs of the same seed, against the first combination.",
    "A setting that is varied stays as it is varied; what the scenario changes of it on its way is "
    "left out.",
    "Settings for integrity and security are shown with their cost and never recommended off.",
)


@dataclass(frozen=True, slots=True)
class SummedFigure:
    """One figure of a combination over its seeds.

    Attributes
    ----------
    mean, median
        ``None``: no run tells it.
    interval
        Of the median, as `seeds_interval` has it; ``None`` of fewer than `SEEDS_LEAST` runs.
    difference, difference_interval
        Median of run by run, against the first combination with the same seed; ``None`` of the
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
class Row:
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
        Number of its combination in `Swept.rows`.
    """

    row: int
    seed: int
    figures: Figures


@dataclass(frozen=True, slots=True)
class Swept:
    """A sweep that is done.

    Attributes
    ----------
    taken_up
        Runs whose figures were there already.
    without_effect
        Name of a setting to why no figure of any run depends on it.
    runs
        Every run, by combination and seed; empty where a document is all there is.
    """

    rows: tuple[Row, ...]
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
    """Run every combination with every seed, and return what they come to.

    Parameters
    ----------
    together
        Answers runs; the figures do not depend on how many processes do.
    cache
        Figures of earlier runs, which are not run again; each new one is stored at once.
    at_once
        As `answered` has it.
    """
    runs = [
        Run(scenario, until_s, model)
        for combination in combinations
        for scenario in seeded(combination.scenario, seeds)
    ]
    keys = [run.key for run in runs]
    missing = [place for place, key in enumerate(keys) if cache.get(key) is None]
    # Two combinations may be the same scenario: it is run once.
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
        Row(combination, summed(figures, by_combination[0] if number else None))
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
        each setting that is varied, ``seed`` (Int64), ``until_s`` (Float64), and each of `KINDS`
        (Float64, base units, null where the run does not tell it).
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
        Of each combination those of its seeds.
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
            f"fullness stays under every value: {100 * reached:.1f} % at most, and the least value "
            f"is {100 * least:.1f} %",
        )
    return Message("no-figure-differs", "every figure of every run is the same with each value")


def summed(runs: Sequence[Figures], first: Sequence[Figures] | None) -> tuple[SummedFigure, ...]:
    """Return each figure over the seeds, and its difference from ``first`` seed by seed."""
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
"""Of fewer the range holds the median of all seeds with less than 93 %: no interval."""


_OUTSIDE: Final = 1 - 0.9375
"""What may lie outside of an interval over seeds: five reach it."""


def seeds_interval(values: Sequence[float]) -> Interval | None:
    """Return the interval of the median over all seeds, by order: always within what runs gave.

    It assumes no distribution, so a bandwidth stays under its ceiling and over 0 where a few seeds
    fall off a cliff. ``None`` for fewer than `SEEDS_LEAST`.

    Notes
    -----
    The median of all seeds lies under the (k + 1)-th least of n or over the (k + 1)-th greatest
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
