"""Charts of the documents' figures: what is printed in grey, what the twin says in blue."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.report.chart import (
    ACCENT,
    ALARM,
    HEIGHT,
    INK,
    MUTED,
    WIDTH,
    Chart,
    data,
    finished,
    layered,
    rule_at,
    time_axis,
    value_axis,
)
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
_ROW: Final = 20
_DAY_S: Final = 86400.0
_MONTHS: Final = "%b %Y"
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
        yield state_chart(life)
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
    base = data(rows).encode(x=time_axis(rows, _MONTHS))
    y = value_axis("mean", scale.unit, float(top) / scale.divisor * 1.05)
    layers = [
        base.mark_rule(color=MUTED).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(filled=True, size=14, color=ACCENT, opacity=1).encode(y=y),
        _changes(life),
    ]
    return _chart(
        "write",
        "Hourly IOR write by day",
        "Mean of each day; the bars are one standard deviation; runs that did not finish are "
        f"zeros. Upright lines: {_changes_text(life)}.",
        layers,
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
    goal = rule_at("goal", 100 * PRINTED_GOAL, color=ALARM)
    layers = [line.encode(x=time_axis(rows, _MONTHS), y=y), goal, _changes(life)]
    caption = "COV over the 48 h up to each run; the level line is the goal of 8 %."
    return _chart("cov", "Variability of the hourly IOR", caption, layers)


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
    for values, color in ((sides[0], MUTED), (sides[1], ACCENT)):
        counts, _ = np.histogram(values / scale.divisor, edges)
        share = 100 * counts / len(values)
        largest = max(largest, float(share.max()))
        rows = [
            {"from": float(low), "to": float(high), "share": float(part)}
            for low, high, part in zip(edges[:-1], edges[1:], share, strict=True)
        ]
        bars = data(rows).mark_bar(color=color, opacity=0.55)
        x, y = alt.X("from:Q", title=scale.unit), alt.Y("share:Q")
        layers.append(bars.encode(x=x, x2="to:Q", y=y, y2=alt.datum(0)))
    printed = [{"at": 15.1, "which": 0}, {"at": 19.9, "which": 1}]
    layers.append(data(printed).mark_rule(color=INK, strokeDash=[4, 3]).encode(x="at:Q"))
    layers[0] = layers[0].encode(y=value_axis("share", "OSTs in %", largest * 1.05))
    return _chart(
        "months",
        "Surveys of every OST, write",
        "Share of all figures: grey in the first month, blue in the last. Dashed: the printed "
        "means, 15.1 and 19.9 GB/s.",
        layers,
    )


def state_chart(life: Life) -> Chart:
    """Return fullness and write amplification over time."""
    import altair as alt

    step = max(1, len(life.ends_s) // _POINTS)
    rows = [
        {"at": int(at * 1000), "full": 100 * float(full), "wa": float(amplification)}
        for at, full, amplification in zip(
            life.ends_s[::step],
            life.over_time("fullness")[::step],
            life.over_time("amplification")[::step],
            strict=True,
        )
    ]
    base = data(rows).encode(x=time_axis(rows, _MONTHS))
    full_axis = value_axis("full", "full in %", 95.0 * 1.05)
    full = base.mark_line(color=MUTED).encode(y=full_axis)
    top = round_top(max(row["wa"] for row in rows))
    wa = base.mark_line(color=ACCENT).encode(
        y=alt.Y(
            "wa:Q",
            title="write amplification",
            scale=alt.Scale(domain=[0, top]),
            axis=alt.Axis(orient="right", tickCount=5, grid=False),
        ),
    )
    chart = alt.layer(alt.layer(full, _changes(life)), wa).resolve_scale(y="independent")
    return Chart(
        name="state",
        title="Fullness and write amplification",
        caption="Mean over OSTs: grey, left axis: how full; blue, right axis: what the flash "
        "writes for each byte of the host.",
        specification=finished(chart.properties(width=WIDTH - 40, height=HEIGHT)),
    )


def fullness_chart(reproduction: Reproduction) -> Chart:
    """Return what an OST writes at each fullness, before the mitigations and after them."""
    import altair as alt

    layers = []
    for name, color in (("before", MUTED), ("after", ACCENT)):
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
            x = alt.X("full:Q", title="full in %", scale=alt.Scale(zero=False, nice=False))
            layers.append(line.encode(x=x, y=value_axis("value", "GB/s", 25.0 * 1.05)))
    return _chart(
        "fullness",
        "What one OST writes at each fullness",
        "Grey: before the mitigations (a month between trims, thresholds 25/15/5); blue: after "
        "them (nightly, 25/25/5, pointer reset). Solid: delivered; dashed: what drives alone give.",
        layers,
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
        rows.append({"row": id, "value": row.printed.value / 1e9, "who": 0})
        rows.append({"row": id, "value": row.twin / 1e9, "who": 1})
    y = alt.Y("row:N", sort=None, title=None)
    layers = []
    for who, color, shape, size in ((0, MUTED, "circle", 90), (1, ACCENT, "diamond", 40)):
        base = data(row for row in rows if row["who"] == who)
        mark = base.mark_point(filled=True, color=color, shape=shape, size=size, opacity=1)
        layers.append(mark.encode(x=alt.X("value:Q", title="GB/s"), y=y))
    return Chart(
        name=f"ladder-{name}",
        title=f"Layers, {name}",
        caption="Rows as in the table. Grey circles: printed; blue diamonds: the twin.",
        specification=layered(layers, WIDTH - 60, _ROW * len(rows) // 2),
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
    base = data(rows).encode(x=time_axis(rows, _MONTHS))
    printed = [{"at": WRITE_BYTES_PER_S / 1e9}, {"at": 9.5}]
    lines = data(printed).mark_rule(color=INK, strokeDash=[4, 3])
    y = value_axis("write", "GB/s", READ_BYTES_PER_S / 1e9 * 1.05)
    layers = [
        base.mark_line(color=MUTED, strokeWidth=1).encode(y=alt.Y("read:Q")),
        base.mark_line(color=ACCENT, strokeWidth=1.2).encode(y=y),
        lines.encode(y="at:Q"),
        _changes(life),
    ]
    return _chart(
        "eth",
        "ETH, daily IOR",
        "Blue: write; grey: read. Dashed: 36 GB/s of perfect conditions and the 9.5 that were "
        f"left. Upright lines: {_changes_text(life)}.",
        layers,
    )


def _chart(name: str, title: str, caption: str, layers: list[altair.Chart]) -> Chart:
    return Chart(name=name, title=title, caption=caption, specification=layered(layers))


def _changes(life: Life) -> altair.Chart:
    rows = [
        {"at": int(change.at.timestamp() * 1000)}
        for change in life.scenario.changes
        if change.at < life.until
    ]
    mark = data(rows).mark_rule(color=INK, strokeWidth=0.7, opacity=0.5)
    return mark.encode(x=time_axis(rows, _MONTHS))


def _changes_text(life: Life) -> str:
    changes = [
        f"{change.at:%d %b} {', '.join(key.split('.')[-1] for key in change.set)}"
        for change in life.scenario.changes
        if change.at < life.until
    ]
    return "; ".join(changes) or "none"
