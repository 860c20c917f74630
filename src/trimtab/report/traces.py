"""Charts of what happened within repetitions: bandwidth over time, latency of operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trimtab.model.run import Access, LatencyHistogram, Timeline
from trimtab.report.chart import ACCENT, ALARM, INK, MUTED, WIDTH, Chart, data, finished, layered
from trimtab.report.series import (
    Scale,
    Stalls,
    bandwidth_scale,
    merged,
    round_top,
    stalled_intervals,
    stalls_of,
    tail_of,
)
from trimtab.units import format_duration

STRIP_HEIGHT: Final = 34
STRIPS_MAX: Final = 8
"""More repetitions than that are too many to look at: the slowest are drawn."""
INTERVALS_MAX: Final = 300
"""More intervals than pixels cannot be seen: neighbours are added up for the drawing."""

_LATENCY_LABEL: Final = (
    "datum.value < 0.9e-6 ? format(datum.value * 1e9, '~g') + ' ns'"
    " : datum.value < 0.9e-3 ? format(datum.value * 1e6, '~g') + ' us'"
    " : datum.value < 0.9 ? format(datum.value * 1e3, '~g') + ' ms'"
    " : format(datum.value, '~g') + ' s'"
)
_FRACTION_LABEL: Final = "format(datum.value * 100, '~g') + ' %'"


def timeline_chart(timelines: Sequence[Timeline], access: Access) -> Chart | None:
    """Return bandwidth over time, one strip for each repetition, ``None`` where there is none.

    Intervals in which next to nothing moved are marked beneath the strip.
    """
    of_access = sorted(
        (t for t in timelines if t.access == access and t.moved_bytes),
        key=lambda timeline: timeline.repetition,
    )
    if not of_access:
        return None
    import altair as alt

    stalls = stalls_of(of_access)
    shown = _slowest(of_access, STRIPS_MAX)
    drawn = [merged(timeline, INTERVALS_MAX) for timeline in shown]
    largest = max(max(t.moved_bytes) / t.interval_s for t in drawn)
    scale = bandwidth_scale(largest)
    top = round_top(largest / scale.divisor)
    rows = [row for timeline in drawn for row in _strip_rows(timeline, scale)]
    rows += [row for timeline in shown for row in _stall_rows(timeline)]
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
        caption=_timeline_caption(stalls, drawn[0].interval_s, len(shown), len(of_access)),
        specification=finished(chart),
    )


def latency_chart(histograms: Sequence[LatencyHistogram], access: Access) -> Chart | None:
    """Return the latency tail of one access, all given repetitions together, if there is one.

    Both axes are logarithmic; the curve is the part of operations that took this long or longer.
    """
    tail = tail_of([histogram for histogram in histograms if histogram.access == access])
    if tail is None:
        return None
    import altair as alt

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
    line = data(points).mark_line(interpolate="step-before", color=ACCENT, strokeWidth=2)
    marks = data(labels).encode(x=x, y=y)
    words = marks.mark_text(align="left", baseline="bottom", dx=6, dy=-3, color=INK)
    layers = [
        line.encode(x=x, y=y),
        marks.mark_point(size=44, color=INK),
        words.encode(text="text:N"),
    ]
    return Chart(
        name=f"latency-{access}",
        title=f"{access.capitalize()} latency",
        caption=f"{tail.operations:,} operations. "
        + ", ".join(str(label["text"]) for label in labels)
        + ". A step far to the right is a few operations that waited long.",
        specification=layered(layers),
    )


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


def _timeline_caption(stalls: Stalls, interval_s: float, shown: int, of: int) -> str:
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


def _log_ticks(low: float, high: float) -> list[float]:
    # Less than two decades: tenths would be one tick or none, so 1, 2, 5.
    steps = (1.0,) if high / low > 100 else (1.0, 2.0, 5.0)
    values = [step * 10.0**power for power in range(-12, 7) for step in steps]
    return [value for value in values if low <= value <= high]
