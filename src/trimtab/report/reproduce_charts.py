"""Charts of the documents' figures: what is printed beside what the twin says."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.report.chart import (
    ACCENT,
    ALARM,
    INK,
    MUTED,
    SECOND,
    WIDTH,
    Chart,
    data,
    layered,
    rule_at,
    time_axis,
    value_axis,
)
from trimtab.report.kit import Key
from trimtab.report.series import bandwidth_scale, round_top
from trimtab.validation.statements import Figure
from trimtab.whatif.reproduce.eth import READ_BYTES_PER_S, WRITE_BYTES_PER_S
from trimtab.whatif.reproduce.life import Life
from trimtab.whatif.reproduce.perlmutter import PRINTED_GOAL, covs, month_of
from trimtab.whatif.reproduce.reproduce import Reproduction

if TYPE_CHECKING:
    import altair

_POINTS: Final = 420
_BINS: Final = 24
_ROW: Final = 34
_LABEL_CHARACTERS: Final = 24
_LABEL_EXTENT: Final = 175
_DAY_S: Final = 86400.0
_LADDERS: Final = {
    "sc21": ("2-read", "2-write", "11-read", "11-write", "26-read", "26-write", "29-read",
             "29-write"),
    "hpe25": ("14-read", "14-write", "15-read-4x16", "15-write-4x16", "15-read-4x32",
              "15-write-4x32", "31-read-cpt8", "31-write-cpt8"),
}  # fmt: skip


def charts_of(reproduction: Reproduction) -> Iterator[Chart | None]:
    """Yield every chart, ``None`` where the reproduction lacks its data."""
    if "perlmutter" in reproduction.lives:
        life = reproduction.lives["perlmutter"][0]
        if life.jobs:
            yield write_chart(life)
            yield cov_chart(life)
        yield months_chart(life)
        yield from state_charts(life)
    if reproduction.curves:
        yield fullness_chart(reproduction)
    for name in reproduction.terms.documents:
        if name in _LADDERS:
            yield ladder_chart(reproduction, name)
    if "eth" in reproduction.lives and reproduction.lives["eth"][0].jobs:
        yield eth_chart(reproduction.lives["eth"][0])


def write_chart(life: Life) -> Chart:
    """Return the hourly probe's daily means over the months, with what was changed."""
    import altair as alt

    by_day: dict[int, list[float]] = {}
    for job in life.jobs:
        day = int(job.at.timestamp() // _DAY_S)
        by_day.setdefault(day, []).append(job.write_bytes_per_s or 0.0)
    top = max(np.mean(rates) + np.std(rates) for rates in by_day.values())
    scale = bandwidth_scale(float(top))
    rows = [
        {
            "at": int((day + 0.5) * _DAY_S * 1000),
            "mean": float(np.mean(rates)) / scale.divisor,
            "low": max(0.0, float(np.mean(rates) - np.std(rates))) / scale.divisor,
            "high": float(np.mean(rates) + np.std(rates)) / scale.divisor,
        }
        for day, rates in sorted(by_day.items())
    ]
    x = time_axis(rows)
    base = data(rows).encode(x=x)
    y = value_axis("mean", scale.unit, float(top) / scale.divisor * 1.05)
    layers = [
        base.mark_rule(color=MUTED).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(filled=True, size=14, color=ACCENT, opacity=1).encode(y=y),
        _changes(life, x),
    ]
    return _chart(
        "write",
        "Hourly IOR write by day",
        f"Runs that did not finish are zeros. Changes: {_changes_text(life)}.",
        layers,
        (
            Key("dot", "accent", "mean of a day"),
            Key("line", "muted", "one standard deviation to either side"),
            *_changes_keys(life),
        ),
    )


def cov_chart(life: Life) -> Chart | None:
    """Return the COV over 48 hours with the goal."""
    rolling = covs(life)
    if not rolling:
        return None
    step = -(-len(rolling) // _POINTS)
    # The worst of each stretch: a peak that is thinned away would be a lie.
    stretches = [rolling[start : start + step] for start in range(0, len(rolling), step)]
    worst = [max(stretch, key=itemgetter(1)) for stretch in stretches]
    rows = [{"at": int(at.timestamp() * 1000), "cov": 100 * cov} for at, cov in worst]
    y = value_axis("cov", "COV in %", max(row["cov"] for row in rows) * 1.05)
    line = data(rows).mark_line(color=ACCENT, strokeWidth=1.2)
    goal = rule_at("goal", 100 * PRINTED_GOAL, color=ALARM, strokeDash=[5, 3])
    x = time_axis(rows)
    layers = [line.encode(x=x, y=y), goal, _changes(life, x)]
    caption = "COV over the 48 h up to each run, the worst of each stretch."
    keys = (Key("dashed", "alarm", "goal 8 %"), *_changes_keys(life))
    return _chart("cov", "Variability of the hourly IOR", caption, layers, keys)


def months_chart(life: Life) -> Chart | None:
    """Return how all OSTs' survey writes are spread in the first month and in the last."""
    import altair as alt

    sides = month_of(life, last=False), month_of(life, last=True)
    if sides[0] is None or sides[1] is None:
        return None
    top = float(max(sides[0].max(), sides[1].max()))
    scale = bandwidth_scale(top)
    edges = np.linspace(0.0, round_top(top / scale.divisor), _BINS + 1)
    layers, largest = [], 0.0
    for values, is_last in ((sides[0], False), (sides[1], True)):
        counts, _ = np.histogram(values / scale.divisor, edges)
        share = 100 * counts / len(values)
        largest = max(largest, float(share.max()))
        rows = [
            {"from": float(low), "to": float(high), "share": float(part)}
            for low, high, part in zip(edges[:-1], edges[1:], share, strict=True)
        ]
        x, y = alt.X("from:Q", title=f"write bandwidth in {scale.unit}"), alt.Y("share:Q")
        if is_last:
            line = data(rows).mark_line(color=ACCENT, interpolate="step-after", strokeWidth=2)
            layers.append(line.encode(x=x, y=y))
        else:
            bars = data(rows).mark_bar(color=MUTED, opacity=0.35)
            layers.append(bars.encode(x=x, x2="to:Q", y=y, y2=alt.datum(0)))
    printed = [{"at": 15.1, "which": 0}, {"at": 19.9, "which": 1}]
    layers.append(data(printed).mark_rule(color=INK, strokeDash=[4, 3]).encode(x="at:Q"))
    layers[0] = layers[0].encode(y=value_axis("share", "OSTs in %", largest * 1.05))
    return _chart(
        "months",
        "Surveys of every OST, write",
        "Share of all figures of a month.",
        layers,
        (
            Key("light-bar", "muted", "first month"),
            Key("line", "accent", "last month"),
            Key("dashed", "ink", "printed means, 15.1 and 19.9 GB/s"),
        ),
    )


def state_charts(life: Life) -> Iterator[Chart]:
    """Yield fullness and write amplification over time: each has an axis of its own."""
    step = max(1, len(life.ends_s) // _POINTS)
    figures = (
        ("fullness", "Fullness", "full in %", 100.0, "Mean over OSTs."),
        (
            "amplification", "Write amplification", "write amplification", 1.0,
            "What the flash writes for each byte of the host, mean over OSTs.",
        ),
    )  # fmt: skip
    for name, title, axis, factor, caption in figures:
        rows = [
            {"at": int(at * 1000), "value": factor * float(value)}
            for at, value in zip(life.ends_s[::step], life.over_time(name)[::step], strict=True)
        ]
        y = value_axis("value", axis, max(row["value"] for row in rows) * 1.05)
        x = time_axis(rows)
        line = data(rows).mark_line(color=ACCENT).encode(x=x, y=y)
        layers = [line, _changes(life, x)]
        yield _chart(f"state-{name}", title, caption, layers, _changes_keys(life))


def fullness_chart(reproduction: Reproduction) -> Chart:
    """Return what an OST writes at each fullness, before the mitigations and after them."""
    import altair as alt

    layers = []
    for name, color in (("before", SECOND), ("after", ACCENT)):
        curves = reproduction.curves[name]
        for rate, dash in (("delivered", [1, 0]), ("drives", [4, 3])):
            rows = [
                {
                    "full": 100 * points[0].fullness,
                    "value": float(np.mean([getattr(point, rate) for point in points])) / 1e9,
                }
                for points in zip(*curves, strict=True)
            ]
            line = data(rows).mark_line(color=color, strokeDash=dash)
            x = alt.X(
                "full:Q",
                axis=alt.Axis(tickCount=6),
                title="full in %",
                scale=alt.Scale(zero=False, nice=False),
            )
            layers.append(
                line.encode(x=x, y=value_axis("value", "write bandwidth in GB/s", 25.0 * 1.05))
            )
    return _chart(
        "fullness",
        "What one OST writes at each fullness",
        "Before the mitigations: a month between trims, thresholds 25/15/5. After: trims nightly, "
        "25/25/5, pointer reset. Dashed: what the drives alone give.",
        layers,
        (
            Key("line", "second", "before, delivered"),
            Key("dashed", "second", "before, drives"),
            Key("line", "accent", "after, delivered"),
            Key("dashed", "accent", "after, drives"),
        ),
    )


def ladder_chart(reproduction: Reproduction, name: str) -> Chart:
    """Return printed and simulated rates of the layers of a document."""
    import altair as alt

    by_id = {seeded.row.id: seeded.row for seeded in reproduction.rows}
    rows: list[dict[str, Any]] = []
    for id in _LADDERS[name]:
        row = by_id[id]
        assert isinstance(row.printed, Figure)
        assert row.twin is not None
        label = "\n".join(wrap(row.quantity, _LABEL_CHARACTERS))
        rows.append({"row": label, "value": row.printed.value / 1e9, "who": 0})
        rows.append({"row": label, "value": row.twin / 1e9, "who": 1})
    # The engine that draws measures text narrower than browsers do: labels would be cut.
    y_axis = alt.Axis(
        labelExpr="split(datum.label, '\\n')", labelLimit=0, minExtent=_LABEL_EXTENT, grid=True
    )
    y = alt.Y("row:N", sort=None, title=None, axis=y_axis)
    layers = []
    for who, color, shape, size in ((0, SECOND, "circle", 110), (1, ACCENT, "diamond", 40)):
        base = data(row for row in rows if row["who"] == who)
        mark = base.mark_point(filled=True, color=color, shape=shape, size=size, opacity=1)
        x = alt.X("value:Q", title="GB/s", axis=alt.Axis(tickCount=4))
        layers.append(mark.encode(x=x, y=y))
    return Chart(
        name=f"ladder-{name}",
        title=f"Layers, {name}",
        caption="Printed rates of the layers, and what the twin says of each.",
        specification=layered(layers, WIDTH - 135, _ROW * len(rows) // 2),
        legend=(Key("dot", "second", "printed"), Key("dot", "accent", "twin (the smaller mark)")),
    )


def eth_chart(life: Life) -> Chart:
    """Return ETH's IOR over the months with the reference of perfect conditions."""
    import altair as alt

    rows = [
        {
            "at": int(job.at.timestamp() * 1000),
            "write": (job.write_bytes_per_s or 0.0) / 1e9,
            "read": (job.read_bytes_per_s or 0.0) / 1e9,
        }
        for job in life.jobs
    ]
    x = time_axis(rows)
    base = data(rows).encode(x=x)
    printed = [{"at": WRITE_BYTES_PER_S / 1e9}, {"at": 9.5}]
    lines = data(printed).mark_rule(color=INK, strokeDash=[4, 3])
    y = value_axis("write", "bandwidth in GB/s", READ_BYTES_PER_S / 1e9 * 1.05)
    layers = [
        base.mark_line(color=SECOND, strokeWidth=1).encode(y=alt.Y("read:Q")),
        base.mark_line(color=ACCENT, strokeWidth=1.2).encode(y=y),
        lines.encode(y="at:Q"),
        _changes(life, x),
    ]
    return _chart(
        "eth",
        "ETH, daily IOR",
        f"Changes: {_changes_text(life)}.",
        layers,
        (
            Key("line", "accent", "write"),
            Key("line", "second", "read"),
            Key("dashed", "ink", "36 GB/s of perfect conditions, and the 9.5 that were left"),
            *_changes_keys(life),
        ),
    )


def _chart(
    name: str,
    title: str,
    caption: str,
    layers: list[altair.Chart],
    legend: tuple[Key, ...] = (),
) -> Chart:
    return Chart(name, title, caption, layered(layers), legend=legend)


def _changes_keys(life: Life) -> tuple[Key, ...]:
    has_changes = any(change.at < life.until for change in life.scenario.changes)
    return (Key("line", "ink", "a change"),) if has_changes else ()


def _changes(life: Life, x: altair.X) -> altair.Chart:
    """Return a line at each change, on the axis of the chart that they are drawn over."""
    rows = [
        {"at": int(change.at.timestamp() * 1000)}
        for change in life.scenario.changes
        if change.at < life.until
    ]
    mark = data(rows).mark_rule(color=INK, strokeWidth=0.7, opacity=0.5)
    return mark.encode(x=x)


def _changes_text(life: Life) -> str:
    changes = [
        f"{change.at:%d %b} {', '.join(key.split('.')[-1] for key in change.set)}"
        for change in life.scenario.changes
        if change.at < life.until
    ]
    return "; ".join(changes) or "none"
