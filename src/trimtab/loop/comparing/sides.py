"""A side of a comparison as the store has it: its series, each with its numbers by metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Final

from trimtab.errors import UsageError
from trimtab.loop.comparing.operands import Operand
from trimtab.measure.plain import as_dict, as_text
from trimtab.model.compare import Stretch
from trimtab.model.grouping import grouped
from trimtab.model.run import METRIC_UNITS, Run, RunStatus
from trimtab.model.sweep import SWEEP
from trimtab.model.verdict import HistoryPoint
from trimtab.record.comparability import ASKED, comparability_key
from trimtab.record.history import JUDGED
from trimtab.units import parse_bytes, parse_duration
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.record.kept import Series
    from trimtab.record.store import Store

_AMOUNTS: Final = "B"
"""The unit of what was moved, which is asked for and not achieved."""

_INSTANT: Final = timedelta(microseconds=1)
"""The store's step of time: the end of a stretch is not within it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Comparable runs of one side.

    Attributes
    ----------
    comparability
        `trimtab.record.comparability.comparability_key` of them.
    asked
        What was asked of them, and what was set beside it.
    told
        What the newest of them told beside its numbers.
    stretches
        Metric to one number a run.
    repetitions
        Metric to the repetitions, where there is but one run.
    runs
        Their ids.
    newest
        Time of the last one.
    """

    comparability: str
    site: str
    probe: str
    kind: str
    layer: str | None
    asked: Mapping[str, object]
    told: Mapping[str, object]
    stretches: Mapping[str, Stretch]
    repetitions: Mapping[str, Stretch]
    runs: frozenset[str]
    newest: datetime | None = None

    @property
    def name(self) -> str:
        """The series in words, for messages."""
        return f"{self.probe} ({self.kind}): {', '.join(self.stretches)}"


@dataclass(frozen=True, slots=True)
class SideOfStore:
    """One side: its series, and what a reader should know of it."""

    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()


def side_of_site(
    store: Store, site: str, operand: Operand, *, timezone: str, probe: str | None = None
) -> SideOfStore:
    """Return the series of a site within the operand's stretch and setting.

    Raises
    ------
    UsageError
        Nothing is kept of it.
    """
    since, until = operand.stretch(timezone)
    last = None if until is None else until - _INSTANT
    whole = since is None and until is None
    wanted = _of_setting(store, site, operand, since) if operand.levels else None
    groups: list[Group] = []
    timeless: list[Series] = []
    notes: list[str] = []
    for series in store.series(site):
        if probe is not None and series.probe != probe:
            continue
        if series.last_at is None:
            timeless.append(series)
            continue
        points = [
            point
            for point in store.history(site, series.comparability, since=since, until=last)
            if wanted is None or point.run in wanted
        ]
        if points:
            groups.append(_group(store.run(points[-1].run), points))
        missing = series.runs - len({point.run for point in points})
        if whole and wanted is None and missing:
            series_text = f"{series.probe} ({series.kind}) of {site}"
            notes.append(f"{missing} of {series.runs} runs of {series_text} failed or have no time")
    if timeless and whole:
        groups += _timeless(store, site, timeless, wanted)
        notes.append(f"no run of {len(timeless)} series of {site} has a time: their order is lost")
    elif timeless:
        notes.append(f"{len(timeless)} series of {site} are left out: no run of theirs has a time")
    return SideOfStore(tuple(groups), tuple(notes))


def _timeless(
    store: Store, site: str, series: Sequence[Series], wanted: frozenset[str] | None
) -> list[Group]:
    """Return the groups of series none of whose runs has a time, as imports may have them."""
    keys = {entry.comparability for entry in series}
    judged = (
        run
        for run in store.runs(site=site)
        if run.status in JUDGED and (wanted is None or run.id in wanted)
    )
    by_key = grouped(judged, comparability_key)
    return [_group_of_runs(store, (site, key), by_key[key]) for key in by_key if key in keys]


def side_of_runs(store: Store, prefixes: Iterable[str]) -> SideOfStore:
    """Return the series that single runs belong to, with those runs alone.

    Raises
    ------
    UsageError
        No run or several begin with one of the prefixes.
    """
    runs = {run.id: run for run in (store.run(prefix) for prefix in prefixes)}
    notes = tuple(
        f"run {run.id[:13]} is left out: {run.status.value}{f', {run.problem}' * bool(run.problem)}"
        for run in runs.values()
        if run.status not in JUDGED
    )
    judged = grouped(
        (run for run in runs.values() if run.status in JUDGED),
        lambda run: (run.site, comparability_key(run)),
    )
    groups = (_group_of_runs(store, key, runs_of_key) for key, runs_of_key in judged.items())
    return SideOfStore(tuple(groups), notes)


def matches(run: Run, levels: Sequence[tuple[str, str]]) -> bool:
    """Return whether a run was asked for, or set to, every one of these levels."""
    values = _settings(run)
    return all(name in values and _same(values[name], text) for name, text in levels)


def _of_setting(
    store: Store, site: str, operand: Operand, since: datetime | None
) -> frozenset[str]:
    runs = store.runs(site=site, since=since)
    matching = frozenset(run.id for run in runs if matches(run, operand.levels))
    if not matching:
        names = sorted({name for run in runs for name in _settings(run)})
        raise UsageError(
            f"no run matches {operand.text!r}",
            code="no-runs",
            hint=f"runs of {visible(site)} were requested: {', '.join(names) or 'nothing'}",
        )
    return matching


def _settings(run: Run) -> dict[str, object]:
    """Return what a run was asked for and set to, options among them, by name."""
    requested, sweep = (as_dict(run.parameters.get(name)) for name in (ASKED, SWEEP))
    nested = as_dict(requested.get("options")) | as_dict(requested.get("settings"))
    plain = {name: value for name, value in requested.items() if not isinstance(value, dict)}
    return {**nested, **plain, **as_dict(sweep.get("levels"))}


def _same(value: object, text: str) -> bool:
    """Return whether a kept value is what a person typed: 1048576 and 1MiB are the same."""
    if isinstance(value, bool):
        return text.lower() in (("true", "yes", "1") if value else ("false", "no", "0"))
    if isinstance(value, (int, float)):
        for parse in (float, parse_bytes, parse_duration):
            try:
                if parse(text) == value:
                    return True
            except (ValueError, UsageError):
                continue
        return False
    return str(value) == text


def _group(run: Run, points: Sequence[HistoryPoint]) -> Group:
    stretches = {}
    for metric in dict.fromkeys(point.metric for point in points):
        if METRIC_UNITS.get(metric, _AMOUNTS) == _AMOUNTS:
            continue
        metric_points = [point for point in points if point.metric == metric]
        stretches[metric] = Stretch(
            tuple(point.value for point in metric_points),
            tuple(point.at for point in metric_points),
            tuple(point.unfinished for point in metric_points),
        )
    ids = frozenset(point.run for point in points)
    newest = max(point.at for point in points)
    return _of(run, stretches, ids=ids, newest=newest)


def _group_of_runs(store: Store, key: tuple[str, str], runs: list[Run]) -> Group:
    """Return the group of some runs of one series: as history has them where all have a time."""
    ids = {run.id for run in runs}
    if all(run.at is not None for run in runs):
        points = [point for point in store.history(*key) if point.run in ids]
        if points:
            return _group(max(runs, key=lambda run: run.id), points)
    ordered = sorted(runs, key=lambda run: run.id)
    stretches = {}
    for metric in dict.fromkeys(sample.metric for run in ordered for sample in run.samples):
        if METRIC_UNITS.get(metric, _AMOUNTS) == _AMOUNTS:
            continue
        figures = [(_figure(run, metric), run) for run in ordered]
        usable = [(value, run) for value, run in figures if value is not None]
        if usable:
            stretches[metric] = Stretch(
                tuple(value for value, _ in usable),
                unfinished=tuple(run.status is RunStatus.UNFINISHED for _, run in usable),
            )
    return _of(ordered[-1], stretches, ids=frozenset(ids), newest=None)


def _figure(run: Run, metric: str) -> float | None:
    """Return a run's figure as history has it: its median, 0 where it did not finish."""
    if run.status is RunStatus.UNFINISHED:
        return None if METRIC_UNITS[metric] == "s" else 0.0
    values = _believed(run, metric)
    return median(values) if values else None


def _of(
    run: Run, stretches: Mapping[str, Stretch], *, ids: frozenset[str], newest: datetime | None
) -> Group:
    repetitions: dict[str, Stretch] = {}
    if len(ids) == 1 and run.status is not RunStatus.UNFINISHED:
        repetitions = {metric: Stretch(tuple(_believed(run, metric))) for metric in stretches}
    return Group(
        comparability=comparability_key(run),
        site=run.site,
        probe=run.probe,
        kind=run.kind,
        layer=as_text(run.parameters.get("layer")),
        asked=_settings(run),
        told=as_dict(run.parameters.get("told")),
        stretches=stretches,
        repetitions=repetitions,
        runs=ids,
        newest=newest,
    )


def _believed(run: Run, metric: str) -> list[float]:
    """Return the figures of the whole that may be judged: of repetitions, else of the run."""
    believed = [sample for sample in run.totals(metric) if sample.believed]
    repeated = [sample for sample in believed if sample.repetition is not None]
    return [sample.value for sample in (repeated or believed) if sample.value is not None]
