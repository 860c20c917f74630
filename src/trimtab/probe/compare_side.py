"""The sides of a comparison: parses what a user typed, and finds its series.

A side is a site, a stretch of its time, a setting or single runs, which are in the store; or
published results, as one text or a TOML file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from trimtab.base.error import UsageError, visible
from trimtab.base.plain import as_dict, as_text
from trimtab.base.run import ASKED, LAYERS, METRIC_UNITS, Run, RunStatus, comparability_key, grouped
from trimtab.base.toml_kind import DURATION, TEXT, choice, of_text, real, whole
from trimtab.base.toml_problem import config_error, key_lines, problem_of
from trimtab.base.toml_schema import Schema, key, tables
from trimtab.base.trusted_file import parse_toml, read_text
from trimtab.base.units import is_date, parse_bytes, parse_duration, parse_moment
from trimtab.base.verdict import HistoryPoint
from trimtab.judge.comparison_result import Stretch, Summary
from trimtab.judge.sweep_result import SWEEP
from trimtab.store.history import JUDGED
from trimtab.store.kept import value_of

if TYPE_CHECKING:
    from trimtab.store.kept import Series
    from trimtab.store.store import Store


_RUNS: Final = re.compile(r"[0-9a-f-]{4,36}(?:,[0-9a-f-]{4,36})*", re.IGNORECASE)
_SETTING: Final = re.compile(
    r"(?P<where>.*?):(?P<levels>[A-Za-z_][A-Za-z0-9_]*=[^,=]+(?:,[A-Za-z_][A-Za-z0-9_]*=[^,=]+)*)\Z"
)
_OPERAND_HINT: Final = (
    "SITE, SITE@2026-10-01..2026-11-01, SITE@2026-11-01, SITE:nodes=4, a run's id, or 12±1/30 GB/s"
)


@dataclass(frozen=True, slots=True)
class Operand:
    """One side as it was typed.

    Attributes
    ----------
    text
        The whole text.
    where
        The SITE or PATH; ``None`` if ``--site`` names it, or for runs.
    since, until
        Texts of the stretch; ``None`` if that end is open.
    levels
        Requested parameters of runs, by name.
    runs
        Beginnings of the ids of single runs.
    """

    text: str
    where: str | None = None
    since: str | None = None
    until: str | None = None
    levels: tuple[tuple[str, str], ...] = ()
    runs: tuple[str, ...] = ()

    def stretch(self, timezone: str) -> tuple[datetime | None, datetime | None]:
        """Return the start (included) and the end (excluded) of the stretch in UTC.

        Raises
        ------
        UsageError
            A text is no time, or the stretch is empty.
        """
        since, until = (
            None if text is None else parse_moment(text, timezone)
            for text in (self.since, self.until)
        )
        if since is not None and until is not None and since >= until:
            raise UsageError(
                f"{self.text!r} ends before it begins",
                code="times-reversed",
                hint="FROM..TO excludes TO; a day alone, as SITE@2026-11-01, is the whole day",
            )
        return since, until


def parse_operand(text: str) -> Operand:
    """Return what a text names; only the store knows whether a bare word is a site.

    Raises
    ------
    UsageError
        It names nothing.

    Examples
    --------
    >>> parse_operand("scratch:nodes=4@2026-10-01..2026-11-01").levels
    (('nodes', '4'),)
    >>> parse_operand("@2026-10-01..").since
    '2026-10-01'
    >>> parse_operand("scratch@2026-11-01").until
    '2026-11-02'
    """
    rest, since, until = text.strip(), None, None
    before, at, stretch = rest.rpartition("@")
    if at and is_date(stretch):
        rest, since = before, stretch.strip()
        until = (date.fromisoformat(since) + timedelta(days=1)).isoformat()
    elif at and _is_moment(stretch):
        raise UsageError(
            f"{text!r} is a moment, and runs of a stretch are compared",
            code="operand-moment",
            hint=f"write {before}@FROM..TO, or {before}@2026-11-01 for a whole day",
        )
    elif at and ".." in stretch:
        rest = before
        since, _, until = (part.strip() or None for part in stretch.partition(".."))
        if since is None and until is None:
            raise UsageError(
                f"{text!r} has neither a start nor an end", code="times-missing", hint=_OPERAND_HINT
            )
    levels: tuple[tuple[str, str], ...] = ()
    if (setting := _SETTING.match(rest)) is not None:
        rest = setting["where"]
        pairs = (level_text.partition("=") for level_text in setting["levels"].split(","))
        levels = tuple((name, value.strip()) for name, _, value in pairs)
    if not rest and since is None and until is None and not levels:
        raise UsageError(
            f"{text!r} names nothing to compare", code="operand-unknown", hint=_OPERAND_HINT
        )
    return Operand(text, rest or None, since, until, levels)


def _is_moment(text: str) -> bool:
    try:
        parse_moment(text)
    except UsageError:
        return False
    return True


def as_runs(operand: Operand) -> Operand | None:
    """Return the operand read as ids of runs; ``None`` if it cannot be any."""
    whole = operand.since is None and operand.until is None and not operand.levels
    if not whole or operand.where is None or not _RUNS.fullmatch(operand.where):
        return None
    return Operand(operand.text, runs=tuple(operand.where.lower().split(",")))


_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TEXT: Final = re.compile(
    rf"\s*(?P<mean>{_NUMBER})\s*(?:±|\+/?-)\s*(?P<deviation>{_NUMBER})"
    r"\s*/\s*(?P<n>[0-9]{1,9})\s*(?P<unit>[A-Za-z1/]{0,12})\s*\Z"
)
_LOOKS_LIKE_ONE: Final = re.compile(r"[^/@:=]*(?:±|\+/?-)")
"""A published result: no name of a site or run has such a sign; a path may, after a slash."""
_SIGN: Final = re.compile(r"±|\+/?-")
_RATES: Final = {"": 1.0, "1/s": 1.0, "/s": 1.0, "iops": 1.0, "kiops": 1e3, "k/s": 1e3}
_PUBLISHED_HINT: Final = (
    "write it as 673320±31779/240 MB/s: mean, standard deviation, number of runs, unit"
)


def is_published(text: str) -> bool:
    """Return whether a text is meant as mean±deviation/n."""
    return _LOOKS_LIKE_ONE.match(text) is not None


def published(text: str, metric: str | None = None) -> Summary:
    """Return what ``mean±deviation/n unit`` says; ``+-`` and ``+/-`` are the same as ``±``.

    Raises
    ------
    UsageError
        It has another form, or the unit is not that of the metric.

    Examples
    --------
    >>> one = published("673320±31779/240 MB/s")
    >>> one.mean, one.deviation, one.n, one.unit
    (673320000000.0, 31779000000.0, 240, 'B/s')
    """
    match = _TEXT.match(text)
    if match is None:
        raise UsageError(
            f"{text[:80]!r} is not a published result: {_what_is_wrong(text)}",
            code="published-malformed",
            hint=_PUBLISHED_HINT,
        )
    unit, factor = _unit(match["unit"])
    return _checked(
        Summary(
            mean=float(match["mean"]) * factor,
            deviation=float(match["deviation"]) * factor,
            n=int(match["n"]),
            unit=unit,
            metric=metric,
        )
    )


def _what_is_wrong(text: str) -> str:
    """Return which part of a text is wrong."""
    mean, deviation = (part.strip() for part in _SIGN.split(text, maxsplit=1))
    deviation, slash, rest = (part.strip() for part in deviation.partition("/"))
    for number, noun in ((mean, "mean"), (deviation, "deviation")):
        if re.fullmatch(_NUMBER, number):
            continue
        shown = f"{noun} {number[:40]!r}"
        if "," in number:
            return f"{shown} has a comma: a point divides decimals, and nothing divides thousands"
        return f"{shown} is not a number" if number else f"the {noun} is missing"
    if not slash:
        return "the number of runs is missing"
    if re.match(r"[0-9]{1,9}(?![0-9.,])", rest) is None:
        return f"{rest.partition(' ')[0][:40]!r} is no number of runs"
    return "what follows the number of runs is no unit"


def published_file(path: str) -> tuple[Summary, ...] | None:
    """Return the results of a TOML file of ``[[summary]]`` tables; ``None`` if it has none.

    Raises
    ------
    UsageError
        It cannot be read, is no TOML, or a table in it is wrong.
    """
    name = visible(path)
    text = read_text(Path(path), "the file of published results", names_programs=False)
    of_file = parse_toml(text, name).get("summary")
    if of_file is None:
        return None
    stated, mistakes = _SCHEMA.read({"summary": of_file})
    summaries: list[Summary] = []
    for number, each in enumerate(() if mistakes else _SCHEMA.build(stated).summaries):
        unit, factor = each.unit
        mean, deviation = each.mean * factor, each.deviation * factor
        summary = value_of(Summary, each, unit=unit, mean=mean, deviation=deviation)
        try:
            summaries.append(_checked(summary))
        except UsageError as error:
            mistakes.append(problem_of(error, ("summary", str(number))))
    if mistakes:
        raise config_error(mistakes, name, key_lines(text))
    return tuple(summaries)


def _unit(text: str) -> tuple[str, float]:
    """Return the base unit of a unit and what it is a multiple of."""
    lowered = text.lower()
    if lowered in _RATES:
        return "1/s", _RATES[lowered]
    try:
        if lowered.endswith("b/s"):
            return "B/s", float(parse_bytes(f"1{text[:-2]}"))
        return "s", parse_duration(f"1{text}")
    except UsageError:
        raise UsageError(
            f"{text!r} is not a unit", code="unit-unknown", hint="MB/s, GiB/s, IOPS, 1/s, s, ms ..."
        ) from None


_FIGURE: Final = real(0, 1e300)


@dataclass(frozen=True, slots=True)
class _Stated:
    """One ``[[summary]]``."""

    mean: float = key(_FIGURE, "Mean over runs.")
    deviation: float = key(_FIGURE, "Standard deviation, not the error of the mean.")
    n: int = key(whole(2, 10**9), "Number of runs.")
    unit: tuple[str, float] = key(of_text(_unit, "unit", "MB/s"), "Unit of both.", _unit(""))
    metric: str | None = key(choice([*METRIC_UNITS]), "Metric that was measured.", None)
    layer: str | None = key(choice(LAYERS), "Layer of the stack.", None)
    window_s: float | None = key(DURATION, "Time span of the runs.", None)
    source: str | None = key(TEXT, "Source of the figures.", None)


@dataclass(frozen=True, slots=True)
class _File:
    summaries: tuple[_Stated, ...] = tables(_Stated, "summary", "A published result.")


_SCHEMA: Final = Schema(_File)


def _checked(summary: Summary) -> Summary:
    if not 0 < summary.mean < float("inf") or not 0 <= summary.deviation < float("inf"):
        raise UsageError(
            "a mean must be greater than 0 and a deviation at least 0",
            code="published-malformed",
            hint=_PUBLISHED_HINT,
        )
    if summary.n < 2:
        raise UsageError(
            f"{summary.n} run has no deviation", code="published-malformed", hint=_PUBLISHED_HINT
        )
    if summary.metric is not None and METRIC_UNITS.get(summary.metric) != summary.unit:
        raise UsageError(
            f"{summary.metric} is not measured in {summary.unit}", code="unit-mismatch"
        )
    return summary


_AMOUNTS: Final = "B"
"""Unit of moved bytes, which are requested rather than achieved."""

_INSTANT: Final = timedelta(microseconds=1)
"""Resolution of the store's times: the end of a stretch is excluded."""


@dataclass(frozen=True, slots=True)
class ComparableRuns:
    """Comparable runs of one side.

    Attributes
    ----------
    comparability
        `trimtab.base.run.comparability_key` of them.
    asked
        Their requested parameters, and other settings.
    told
        Values that the newest run reported besides its measurements.
    stretches
        Metric to one number per run.
    repetitions
        Metric to the repetitions, if there is only one run.
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
    """One side: its series, and notes for the reader."""

    groups: tuple[ComparableRuns, ...]
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
    groups: list[ComparableRuns] = []
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
        notes.append(f"{len(timeless)} series of {site} are left out: their runs have no time")
    return SideOfStore(tuple(groups), tuple(notes))


def _timeless(
    store: Store, site: str, series: Sequence[Series], wanted: frozenset[str] | None
) -> list[ComparableRuns]:
    """Return the groups of series whose runs have no time, as imported runs may."""
    keys = {entry.comparability for entry in series}
    judged = (
        run
        for run in store.runs(site=site)
        if run.status in JUDGED and (wanted is None or run.id in wanted)
    )
    by_key = grouped(judged, comparability_key)
    return [_group_of_runs(store, (site, key), by_key[key]) for key in by_key if key in keys]


def side_of_runs(store: Store, prefixes: Iterable[str]) -> SideOfStore:
    """Return the series that single runs belong to, with only those runs.

    Raises
    ------
    UsageError
        No run, or several, begin with one of the prefixes.
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
    """Return whether a run has all of these levels, requested or set by hand."""
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
    """Return the requested parameters, options and settings of a run, by name."""
    requested, sweep = (as_dict(run.parameters.get(name)) for name in (ASKED, SWEEP))
    nested = as_dict(requested.get("options")) | as_dict(requested.get("settings"))
    plain = {name: value for name, value in requested.items() if not isinstance(value, dict)}
    return {**nested, **plain, **as_dict(sweep.get("levels"))}


def _same(value: object, text: str) -> bool:
    """Return whether a stored value is what the user typed: 1048576 and 1MiB are the same."""
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


def _group(run: Run, points: Sequence[HistoryPoint]) -> ComparableRuns:
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


def _group_of_runs(store: Store, key: tuple[str, str], runs: list[Run]) -> ComparableRuns:
    """Return the group of some runs of one series; as in its history if all have a time."""
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
    """Return a run's figure as in the history: its median, 0 if it did not finish."""
    if run.status is RunStatus.UNFINISHED:
        return None if METRIC_UNITS[metric] == "s" else 0.0
    values = _believed(run, metric)
    return median(values) if values else None


def _of(
    run: Run, stretches: Mapping[str, Stretch], *, ids: frozenset[str], newest: datetime | None
) -> ComparableRuns:
    repetitions: dict[str, Stretch] = {}
    if len(ids) == 1 and run.status is not RunStatus.UNFINISHED:
        repetitions = {metric: Stretch(tuple(_believed(run, metric))) for metric in stretches}
    return ComparableRuns(
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
    """Return the whole-system figures that may be judged: of repetitions, else of the run."""
    believed = [sample for sample in run.totals(metric) if sample.believed]
    repeated = [sample for sample in believed if sample.repetition is not None]
    return [sample.value for sample in (repeated or believed) if sample.value is not None]
