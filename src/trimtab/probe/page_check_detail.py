"""Details of a check's page: the layers beneath a path, charts of repetitions and of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.base.run import Access, LatencyHistogram, Sample, Timeline, grouped
from trimtab.base.snapshot import Snapshot
from trimtab.base.text import interval_text, metric_title
from trimtab.base.units import format_bytes, format_duration, format_percent, format_value
from trimtab.base.verdict import HistoryPoint, Verdict
from trimtab.show.chart import (
    ACCENT,
    ALARM,
    HEIGHT,
    INK,
    MUTED,
    WIDTH,
    Chart,
    Scale,
    Stalls,
    bandwidth_scale,
    data,
    finished,
    layered,
    merged,
    milliseconds,
    round_top,
    rule_at,
    stalled_intervals,
    stalls_of,
    tail_of,
    time_axis,
    value_axis,
    value_scale,
)
from trimtab.show.document import Cell, Row, Table, row, table

if TYPE_CHECKING:
    import altair


_KIND_WORDS: Final = {
    "disk": "drive",
    "loop": "loop device",
    "device-mapper": "device mapper",
    "md": "RAID (md)",
    "nvme-multipath": "NVMe multipath",
    "other": "device",
}
_MEDIA: Final = {True: "flash", False: "rotational", None: "medium not known"}


def layers_text(path: PathDescription, snapshot: Snapshot) -> str:
    """Return the layers beneath a path, its size and fullness: ``ext4 on md0, flash``."""
    parts = [f"{path.fs_type} ({path.kind}) from {path.source}"]
    if path.devices:
        top = path.devices[0]
        below = [drive.name for drive in path.drives if drive.name != top.name]
        names = ", ".join(below) if len(below) <= 3 else f"{len(below)} drives"
        over = f" over {names}" if below else ""
        parts = [f"{path.fs_type} on {top.name}{over}", _MEDIA[path.is_flash]]
    for target in snapshot.targets[:1]:
        capacity, fullness = target.number("capacity_bytes"), target.fullness()
        if capacity is not None:
            parts.append(format_value(capacity, "B"))
        if fullness is not None:
            parts.append(f"{format_percent(fullness)} full")
    return ", ".join(parts)


def layer_table(path: PathDescription) -> Table | None:
    """Return mount, file system and devices beneath a path, with identical devices in one row.

    A device appears beneath the deepest of those that use it. A device that is named but not
    described is shown as such.
    """
    state = ", read-only" if path.read_only else ""
    leads = f"{path.path} leads to {path.real_path}" if path.real_path != path.path else ""
    settings = f"from {path.source}, uuid {path.fs_uuid or 'not known'}, {_MEDIA[path.is_flash]}"
    rows = [
        row("mount", Cell(path.mount_point, leads), ",".join(path.options) or "no options", ""),
        row("file system", path.fs_type, f"{settings}{state}", ""),
        *_device_rows(_with_undescribed(path.devices)),
    ]
    none = "" if path.devices else "No device is visible beneath this file system."
    return table(("layer", "what", "settings", "not known"), rows, none)


def _device_rows(devices: dict[str, BlockDevice]) -> Iterator[Row]:
    depths = _depths(devices)
    for depth in sorted(set(depths.values())):
        of_depth = (device for device in devices.values() if depths[device.name] == depth)
        alike = grouped(of_depth, _alike)
        most = max(map(len, alike.values()))
        for (word, over, facts, unknown), group in alike.items():
            count = f"{len(group)} x " if len(group) > 1 else ""
            names = ", ".join(device.name for device in group)
            layer = Cell(f"{count}{word}")
            if len(group) < most:
                layer = Cell(layer.text, "differs from the others", "info")
            yield row(layer, Cell(names, over), facts, unknown)


def _alike(device: BlockDevice) -> tuple[str, str, str, str]:
    """Return the common description of devices that share a row."""
    # A partition is on its drive, as its name says: 24 of them are identical all the same.
    over = f"over {', '.join(device.beneath)}" if len(device.beneath) > 1 else ""
    word = _KIND_WORDS.get(device.kind, device.kind)
    return word, over, ", ".join(_facts(device)), ", ".join(_unknown(device))


def _with_undescribed(devices: Sequence[BlockDevice]) -> dict[str, BlockDevice]:
    described = {device.name: device for device in devices}
    named = [name for device in devices for name in device.beneath]
    missing = {name: BlockDevice(name, "other") for name in named if name not in described}
    return described | missing


def _depths(devices: dict[str, BlockDevice]) -> dict[str, int]:
    depths = dict.fromkeys(devices, 0)
    # Longest path by relaxation. As many rounds as devices suffice for a tree of any depth,
    # and terminate even if a broken description contains a cycle.
    for _ in devices:
        moved = False
        for device in devices.values():
            for name in device.beneath:
                if depths[device.name] + 1 > depths[name]:
                    depths[name] = depths[device.name] + 1
                    moved = True
        if not moved:
            break
    return depths


def _facts(device: BlockDevice) -> Iterator[str]:
    turns, throttling_s = device.rotational, device.writeback_throttling_s
    pairs = (
        ("size", device.size_bytes, "B"),
        ("medium", None if turns is None else _MEDIA[not turns], None),
        ("model", device.model, None),
        ("transport", device.transport, None),
        ("scheduler", device.scheduler, None),
        ("write-back throttling", "off" if throttling_s == 0 else throttling_s, "s"),
        ("discard", _discard(device), None),
        ("write cache", device.write_cache, None),
        ("logical block", device.logical_block_bytes, "B"),
        ("link", device.link_bytes_per_s, "B/s"),
        ("backing file", device.backing_file, None),
        ("direct to backing", device.direct_to_backing, None),
    )
    for name, value, unit in pairs:
        if value is not None:
            yield f"{name} {format_value(value, unit)}"


def _unknown(device: BlockDevice) -> list[str]:
    expected = {
        "size": device.size_bytes,
        "medium": device.rotational,
        "scheduler": device.scheduler,
        "write-back throttling": device.writeback_throttling_s,
        "discard": device.discard_max_bytes,
    }
    if device.kind == "partition":
        # The queue belongs to the drive: the kernel keeps none for a partition.
        expected = {"size": device.size_bytes}
    return [name for name, value in expected.items() if value is None]


def _discard(device: BlockDevice) -> str | None:
    if device.discard_max_bytes is None:
        return None
    if device.discard_max_bytes == 0:
        return "not supported"
    text = f"up to {format_bytes(device.discard_max_bytes)}"
    if device.discard_granularity_bytes:
        text += f", granularity {format_bytes(device.discard_granularity_bytes)}"
    return text


HISTORY_MAX: Final = 400


def repetition_chart(
    samples: Sequence[Sample], metric: str, verdict: Verdict | None = None
) -> Chart | None:
    """Return one metric per repetition with its mean, ``None`` if there is no sample.

    Repetitions that are not credible are hollow and carry a letter; the notes give the reasons.
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
    """Return the median of each run over time, ``None`` if there is no earlier run.

    Parameters
    ----------
    this
        The run that the report describes, drawn larger.
    verdict
        Verdict of scope ``history``: its mean and goal are the line and the band.
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
                f"; the band is its interval: {interval_text(verdict.mean_interval, verdict.unit)}"
            )
    if left_out:
        parts.append(f"Hollow or lettered: {left_out} of {len(samples)} not credible, not judged")
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
            "right at the goal about two in three runs are inside"
        )
    unfinished = sum(point.unfinished for point in points)
    if unfinished:
        text += f". Crosses at 0: {unfinished} that did not finish"
    return text + "."


# Within repetitions: bandwidth over time, latency of operations

STRIP_HEIGHT: Final = 34
STRIPS_MAX: Final = 8
"""Maximum number of strips: beyond it only the slowest repetitions are drawn."""
INTERVALS_MAX: Final = 300
"""Maximum number of intervals, as many as pixels: neighbours are summed for the drawing."""

_LATENCY_LABEL: Final = (
    "datum.value < 0.9e-6 ? format(datum.value * 1e9, '~g') + ' ns'"
    " : datum.value < 0.9e-3 ? format(datum.value * 1e6, '~g') + ' us'"
    " : datum.value < 0.9 ? format(datum.value * 1e3, '~g') + ' ms'"
    " : format(datum.value, '~g') + ' s'"
)
_FRACTION_LABEL: Final = "format(datum.value * 100, '~g') + ' %'"


def timeline_chart(timelines: Sequence[Timeline], access: Access) -> Chart | None:
    """Return bandwidth over time, one strip per repetition, ``None`` if there is none.

    Intervals in which almost nothing moved are marked beneath the strip.
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
    """Return the latency tail of one access over all repetitions, if any.

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
    # Labels are to the right of their points: leave them a third of the width.
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
        + ". Each is the upper end of its class in the histogram; a step far to the right is a few "
        "operations that waited long.",
        specification=layered(layers),
    )


def _slowest(timelines: Sequence[Timeline], count: int) -> list[Timeline]:
    def bandwidth(timeline: Timeline) -> float:
        return sum(timeline.moved_bytes) / (len(timeline.moved_bytes) * timeline.interval_s)

    chosen = sorted(timelines, key=bandwidth)[:count]
    return sorted(chosen, key=lambda timeline: timeline.repetition)


def _strip_rows(timeline: Timeline, scale: Scale) -> list[dict[str, object]]:
    # A stepped area needs the right-hand edge of its last interval as a separate point.
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
    text = f"One strip per repetition, intervals of {format_duration(interval_s)}. "
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
    # Less than two decades: powers of ten would give one tick or none, so 1, 2, 5.
    steps = (1.0,) if high / low > 100 else (1.0, 2.0, 5.0)
    values = [step * 10.0**power for power in range(-12, 7) for step in steps]
    return [value for value in values if low <= value <= high]
