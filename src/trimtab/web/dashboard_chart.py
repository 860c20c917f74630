"""Charts of the dashboard alone: a series to pan and zoom, surveys as a map, a target's life.

Charts that a page of a command has too come from that page's room. Interactive ones are drawn in
the browser by Vega with an expression interpreter: the policy of the pages allows no code but our
own files.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from trimtab.base.error import UsageError, install_command
from trimtab.base.run import METRIC_UNITS
from trimtab.base.series import SeriesJudgement
from trimtab.base.visible import visible
from trimtab.judge import series_chart as judge_charts
from trimtab.show.chart import (
    ACCENT,
    ALARM,
    INK,
    MUTED,
    SECOND,
    THEME,
    Chart,
    axis_title,
    data,
    layered,
    milliseconds,
    runs_marks,
    thinned,
    time_axis,
    value_axis,
)
from trimtab.show.chart_series import round_top, value_scale
from trimtab.show.text import key_label, metric_title
from trimtab.store.history import space_at
from trimtab.web import series_parts
from trimtab.web.marks import survey_layers
from trimtab.web.series_parts import frame_of_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from trimtab.probe.verdict.site_judgement import JudgedSite
    from trimtab.store.kept import KeptIncident
    from trimtab.store.store import Store
    from trimtab.web.desk import Desk
    from trimtab.web.marks import ChartMarks

POINTS: Final = 1600
"""Of one chart: a screen has as many columns."""
_HEIGHT: Final = 320
_SURVEYS: Final = 60
_SNAPSHOTS: Final = 48


@cache
def vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script: those that draw the reports."""
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
        Its runs within the stretch that is looked at.
    largest
        Of the whole series, whatever the stretch: one axis and one unit for all of them.
    """
    shown = series_parts.sampled(frame, POINTS)
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
    """Return how runs that finished differ from those that did not, and the tooltip."""

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
        No survey measured that.
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


def life_charts(store: Store, site: str, target: str) -> Iterator[Chart | None]:
    """Yield the fullness of a target over its stored snapshots, and its rate in every survey."""
    import polars as pl

    yield _fullness_chart(store, site, target)
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


def _fullness_chart(store: Store, site: str, target: str) -> Chart | None:
    times = store.snapshot_times(site)
    rows = [
        {"at": milliseconds(each.at), "value": 100 * each.fullness}
        for each in space_at(store, site, thinned(times, _SNAPSHOTS), target)
    ]
    if not rows:
        return None
    return Chart(
        name="fullness",
        title="Fullness",
        caption=f"Used / (used + available) in {len(rows)} of {len(times):,} stored snapshots.",
        specification=_dots(rows, "full in %", 100.0 / 1.05),
    )


def _dots(rows: list[dict[str, Any]], title: str, largest: float) -> dict[str, Any]:
    x, y = time_axis(rows), value_axis("value", title, largest * 1.05)
    mark = data(rows).mark_point(size=16, color=ACCENT)
    return layered([mark.encode(x=x, y=y)])


# Incidents


def incident_chart(desk: Desk, site: str, incident: KeptIncident) -> Chart | None:
    """Return the runs around an incident, its stretch marked; ``None`` where its series is gone."""
    import polars as pl

    document = incident.document
    of_incident = [
        entry
        for entry in desk.listed(site)
        if (entry.probe, entry.metric) == (document.get("probe"), document.get("metric"))
        and document.get("apart", "") in ("", entry.apart)
    ]
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
    shown = series_parts.sampled(stretch, 400)
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
        title=key_label(key),
        caption="Runs around it; the grey stretch is the incident. Crosses: unfinished.",
        specification=layered(layers, width=760),
    )
