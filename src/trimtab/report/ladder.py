"""The page of one ladder: a drawing and a table for each metric, in one HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimtab.model.ladder import LEVEL_NAMES, NOMINAL_LEVELS, Ladder, Step, Track
from trimtab.report import chart as looks
from trimtab.report import ladder_text, text
from trimtab.report.chart import ACCENT, INK, MUTED, Chart, finished
from trimtab.report.render import environment, render_svg
from trimtab.report.series import Scale, bandwidth_scale, round_top

if TYPE_CHECKING:
    import altair

_WIDTH = looks.WIDTH - 50
_ROW_HEIGHT = 30
_LABEL_EXTENT = 96


def render_ladder(ladder: Ladder) -> str:
    """Return a ladder as a self-contained HTML page: no network, no script, equal for equals."""
    from markupsafe import Markup

    charts = [chart for chart in (ladder_chart(ladder, track) for track in ladder.tracks) if chart]
    figures = []
    for chart in charts:
        label = f"{chart.title}. {chart.caption}"
        # What Vega draws is escaped by Vega; the page trusts nothing else as markup.
        figures.append(
            (chart, Markup(render_svg(chart.specification, name=chart.name, label=label)))
        )
    page = environment().get_template("ladder.html.j2")
    return page.render(
        ladder=ladder,
        figures=figures,
        tracks=[(track, list(reversed(track.steps))) for track in ladder.tracks],
        explained=list(ladder_text.explanations(ladder)),
        names=LEVEL_NAMES,
        words=ladder_text,
        text=text,
    )


def ladder_chart(ladder: Ladder, track: Track) -> Chart | None:
    """Return the rates of one metric as bars from the drives up, ``None`` where none is known."""
    import altair as alt

    steps = [step for step in track.steps if step.shown is not None]
    if not steps:
        return None
    largest = max(step.shown.high or step.shown.value for step in steps if step.shown is not None)
    scale = bandwidth_scale(largest) if track.unit == "B/s" else Scale(1000.0, "kIOPS")
    rows = [_row(step, scale) for step in reversed(steps)]
    layers = _layers(rows, scale, round_top(largest / scale.divisor * 1.02))
    chart = alt.layer(*layers).properties(width=_WIDTH, height=_ROW_HEIGHT * len(rows))
    parity = " Writes to drives include parity." if "write_b" in track.metric else ""
    return Chart(
        name=f"ladder-{track.metric}",
        title=ladder_text.TRACK_NAMES[track.metric].capitalize(),
        caption=f"Rates of {ladder.scale}. Light bars are nominal; lines are intervals.{parity}",
        specification=finished(chart),
    )


def _row(step: Step, scale: Scale) -> dict[str, Any]:
    shown = step.shown
    if shown is None:
        raise AssertionError("only shown steps are drawn")
    return {
        "layer": LEVEL_NAMES[step.rung.layer],
        "value": shown.value / scale.divisor,
        "low": None if shown.low is None else shown.low / scale.divisor,
        "high": None if shown.high is None else shown.high / scale.divisor,
        "colour": MUTED if step.rung.layer in NOMINAL_LEVELS else ACCENT,
        "strength": 0.35 if step.rung.layer in NOMINAL_LEVELS else 1.0,
    }


def _layers(rows: list[dict[str, Any]], scale: Scale, top: float) -> list[altair.Chart]:
    import altair as alt

    order = [row["layer"] for row in rows]
    # The engine that draws measures text narrower than browsers do: labels would be cut.
    y_axis = alt.Axis(tickSize=0, domain=False, minExtent=_LABEL_EXTENT)
    y = alt.Y("layer:N", sort=order, title=None, axis=y_axis)
    x_axis = alt.Axis(tickCount=5, grid=True)
    x = alt.X("value:Q", title=scale.unit, scale=alt.Scale(domain=[0, top]), axis=x_axis)
    bars = alt.Chart(alt.Data(values=rows)).mark_bar(height=14)
    spans = [row for row in rows if row["low"] is not None and row["low"] != row["high"]]
    lines = alt.Chart(alt.Data(values=spans)).mark_rule(color=INK, strokeWidth=1.5)
    return [
        bars.encode(
            x=x,
            y=y,
            color=alt.Color("colour:N", scale=None),
            opacity=alt.Opacity("strength:Q", scale=None),
        ),
        lines.encode(x=alt.X("low:Q"), x2="high:Q", y=y),
    ]
