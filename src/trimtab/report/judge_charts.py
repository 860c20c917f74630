"""Charts over months: the seeds' figures 1 to 6 for any site. Plain values in, Vega-Lite out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from trimtab.model.series import ChangePoint, ChangeStatus, SeriesJudgement
from trimtab.report.chart import (
    ACCENT,
    ALARM,
    INK,
    MUTED,
    Chart,
    data,
    layered,
    rule_at,
    time_axis,
    value_axis,
)
from trimtab.report.series import value_scale
from trimtab.report.text import metric_text, metric_title, moment_text
from trimtab.units import format_percent, format_value

if TYPE_CHECKING:
    import altair
    import polars as pl

POINTS_MAX: Final = 420
"""Of one line: more than there are pixels tell nothing."""
BESIDE_CHANGE: Final = timedelta(hours=240)
"""Either side of a change: what the seeds' figures 3 and 4 show."""
_BINS: Final = 24


def daily_chart(series: SeriesJudgement, name: str) -> Chart | None:
    """Return daily means with their standard deviations and the changes of level (figure 6)."""
    import altair as alt

    days = [day for day in series.days if day.mean is not None]
    if not days:
        return None
    largest = max((day.mean or 0.0) + (day.standard_deviation or 0.0) for day in days)
    scale = value_scale(largest, series.key.unit)
    rows = [
        {
            "at": _milliseconds(datetime.combine(day.day, datetime.min.time(), UTC)),
            "mean": (day.mean or 0.0) / scale.divisor,
            "low": max(0.0, (day.mean or 0.0) - (day.standard_deviation or 0.0)) / scale.divisor,
            "high": ((day.mean or 0.0) + (day.standard_deviation or 0.0)) / scale.divisor,
            "unfinished": day.unfinished > 0,
        }
        for day in days
    ]
    x, y = time_axis(rows), value_axis("mean", scale.unit, largest / scale.divisor * 1.08)
    bars = data(rows).mark_rule(color=MUTED, strokeWidth=1)
    finished = data(row for row in rows if not row["unfinished"])
    unfinished = data(row for row in rows if row["unfinished"])
    layers = [
        bars.encode(x=x, y=alt.Y("low:Q"), y2="high:Q"),
        finished.mark_point(filled=True, size=16, color=ACCENT, opacity=1).encode(x=x, y=y),
        unfinished.mark_point(shape="cross", filled=True, size=50, color=ALARM, opacity=1).encode(
            x=x, y=y
        ),
        *_change_layers(series.changes, x),
    ]
    return Chart(
        name=f"days-{name}",
        title=f"{metric_title(series.key.metric)} by day",
        caption="Mean of each day; the bars are one standard deviation to either side. Crosses: "
        "days with runs that did not finish, which count as 0. Upright lines: changes of level.",
        specification=layered(layers),
    )


def cov_chart(series: SeriesJudgement, name: str) -> Chart | None:
    """Return the COV over each window with the goal (figure 5)."""
    known = [window for window in series.rolling if window.cov is not None]
    if not known:
        return None
    rows = [
        {"at": _milliseconds(window.at), "cov": 100 * (window.cov or 0.0)}
        for window in _thinned(known)
    ]
    goal = 100 * (series.verdict.goal or 0.0)
    largest = max(goal * 1.5, *(row["cov"] for row in rows))
    x = time_axis(rows)
    line = data(rows).mark_line(color=ACCENT, strokeWidth=1.2)
    layers = [
        line.encode(x=x, y=value_axis("cov", "COV in %", largest * 1.05)),
        rule_at("goal", goal, color=ALARM, strokeWidth=1.4),
        *_change_layers(series.changes, x),
    ]
    return Chart(
        name=f"cov-{name}",
        title="Variability over time",
        caption=f"COV over the window that ends at each run; the level line is the goal of "
        f"{format_percent(series.verdict.goal or 0.0)}.",
        specification=layered(layers),
    )


def before_after_chart(
    frame: pl.DataFrame, change: ChangePoint, series: SeriesJudgement, name: str
) -> Chart | None:
    """Return how runs are spread in the 240 h before a change and after it (figures 3 and 4)."""
    import polars as pl

    finished_runs = frame.filter(pl.col("value").is_not_null())
    at = pl.col("at")
    sides = [
        finished_runs.filter((at >= change.at - BESIDE_CHANGE) & (at < change.at)),
        finished_runs.filter((at >= change.at) & (at < change.at + BESIDE_CHANGE)),
    ]
    if any(side.is_empty() for side in sides):
        return None
    words = ("before", "after")
    specification = _histograms(
        [(word, side["value"].to_list()) for word, side in zip(words, sides, strict=True)],
        series.key.unit,
    )
    counts = " and ".join(f"{side.height} {word}" for word, side in zip(words, sides, strict=True))
    means = [float(side["value"].mean() or 0.0) for side in sides]  # type: ignore[arg-type]
    return Chart(
        name=name,
        title=f"Around {moment_text(change.at)}",
        caption=f"Share of runs by {metric_text(series.key.metric)}, {counts} within 240 h: grey "
        f"before, blue after. Means {format_value(means[0], series.key.unit)} and "
        f"{format_value(means[1], series.key.unit)}.",
        specification=specification,
    )


def survey_chart(surveys: pl.DataFrame, metric: str, unit: str, name: str) -> Chart | None:
    """Return the spread of all targets in each survey over time (figure 1)."""
    import altair as alt
    import polars as pl

    value = pl.col("value")
    spread = (
        surveys.filter(pl.col("metric") == metric)
        .group_by("run")
        .agg(
            pl.col("at").min(),
            value.min().alias("minimum"),
            value.quantile(0.1).alias("p10"),
            value.median().alias("median"),
            value.quantile(0.9).alias("p90"),
        )
        .sort("at")
    )
    if spread.is_empty():
        return None
    largest = float(spread["p90"].max() or 0.0)  # type: ignore[arg-type]
    scale = value_scale(largest, unit)
    rows = [
        {
            "at": _milliseconds(row["at"]),
            **{key: row[key] / scale.divisor for key in ("minimum", "p10", "median", "p90")},
        }
        for row in _thinned(spread.to_dicts())
    ]
    y = value_axis("median", scale.unit, largest / scale.divisor * 1.08)
    base = data(rows).encode(x=time_axis(rows))
    layers = [
        base.mark_rule(color=MUTED, strokeWidth=1.4).encode(y=alt.Y("p10:Q"), y2="p90:Q"),
        base.mark_point(filled=True, size=14, color=ACCENT, opacity=1).encode(y=y),
        base.mark_point(shape="triangle-down", filled=True, size=18, color=ALARM, opacity=1).encode(
            y="minimum:Q"
        ),
    ]
    return Chart(
        name=name,
        title=f"{metric_title(metric)} of single targets",
        caption="Each survey: the median target (dot), nine tenths of the targets (bar from the "
        "10th to the 90th percentile), the slowest (triangle).",
        specification=layered(layers),
    )


def months_chart(surveys: pl.DataFrame, metric: str, unit: str, name: str) -> Chart | None:
    """Return how targets are spread in the first and in the last month of surveys (figure 2)."""
    import polars as pl

    months = surveys.filter(pl.col("metric") == metric).with_columns(
        month=pl.col("at").dt.strftime("%Y-%m")
    )
    names = months["month"].unique().sort().to_list()
    if len(names) < 2:
        return None
    sides = [
        (month, months.filter(pl.col("month") == month)["value"].to_list())
        for month in (names[0], names[-1])
    ]
    return Chart(
        name=name,
        title=f"{metric_title(metric)} of targets, {names[0]} and {names[-1]}",
        caption=f"Share of all targets' figures: grey in {names[0]}, blue in {names[-1]}. Lowest "
        f"{format_value(min(sides[0][1]), unit)} and {format_value(min(sides[1][1]), unit)}.",
        specification=_histograms(sides, unit),
    )


def _histograms(sides: Sequence[tuple[str, Sequence[float]]], unit: str) -> dict[str, Any]:
    """Draw the share of values in each bin, for two sides on the same bins."""
    import altair as alt

    everything = [value for _, values in sides for value in values]
    low, high = min(everything), max(everything)
    width = (high - low) / _BINS or max(abs(high), 1.0) / _BINS
    scale = value_scale(high, unit)
    rows = []
    for side, (_, values) in enumerate(sides):
        counts = [0] * _BINS
        for value in values:
            counts[min(_BINS - 1, int((value - low) / width))] += 1
        rows += [
            {
                "from": (low + place * width) / scale.divisor,
                "to": (low + (place + 1) * width) / scale.divisor,
                "share": 100 * count / len(values),
                "side": side,
            }
            for place, count in enumerate(counts)
        ]
    x = alt.X(
        "from:Q",
        title=scale.unit,
        scale=alt.Scale(zero=False, nice=False),
        axis=alt.Axis(tickCount=5),
    )
    y = value_axis("share", "runs in %", max(row["share"] for row in rows) * 1.05)
    return layered(
        data(row for row in rows if row["side"] == side)
        .mark_bar(color=color, opacity=0.55)
        .encode(x=x, x2="to:Q", y=y, y2=alt.datum(0))
        for side, color in ((0, MUTED), (1, ACCENT))
    )


def _change_layers(changes: Sequence[ChangePoint], x: altair.X) -> list[altair.Chart]:
    layers = []
    for status, dash in ((ChangeStatus.CONFIRMED, [1, 0]), (ChangeStatus.SUSPECT, [4, 3])):
        rows = [{"at": _milliseconds(change.at)} for change in changes if change.status is status]
        if rows:
            layers.append(data(rows).mark_rule(color=INK, strokeDash=dash).encode(x=x))
    return layers


def _thinned(points: Sequence[Any]) -> Sequence[Any]:
    """Return at most `POINTS_MAX` of the points, evenly, the last one among them."""
    step = -(-len(points) // POINTS_MAX)
    return points[::-1][::step][::-1] if step > 1 else points


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
