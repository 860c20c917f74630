"""The page of one sweep: best settings, heat maps and curves, in one HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimtab.model.sweep import HeatMap, Scaling, SweepAnalysis
from trimtab.report import chart as looks
from trimtab.report import text
from trimtab.report.chart import ACCENT, INK, MUTED, Chart, finished
from trimtab.report.render import environment, render_svg
from trimtab.report.series import Scale, bandwidth_scale, round_top
from trimtab.units import format_value

if TYPE_CHECKING:
    import altair

_ROW_HEIGHT = 26
_LABEL_EXTENT = 60


def render_sweep(name: str, site: str, analysis: SweepAnalysis) -> str:
    """Return a sweep as a self-contained HTML page: no network, no script, equal for equals."""
    from markupsafe import Markup

    charts = [heat_chart(one) for one in analysis.maps]
    charts += [scaling_chart(one) for one in analysis.scaling]
    figures = []
    for chart in charts:
        label = f"{chart.title}. {chart.caption}"
        # What Vega draws is escaped by Vega; the page trusts nothing else as markup.
        figures.append(
            (chart, Markup(render_svg(chart.specification, name=chart.name, label=label)))
        )
    page = environment().get_template("sweep.html.j2")
    return page.render(
        name=name,
        site=site,
        analysis=analysis,
        effects=analysis.effects or {},
        figures=figures,
        text=text,
        value=format_value,
    )


def heat_chart(one: HeatMap) -> Chart:
    """Return a metric over two factors as a map: the darker, the better."""
    import altair as alt

    known = [cell for row in one.cells for cell in row if cell is not None]
    scale = _scale(max(known, default=0.0), one.unit)
    best = max(known, default=0.0)
    rows = [
        {
            "row": str(level),
            "column": str(column),
            "value": None if cell is None else cell / scale.divisor,
            "shown": "-" if cell is None else f"{cell / scale.divisor:.3g}",
            "of_best": 0.0 if not cell or not best else cell / best,
        }
        for level, cells in zip(one.rows, one.cells, strict=True)
        for column, cell in zip(one.columns, cells, strict=True)
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "column:N",
            sort=[str(c) for c in one.columns],
            title=one.column_factor,
            axis=alt.Axis(labelAngle=0),
        ),
        y=alt.Y(
            "row:N",
            sort=[str(r) for r in one.rows],
            title=one.row_factor,
            axis=alt.Axis(minExtent=_LABEL_EXTENT),
        ),
    )
    cells = base.mark_rect(color=ACCENT).encode(
        opacity=alt.Opacity(
            "of_best:Q", scale=alt.Scale(domain=[0, 1], range=[0.05, 0.75]), legend=None
        ),
    )
    words = base.mark_text(color=INK).encode(text="shown:N")
    chart = alt.layer(cells, words).properties(
        width=looks.WIDTH - _LABEL_EXTENT, height=_ROW_HEIGHT * len(one.rows)
    )
    fixed = f" With {text.levels_text(one.fixed)}." if one.fixed else ""
    return Chart(
        name=f"map-{one.metric}",
        title=text.metric_text(one.metric).capitalize(),
        caption=f"{scale.unit}, geometric mean over rounds; the darker, the nearer to the best."
        + fixed,
        specification=finished(chart),
    )


def scaling_chart(one: Scaling) -> Chart:
    """Return a rate against an amount, with the knee where there is one."""
    import altair as alt

    scale = _scale(max(point.middle for point in one.points), one.unit)
    rows = [{"amount": p.amount, "value": p.middle / scale.divisor} for p in one.points]
    amounts = [point.amount for point in one.points]
    x = alt.X(
        "amount:Q",
        title=one.factor,
        scale=alt.Scale(type="log", base=2, domain=[min(amounts), max(amounts)]),
        axis=alt.Axis(values=amounts),
    )
    top = round_top(max(row["value"] for row in rows) * 1.02)
    y = alt.Y("value:Q", title=scale.unit, scale=alt.Scale(domain=[0, top]))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
    layers: list[altair.Chart] = [base.mark_line(color=MUTED), base.mark_point(color=ACCENT)]
    if one.knee is not None:
        knee: list[dict[str, Any]] = [{"amount": one.knee}]
        layers.append(
            alt.Chart(alt.Data(values=knee)).mark_rule(color=INK, strokeDash=[4, 3]).encode(x=x)
        )
    chart = alt.layer(*layers).properties(width=looks.WIDTH, height=looks.HEIGHT)
    fixed = f" With {text.levels_text(one.fixed)}." if one.fixed else ""
    return Chart(
        name=f"scaling-{one.metric}-{one.factor}",
        title=f"{text.metric_text(one.metric).capitalize()} against {one.factor}",
        caption=text.sentence(one.reason) + fixed,
        specification=finished(chart),
    )


def _scale(largest: float, unit: str) -> Scale:
    return bandwidth_scale(largest) if unit == "B/s" else Scale(1.0, unit)
