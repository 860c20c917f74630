"""The charts of a check: plain values in, Vega-Lite specifications out.

Every colour is one of the roles below. The page repaints the roles on a dark screen; a drawing on
its own, and on paper, is the light one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from trimtab.model.check import HistoryPoint
from trimtab.model.run import Access, LatencyHistogram, Sample, Timeline
from trimtab.model.verdict import Verdict
from trimtab.report.series import (
    Scale,
    bandwidth_scale,
    merged,
    round_top,
    stalled_intervals,
    stalls_of,
    tail_of,
)
from trimtab.report.text import interval_text, metric_text
from trimtab.units import format_duration, format_percent, format_value

if TYPE_CHECKING:
    import altair

INK: Final = "#1b232c"
MUTED: Final = "#596673"
GRID: Final = "#e1e6ea"
ACCENT: Final = "#0a6c8c"
ALARM: Final = "#b3271e"

WIDTH: Final = 372
"""Pixels of the plot itself; with its axis a drawing is about 440 wide and still legible at 360."""
HEIGHT: Final = 190
STRIP_HEIGHT: Final = 34
STRIPS_MAX: Final = 8
INTERVALS_MAX: Final = 300
HISTORY_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing to be, with the words around it.

    Attributes
    ----------
    name
        Unique within a page.
    caption
        What is drawn and how to read it.
    notes
        What the marks in the drawing stand for: ``a`` and its reason.
    specification
        Vega-Lite with its data inside.
    """

    name: str
    title: str
    caption: str
    specification: dict[str, Any]
    notes: tuple[tuple[str, str], ...] = ()


def repetition_chart(
    samples: Sequence[Sample], metric: str, verdict: Verdict | None = None
) -> Chart | None:
    """Return one metric in each repetition with its mean, ``None`` where there is no sample.

    Repetitions that are not believed are hollow and carry a letter; the notes give the reasons.
    """
    import altair as alt

    own = [
        sample
        for sample in samples
        if sample.metric == metric
        and sample.statistic == "total"
        and sample.target is None
        and sample.repetition is not None
    ]
    if not own:
        return None
    own.sort(key=lambda sample: sample.repetition or 0)
    letters = _letters(own)
    interval = verdict.mean_interval if verdict else None
    largest = max([0.0, *(s.value for s in own if s.value is not None)])
    largest = max(largest, interval.high if interval else 0.0)
    scale = _scale(largest, own[0].unit)
    top = round_top(largest / scale.divisor * 1.08)
    rows = [_repetition_row(sample, scale, letters) for sample in own]
    layers = [*_mean_layers(verdict, scale), *_repetition_layers(rows, scale, top)]
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    return Chart(
        name=f"repetitions-{metric}",
        title=f"{metric_text(metric).capitalize()} per repetition",
        caption=_repetition_caption(verdict, own),
        specification=_finished(chart),
        notes=tuple((letter, reason) for reason, letter in letters.items()),
    )


def timeline_chart(timelines: Sequence[Timeline], access: Access) -> Chart | None:
    """Return bandwidth over time, one strip for each repetition, ``None`` where there is none.

    Intervals in which next to nothing moved are marked beneath the strip.
    """
    import altair as alt

    own = sorted(
        (t for t in timelines if t.access == access and t.moved_bytes),
        key=lambda timeline: timeline.repetition,
    )
    if not own:
        return None
    stalls = stalls_of(own)
    shown = _slowest(own, STRIPS_MAX)
    drawn = [merged(timeline, INTERVALS_MAX) for timeline in shown]
    largest = max(max(t.moved_bytes) / t.interval_s for t in drawn)
    scale = bandwidth_scale(largest)
    top = round_top(largest / scale.divisor)
    rows = [row for one in drawn for row in _strip_rows(one, scale)]
    rows += [row for one in shown for row in _stall_rows(one)]
    x = alt.X("time:Q", title="time in the repetition [s]", scale=alt.Scale(nice=False, zero=True))
    area = (
        alt.Chart()
        .transform_filter("!datum.stalled")
        .mark_area(interpolate="step-after", color=ACCENT, opacity=1)
        .encode(
            x=x,
            y=alt.Y(
                "bandwidth:Q",
                title=None,
                scale=alt.Scale(domain=[0, top]),
                axis=alt.Axis(values=[0, top], grid=False, domain=False, ticks=False),
            ),
        )
    )
    marks = (
        alt.Chart()
        .transform_filter("datum.stalled")
        .mark_rect(color=ALARM, opacity=1)
        .encode(x=x, x2="end:Q", y=alt.value(STRIP_HEIGHT + 1), y2=alt.value(STRIP_HEIGHT + 5))
    )
    header = alt.Header(
        title=None, labelAngle=0, labelAlign="left", labelFontSize=12, labelColor=MUTED
    )
    chart = (
        alt.layer(area, marks, data=alt.Data(values=rows))
        .properties(width=WIDTH - 30, height=STRIP_HEIGHT)
        .facet(row=alt.Row("repetition:O", header=header))
        .properties(spacing=16)
    )
    return Chart(
        name=f"timeline-{access}",
        title=f"{access.capitalize()} bandwidth over time [{scale.unit}]",
        caption=_timeline_caption(stalls, drawn[0].interval_s, len(shown), len(own)),
        specification=_finished(chart),
    )


def latency_chart(histograms: Sequence[LatencyHistogram], access: Access) -> Chart | None:
    """Return the latency tail of one access, all given repetitions together, if there is one.

    Both axes are logarithmic; the curve is the part of operations that took this long or longer.
    """
    import altair as alt

    tail = tail_of([one for one in histograms if one.access == access])
    if tail is None:
        return None
    points = [
        {"latency": latency, "fraction": fraction}
        for latency, fraction in zip(tail.latency_s, tail.fraction, strict=True)
    ]
    labels = [
        {"latency": latency, "fraction": fraction, "text": f"{name} {format_duration(latency)}"}
        for name, latency, fraction in tail.marks
    ]
    low, high = tail.latency_s[0], tail.latency_s[-1]
    # Labels stand to the right of their points: leave them a third of the width.
    room = max((high / low) ** 0.5, 3.0)
    x = alt.X(
        "latency:Q",
        title="latency of one operation",
        scale=alt.Scale(type="log", domain=[low / 1.2, high * room], nice=False),
        axis=alt.Axis(values=_log_ticks(low / 1.2, high * room), labelExpr=_LATENCY_LABEL),
    )
    y = alt.Y(
        "fraction:Q",
        title="took this long or longer",
        scale=alt.Scale(type="log", domain=[min(0.5, tail.fraction[-1]) / 1.6, 1], nice=False),
        axis=alt.Axis(values=_log_ticks(tail.fraction[-1] / 1.6, 1), labelExpr=_FRACTION_LABEL),
    )
    line = alt.Chart(alt.Data(values=points)).mark_line(
        interpolate="step-before", color=ACCENT, strokeWidth=2
    )
    marks = alt.Chart(alt.Data(values=labels))
    chart = alt.layer(
        line.encode(x=x, y=y),
        marks.mark_point(filled=True, size=44, color=INK, opacity=1).encode(x=x, y=y),
        marks.mark_text(align="left", baseline="bottom", dx=6, dy=-3, color=INK).encode(
            x=x, y=y, text="text:N"
        ),
    ).properties(width=WIDTH, height=HEIGHT)
    return Chart(
        name=f"latency-{access}",
        title=f"{access.capitalize()} latency",
        caption=f"{tail.operations:,} operations. "
        + ", ".join(str(one["text"]) for one in labels)
        + ". A step far to the right is a few operations that waited long.",
        specification=_finished(chart),
    )


def history_chart(
    history: Sequence[HistoryPoint],
    metric: str,
    *,
    this: HistoryPoint | None = None,
    verdict: Verdict | None = None,
) -> Chart | None:
    """Return the median of each run over time, ``None`` where there is no earlier run.

    Parameters
    ----------
    this
        The run that the report is about, drawn larger.
    verdict
        Of scope ``history``: its mean and goal are the line and the band.
    """
    import altair as alt

    earlier = [
        point
        for point in history
        if point.metric == metric and (this is None or point.run != this.run)
    ]
    if not earlier:
        return None
    everything = sorted([*earlier, *([this] if this else [])], key=lambda point: point.at)
    points = everything[-HISTORY_MAX:]
    centre = verdict.mean if verdict and verdict.mean else None
    centre = centre if centre is not None else mean(point.value for point in everything)
    goal = verdict.goal if verdict else None
    largest = max([centre * (1 + (goal or 0)), *(point.value for point in points)])
    scale = bandwidth_scale(largest)
    rows = [_history_row(point, scale, this) for point in points]
    top = round_top(largest / scale.divisor * 1.08)
    layers = [*_goal_layers(centre / scale.divisor, goal), *_history_layers(rows, scale, top)]
    return Chart(
        name=f"history-{metric}",
        title=f"{metric_text(metric).capitalize()} of earlier runs",
        caption=_history_caption(len(points), len(everything), goal, points),
        specification=_finished(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)),
    )


_LATENCY_LABEL: Final = (
    "datum.value < 0.9e-6 ? format(datum.value * 1e9, '~g') + ' ns'"
    " : datum.value < 0.9e-3 ? format(datum.value * 1e6, '~g') + ' us'"
    " : datum.value < 0.9 ? format(datum.value * 1e3, '~g') + ' ms'"
    " : format(datum.value, '~g') + ' s'"
)
_FRACTION_LABEL: Final = "format(datum.value * 100, '~g') + ' %'"


def _finished(chart: altair.LayerChart | altair.FacetChart) -> dict[str, Any]:
    axis = {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "gridColor": GRID,
        "domainColor": MUTED,
        "tickColor": MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    }
    configured = chart.configure(
        background="transparent",
        font="sans-serif",
        padding=4,
        axis=axis,
        axisX={"grid": False},
        view={"stroke": None},
        text={"fontSize": 12},
        header={"labelFontSize": 12},
    )
    return configured.to_dict()


def _scale(largest: float, unit: str) -> Scale:
    return bandwidth_scale(largest) if unit == "B/s" else Scale(1.0, unit)


def _letters(samples: Sequence[Sample]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for sample in samples:
        if sample.reason is not None and sample.reason not in reasons:
            number = len(reasons)
            reasons[sample.reason] = chr(ord("a") + number) if number < 26 else str(number + 1)
    return reasons


def _repetition_row(sample: Sample, scale: Scale, letters: dict[str, str]) -> dict[str, object]:
    value = None if sample.value is None else sample.value / scale.divisor
    return {
        "repetition": sample.repetition,
        "value": value,
        "believed": sample.believed,
        "letter": letters[sample.reason] if sample.reason is not None else "",
    }


def _mean_layers(verdict: Verdict | None, scale: Scale) -> list[altair.Chart]:
    import altair as alt

    layers: list[altair.Chart] = []
    if verdict and verdict.mean_interval:
        ends = {
            "low": max(0.0, verdict.mean_interval.low) / scale.divisor,
            "high": verdict.mean_interval.high / scale.divisor,
        }
        band = alt.Chart(alt.Data(values=[ends])).mark_rect(color=ACCENT, opacity=0.18)
        layers.append(band.encode(y="low:Q", y2="high:Q"))
    if verdict and verdict.mean is not None:
        line = alt.Chart(alt.Data(values=[{"mean": verdict.mean / scale.divisor}]))
        layers.append(line.mark_rule(color=ACCENT, strokeWidth=1.5).encode(y="mean:Q"))
    return layers


def _repetition_layers(
    rows: list[dict[str, object]], scale: Scale, top: float
) -> list[altair.Chart]:
    import altair as alt

    axis = alt.Axis(labelAngle=0, labelOverlap=True, tickSize=0)
    x = alt.X("repetition:O", title="repetition", axis=axis)
    y = alt.Y(
        "value:Q",
        title=scale.unit,
        scale=alt.Scale(domain=[0, top]),
        axis=alt.Axis(tickCount=5, domain=False, tickSize=0),
    )
    solid = alt.Chart(alt.Data(values=[row for row in rows if row["believed"]]))
    hollow = alt.Chart(
        alt.Data(values=[row for row in rows if not row["believed"] and row["value"] is not None])
    )
    absent = alt.Chart(alt.Data(values=[row for row in rows if row["value"] is None]))
    return [
        solid.mark_point(filled=True, size=70, color=ACCENT, opacity=1).encode(x=x, y=y),
        hollow.mark_point(filled=False, size=70, color=MUTED, strokeWidth=1.6, opacity=1).encode(
            x=x, y=y
        ),
        hollow.mark_text(dx=11, dy=-7, color=MUTED, fontStyle="italic").encode(
            x=x, y=y, text="letter:N"
        ),
        absent.mark_text(color=MUTED, fontStyle="italic").encode(
            x=x, y=alt.value(HEIGHT - 10), text="letter:N"
        ),
    ]


def _repetition_caption(verdict: Verdict | None, samples: Sequence[Sample]) -> str:
    left_out = sum(not sample.believed for sample in samples)
    parts = []
    if verdict and verdict.mean is not None:
        parts.append(f"The line is the mean, {format_value(verdict.mean, verdict.unit)}")
        if verdict.mean_interval:
            parts[-1] += (
                f"; the band is where it lies: {interval_text(verdict.mean_interval, verdict.unit)}"
            )
    if left_out:
        parts.append(f"Hollow or lettered: {left_out} of {len(samples)} not believed, not judged")
    return ". ".join([*parts, ""]).strip()


def _slowest(timelines: Sequence[Timeline], count: int) -> list[Timeline]:
    def bandwidth(timeline: Timeline) -> float:
        return sum(timeline.moved_bytes) / (len(timeline.moved_bytes) * timeline.interval_s)

    chosen = sorted(timelines, key=bandwidth)[:count]
    return sorted(chosen, key=lambda timeline: timeline.repetition)


def _strip_rows(timeline: Timeline, scale: Scale) -> list[dict[str, object]]:
    # A stepped area needs the right-hand edge of its last interval as a point of its own.
    moved = [*timeline.moved_bytes, timeline.moved_bytes[-1]]
    return [
        {
            "repetition": timeline.repetition,
            "time": round(index * timeline.interval_s, 9),
            "bandwidth": value / timeline.interval_s / scale.divisor,
            "stalled": False,
        }
        for index, value in enumerate(moved)
    ]


def _stall_rows(timeline: Timeline) -> list[dict[str, object]]:
    return [
        {
            "repetition": timeline.repetition,
            "time": round(index * timeline.interval_s, 9),
            "end": round((index + 1) * timeline.interval_s, 9),
            "stalled": True,
        }
        for index, stalled in enumerate(stalled_intervals(timeline))
        if stalled
    ]


def _timeline_caption(stalls: Any, interval_s: float, shown: int, of: int) -> str:
    text = f"One strip for each repetition, intervals of {format_duration(interval_s)}. "
    if shown < of:
        text += f"The {shown} slowest of {of} repetitions. "
    if not stalls.count:
        return text + f"No stall in {stalls.of:,} intervals."
    return text + (
        f"Marked beneath: {stalls.count:,} of {stalls.of:,} intervals moved less than a tenth of "
        f"the repetition's median; the longest stall is {format_duration(stalls.longest_s)}, in "
        f"repetition {stalls.longest_repetition}."
    )


def _history_row(point: HistoryPoint, scale: Scale, this: HistoryPoint | None) -> dict[str, object]:
    return {
        "at": int(point.at.timestamp() * 1000),
        "value": point.value / scale.divisor,
        "kind": "unfinished" if point.unfinished else "this" if point is this else "earlier",
    }


def _goal_layers(centre: float, goal: float | None) -> list[altair.Chart]:
    import altair as alt

    line = alt.Chart(alt.Data(values=[{"mean": centre}]))
    layers = [line.mark_rule(color=ACCENT, strokeWidth=1.2).encode(y="mean:Q")]
    if goal is not None:
        ends = {"low": max(0.0, centre * (1 - goal)), "high": centre * (1 + goal)}
        band = alt.Chart(alt.Data(values=[ends])).mark_rect(color=ACCENT, opacity=0.14)
        layers.insert(0, band.encode(y="low:Q", y2="high:Q"))
    return layers


def _history_layers(rows: list[dict[str, object]], scale: Scale, top: float) -> list[altair.Chart]:
    import altair as alt

    x = alt.X(
        "at:T",
        title="time (UTC)",
        scale=alt.Scale(type="utc", padding=8),
        axis=alt.Axis(tickCount=4, labelOverlap=True, format=_time_format(rows)),
    )
    y = alt.Y(
        "value:Q",
        title=scale.unit,
        scale=alt.Scale(domain=[0, top]),
        axis=alt.Axis(tickCount=5, domain=False, tickSize=0),
    )

    def of(kind: str) -> altair.Chart:
        return alt.Chart(alt.Data(values=[row for row in rows if row["kind"] == kind])).encode(
            x=x, y=y
        )

    size = 40 if len(rows) <= 60 else 14
    return [
        of("earlier").mark_point(filled=True, size=size, color=MUTED, opacity=1),
        of("unfinished").mark_point(shape="cross", filled=True, size=70, color=ALARM, opacity=1),
        of("this").mark_point(filled=True, size=110, color=ACCENT, opacity=1),
    ]


def _time_format(rows: list[dict[str, Any]]) -> str:
    times = [row["at"] for row in rows]
    days = (max(times) - min(times)) / 86_400_000
    return "%d %b %H:%M" if days < 8 else "%d %b" if days < 300 else "%b %Y"


def _history_caption(
    shown: int, of: int, goal: float | None, points: Sequence[HistoryPoint]
) -> str:
    runs = f"{of:,} runs" if shown == of else f"The last {shown:,} of {of:,} runs"
    text = f"{runs}, the median of each; the large point is this run. The line is their mean"
    if goal is not None:
        text += (
            f", the band one goal of {format_percent(goal)} to either side: at a variability "
            "right at the goal about two runs in three lie inside"
        )
    unfinished = sum(point.unfinished for point in points)
    if unfinished:
        text += f". Crosses at 0: {unfinished} that did not finish"
    return text + "."


def _log_ticks(low: float, high: float) -> list[float]:
    # Less than two decades: tenths would be one tick or none, so 1, 2, 5.
    steps = (1.0,) if high / low > 100 else (1.0, 2.0, 5.0)
    values = [step * 10.0**power for power in range(-12, 7) for step in steps]
    return [value for value in values if low <= value <= high]
