"""Functions for notebooks and programs: a site's record as frames, verdicts and charts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from trimtab.base.run import METRIC_UNITS
from trimtab.probe.series_file import FileTerms, judge_file
from trimtab.probe.site_judgement import JudgedSite, JudgeTerms, judge_site
from trimtab.probe.table_column import NamedColumns
from trimtab.site.place import Place, place_of

if TYPE_CHECKING:
    import os

    import altair
    import pandas
    import polars as pl

    from trimtab.base.series import SeriesJudgement
    from trimtab.probe.incident_search import Explained, ExplainedMoment
    from trimtab.store.store import Store

Time = str | datetime
"""An aware datetime, or a time as people write it, in the site's zone: ``2026-11-14T03:00``."""


@dataclass(slots=True)
class SiteRecord:
    """The stored record of one site; `trimtab.open` returns it.

    Every frame has the columns that its method names, also where it has no rows; times are UTC.
    Use it in a ``with`` statement, or call `close`.
    """

    store: Store
    place: Place

    @property
    def name(self) -> str:
        """Return the name under which the site is stored."""
        return self.place.name

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def runs(
        self, *, probe: str | None = None, since: Time | None = None, limit: int | None = None
    ) -> pl.DataFrame:
        """Return the runs, the newest first.

        Columns: run, at, until, probe, kind, status, host, path, tool_version, problem.
        """
        at = self._moment(since)
        stored = self.store.runs(site=self.name, probe=probe, since=at, limit=limit)
        names = ("at", "until", "probe", "kind", "status", "host", "path", "tool_version")
        rows = (
            {"run": run.id, "problem": run.problem, **{name: getattr(run, name) for name in names}}
            for run in stored
        )
        return _frame(rows, ("run", *names, "problem"))

    def samples(
        self, *, probe: str | None = None, metric: str | None = None, since: Time | None = None
    ) -> pl.DataFrame:
        """Return every number of every run, the newest run first.

        Columns: run, at, probe, kind, metric, unit, value, statistic, target, repetition, reason.
        ``reason`` says why a value is missing or not to be believed.
        """
        names = ("metric", "value", "statistic", "target", "repetition", "reason")
        rows = (
            {
                "run": run.id,
                "at": run.at,
                "probe": run.probe,
                "kind": run.kind,
                "unit": METRIC_UNITS.get(sample.metric),
                **{name: getattr(sample, name) for name in names},
            }
            for run in self.store.runs(site=self.name, probe=probe, since=self._moment(since))
            for sample in run.samples
            if metric in (None, sample.metric)
        )
        columns = ("run", "at", "probe", "kind", "metric", "unit", *names[1:])
        return _frame(rows, columns)

    def events(self, *, since: Time | None = None, until: Time | None = None) -> pl.DataFrame:
        """Return the log book, the oldest entry first.

        Columns: event, kind, at, until, targets, detail, source.
        """
        begin, end = self._moment(since), self._moment(until, end=True)
        names = ("kind", "at", "until", "detail", "source")
        rows = (
            {
                "event": event.id,
                "targets": ",".join(event.targets),
                **{name: getattr(event, name) for name in names},
            }
            for event in self.store.events(site=self.name, since=begin, until=end)
        )
        return _frame(rows, ("event", "kind", "at", "until", "targets", "detail", "source"))

    def readings(
        self,
        names: Collection[str] | None = None,
        *,
        since: Time | None = None,
        until: Time | None = None,
    ) -> pl.DataFrame:
        """Return the readings of the snapshots, by time.

        Columns: at, target, kind, server, name, label, number, text, reason.

        Parameters
        ----------
        names
            Readings that are wanted, such as ``available_bytes``; all where ``None``.
        """
        begin, end = self._moment(since), self._moment(until, end=True)
        times = [
            at
            for at in self.store.snapshot_times(self.name)
            if (begin is None or at >= begin) and (end is None or at <= end)
        ]
        return self.store.telemetry_frames(self.name, times, names=names)[0]

    def judge(
        self,
        *,
        since: Time | None = None,
        until: Time | None = None,
        probe: str | None = None,
        metric: str | None = None,
        goal: float | None = None,
        window_s: float | None = None,
    ) -> JudgedSite:
        """Return the verdicts, change points and slow targets of every series.

        ``judgement.series`` has them, ``frames`` the runs behind each.

        Parameters
        ----------
        goal, window_s
            COV, and the window in seconds; ``None``: the site file's, else 0.08 and 48 h.

        Raises
        ------
        UsageError
            Nothing is stored for this request.
        """
        terms = JudgeTerms(_written(since), _written(until), probe, metric, goal, window_s)
        return judge_site(self.store, self.place, terms)

    def incidents(self) -> Explained:
        """Return the incidents of the whole record with their causes, open ones first."""
        from trimtab.probe.incident_search import incidents_of
        from trimtab.site.lookup import clock_of

        return incidents_of(self.store, self.place, now=clock_of(self.place.site)())

    def explain(self, at: Time) -> ExplainedMoment:
        """Return all evidence about one moment, whether or not anything was wrong.

        Raises
        ------
        UsageError
            Nothing is stored for that time.
        """
        from trimtab.probe.incident_search import explain_at

        return explain_at(self.store, self.place, _written(at) or "")

    def _moment(self, time: Time | None, *, end: bool = False) -> datetime | None:
        return self.place.moment(_written(time), end=end)


def open_site(site: str, *, store: str | os.PathLike[str] | None = None) -> SiteRecord:
    """Return the stored record of a site.

    Parameters
    ----------
    site
        A site file, its name, or a path or name under which `trimtab check` stored results.
    store
        A file or URL; ``None``: the site file's, else the default.

    Raises
    ------
    UsageError
        Nothing is kept under that name.
    UnreadableError
        There is no store, or it cannot be read.
    """
    from trimtab.site.lookup import open_store, site_file

    loaded = site_file(site)
    url = None if store is None else str(store)
    opened = open_store(url, None if loaded is None else loaded.site)
    try:
        return SiteRecord(opened, place_of(opened, site))
    except BaseException:
        opened.close()
        raise


def judge_csv(
    file: str | os.PathLike[str],
    *,
    time: str | None = None,
    value: str | None = None,
    by: str | None = None,
    wide: bool = False,
    time_format: str | None = None,
    decimal: str | None = None,
    timezone: str = "UTC",
    less_is_better: bool = False,
    goal: float | None = None,
    window_s: float | None = None,
) -> JudgedSite:
    """Return the verdicts and change points of the series in a CSV or Parquet file.

    Parameters
    ----------
    time, value
        Names of its columns; recognised where ``None``. ``date+time``: two columns joined.
    by
        Column whose values separate the series; empty: no column.
    wide
        Every column of numbers is a series, and ``value`` their metric.
    time_format, decimal
        Format of times as in ``strptime``, and the decimal mark; ``None``: recognised.
    timezone
        Time zone of times that are written without one.

    Raises
    ------
    UsageError
        A column is missing, or it is not clear which is meant.
    DataError
        It is no table, or holds no series.
    """
    terms = FileTerms(
        NamedColumns(time, value, by, wide),
        timezone=timezone,
        less_is_better=less_is_better,
        time_format=time_format,
        decimal=decimal,
    )
    return judge_file(str(file), terms, goal=goal, window_s=window_s)


def chart(series: SeriesJudgement) -> altair.Chart | altair.LayerChart:
    """Return the chart of a judged series: daily means, levels and changes.

    Needs the extra ``charts``.

    Raises
    ------
    UsageError
        No day of it has a value.
    """
    import altair

    from trimtab.answers.series_chart import panel_chart
    from trimtab.base.error import UsageError

    panel = panel_chart(series, "series")
    if panel is None:
        raise UsageError("the series has no value to draw", code="no-values")
    drawn: Any = altair.Chart.from_dict(panel.specification)
    return drawn


def to_pandas(frame: pl.DataFrame) -> pandas.DataFrame:
    """Return a frame for pandas, which Trimtab does not depend on and has to be installed."""
    import pandas
    import polars as pl

    columns: dict[str, Any] = {}
    for series in frame:
        if isinstance(series.dtype, pl.Datetime):
            naive = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
            columns[series.name] = pandas.Series(naive.to_numpy()).dt.tz_localize("UTC")
        else:
            columns[series.name] = series.to_numpy() if series.dtype.is_numeric() else list(series)
    return pandas.DataFrame(columns)


def _written(time: Time | None) -> str | None:
    return time.isoformat() if isinstance(time, datetime) else time


def _frame(rows: Iterable[Mapping[str, Any]], columns: tuple[str, ...]) -> pl.DataFrame:
    """Return rows as a frame in which a column has its type whatever the rows are."""
    import polars as pl

    types: dict[str, Any] = {
        "at": pl.Datetime("us", "UTC"),
        "until": pl.Datetime("us", "UTC"),
        "value": pl.Float64,
        "repetition": pl.Int64,
    }
    schema = {name: types.get(name, pl.String) for name in columns}
    return pl.DataFrame(
        [[None if row[name] is None else row[name] for name in columns] for row in rows],
        schema=schema,
        orient="row",
    )
