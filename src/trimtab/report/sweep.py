"""The page of one sweep: best settings, heat maps and curves, in one HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.model.sweep import HeatMap, Scaling, SweepAnalysis
from trimtab.report import chart as looks
from trimtab.report import text
from trimtab.report.chart import ACCENT, INK, MUTED, Chart, data, layered
from trimtab.report.render import drawn, environment
from trimtab.report.series import round_top, value_scale
from trimtab.units import format_value

if TYPE_CHECKING:
    import altair

_ROW_HEIGHT = 26
_LABEL_EXTENT = 60


def render_sweep(name: str, site: str, analysis: SweepAnalysis) -> str:
    """Return a sweep as a self-contained HTML page: no network, no script, equal for equals."""
    page = environment().get_template("sweep.html.j2")
    return page.render(
        name=name,
        site=site,
        analysis=analysis,
        effects=analysis.effects or {},
        figures=drawn(
            [*map(heat_chart, analysis.maps), *map(scaling_chart, analysis.scaling)],
        ),
        text=text,
        value=format_value,
    )


def heat_chart(heat_map: HeatMap) -> Chart:
    """Return a metric over two factors as a map: the darker, the better."""
    import altair as alt

    known = [cell for row in heat_map.cells for cell in row if cell is not None]
    scale = value_scale(max(known, default=0.0), heat_map.unit)
    best = max(known, default=0.0)
    rows = [
        {
            "row": str(level),
            "column": str(column),
            "value": None if cell is None else cell / scale.divisor,
            "shown": "-" if cell is None else f"{cell / scale.divisor:.3g}",
            "of_best": 0.0 if not cell or not best else cell / best,
        }
        for level, cells in zip(heat_map.rows, heat_map.cells, strict=True)
        for column, cell in zip(heat_map.columns, cells, strict=True)
    ]
    base = data(rows).encode(
        x=alt.X(
            "column:N",
            sort=[str(c) for c in heat_map.columns],
            title=heat_map.column_factor,
            axis=alt.Axis(labelAngle=0),
        ),
        y=alt.Y(
            "row:N",
            sort=[str(r) for r in heat_map.rows],
            title=heat_map.row_factor,
            axis=alt.Axis(minExtent=_LABEL_EXTENT),
        ),
    )
    cells = base.mark_rect(color=ACCENT).encode(
        opacity=alt.Opacity(
            "of_best:Q", scale=alt.Scale(domain=[0, 1], range=[0.05, 0.75]), legend=None
        ),
    )
    words = base.mark_text(color=INK).encode(text="shown:N")
    fixed = f" With {text.levels_text(heat_map.fixed)}." if heat_map.fixed else ""
    return Chart(
        name=f"map-{heat_map.metric}",
        title=text.metric_title(heat_map.metric),
        caption=f"{scale.unit}, geometric mean over rounds; the darker, the nearer to the best."
        + fixed,
        specification=layered(
            (cells, words), looks.WIDTH - _LABEL_EXTENT, _ROW_HEIGHT * len(heat_map.rows)
        ),
    )


def scaling_chart(scaling: Scaling) -> Chart:
    """Return a rate against an amount, with the knee where there is scaling."""
    import altair as alt

    scale = value_scale(max(point.middle for point in scaling.points), scaling.unit)
    rows = [{"amount": p.amount, "value": p.middle / scale.divisor} for p in scaling.points]
    amounts = [point.amount for point in scaling.points]
    x = alt.X(
        "amount:Q",
        title=scaling.factor,
        scale=alt.Scale(type="log", base=2, domain=[min(amounts), max(amounts)]),
        axis=alt.Axis(values=amounts),
    )
    top = round_top(max(row["value"] for row in rows) * 1.02)
    y = alt.Y("value:Q", title=scale.unit, scale=alt.Scale(domain=[0, top]))
    base = data(rows).encode(x=x, y=y)
    layers: list[altair.Chart] = [base.mark_line(color=MUTED), base.mark_point(color=ACCENT)]
    if scaling.knee is not None:
        knee = data([{"amount": scaling.knee}]).mark_rule(color=INK, strokeDash=[4, 3])
        layers.append(knee.encode(x=x))
    fixed = f" With {text.levels_text(scaling.fixed)}." if scaling.fixed else ""
    return Chart(
        name=f"scaling-{scaling.metric}-{scaling.factor}",
        title=f"{text.metric_title(scaling.metric)} against {scaling.factor}",
        caption=text.sentence(scaling.reason) + fixed,
        specification=layered(layers),
    )
