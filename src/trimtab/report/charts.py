"""Charts over repetitions and over runs: plain values in, Vega-Lite specifications out."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from trimtab.model.check import HistoryPoint
from trimtab.model.run import Sample
from trimtab.model.verdict import Verdict
from trimtab.report.chart import (
    ACCENT,
    ALARM,
    HEIGHT,
    MUTED,
    Chart,
    data,
    layered,
    milliseconds,
    rule_at,
    time_axis,
    value_axis,
)
from trimtab.report.series import Scale, bandwidth_scale, value_scale
from trimtab.report.text import interval_text, metric_title
from trimtab.units import format_percent, format_value

if TYPE_CHECKING:
    import altair

HISTORY_MAX: Final = 400


def repetition_chart(
    samples: Sequence[Sample], metric: str, verdict: Verdict | None = None
) -> Chart | None:
    """Return one metric in each repetition with its mean, ``None`` where there is no sample.

    Repetitions that are not believed are hollow and carry a letter; the notes give the reasons.
    """
    repetitions = [
        sample
        for sample in samples
        if sample.metric == metric and sample.is_total and sample.repetition is not None
    ]
    if not repetitions:
        return None
    repetitions.sort(key=lambda sample: sample.repetition or 0)
    letters = _letters(repetitions)
    interval = verdict.mean_interval if verdict else None
    largest = max([0.0, *(s.value for s in repetitions if s.value is not None)])
    largest = max(largest, interval.high if interval else 0.0)
    scale = value_scale(largest, repetitions[0].unit)
    y = value_axis("value", scale.unit, largest / scale.divisor * 1.08)
    rows = [_repetition_row(sample, scale, letters) for sample in repetitions]
    return Chart(
        name=f"repetitions-{metric}",
        title=f"{metric_title(metric)} per repetition",
        caption=_repetition_caption(verdict, repetitions),
        specification=layered([*_mean_layers(verdict, scale), *_repetition_layers(rows, y)]),
        notes=tuple((letter, reason) for reason, letter in letters.items()),
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
    earlier = [
        point
        for point in history
        if point.metric == metric and (this is None or point.run != this.run)
    ]
    if not earlier:
        return None
    everything = [*earlier, this] if this else earlier
    everything.sort(key=lambda point: point.at)
    points = everything[-HISTORY_MAX:]
    centre = verdict.mean if verdict and verdict.mean else None
    centre = centre if centre is not None else mean(point.value for point in everything)
    goal = verdict.goal if verdict else None
    largest = max([centre * (1 + (goal or 0)), *(point.value for point in points)])
    scale = bandwidth_scale(largest)
    rows = [_history_row(point, scale, this) for point in points]
    y = value_axis("value", scale.unit, largest / scale.divisor * 1.08)
    layers = [*_goal_layers(centre / scale.divisor, goal), *_history_layers(rows, y)]
    return Chart(
        name=f"history-{metric}",
        title=f"{metric_title(metric)} of earlier runs",
        caption=_history_caption(len(points), len(everything), goal, points),
        specification=layered(layers),
    )


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
    layers: list[altair.Chart] = []
    if verdict and verdict.mean_interval:
        interval = verdict.mean_interval
        low, high = max(0.0, interval.low) / scale.divisor, interval.high / scale.divisor
        layers.append(_band(low, high, 0.18))
    if verdict and verdict.mean is not None:
        mean_value = verdict.mean / scale.divisor
        layers.append(rule_at("mean", mean_value, color=ACCENT, strokeWidth=1.5))
    return layers


def _band(low: float, high: float, opacity: float) -> altair.Chart:
    band = data([{"low": low, "high": high}]).mark_rect(color=ACCENT, opacity=opacity)
    return band.encode(y="low:Q", y2="high:Q")


def _repetition_layers(rows: list[dict[str, object]], y: altair.Y) -> list[altair.Chart]:
    import altair as alt

    axis = alt.Axis(labelAngle=0, labelOverlap=True, tickSize=0)
    x = alt.X("repetition:O", title="repetition", axis=axis)
    solid = data(row for row in rows if row["believed"])
    hollow = data(row for row in rows if not row["believed"] and row["value"] is not None)
    absent = data(row for row in rows if row["value"] is None)
    return [
        solid.mark_point(size=70, color=ACCENT).encode(x=x, y=y),
        hollow.mark_point(filled=False, size=70, color=MUTED, strokeWidth=1.6).encode(x=x, y=y),
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


def _history_row(point: HistoryPoint, scale: Scale, this: HistoryPoint | None) -> dict[str, object]:
    return {
        "at": milliseconds(point.at),
        "value": point.value / scale.divisor,
        "kind": "unfinished" if point.unfinished else "this" if point is this else "earlier",
    }


def _goal_layers(centre: float, goal: float | None) -> list[altair.Chart]:
    line = rule_at("mean", centre, color=ACCENT, strokeWidth=1.2)
    if goal is None:
        return [line]
    return [_band(max(0.0, centre * (1 - goal)), centre * (1 + goal), 0.14), line]


def _history_layers(rows: list[dict[str, Any]], y: altair.Y) -> list[altair.Chart]:
    x = time_axis(rows)

    def of(kind: str) -> altair.Chart:
        return data(row for row in rows if row["kind"] == kind).encode(x=x, y=y)

    size = 40 if len(rows) <= 60 else 14
    return [
        of("earlier").mark_point(size=size, color=MUTED),
        of("unfinished").mark_point(shape="cross", size=70, color=ALARM),
        of("this").mark_point(size=110, color=ACCENT),
    ]


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
