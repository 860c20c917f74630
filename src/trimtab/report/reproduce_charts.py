"""Charts of the documents' figures: what is printed in grey, what the twin says in blue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.report.chart import ACCENT, ALARM, HEIGHT, INK, MUTED, WIDTH, Chart, finished
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
_LADDERS: Final = {
    "sc21": ("2-read", "2-write", "11-read", "11-write", "26-read", "26-write", "29-read",
             "29-write"),
    "hpe25": ("14-read", "14-write", "15-read-4x16", "15-write-4x16", "15-read-4x32",
              "15-write-4x32", "31-read-cpt8", "31-write-cpt8"),
}  # fmt: skip


def charts_of(found: Reproduction) -> Iterator[Chart]:
    """Yield every chart that the reproduction has the data for."""
    if "perlmutter" in found.lives:
        life = found.lives["perlmutter"][0]
        if life.jobs:
            yield write_chart(life)
            yield from _maybe(cov_chart(life))
        yield from _maybe(months_chart(life))
        yield state_chart(life)
    if found.curves:
        yield fullness_chart(found)
    for name in found.terms.documents:
        if name in _LADDERS:
            yield ladder_chart(found, name)
    if "eth" in found.lives and found.lives["eth"][0].jobs:
        yield eth_chart(found.lives["eth"][0])


def _maybe(chart: Chart | None) -> Iterator[Chart]:
    if chart is not None:
        yield chart


def write_chart(life: Life) -> Chart:
    """Return the hourly probe's daily means over the months, with what was changed."""
    import altair as alt

    by_day: dict[int, list[float]] = {}
    for job in life.jobs:
        day = int(job.at.timestamp() // _DAY_S)
        by_day.setdefault(day, []).append(job.write_bytes_per_s or 0.0)
    top = max(np.mean(own) + np.std(own) for own in by_day.values())
    scale = bandwidth_scale(float(top))
    rows = [
        {
            "at": int((day + 0.5) * _DAY_S * 1000),
            "mean": float(np.mean(own)) / scale.divisor,
            "low": max(0.0, float(np.mean(own) - np.std(own))) / scale.divisor,
            "high": float(np.mean(own) + np.std(own)) / scale.divisor,
        }
        for day, own in sorted(by_day.items())
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=_time())
    y = _axis("mean", scale.unit, float(top) / scale.divisor)
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
    import altair as alt

    found = covs(life)
    if not found:
        return None
    step = -(-len(found) // _POINTS)
    # The worst of each stretch: a peak that is thinned away would be a lie.
    stretches = [found[at : at + step] for at in range(0, len(found), step)]
    worst = [max(stretch, key=lambda one: one[1]) for stretch in stretches]
    rows = [{"at": int(at.timestamp() * 1000), "cov": 100 * cov} for at, cov in worst]
    y = _axis("cov", "COV in %", max(row["cov"] for row in rows))
    line = alt.Chart(alt.Data(values=rows)).mark_line(color=ACCENT, strokeWidth=1.2)
    goal = alt.Chart(alt.Data(values=[{"goal": 100 * PRINTED_GOAL}])).mark_rule(color=ALARM)
    layers = [line.encode(x=_time(), y=y), goal.encode(y="goal:Q"), _changes(life)]
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
        bars = alt.Chart(alt.Data(values=rows)).mark_bar(color=color, opacity=0.55)
        x, y = alt.X("from:Q", title=scale.unit), alt.Y("share:Q")
        layers.append(bars.encode(x=x, x2="to:Q", y=y, y2=alt.datum(0)))
    printed = [{"at": 15.1, "which": 0}, {"at": 19.9, "which": 1}]
    marks = alt.Chart(alt.Data(values=printed)).mark_rule(color=INK, strokeDash=[4, 3])
    layers.append(marks.encode(x="at:Q"))
    layers[0] = layers[0].encode(y=_axis("share", "OSTs in %", largest))
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
    base = alt.Chart(alt.Data(values=rows))
    full = base.mark_line(color=MUTED).encode(x=_time(), y=_axis("full", "full in %", 95.0))
    top = round_top(max(row["wa"] for row in rows))
    wa = base.mark_line(color=ACCENT).encode(
        x=_time(),
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


def fullness_chart(found: Reproduction) -> Chart:
    """Return what an OST writes at each fullness, before the mitigations and after them."""
    import altair as alt

    layers = []
    for name, color in (("before", MUTED), ("after", ACCENT)):
        curves = found.curves[name]
        for what, dash in (("delivered", [1, 0]), ("drives", [4, 3])):
            rows = [
                {
                    "full": 100 * points[0].fullness,
                    "value": float(np.mean([getattr(one, what) for one in points])) / 1e9,
                }
                for points in zip(*curves, strict=True)
            ]
            line = alt.Chart(alt.Data(values=rows)).mark_line(color=color, strokeDash=dash)
            x = alt.X("full:Q", title="full in %", scale=alt.Scale(zero=False, nice=False))
            layers.append(line.encode(x=x, y=_axis("value", "GB/s", 25.0)))
    return _chart(
        "fullness",
        "What one OST writes at each fullness",
        "Grey: before the mitigations (a month between trims, thresholds 25/15/5); blue: after "
        "them (nightly, 25/25/5, pointer reset). Solid: delivered; dashed: what drives alone give.",
        layers,
    )


def ladder_chart(found: Reproduction, name: str) -> Chart:
    """Return printed and simulated rates of the layers of a document."""
    import altair as alt

    by_id = {one.row.id: one.row for one in found.rows}
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
        own = alt.Chart(alt.Data(values=[row for row in rows if row["who"] == who]))
        mark = own.mark_point(filled=True, color=color, shape=shape, size=size, opacity=1)
        layers.append(mark.encode(x=alt.X("value:Q", title="GB/s"), y=y))
    chart = alt.layer(*layers).properties(width=WIDTH - 60, height=_ROW * len(rows) // 2)
    return Chart(
        name=f"ladder-{name}",
        title=f"Layers, {name}",
        caption="Rows as in the table. Grey circles: printed; blue diamonds: the twin.",
        specification=finished(chart),
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
    base = alt.Chart(alt.Data(values=rows)).encode(x=_time())
    printed = [{"at": WRITE_BYTES_PER_S / 1e9}, {"at": 9.5}]
    lines = alt.Chart(alt.Data(values=printed)).mark_rule(color=INK, strokeDash=[4, 3])
    y = _axis("write", "GB/s", READ_BYTES_PER_S / 1e9)
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
    import altair as alt

    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    return Chart(name=name, title=title, caption=caption, specification=finished(chart))


def _changes(life: Life) -> altair.Chart:
    import altair as alt

    rows = [
        {"at": int(one.at.timestamp() * 1000)}
        for one in life.scenario.changes
        if one.at < life.until
    ]
    mark = alt.Chart(alt.Data(values=rows)).mark_rule(color=INK, strokeWidth=0.7, opacity=0.5)
    return mark.encode(x=_time())


def _changes_text(life: Life) -> str:
    said = [
        f"{one.at:%d %b} {', '.join(key.split('.')[-1] for key in one.set)}"
        for one in life.scenario.changes
        if one.at < life.until
    ]
    return "; ".join(said) or "none"


def _time() -> altair.X:
    import altair as alt

    axis = alt.Axis(tickCount=4, labelOverlap=True, format="%b %Y")
    return alt.X("at:T", title="time (UTC)", scale=alt.Scale(type="utc", padding=8), axis=axis)


def _axis(field: str, title: str, largest: float) -> altair.Y:
    import altair as alt

    return alt.Y(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(domain=[0, round_top(largest * 1.05)]),
        axis=alt.Axis(tickCount=5, domain=False, tickSize=0),
    )
