"""Analysis of a sweep: best settings, factors that matter, heat maps, knees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final

from trimtab.base.error import Message
from trimtab.base.run import METRIC_UNITS, Run, RunStatus, higher_is_better
from trimtab.judge.best_setting import (
    amount_of,
    best_settings,
    factor_effects,
    heat_map,
    is_protection,
    ordered_levels,
)
from trimtab.judge.scaling import AMOUNTS_MINIMUM, scaling
from trimtab.judge.sweep_result import (
    BestSetting,
    FactorEffect,
    HeatMap,
    Level,
    MeasuredPoint,
    Scaling,
    SweepAnalysis,
)

AMOUNTS: Final = frozenset(
    {"nodes", "tasks", "tasks_per_node", "stripe_count", "threads", "targets", "processes"}
)
"""Factors that are amounts: their curves are searched for a knee."""


def analyse_sweep(
    points: Sequence[MeasuredPoint],
    *,
    workload: Iterable[str] = (),
) -> SweepAnalysis:
    """Analyse a matrix of settings.

    Parameters
    ----------
    points
        One per combination of levels, with a value per round.
    workload
        Factors set by the application, not chosen: the best of the others is searched at each of
        their levels.

    Returns
    -------
    SweepAnalysis
        Best settings, effects, heat maps, scaling curves and notes.

    Raises
    ------
    KeyError
        A metric is unknown.
    ValueError
        A value is negative or not finite.
    """
    names = _metrics(points)
    workload = tuple(workload)
    best: list[BestSetting] = []
    effects: dict[str, tuple[FactorEffect, ...]] = {}
    maps: list[HeatMap] = []
    curves: list[Scaling] = []
    for metric in names:
        of_metric = best_settings(points, metric, workload=workload)
        best += of_metric
        effects[metric] = factor_effects(points, metric)
        bests = [setting.best for setting in of_metric if setting.best is not None]
        curves += [c for levels in bests for c in _curves(points, metric, levels)]
        if bests:
            maps += _maps(points, metric, effects[metric], bests[0])
    rounds = max((len(v) for point in points for v in point.values.values()), default=0)
    return SweepAnalysis(
        points=len(points),
        rounds=rounds,
        best=tuple(best),
        effects=effects,
        maps=tuple(maps),
        scaling=tuple(curves),
        notes=(*_notes(points, rounds), *_differing_without_factor(best, effects)),
    )


def measured_points(
    runs: Iterable[tuple[Mapping[str, Level], int, Run | None]],
) -> tuple[MeasuredPoint, ...]:
    """Return the points of a sweep from its runs.

    Parameters
    ----------
    runs
        Levels and round of each, from 0, with its run; ``None`` if nothing was measured.

    Notes
    -----
    A value is the median of a run's credible repetitions. A run that did not finish has 0 for every
    metric of the sweep in which more is better; a failed or different run has none.
    """
    grid: dict[str, tuple[Mapping[str, Level], dict[int, Run | None]]] = {}
    for levels, number, run in runs:
        key = repr(sorted((name, repr(level)) for name, level in levels.items()))
        grid.setdefault(key, (levels, {}))[1][number] = run
    measured = [run for _, rounds in grid.values() for run in rounds.values() if run is not None]
    metrics = {
        sample.metric for run in measured for sample in run.samples if sample.statistic == "total"
    }
    count = 1 + max((number for _, rounds in grid.values() for number in rounds), default=-1)
    return tuple(
        MeasuredPoint(
            levels,
            {
                metric: tuple(_figure(rounds.get(number), metric) for number in range(count))
                for metric in METRIC_UNITS
                if metric in metrics
            },
            _doubts(rounds.values()),
        )
        for levels, rounds in grid.values()
    )


def _doubts(runs: Iterable[Run | None]) -> dict[str, str]:
    """Return metric to why most runs' figures of it are not credible."""
    reasons_of: dict[str, Counter[str]] = {}
    for run in runs:
        for sample in run.samples if run is not None else ():
            if sample.is_total and sample.reason is not None:
                reasons_of.setdefault(sample.metric, Counter())[sample.reason] += 1
    return {metric: reasons.most_common(1)[0][0] for metric, reasons in reasons_of.items()}


def _figure(run: Run | None, metric: str) -> float | None:
    if run is None:
        return None
    if run.status is RunStatus.UNFINISHED:
        return 0.0 if higher_is_better(metric) else None
    if run.status not in (RunStatus.OK, RunStatus.PARTIAL):
        return None
    values = run.believed(metric)
    return median(values) if values else None


def _metrics(points: Sequence[MeasuredPoint]) -> tuple[str, ...]:
    measured = {metric for point in points for metric in point.values}
    return tuple(
        metric for metric, unit in METRIC_UNITS.items() if metric in measured and unit != "B"
    )


def _curves(
    points: Sequence[MeasuredPoint],
    metric: str,
    best: Mapping[str, Level],
) -> list[Scaling]:
    curves = []
    for factor in best:
        if factor not in AMOUNTS:
            continue
        levels = ordered_levels(p.levels[factor] for p in points if factor in p.levels)
        if len(levels) >= AMOUNTS_MINIMUM and all(amount_of(level) for level in levels):
            curves.append(scaling(points, metric, factor, fixed=best))
    return curves


def _maps(
    points: Sequence[MeasuredPoint],
    metric: str,
    effects: Sequence[FactorEffect],
    best: Mapping[str, Level],
) -> list[HeatMap]:
    """Return the map over the two factors with the largest shares; none for fewer than two."""
    singles = [effect.factors[0] for effect in effects if len(effect.factors) == 1]
    if len(singles) < 2:
        return []
    rows, columns = (name for name in best if name in singles[:2])
    return [heat_map(points, metric, row_factor=rows, column_factor=columns, fixed=best)]


def _differing_without_factor(
    best: Sequence[BestSetting], effects: Mapping[str, Sequence[FactorEffect]]
) -> list[Message]:
    """Return a note for each metric whose settings differ without any significant factor."""
    notes = []
    for metric, of_metric in effects.items():
        differing = any(
            setting.of_best is not None and setting.may_be_best is False
            for result in best
            if result.metric == metric
            for setting in result.settings
        )
        if differing and of_metric and all(effect.matters is False for effect in of_metric):
            notes.append(
                Message(
                    "no-single-factor",
                    f"{metric}: some settings differ significantly from the best, but no factor by "
                    "itself does, as settings differ in several factors; measure more rounds",
                )
            )
    return notes


def _notes(points: Sequence[MeasuredPoint], rounds: int) -> tuple[Message, ...]:
    notes = []
    if rounds < 2 and len(points) > 1:
        notes.append(
            Message("one-round", "one round does not show the noise: differences may be chance")
        )
    for factor in dict.fromkeys(name for point in points for name in point.levels):
        if is_protection(factor):
            notes.append(
                Message(
                    "protection",
                    f"{factor} protects data or the system: cost shown, no level recommended",
                )
            )
    return tuple(notes)
