"""Parts of pages of a series: stretches compared, days above the goal, zones, points, incidents.

Charts get fewer points of a long series (`sampled`), without hiding one that matters::

    bucket of time   |   . .:  .  |  .   '  .  |      first, last, lowest and highest are kept,
                     |  .    .    |     .    . |      as is every outlier and every unfinished run

MinMax down-sampling after Jugel et al., "M4: A Visualization-Oriented Time Series Data Aggregation"
(VLDB 2014): a line through the kept points covers the pixels that the whole would cover.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final

from trimtab.base import text
from trimtab.base.error import UsageError, code_of
from trimtab.base.event import Event, EventKind
from trimtab.base.schedule import find_zone
from trimtab.base.series import SeriesJudgement
from trimtab.base.units import format_percent, parse_moment, percent_or_dash, value_or_dash
from trimtab.judge.comparison_result import CompareResult, Effect
from trimtab.judge.series_frame import COLUMNS
from trimtab.show.chart import (
    ACCENT,
    ALARM,
    MUTED,
    Chart,
    data,
    drawn,
    layered,
    milliseconds,
    runs_marks,
    time_axis,
    value_axis,
    value_scale,
)
from trimtab.show.document import Row, Table, row, table

if TYPE_CHECKING:
    import polars as pl

    from trimtab.show.document import Drawings
    from trimtab.store.kept import KeptIncident
    from trimtab.web.desk import Desk, ListedSeries, Runs


Ends = tuple[datetime | None, datetime | None]
"""Ends of a stretch of time; ``None`` where it is open."""
CHANGES: Final = frozenset({EventKind.CONFIG_CHANGE, EventKind.CAPACITY_ADDED})
"""Events that may change a series: stretches around them are offered."""
_AROUND: Final = 12
_DAYS: Final = 60


@dataclass(frozen=True, slots=True)
class Zone:
    """The time zone that a page reads and shows times in; charts and files stay in UTC."""

    name: str = "UTC"

    def __post_init__(self) -> None:
        """Refuse an unknown name.

        Raises
        ------
        UsageError
            There is no such zone.
        """
        find_zone(self.name)

    def read(self, words: str, *, end: bool = False) -> datetime | None:
        """Return a time from an address: in this zone if it has no offset; see `parse_moment`."""
        return parse_moment(words, self.name, end=end) if words.strip() else None

    def show(self, at: datetime) -> str:
        """Return a time to the minute, without the zone: the column's head names it."""
        return f"{at.astimezone(find_zone(self.name)):%Y-%m-%d %H:%M}"

    def stretch(self, words: str) -> Ends:
        """Return both ends of FROM..TO.

        Raises
        ------
        UsageError
            It is not a stretch of time.
        """
        begin, dots, end = words.partition("..")
        if not dots:
            raise UsageError("a side is FROM..TO", code="times-missing")
        return self.read(begin), self.read(end)


def utc_text(at: datetime | None) -> str:
    """Return a time for an address; empty without one."""
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def around_events(events: Sequence[Event], series: SeriesJudgement) -> list[tuple[Event, str, str]]:
    """Return changes in the log book with 240 h before and after each, newest first."""
    from trimtab.answers.series_chart import BESIDE_CHANGE

    width = BESIDE_CHANGE
    begin = min((regime.from_ for regime in series.regimes), default=None)
    end = max((regime.to for regime in series.regimes), default=None)
    return [
        (
            event,
            f"{utc_text(event.at - width)}..{utc_text(event.at)}",
            f"{utc_text(event.at)}..{utc_text(event.at + width)}",
        )
        for event in reversed(events)
        if event.kind in CHANGES
        and begin is not None
        and end is not None
        and begin < event.at < end
    ][:_AROUND]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two stretches of a series compared, as the page shows them."""

    sentences: tuple[str, ...]
    sides: Table | None
    figures: Drawings
    notes: tuple[str, ...]


def compared_parts(
    result: CompareResult,
    frame: pl.DataFrame,
    series: SeriesJudgement,
    ends: tuple[Ends, Ends],
) -> Compared:
    """Return the effect as text, both sides as figures, and the runs with their spread."""
    from trimtab.answers import series_chart

    effects = [effect for entry in result.series for effect in entry.effects]
    before, after = (between(frame, *stretch, with_end=False) for stretch in ends)
    key = series.key
    title = f"{text.metric_title(key.metric)} before and after"
    return Compared(
        sentences=tuple(map(_effect_text, effects)),
        sides=table(
            ("side", "runs>", "independent>", "median>", "COV>", "unfinished>", "first", "last"),
            (side for effect in effects for side in _sides(effect)),
            "Runs are weighted so that hours of the week are balanced where the stretches are long "
            "enough. Independent: how many independent runs they are worth.",
        ),
        figures=drawn(
            [
                series_chart.runs_chart(before, after, key),
                series_chart.spread_chart(before, after, key, "spread-compared", title=title),
            ]
        ),
        notes=result.notes,
    )


def _effect_text(effect: Effect) -> str:
    words = effect.change.value.replace("_", " ").capitalize()
    if effect.ratio is not None:
        words += f": {text.change_text(effect.ratio)}"
    if (interval := effect.ratio_interval) is not None:
        words += (
            f" ({text.change_range_text(interval)}, {format_percent(interval.level, 0)} interval)"
        )
    # For these, the reason would repeat the figures.
    known = code_of(effect.reason) in {"better", "worse"} and effect.ratio_interval is not None
    return f"{words}." if known else f"{words}. {text.sentence(effect.reason)}"


def _sides(effect: Effect) -> Iterator[Row]:
    for name, side in (("before", effect.before), ("after", effect.after)):
        yield row(
            name,
            f"{side.n:,}",
            "-" if side.n_effective is None else f"{side.n_effective:.0f}",
            value_or_dash(side.middle, effect.unit),
            percent_or_dash(side.cov),
            f"{side.unfinished:,}",
            "-" if side.from_ is None else utc_text(side.from_)[:16].replace("T", " "),
            "-" if side.to is None else utc_text(side.to)[:16].replace("T", " "),
        )


def days_above(
    series: SeriesJudgement, timezone: str, incidents: Sequence[KeptIncident]
) -> list[tuple[Any, str, str, tuple[KeptIncident, ...]]]:
    """Return each day whose COV is above the goal, the newest first, with its incidents.

    Each comes with the first and last moment of the day, for a link to its runs.
    """
    goal = series.verdict.goal
    if goal is None:
        return []
    zone = find_zone(timezone)
    days = []
    for day in reversed(series.days):
        if day.cov is None or day.cov <= goal:
            continue
        begin = datetime.combine(day.day, time(), zone)
        end = datetime.combine(day.day + timedelta(days=1), time(), zone)
        going_on = tuple(
            incident
            for incident in incidents
            if incident.at < end and (incident.until or incident.at) >= begin
        )
        days.append((day, utc_text(begin), utc_text(end), going_on))
    return days[:_DAYS]


def day_charts(series: SeriesJudgement) -> Iterator[Chart | None]:
    """Yield figures 5 and 6 of a series: daily means, COV of each day, COV over windows."""
    from trimtab.answers import series_chart

    name = "series"
    panel = series_chart.panel_chart(series, f"panel-{name}")
    if panel is not None:
        yield replace(panel, title="Daily means", legend=series_chart.PANEL_KEYS)
    yield series_chart.days_cov_chart(series, name)
    yield series_chart.cov_chart(series, name)


def frame_of_runs(runs: Runs) -> pl.DataFrame:
    """Return the runs of a series as a frame, like `trimtab.judge.series_frame.frame_of`."""
    import polars as pl

    types = (pl.Datetime("us", "UTC"), pl.Float64, pl.Boolean, pl.String)
    return pl.DataFrame(runs, schema=dict(zip(COLUMNS, types, strict=True)), orient="row")


def between(
    frame: pl.DataFrame, since: datetime | None, until: datetime | None, *, with_end: bool = True
) -> pl.DataFrame:
    """Return the rows within a stretch; ``with_end``: whether its end is included."""
    import polars as pl

    at = pl.col("at")
    if since is not None:
        frame = frame.filter(at >= since)
    if until is None:
        return frame
    return frame.filter(at <= until if with_end else at < until)


def zones_of(site_zone: str, chosen: str) -> tuple[str, ...]:
    """Return the zones that a page offers: UTC, the site's own, and the requested one."""
    return tuple(dict.fromkeys(("UTC", site_zone, chosen)))


OUTLIER: Final = 5.0
"""Distance from the runs around, in scaled median absolute deviations of all such distances."""
AROUND: Final = 25
"""Neighbouring runs, with the run itself: a change of level makes no outlier, and hides none."""
_MAD_TO_DEVIATION: Final = 1.4826
_OF_BUCKET: Final = 4


def outliers(frame: pl.DataFrame) -> pl.Series:
    """Return which runs are outliers: far from the median of their neighbours, or unfinished."""
    import polars as pl

    value = pl.col("value")
    usual = value.rolling_median(AROUND, min_samples=1, center=True)
    distance = (value - usual).abs()
    spread = _MAD_TO_DEVIATION * distance.median()
    is_far = (distance > OUTLIER * spread).fill_null(value=True)
    return frame.select((pl.col("unfinished") | is_far).alias("outlier")).to_series()


def sampled(frame: pl.DataFrame, points: int) -> pl.DataFrame:
    """Return about a given number of rows of a series, the same at every call.

    Parameters
    ----------
    frame
        ``at``, ``value`` (null for an unfinished run), ``unfinished``, by time.
    points
        At least 4. Outliers are added.

    Returns
    -------
    polars.DataFrame
        Rows of ``frame``: the first, last, lowest and highest in each of ``points / 4`` equal
        stretches of time, and every outlier.
    """
    import polars as pl

    if frame.height <= points:
        return frame
    buckets = max(1, points // _OF_BUCKET)
    at = frame["at"].cast(pl.Int64)
    first, last = at[0], at[-1]
    width = max(1, -(-(last - first + 1) // buckets))
    numbered = frame.with_columns(
        bucket=(at - first) // width, row=pl.int_range(frame.height), outlier=outliers(frame)
    )
    value = pl.col("value")
    chosen = numbered.group_by("bucket").agg(
        pl.col("row").first().alias("first"),
        pl.col("row").last().alias("last"),
        pl.col("row").sort_by(value, nulls_last=True).first().alias("low"),
        pl.col("row").sort_by(value, nulls_last=False).last().alias("high"),
    )
    edges = pl.concat([chosen[name] for name in ("first", "last", "low", "high")]).unique()
    return frame.filter(numbered["row"].is_in(edges.implode()) | numbered["outlier"])


# Incidents


def _is_of(entry: ListedSeries, document: Mapping[str, object]) -> bool:
    """Return whether an incident is of a series; one stored without its id, by its names."""
    if (known := document.get("series")) is not None:
        return entry.id == known
    names = (document.get("probe"), document.get("metric"))
    return (entry.probe, entry.metric) == names and document.get("apart", "") in ("", entry.apart)


def incident_chart(desk: Desk, site: str, incident: KeptIncident) -> Chart | None:
    """Return the runs around an incident, with its time marked; ``None`` if its series is gone."""
    import polars as pl

    document = incident.document
    of_incident = [entry for entry in desk.listed(site) if _is_of(entry, document)]
    if not of_incident:
        return None
    longest = max(of_incident, key=lambda entry: entry.runs).id
    key, frame = desk.series(site, longest).key, frame_of_runs(desk.runs(site, longest))
    last: Any = frame["at"].max()
    end = incident.until or last
    around = max(timedelta(days=3), (end - incident.at) / 2)
    stretch = frame.filter(pl.col("at").is_between(incident.at - around, end + around))
    if stretch.is_empty():
        return None
    shown = sampled(stretch, 400)
    largest = max((v for v in shown["value"].to_list() if v is not None), default=1.0)
    scale = value_scale(largest, key.unit)
    rows = [
        {"at": milliseconds(at), "value": (value or 0.0) / scale.divisor, "unfinished": lost}
        for at, value, lost in shown.select("at", "value", "unfinished").iter_rows()
    ]
    x = time_axis(rows)
    y = value_axis("value", scale.unit, largest / scale.divisor * 1.05)
    span = [{"at": milliseconds(incident.at), "to": milliseconds(end)}]
    layers = [
        data(span).mark_rect(color=MUTED, opacity=0.18).encode(x=x, x2="to:T"),
        *runs_marks(rows, x, y, size=14, color=ACCENT),
        data([{"at": span[0]["at"]}]).mark_rule(color=ALARM, strokeWidth=1.4).encode(x=x),
    ]
    return Chart(
        name="incident",
        title=text.key_label(key),
        caption="Runs around it; the grey stretch is the incident. Crosses: unfinished.",
        specification=layered(layers, width=760),
    )
