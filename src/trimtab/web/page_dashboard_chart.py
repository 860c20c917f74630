"""Charts of the dashboard alone, and the marks of incidents and events on charts over time.

The charts are a series to pan and zoom, surveys as a map, and a target's life; charts that a
command's page shares come from that page's room. Interactive ones are drawn in the browser by Vega
with an expression interpreter: the policy of the pages allows no code but our own files.

The marks are pure::

    ▂▂▂▂▂▂▂▂          ▂▂▂▂     incidents, along the upper edge: marks beneath stay reachable
        ▾     ▾                entries of the log book, beneath them
    · ' . · · . ' · . · '
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from trimtab.answers import series_chart as judge_charts
from trimtab.base.error import UsageError, install_command, visible
from trimtab.base.event import EventKind
from trimtab.base.run import METRIC_UNITS
from trimtab.base.series import SeriesJudgement
from trimtab.base.text import metric_title
from trimtab.show.chart import (
    ACCENT,
    ALARM,
    INK,
    SECOND,
    THEME,
    Chart,
    Key,
    axis_title,
    data,
    layered,
    milliseconds,
    round_top,
    thinned,
    time_axis,
    value_axis,
    value_scale,
)
from trimtab.store.snapshot_record import space_at
from trimtab.web import page_series

if TYPE_CHECKING:
    import polars as pl

    from trimtab.base.event import Event
    from trimtab.explain.status import FullWhen
    from trimtab.probe.site_judgement import JudgedSite
    from trimtab.store.kept import KeptIncident
    from trimtab.store.store import Store
    from trimtab.web.desk import Desk


ROUTINE: Final = frozenset(
    {EventKind.TRIM, EventKind.PURGE, EventKind.TARGET_CLOSED, EventKind.TARGET_OPENED}
)
"""Kinds of events that recur: so many marks would hide the others."""
KEYS: Final = (
    Key("light-bar", "alarm", "incident, along the upper edge"),
    Key("triangle", "ink", "entry of the log book"),
)
_KEY_OF_WINDOW: Final = Key("light-bar", "ink", "maintenance")
_MOST: Final = 60
_WORDS: Final = 100
_BAND: Final = (0, 5)
"""Pixels below the upper edge; a triangle is centred beneath."""
_TRIANGLE: Final = 12
_MARK_OF_INCIDENT: Final = {"type": "rect", "color": ALARM, "opacity": 0.35}
_MARK_OF_WINDOW: Final = {"type": "rect", "color": INK, "opacity": 0.08}
_MARK_OF_EVENT: Final = {
    "type": "point",
    "shape": "triangle-down",
    "filled": True,
    "size": 30,
    "color": INK,
    "opacity": 0.8,
}


@dataclass(frozen=True, slots=True)
class ChartMarks:
    """Events, incidents and windows of maintenance to mark, in milliseconds, with their text.

    Open incidents have no end.
    """

    events: tuple[tuple[float, str], ...] = ()
    incidents: tuple[tuple[float, float | None, str], ...] = ()
    windows: tuple[tuple[float, float | None, str], ...] = ()


def marks_at(desk: Desk, site: str) -> ChartMarks:
    """Return the marks of a site's log book and incidents on charts."""
    windows = tuple(
        (milliseconds(window.at), milliseconds(window.end), visible(window.why[:_WORDS]))
        for window in desk.store.windows(site)
    )
    marks = marks_of(desk.events(site), desk.incidents(site))
    return replace(marks, windows=windows[-_MOST:])


def marks_of(events: Sequence[Event], incidents: Sequence[KeptIncident]) -> ChartMarks:
    """Return the last marks of a site; if there are many events, notes are left out."""
    unusual = [event for event in events if event.kind not in ROUTINE]
    ranked = sorted(unusual, key=lambda event: (event.kind is not EventKind.NOTE, event.at))
    words = [
        (milliseconds(event.at), visible(f"{event.kind.value}: {event.detail}"[:_WORDS]))
        for event in ranked
    ]
    spans = [
        (
            milliseconds(incident.at),
            None if incident.until is None else milliseconds(incident.until),
            visible(incident.summary[:_WORDS]),
        )
        for incident in sorted(incidents, key=lambda incident: incident.at)
    ]
    return ChartMarks(tuple(words[-_MOST:]), tuple(spans[-_MOST:]))


def marked(chart: Chart, marks: ChartMarks, *, with_keys: bool = True) -> Chart:
    """Return a chart with the marks of its stretch of time; unchanged if not over time.

    Parameters
    ----------
    with_keys
        Whether its own legend explains them.
    """
    specification = marked_specification(chart.specification, marks)
    if specification is chart.specification:
        return chart
    of_keys = (marks.incidents, marks.events, marks.windows)
    keys = zip((*KEYS, _KEY_OF_WINDOW), of_keys, strict=True)
    legend = [*chart.legend, *(key for key, of_key in keys if with_keys and of_key)]
    return replace(chart, specification=specification, legend=tuple(legend))


def marked_specification(specification: Any, marks: ChartMarks) -> Any:
    """Return a layered specification with marks, unchanged if there is nothing to mark."""
    axes = [
        x for x in _values(specification, "x") if isinstance(x, dict) and x.get("field") == "at"
    ]
    times = [at for name in ("at", "to") for at in _values(specification, name)]
    known = [at for at in times if isinstance(at, (int, float))]
    if not axes or not known or axes[0].get("type") != "temporal":
        return specification
    layers = [*_layers(marks, axes[0], min(known), max(known))]
    return (
        {**specification, "layer": [*specification["layer"], *layers]} if layers else specification
    )


def survey_layers(
    marks: ChartMarks, x: Any, surveys: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    """Yield the layers above a map whose columns are surveys, not times.

    An incident marks each survey during it, an entry of the log book the next survey.

    Parameters
    ----------
    surveys
        Name of each column to its time in milliseconds, by time.
    """
    spans = [
        {"at": name, "what": summary}
        for since, until, summary in marks.incidents
        for name, at in surveys.items()
        if since <= at and (until is None or at <= until)
    ]
    first = min(surveys.values(), default=0.0)
    points = [
        {"at": name, "what": summary}
        for at, summary in marks.events
        if (name := next((each for each, of in surveys.items() if of >= at >= first), None))
    ]
    lower, upper = (-edge for edge in _BAND)
    if spans:
        yield _layer(spans, _MARK_OF_INCIDENT, x=x, y={"value": upper}, y2={"value": lower})
    if points:
        yield _layer(points, _MARK_OF_EVENT, x=x, y={"value": -_TRIANGLE})


def _layer(rows: list[dict[str, Any]], mark: Any, **encoding: Any) -> dict[str, Any]:
    words = {"field": "what", "type": "nominal"}
    shared = {"tooltip": words, "description": words}
    return {"data": {"values": rows}, "mark": mark, "encoding": {**shared, **encoding}}


def _layers(marks: ChartMarks, x: Any, begin: float, end: float) -> Iterator[dict[str, Any]]:
    windows, spans = (
        [
            {
                "at": max(since, begin),
                "to": end if until is None else min(until, end),
                "what": words,
            }
            for since, until, words in of_marks
            if since <= end and (until is None or until >= begin)
        ]
        for of_marks in (marks.windows, marks.incidents)
    )
    if windows:
        yield _layer(windows, _MARK_OF_WINDOW, x=x, x2={"field": "to"})
    if spans:
        upper, lower = ({"value": edge} for edge in _BAND)
        yield _layer(spans, _MARK_OF_INCIDENT, x=x, x2={"field": "to"}, y=upper, y2=lower)
    points = [{"at": at, "what": summary} for at, summary in marks.events if begin <= at <= end]
    if points:
        yield _layer(points, _MARK_OF_EVENT, x=x, y={"value": _TRIANGLE})


def _values(node: Any, name: str) -> Iterator[Any]:
    """Yield every value of a name, however deep."""
    if isinstance(node, dict):
        if name in node:
            yield node[name]
        for value in node.values():
            yield from _values(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _values(value, name)


POINTS: Final = 1600
"""Maximum of points in one chart: a screen has about as many columns."""
_HEIGHT: Final = 320
_SURVEYS: Final = 60
_SNAPSHOTS: Final = 48


@cache
def vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script: the same as draw the reports."""
    try:
        import vl_convert
    except ImportError as error:
        raise UsageError(
            "charts need vl-convert, which is not installed",
            code="extra-missing",
            hint=install_command("web"),
        ) from error
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _drawable(layers: list[dict[str, Any]], height: int = _HEIGHT) -> dict[str, Any]:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": layers,
        "config": {**THEME, "axis": {**THEME["axis"], "labelOverlap": True}},
    }


def series_chart(
    judgement: SeriesJudgement, frame: pl.DataFrame, *, largest: float | None
) -> dict[str, Any]:
    """Return a series with its levels and changes, to pan and zoom.

    Parameters
    ----------
    frame
        Its runs within the displayed stretch.
    largest
        Largest value of the whole series: every stretch has the same axis and unit.
    """
    shown = page_series.sampled(frame, POINTS)
    largest = largest or 1.0
    scale = value_scale(largest, judgement.key.unit)
    rows = [
        {
            "at": milliseconds(at),
            "value": 0.0 if unfinished else value / scale.divisor,
            "run": run,
            "state": _STATES[unfinished],
        }
        for at, value, unfinished, run in shown.select(
            "at", "value", "unfinished", "run"
        ).iter_rows()
    ]
    top = round_top(largest / scale.divisor * 1.05)
    y = {
        "field": "value",
        "type": "quantitative",
        "title": axis_title(judgement.key.metric, scale),
        # A little below 0: an unfinished run at 0 is a whole cross.
        "scale": {"domain": [-top / 50, top], "nice": False},
        "axis": {"domain": False, "tickSize": 0},
    }
    dots = {
        "data": {"name": "runs", "values": rows},
        "params": [
            {"name": "grid", "select": {"type": "interval", "encodings": ["x"]}, "bind": "scales"}
        ],
        "mark": {"type": "point", "filled": True, "opacity": 0.75, "clip": True},
        "encoding": {"x": _TIME, "y": y, **_by_state(scale.unit)},
    }
    begin, end = frame["at"].min(), frame["at"].max()
    return _drawable([dots, *_levels(judgement, scale.divisor, begin, end)])


_STATES: Final = ("finished", "unfinished")
_TIME: Final[dict[str, Any]] = {
    "field": "at",
    "type": "temporal",
    "title": "time (UTC)",
    "scale": {"type": "utc"},
    "axis": {"tickCount": 8, "labelOverlap": True},
}


def _by_state(unit: str) -> dict[str, Any]:
    """Return the encoding that distinguishes finished and unfinished runs, and the tooltip."""

    def by(*values: object) -> dict[str, Any]:
        scale = {"domain": _STATES, "range": values}
        return {"field": "state", "type": "nominal", "scale": scale, "legend": None}

    return {
        "color": by(ACCENT, ALARM),
        "shape": by("circle", "cross"),
        "size": {"condition": {"test": "datum.state == 'unfinished'", "value": 70}, "value": 22},
        "tooltip": [
            {
                "field": "at",
                "type": "temporal",
                "format": "%Y-%m-%d %H:%M",
                "formatType": "utc",
                "title": "time (UTC)",
            },
            {"field": "value", "type": "quantitative", "format": ".4", "title": unit},
            {"field": "state", "title": "state"},
            {"field": "run", "title": "run"},
        ],
    }


def _levels(
    judgement: SeriesJudgement, divisor: float, begin: Any, end: Any
) -> Iterator[dict[str, Any]]:
    """Yield the levels and changes within a stretch."""
    if begin is None:
        return
    levels = [
        {
            "at": milliseconds(max(regime.from_, begin)),
            "to": milliseconds(min(regime.to, end)),
            "level": regime.median / divisor,
        }
        for regime in judgement.regimes
        if regime.median is not None and regime.to >= begin and regime.from_ <= end
    ]
    clipped = {"type": "rule", "clip": True}
    if levels:
        yield {
            "data": {"values": levels},
            "mark": {**clipped, "color": SECOND, "strokeWidth": 2.5},
            "encoding": {
                "x": _TIME,
                "x2": {"field": "to"},
                "y": {"field": "level", "type": "quantitative"},
            },
        }
    for status, dash in judge_charts.CHANGE_DASHES:
        changes = [
            {"at": milliseconds(change.at), "what": f"{status.value} change"}
            for change in judgement.changes
            if change.status is status and begin <= change.at <= end
        ]
        if changes:
            yield {
                "data": {"values": changes},
                "mark": {**clipped, "color": INK, "strokeDash": dash},
                "encoding": {"x": _TIME},
            }


# Targets


_MAP: Final[dict[str, Any]] = {
    "x": {
        "field": "at",
        "type": "ordinal",
        "title": "survey (UTC)",
        "axis": {
            "labelAngle": -40,
            "labelOverlap": True,
            "labelExpr": "slice(datum.label, 0, 10)",
        },
    },
    "y": {
        "field": "target",
        "type": "ordinal",
        "title": None,
        "axis": {"labelOverlap": True},
    },
    "color": {
        "field": "relative",
        "type": "quantitative",
        "title": "rate / median",
        "scale": {
            "domain": [0.5, 1.0, 1.15],
            "range": [SECOND, "#d5dbe0", ACCENT],
            "interpolate": "rgb",
            "clamp": True,
        },
        "legend": {
            "titleFontWeight": "normal",
            "orient": "top",
            "gradientLength": 160,
            "tickCount": 4,
        },
    },
    "tooltip": [
        {"field": "target", "title": "target"},
        {"field": "at", "title": "survey"},
        {
            "field": "relative",
            "type": "quantitative",
            "format": ".0%",
            "title": "of median",
        },
    ],
}


def survey_map(judged: JudgedSite | None, metric: str, marks: ChartMarks) -> dict[str, Any]:
    """Return the rate of each target in each survey, relative to the median of the survey.

    Incidents and the log book are marked above it.

    Raises
    ------
    UsageError
        No survey measured that metric.
    """
    import polars as pl

    surveys = None if judged is None else judged.surveys
    if surveys is None or metric not in surveys["metric"].unique().to_list():
        raise UsageError("no survey measured that", code="page-unknown")
    of_metric = surveys.filter(pl.col("metric") == metric)
    chosen = thinned(of_metric["at"].unique().sort().to_list(), _SURVEYS)
    cells = of_metric.filter(pl.col("at").is_in(chosen)).with_columns(
        relative=pl.col("value") / pl.col("value").median().over("at")
    )
    rows = [
        {"at": _column(at), "target": visible(target), "relative": round(relative, 3)}
        for at, target, relative in cells.select("at", "target", "relative").iter_rows()
        if relative is not None and relative == relative  # noqa: PLR0124 (not a number)
    ]
    targets = cells["target"].n_unique()
    cell = {"data": {"values": rows}, "mark": {"type": "rect"}, "encoding": _MAP}
    columns = {_column(at): milliseconds(at) for at in chosen}
    layers = [cell, *survey_layers(marks, _MAP["x"], columns)]
    return _drawable(layers, height=min(900, max(160, 5 * targets + 40)))


def _column(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def spread_charts(judged: JudgedSite) -> Iterator[Chart | None]:
    """Yield how all targets are spread over time, and in the first and last month of surveys.

    They are figures 1 and 2 of the investigation that this dashboard is for.
    """
    if judged.surveys is None:
        return
    for tail in judged.judgement.tails:
        name = f"{tail.metric}-spread"
        yield judge_charts.survey_chart(judged.surveys, tail.metric, tail.unit, name)
        yield judge_charts.months_chart(
            judged.surveys, tail.metric, tail.unit, f"{tail.metric}-months"
        )


def life_charts(
    store: Store, site: str, target: str, forecasts: Iterable[FullWhen]
) -> Iterator[Chart | None]:
    """Yield the fullness of a target over its stored snapshots, and its rate in every survey."""
    import polars as pl

    yield _fullness_chart(store, site, target, forecasts)
    of_target = store.survey_frame(site, target=target)
    for metric in of_target["metric"].unique(maintain_order=True).to_list():
        unit = METRIC_UNITS.get(metric)
        if unit == "B" or unit is None:
            continue
        values = of_target.filter(pl.col("metric") == metric)
        largest = float(values["value"].max() or 1.0)  # type: ignore[arg-type]
        scale = value_scale(largest, unit)
        rows = [
            {"at": milliseconds(at), "value": value / scale.divisor}
            for at, value in values.select("at", "value").iter_rows()
        ]
        yield Chart(
            name=f"life-{metric}",
            title=f"{metric_title(metric)} in surveys",
            caption=f"{len(rows):,} surveys of {visible(target)} alone.",
            specification=_dots(rows, scale.unit, largest / scale.divisor),
        )


def _fullness_chart(
    store: Store, site: str, target: str, forecasts: Iterable[FullWhen]
) -> Chart | None:
    times = store.snapshot_times(site)
    rows = [
        {"at": milliseconds(each.at), "value": 100 * each.fullness}
        for each in space_at(store, site, thinned(times, _SNAPSHOTS), target)
    ]
    if not rows:
        return None
    ahead = [
        {
            "at": milliseconds(each.earliest),
            "until": milliseconds(each.latest or each.at),
            "value": 100 * each.level,
        }
        for forecast in forecasts
        if forecast.kind == "bytes"
        for each in (forecast.limit, forecast.full)
        if each.earliest is not None and each.at is not None
    ]
    lines = (
        " Lines: over its limit, and full, from the earliest day to the latest (90 %), or to the "
        "middle where the latest is too far off."
    )
    return Chart(
        name="fullness",
        title="Fullness",
        caption=f"Used / (used + available) in {len(rows)} of {len(times):,} stored snapshots."
        f"{lines if ahead else ''}",
        specification=_dots(rows, "full in %", 100.0 / 1.05, ahead),
    )


def _dots(
    rows: list[dict[str, Any]],
    title: str,
    largest: float,
    ahead: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    x, y = time_axis([*rows, *ahead]), value_axis("value", title, largest * 1.05)
    layers = [data(rows).mark_point(size=16, color=ACCENT).encode(x=x, y=y)]
    if ahead:
        line = data(ahead).mark_rule(color=SECOND, strokeWidth=3)
        layers.append(line.encode(x=x, x2="until", y=y))
    return layered(layers)
