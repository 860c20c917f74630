"""The page of one ladder: a drawing and a table for each metric, in one HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimtab.model.ladder import LEVEL_NAMES, NOMINAL_LEVELS, Estimate, Ladder, Step, Track
from trimtab.report import chart as looks
from trimtab.report import ladder_text, text
from trimtab.report.chart import ACCENT, INK, MUTED, Chart, data, layered
from trimtab.report.render import drawn, environment
from trimtab.report.series import Scale, bandwidth_scale, round_top

if TYPE_CHECKING:
    import altair

_WIDTH = looks.WIDTH - 50
_ROW_HEIGHT = 30
_LABEL_EXTENT = 96


def render_ladder(ladder: Ladder) -> str:
    """Return a ladder as a self-contained HTML page: no network, no script, equal for equals."""
    page = environment().get_template("ladder.html.j2")
    return page.render(
        ladder=ladder,
        figures=drawn(ladder_chart(ladder, track) for track in ladder.tracks),
        tracks=[(track, list(reversed(track.steps))) for track in ladder.tracks],
        explained=list(ladder_text.explanations(ladder)),
        names=LEVEL_NAMES,
        words=ladder_text,
        text=text,
    )


def ladder_chart(ladder: Ladder, track: Track) -> Chart | None:
    """Return the rates of one metric as bars from the drives up, ``None`` where none is known."""
    shown = [(step, step.shown) for step in track.steps if step.shown is not None]
    if not shown:
        return None
    largest = max(rate.high or rate.value for _, rate in shown)
    scale = bandwidth_scale(largest) if track.unit == "B/s" else Scale(1000.0, "kIOPS")
    rows = [_row(step, rate, scale) for step, rate in reversed(shown)]
    layers = _layers(rows, scale, round_top(largest / scale.divisor * 1.02))
    parity = " Writes to drives include parity." if "write_b" in track.metric else ""
    return Chart(
        name=f"ladder-{track.metric}",
        title=ladder_text.TRACK_TITLES[track.metric],
        caption=f"Rates of {ladder.scale}. Light bars are nominal; lines are intervals.{parity}",
        specification=layered(layers, _WIDTH, _ROW_HEIGHT * len(rows)),
    )


def _row(step: Step, rate: Estimate, scale: Scale) -> dict[str, Any]:
    return {
        "layer": LEVEL_NAMES[step.rung.layer],
        "value": rate.value / scale.divisor,
        "low": None if rate.low is None else rate.low / scale.divisor,
        "high": None if rate.high is None else rate.high / scale.divisor,
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
    bars = data(rows).mark_bar(height=14)
    spans = [row for row in rows if row["low"] is not None and row["low"] != row["high"]]
    lines = data(spans).mark_rule(color=INK, strokeWidth=1.5)
    return [
        bars.encode(
            x=x,
            y=y,
            color=alt.Color("colour:N", scale=None),
            opacity=alt.Opacity("strength:Q", scale=None),
        ),
        lines.encode(x=alt.X("low:Q"), x2="high:Q", y=y),
    ]
