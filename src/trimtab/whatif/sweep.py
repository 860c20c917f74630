"""A sweep: every combination with every seed, and what it comes to with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from trimtab.judge.spread import mean_interval
from trimtab.model.verdict import Interval
from trimtab.whatif.figures import KINDS, FigureKind
from trimtab.whatif.runs import FigureCache, Figures, Model, Run, seeded, twin
from trimtab.whatif.vary import Combination

Together = Callable[[Iterable[Any]], Iterator[Any]]
"""Yields the answers of runs in their order, however many processes answer."""
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
    mean
        ``None``: no run tells it.
    interval
        Of the mean; ``None`` of fewer than two runs.
    difference, difference_interval
        Mean of run by run, against the first combination with the same seed; ``None`` of the first
        itself.
    """

    name: str
    n: int
    mean: float | None
    interval: Interval | None
    difference: float | None
    difference_interval: Interval | None


@dataclass(frozen=True, slots=True)
class Row:
    """A combination and its figures."""

    combination: Combination
    figures: tuple[SummedFigure, ...]

    def figure(self, name: str) -> SummedFigure:
        """Return a figure by its name."""
        return next(figure for figure in self.figures if figure.name == name)


@dataclass(frozen=True, slots=True)
class Swept:
    """A sweep that is done.

    Attributes
    ----------
    taken_up
        Runs whose figures were there already.
    """

    rows: tuple[Row, ...]
    seeds: int
    until_s: float
    taken_up: int
    assumptions: tuple[str, ...] = ASSUMPTIONS


def sweep(
    combinations: Sequence[Combination],
    *,
    seeds: int,
    until_s: float,
    together: Together,
    cache: FigureCache,
    progress: Callable[[str, float], None] = lambda text, fraction: None,
    model: Model = twin,
) -> Swept:
    """Run every combination with every seed, and return what they come to.

    Parameters
    ----------
    together
        Answers runs; the figures do not depend on how many processes do.
    cache
        Figures of earlier runs, which are not run again; each new one is stored at once.
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
    for done, (place, figures) in enumerate(
        zip(missing, together(runs[place] for place in missing), strict=True), start=1
    ):
        cache.put(keys[place], figures)
        progress(f"{done} of {len(missing)} runs", done / len(missing))
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
    return Swept(rows, seeds, until_s, len(set(keys)) - len(missing))


def summed(runs: Sequence[Figures], first: Sequence[Figures] | None) -> tuple[SummedFigure, ...]:
    """Return each figure over the seeds, and its difference from ``first`` seed by seed."""
    return tuple(_summed(kind, runs, first) for kind in KINDS)


def _summed(
    kind: FigureKind, runs: Sequence[Figures], first: Sequence[Figures] | None
) -> SummedFigure:
    name = kind.name
    values = [value for run in runs if (value := run.get(name)) is not None]
    pairs = [] if first is None else [_pair(name, *both) for both in zip(runs, first, strict=True)]
    differences = [pair for pair in pairs if pair is not None]
    return SummedFigure(
        name,
        len(values),
        fmean(values) if values else None,
        _possible(mean_interval(values), kind),
        fmean(differences) if differences else None,
        mean_interval(differences),
    )


def _possible(interval: Interval | None, kind: FigureKind) -> Interval | None:
    """Return the part of an interval that can be: nothing here is negative, no share over 1."""
    if interval is None:
        return None
    most = 1.0 if kind.unit == "1" and not kind.name.endswith("cov") else math.inf
    low, high = (min(max(end, 0.0), most) for end in (interval.low, interval.high))
    return Interval(low, high, interval.level)


def _pair(name: str, run: Mapping[str, float | None], other: Figures) -> float | None:
    value, before = run.get(name), other.get(name)
    return None if value is None or before is None else value - before
