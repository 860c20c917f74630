"""Charts over months: figures 1 to 6 of [S1] for any site. Plain values in, Vega-Lite out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from trimtab.base.series import ChangePoint, ChangeStatus, SeriesJudgement, SeriesKey
from trimtab.base.text import key_label, metric_text, metric_title, moment_text
from trimtab.base.units import format_percent, format_value
from trimtab.base.verdict import VerdictStatus
from trimtab.judge.series_level import level_now, level_text, series_word
from trimtab.show.chart import (
    ACCENT,
    ALARM,
    INK,
    MUTED,
    SECOND,
    Chart,
    Key,
    axis_title,
    data,
    layered,
    milliseconds,
    rule_at,
    runs_marks,
    thinned,
    time_axis,
    value_axis,
    value_scale,
)

if TYPE_CHECKING:
    import altair
    import polars as pl

POINTS_MAX: Final = 420
"""Maximum points of a line: more than there are pixels show nothing."""
CHANGE_DASHES: Final = ((ChangeStatus.CONFIRMED, [1, 0]), (ChangeStatus.SUSPECT, [4, 3]))
"""Dashes of a change of level by its status."""
BESIDE_CHANGE: Final = timedelta(hours=240)
"""Time on either side of a change, as in figures 3 and 4 of [S1]."""
_BINS: Final = 24
_PANEL_HEIGHT: Final = 120


PANEL_KEYS: Final = (
    Key("dot", "accent", "mean of a day; the bar is one standard deviation to either side"),
    Key("cross", "alarm", "day with runs that did not finish, which count as 0"),
    Key("line", "second", "level"),
    Key("line", "ink", "confirmed change"),
    Key("dashed", "ink", "suspected change"),
)


def panel_chart(series: SeriesJudgement, name: str) -> Chart | None:
    """Return one of the small multiples: daily means, levels and changes (figure 6)."""
    days = [day for day in series.days if day.mean is not None]
    if not days:
        return None
    largest = max((day.mean or 0.0) + (day.standard_deviation or 0.0) for day in days)
    scale = value_scale(largest, series.key.unit)
    rows = [
        {
            "at": milliseconds(datetime.combine(day.day, datetime.min.time(), UTC)),
            "mean": (day.mean or 0.0) / scale.divisor,
            "low": max(0.0, (day.mean or 0.0) - (day.standard_deviation or 0.0)) / scale.divisor,
            "high": ((day.mean or 0.0) + (day.standard_deviation or 0.0)) / scale.divisor,
            "unfinished": day.unfinished > 0,
        }
        for day in days
    ]
    x = time_axis(rows)
    y = value_axis("mean", scale.unit, largest / scale.divisor * 1.08)
    bars = data(rows).mark_rule(color=MUTED, strokeWidth=1)
    layers = [
        *_level_layers(series, scale.divisor, x),
        bars.encode(x=x, y="low:Q", y2="high:Q"),
        *runs_marks(rows, x, y, size=16, color=ACCENT),
        *_change_layers(series.changes, x),
    ]
    return Chart(
        name=name,
        title=key_label(series.key),
        caption=_panel_caption(series),
        specification=layered(layers, height=_PANEL_HEIGHT),
    )


def _panel_caption(series: SeriesJudgement) -> str:
    level = level_now(series)
    words = series_word(series) if level is None else level_text(level)
    mean = series.verdict.mean
    return words if mean is None else f"{words}; now {format_value(mean, series.key.unit)}"


def _level_layers(series: SeriesJudgement, divisor: float, x: altair.X) -> list[altair.Chart]:
    levels = [
        {
            "at": milliseconds(regime.from_),
            "to": milliseconds(regime.to),
            "level": regime.median / divisor,
        }
        for regime in series.regimes
        if regime.median is not None
    ]
    if not levels:
        return []
    mark = data(levels).mark_rule(color=SECOND, strokeWidth=2)
    return [mark.encode(x=x, x2="to:T", y="level:Q")]


def cov_chart(series: SeriesJudgement, name: str) -> Chart | None:
    """Return the COV over each window with the goal (figure 5), ``None`` if none is judged."""
    judged = {
        window.at for window in series.rolling if window.status is not VerdictStatus.CANNOT_TELL
    }
    known = [window for window in series.rolling if window.cov is not None]
    if not judged or not known:
        return None
    rows = [
        {
            "at": milliseconds(window.at),
            "cov": 100 * (window.cov or 0.0),
            "judged": 100 * (window.cov or 0.0) if window.at in judged else None,
        }
        for window in thinned(known, POINTS_MAX)
    ]
    goal = 100 * (series.verdict.goal or 0.0)
    largest = max(goal * 1.5, *(row["cov"] or 0.0 for row in rows))
    x = time_axis(rows)
    y = value_axis("judged", "COV in %", largest * 1.05)
    open_ = data(row for row in rows if row["judged"] is None)
    layers = [
        open_.mark_point(size=8, color=MUTED).encode(x=x, y="cov:Q"),
        data(rows).mark_line(color=ACCENT, strokeWidth=1.5).encode(x=x, y=y),
        rule_at("goal", goal, color=ALARM, strokeWidth=1.4, strokeDash=[5, 3]),
        *_change_layers(series.changes, x),
    ]
    count = len(known) - len(judged)
    return Chart(
        name=f"cov-{name}",
        title="Variability over time",
        caption=f"COV over the window that ends at each run: {len(judged):,} windows are judged"
        + (f", {count:,} are inconclusive." if count > 0 else "."),
        specification=layered(layers),
        legend=(
            Key("line", "accent", "judged"),
            *([Key("dot", "muted", "inconclusive")] if count > 0 else []),
            Key("dashed", "alarm", f"goal {format_percent(series.verdict.goal or 0.0)}"),
        ),
    )


def before_after_chart(
    frame: pl.DataFrame, change: ChangePoint, series: SeriesJudgement, name: str
) -> Chart | None:
    """Return the distribution of runs in the 240 h before and after a change (figures 3 and 4)."""
    import polars as pl

    at = pl.col("at")
    before = frame.filter((at >= change.at - BESIDE_CHANGE) & (at < change.at))
    after = frame.filter((at >= change.at) & (at < change.at + BESIDE_CHANGE))
    title = f"Before and after {moment_text(change.at)}"
    return spread_chart(before, after, series.key, name, title=title, within=" within 240 h")


def spread_chart(
    before: pl.DataFrame,
    after: pl.DataFrame,
    key: SeriesKey,
    name: str,
    *,
    title: str,
    within: str = "",
) -> Chart | None:
    """Return the distribution of the finished runs of two stretches; ``None`` if one has none."""
    values = [side["value"].drop_nulls().to_list() for side in (before, after)]
    if not all(values):
        return None
    words = ("before", "after")
    counts = " and ".join(f"{len(v)} {word}" for word, v in zip(words, values, strict=True))
    means = [format_value(sum(v) / len(v), key.unit) for v in values]
    return Chart(
        name=name,
        title=title,
        caption=f"Share of runs by {metric_text(key.metric)}, {counts}{within}. Means "
        f"{means[0]} and {means[1]}.",
        specification=_histograms(values, key.metric, key.unit, "runs in %"),
        legend=_sides_keys(words),
    )


def runs_chart(before: pl.DataFrame, after: pl.DataFrame, key: SeriesKey) -> Chart | None:
    """Return the runs of two stretches over time with the mean of each (figures 3 and 4).

    ``None`` if one has no run.
    """
    if before.is_empty() or after.is_empty():
        return None
    largest = max(float(side["value"].max() or 0.0) for side in (before, after))  # type: ignore[arg-type]
    scale = value_scale(largest, key.unit)
    sides = [_rows(side, scale.divisor) for side in (before, after)]
    x = time_axis([row for rows in sides for row in rows])
    y = value_axis("value", axis_title(key.metric, scale), largest / scale.divisor * 1.05)
    layers: list[altair.Chart] = []
    looks = (("circle", MUTED), ("triangle-down", ACCENT))
    for rows, (shape, color) in zip(sides, looks, strict=True):
        mean = sum(row["value"] for row in rows) / len(rows)
        span = [{"at": rows[0]["at"], "to": rows[-1]["at"], "mean": mean}]
        line = data(span).mark_rule(color=SECOND, strokeWidth=2)
        layers += runs_marks(rows, x, y, size=18, shape=shape, color=color)
        layers.append(line.encode(x=x, x2="to:T", y="mean:Q"))
    has_lost = any(row["unfinished"] for rows in sides for row in rows)
    return Chart(
        name="runs-compared",
        title="Runs of both stretches",
        caption="Every run of both; the lines are their means, unfinished runs as 0.",
        specification=layered(layers),
        legend=(
            Key("dot", "muted", "before"),
            Key("triangle", "accent", "after"),
            Key("line", "second", "mean"),
            *([Key("cross", "alarm", "unfinished")] if has_lost else []),
        ),
    )


def _rows(frame: pl.DataFrame, divisor: float) -> list[dict[str, Any]]:
    return [
        {"at": milliseconds(at), "value": (value or 0.0) / divisor, "unfinished": value is None}
        for at, value in thinned(frame.select("at", "value").rows(), POINTS_MAX)
    ]


def days_cov_chart(series: SeriesJudgement, name: str) -> Chart | None:
    """Return the COV of each day with the goal: together with `panel_chart`, figure 6."""
    days = [day for day in series.days if day.cov is not None]
    goal = series.verdict.goal
    if not days or goal is None:
        return None
    rows = [
        {
            "at": milliseconds(datetime.combine(day.day, datetime.min.time(), UTC)),
            "cov": 100 * (day.cov or 0.0),
            "over": (day.cov or 0.0) > goal,
        }
        for day in days
    ]
    largest = max(150 * goal, *(row["cov"] for row in rows))
    x = time_axis(rows)
    y = value_axis("cov", "COV of a day in %", largest * 1.05)
    under = data(row for row in rows if not row["over"])
    over = data(row for row in rows if row["over"])
    layers = [
        under.mark_point(size=16, color=ACCENT).encode(x=x, y=y),
        over.mark_point(shape="triangle-down", size=34, color=ALARM).encode(x=x, y=y),
        rule_at("cov", 100 * goal, color=ALARM, strokeWidth=1.4, strokeDash=[5, 3]),
    ]
    count = sum(row["over"] for row in rows)
    return Chart(
        name=f"days-cov-{name}",
        title="COV of each day",
        caption=f"{count:,} of {len(rows):,} days are above the goal; unfinished runs count as 0.",
        specification=layered(layers, height=_PANEL_HEIGHT),
        legend=(
            Key("dot", "accent", "day"),
            *([Key("triangle", "alarm", "above the goal")] if count else []),
            Key("dashed", "alarm", f"goal {format_percent(goal)}"),
        ),
    )


def survey_chart(surveys: pl.DataFrame, metric: str, unit: str, name: str) -> Chart | None:
    """Return the spread of all targets in each survey over time (figure 1)."""
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
            "at": milliseconds(row["at"]),
            **{key: row[key] / scale.divisor for key in ("minimum", "p10", "median", "p90")},
        }
        for row in thinned(spread.to_dicts(), POINTS_MAX)
    ]
    y = value_axis("median", axis_title(metric, scale), largest / scale.divisor * 1.08)
    base = data(rows).encode(x=time_axis(rows))
    layers = [
        base.mark_rule(color=MUTED, strokeWidth=1.4).encode(y="p10:Q", y2="p90:Q"),
        base.mark_point(size=14, color=ACCENT).encode(y=y),
        base.mark_point(shape="triangle-down", size=18, color=ALARM).encode(y="minimum:Q"),
    ]
    return Chart(
        name=name,
        title=f"{metric_title(metric)} of single targets",
        caption="One mark per survey.",
        specification=layered(layers),
        legend=(
            Key("dot", "accent", "median target"),
            Key("line", "muted", "10th to 90th percentile"),
            Key("triangle", "alarm", "slowest target"),
        ),
    )


def months_chart(surveys: pl.DataFrame, metric: str, unit: str, name: str) -> Chart | None:
    """Return the distribution of targets in the first and the last month of surveys (figure 2)."""
    import polars as pl

    months = surveys.filter(pl.col("metric") == metric).with_columns(
        month=pl.col("at").dt.strftime("%Y-%m")
    )
    names = months["month"].unique().sort().to_list()
    if len(names) < 2:
        return None
    sides = [
        months.filter(pl.col("month") == month)["value"].to_list()
        for month in (names[0], names[-1])
    ]
    return Chart(
        name=name,
        title=f"{metric_title(metric)} of targets, {names[0]} and {names[-1]}",
        caption="Share of all targets' figures in two months. Lowest "
        f"{format_value(min(sides[0]), unit)} and {format_value(min(sides[1]), unit)}.",
        specification=_histograms(sides, metric, unit, "figures in %"),
        legend=_sides_keys((names[0], names[-1])),
    )


def _sides_keys(words: Sequence[str]) -> tuple[Key, ...]:
    return (Key("light-bar", "muted", words[0]), Key("line", "accent", words[1]))


def _histograms(
    sides: Sequence[Sequence[float]], metric: str, unit: str, noun: str
) -> dict[str, Any]:
    """Draw the share of values in each bin, for two sides on the same bins.

    The first side is filled, the second an outline: they differ without colour.
    """
    import altair as alt

    everything = [value for values in sides for value in values]
    low, high = min(everything), max(everything)
    width = (high - low) / _BINS or max(abs(high), 1.0) / _BINS
    scale = value_scale(high, unit)
    rows = []
    for side, values in enumerate(sides):
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
        title=axis_title(metric, scale),
        scale=alt.Scale(zero=False, nice=False),
        axis=alt.Axis(tickCount=5),
    )
    y = value_axis("share", noun, max(row["share"] for row in rows) * 1.05)
    filled = data(row for row in rows if row["side"] == 0).mark_bar(color=MUTED, opacity=0.35)
    second = [row for row in rows if row["side"] == 1]
    # An outline rises from the axis, and returns to it at its last right-hand edge.
    first = {**second[0], "share": 0.0}
    last = {**second[-1], "from": second[-1]["to"], "share": 0.0}
    outline = data([first, *second, last]).mark_line(
        interpolate="step-after", color=ACCENT, strokeWidth=2
    )
    return layered(
        [
            filled.encode(x=x, x2="to:Q", y=y, y2=alt.datum(0)),
            outline.encode(x=x, y="share:Q"),
        ]
    )


def _change_layers(changes: Sequence[ChangePoint], x: altair.X) -> list[altair.Chart]:
    layers = []
    for status, dash in CHANGE_DASHES:
        rows = [{"at": milliseconds(change.at)} for change in changes if change.status is status]
        if rows:
            layers.append(data(rows).mark_rule(color=INK, strokeDash=dash).encode(x=x))
    return layers
