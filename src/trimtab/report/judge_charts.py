"""Charts over months: the seeds' figures 1 to 6 for any site. Plain values in, Vega-Lite out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from trimtab.model.series import ChangePoint, ChangeStatus, SeriesJudgement
from trimtab.report.chart import ACCENT, ALARM, HEIGHT, INK, MUTED, WIDTH, Chart, finished
from trimtab.report.series import Scale, bandwidth_scale, round_top
from trimtab.report.text import metric_text, moment_text
from trimtab.units import format_percent, format_value

if TYPE_CHECKING:
    import altair
    import polars as pl

POINTS_MAX: Final = 420
"""Of one line: more than there are pixels tell nothing."""
BESIDE_CHANGE: Final = timedelta(hours=240)
"""Either side of a change: what the seeds' figures 3 and 4 show."""
_BINS: Final = 24


def daily_chart(one: SeriesJudgement, name: str) -> Chart | None:
    """Return daily means with their standard deviations and the changes of level (figure 6)."""
    import altair as alt

    days = [day for day in one.days if day.mean is not None]
    if not days:
        return None
    largest = max((day.mean or 0.0) + (day.standard_deviation or 0.0) for day in days)
    scale = value_scale(largest, one.key.unit)
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
    x, y = _time_axis(rows), _value_axis("mean", scale, largest)
    base = alt.Chart(alt.Data(values=rows)).encode(x=x)
    bars = base.mark_rule(color=MUTED, strokeWidth=1).encode(y=alt.Y("low:Q"), y2="high:Q")
    whole = alt.Chart(alt.Data(values=[row for row in rows if not row["unfinished"]]))
    broken = alt.Chart(alt.Data(values=[row for row in rows if row["unfinished"]]))
    layers = [
        bars,
        whole.mark_point(filled=True, size=16, color=ACCENT, opacity=1).encode(x=x, y=y),
        broken.mark_point(shape="cross", filled=True, size=50, color=ALARM, opacity=1).encode(
            x=x, y=y
        ),
        *_change_layers(one.changes, x),
    ]
    return Chart(
        name=f"days-{name}",
        title=f"{metric_text(one.key.metric).capitalize()} by day",
        caption="Mean of each day; the bars are one standard deviation to either side. Crosses: "
        "days with runs that did not finish, which count as 0. Upright lines: changes of level.",
        specification=finished(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)),
    )


def cov_chart(one: SeriesJudgement, name: str) -> Chart | None:
    """Return the COV over each window with the goal (figure 5)."""
    import altair as alt

    known = [at for at in one.rolling if at.cov is not None]
    if not known:
        return None
    kept = _thinned(known)
    rows = [{"at": _milliseconds(at.at), "cov": 100 * (at.cov or 0.0)} for at in kept]
    goal = 100 * (one.verdict.goal or 0.0)
    largest = max(goal * 1.5, *(row["cov"] for row in rows))
    x = _time_axis(rows)
    y = alt.Y(
        "cov:Q",
        title="COV in %",
        scale=alt.Scale(domain=[0, round_top(largest * 1.05)]),
        axis=alt.Axis(tickCount=5, domain=False, tickSize=0),
    )
    line = alt.Chart(alt.Data(values=rows)).mark_line(color=ACCENT, strokeWidth=1.2)
    limit = alt.Chart(alt.Data(values=[{"goal": goal}])).mark_rule(color=ALARM, strokeWidth=1.4)
    layers = [line.encode(x=x, y=y), limit.encode(y="goal:Q"), *_change_layers(one.changes, x)]
    return Chart(
        name=f"cov-{name}",
        title="Variability over time",
        caption=f"COV over the window that ends at each run; the level line is the goal of "
        f"{format_percent(one.verdict.goal or 0.0)}.",
        specification=finished(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)),
    )


def before_after_chart(
    frame: pl.DataFrame, change: ChangePoint, one: SeriesJudgement, name: str
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
    rows, scale, largest = _histograms(
        [(word, side["value"].to_list()) for word, side in zip(words, sides, strict=True)],
        one.key.unit,
    )
    counts = " and ".join(f"{side.height} {word}" for word, side in zip(words, sides, strict=True))
    means = [float(side["value"].mean() or 0.0) for side in sides]  # type: ignore[arg-type]
    return Chart(
        name=name,
        title=f"Around {moment_text(change.at)}",
        caption=f"Share of runs by {metric_text(one.key.metric)}, {counts} within 240 h: grey "
        f"before, blue after. Means {format_value(means[0], one.key.unit)} and "
        f"{format_value(means[1], one.key.unit)}.",
        specification=finished(_histogram_layers(rows, scale, largest)),
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
    x, y = _time_axis(rows), _value_axis("median", scale, largest)
    base = alt.Chart(alt.Data(values=rows)).encode(x=x)
    layers = [
        base.mark_rule(color=MUTED, strokeWidth=1.4).encode(y=alt.Y("p10:Q"), y2="p90:Q"),
        base.mark_point(filled=True, size=14, color=ACCENT, opacity=1).encode(y=y),
        base.mark_point(shape="triangle-down", filled=True, size=18, color=ALARM, opacity=1).encode(
            y="minimum:Q"
        ),
    ]
    return Chart(
        name=name,
        title=f"{metric_text(metric).capitalize()} of single targets",
        caption="Each survey: the median target (dot), nine tenths of the targets (bar from the "
        "10th to the 90th percentile), the slowest (triangle).",
        specification=finished(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)),
    )


def months_chart(surveys: pl.DataFrame, metric: str, unit: str, name: str) -> Chart | None:
    """Return how targets are spread in the first and in the last month of surveys (figure 2)."""
    import polars as pl

    own = surveys.filter(pl.col("metric") == metric)
    months = own.with_columns(month=pl.col("at").dt.strftime("%Y-%m"))
    names = months["month"].unique().sort().to_list()
    if len(names) < 2:
        return None
    sides = [
        (month, months.filter(pl.col("month") == month)["value"].to_list())
        for month in (names[0], names[-1])
    ]
    rows, scale, largest = _histograms(sides, unit)
    return Chart(
        name=name,
        title=f"{metric_text(metric).capitalize()} of targets, {names[0]} and {names[-1]}",
        caption=f"Share of all targets' figures: grey in {names[0]}, blue in {names[-1]}. Lowest "
        f"{format_value(min(sides[0][1]), unit)} and {format_value(min(sides[1][1]), unit)}.",
        specification=finished(_histogram_layers(rows, scale, largest)),
    )


def value_scale(largest: float, unit: str) -> Scale:
    """Return the unit in which values up to ``largest`` read well."""
    return bandwidth_scale(largest) if unit == "B/s" else Scale(1.0, unit)


def _histograms(
    sides: Sequence[tuple[str, Sequence[float]]], unit: str
) -> tuple[list[dict[str, Any]], Scale, float]:
    """Return the share of values in each bin, for two sides on the same bins."""
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
    return rows, scale, max(row["share"] for row in rows)


def _histogram_layers(
    rows: list[dict[str, Any]], scale: Scale, largest: float
) -> altair.LayerChart | altair.FacetChart:
    import altair as alt

    x = alt.X(
        "from:Q",
        title=scale.unit,
        scale=alt.Scale(zero=False, nice=False),
        axis=alt.Axis(tickCount=5),
    )
    y = alt.Y(
        "share:Q",
        title="runs in %",
        scale=alt.Scale(domain=[0, round_top(largest * 1.05)]),
        axis=alt.Axis(tickCount=5, domain=False, tickSize=0),
    )
    layers = [
        alt.Chart(alt.Data(values=[row for row in rows if row["side"] == side]))
        .mark_bar(color=color, opacity=0.55)
        .encode(x=x, x2="to:Q", y=y, y2=alt.datum(0))
        for side, color in ((0, MUTED), (1, ACCENT))
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _change_layers(changes: Sequence[ChangePoint], x: altair.X) -> list[altair.Chart]:
    import altair as alt

    layers = []
    for status, dash in ((ChangeStatus.CONFIRMED, [1, 0]), (ChangeStatus.SUSPECT, [4, 3])):
        rows = [{"at": _milliseconds(change.at)} for change in changes if change.status is status]
        if rows:
            mark = alt.Chart(alt.Data(values=rows)).mark_rule(color=INK, strokeDash=dash)
            layers.append(mark.encode(x=x))
    return layers


def _time_axis(rows: Sequence[dict[str, Any]]) -> altair.X:
    import altair as alt

    times = [row["at"] for row in rows]
    days = (max(times) - min(times)) / 86_400_000
    form = "%d %b %H:%M" if days < 8 else "%d %b" if days < 300 else "%b %Y"
    return alt.X(
        "at:T",
        title="time (UTC)",
        scale=alt.Scale(type="utc", padding=8),
        axis=alt.Axis(tickCount=4, labelOverlap=True, format=form),
    )


def _value_axis(field: str, scale: Scale, largest: float) -> altair.Y:
    import altair as alt

    return alt.Y(
        f"{field}:Q",
        title=scale.unit,
        scale=alt.Scale(domain=[0, round_top(largest / scale.divisor * 1.08)]),
        axis=alt.Axis(tickCount=5, domain=False, tickSize=0),
    )


def _thinned(points: Sequence[Any]) -> Sequence[Any]:
    """Return at most `POINTS_MAX` of the points, evenly, the last one among them."""
    step = -(-len(points) // POINTS_MAX)
    return points[::-1][::step][::-1] if step > 1 else points


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
