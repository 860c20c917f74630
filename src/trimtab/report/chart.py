"""Shared by all charts of a report: vocabulary, colours, size.

Every colour is one of the roles below. The stylesheet recolours them on a dark screen; a drawing by
itself, and on paper, is the light one. No two series differ only by colour: shape, dash or fill
differs too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from trimtab.report.series import Scale, round_top
from trimtab.report.text import metric_text

if TYPE_CHECKING:
    from datetime import datetime

    import altair

Point = TypeVar("Point")
Mark = Literal["dot", "ring", "line", "dashed", "bar", "light-bar", "cross", "triangle"]
Role = Literal["ink", "muted", "accent", "second", "alarm"]

INK: Final = "#1b232c"
MUTED: Final = "#596673"
GRID: Final = "#e1e6ea"
ACCENT: Final = "#0a6c8c"
SECOND: Final = "#b85c00"
"""Second colour: far from `ACCENT` for every kind of colour vision, and in lightness."""
ALARM: Final = "#b3271e"

WIDTH: Final = 372
"""Pixels of the plot itself; with its axis a drawing is about 440 wide and still legible at 360."""
HEIGHT: Final = 190


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a legend: a mark in a colour, and its meaning."""

    mark: Mark
    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart specification with its text.

    Attributes
    ----------
    name
        Unique within a page.
    caption
        What is drawn and how to read it.
    notes
        Meaning of the letters in the drawing: ``a`` and its reason.
    legend
        Meaning of marks and colours.
    specification
        Vega-Lite with its data inside.
    """

    name: str
    title: str
    caption: str
    specification: dict[str, Any]
    notes: tuple[tuple[str, str], ...] = ()
    legend: tuple[Key, ...] = ()


def data(rows: Iterable[Mapping[str, Any]]) -> altair.Chart:
    """Return a chart of some rows, without a mark yet."""
    import altair as alt

    return alt.Chart(alt.Data(values=list(rows)))


def runs_marks(
    rows: Iterable[Mapping[str, Any]], x: altair.X, y: altair.Y, **looks: Any
) -> list[altair.Chart]:
    """Return the marks of runs or days, with a cross where ``unfinished`` is set."""
    rows = list(rows)
    marks = data(row for row in rows if not row["unfinished"]).mark_point(**looks)
    lost = data(row for row in rows if row["unfinished"])
    crosses = lost.mark_point(shape="cross", size=50, color=ALARM)
    return [marks.encode(x=x, y=y), crosses.encode(x=x, y=y)]


def rule_at(field: str, value: object, **looks: Any) -> altair.Chart:
    """Return a line across the plot at one value of a field."""
    axis = "x" if field == "at" else "y"
    return data([{field: value}]).mark_rule(**looks).encode(**{axis: f"{field}:Q"})


def axis_title(metric: str, scale: Scale) -> str:
    """Return the title of an axis, with its unit: ``write bandwidth in GB/s``.

    An unknown metric may be its own unit, or have none.
    """
    words = metric_text(metric)
    return f"{words} in {scale.unit}" if scale.unit and scale.unit != metric else words


def value_axis(field: str, title: str, largest: float) -> altair.Y:
    """Return the vertical axis from 0 to the next round figure at or above ``largest``."""
    import altair as alt

    return alt.Y(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(domain=[0, round_top(largest)]),
        axis=alt.Axis(tickCount=5, domain=False, tickSize=0),
    )


def milliseconds(at: datetime) -> int:
    """Return a time in Vega's form."""
    return int(at.timestamp() * 1000)


def time_axis(rows: Sequence[Mapping[str, Any]]) -> altair.X:
    """Return the axis of ``at`` in milliseconds, with labels suited to the span of the rows."""
    import altair as alt

    times = [row["at"] for row in rows]
    days = (max(times) - min(times)) / 86_400_000
    form = "%d %b %H:%M" if days < 8 else "%d %b" if days < 300 else "%b %Y"
    axis = alt.Axis(tickCount=4, labelOverlap=True, format=form)
    return alt.X("at:T", title="time (UTC)", scale=alt.Scale(type="utc", padding=8), axis=axis)


def layered(
    layers: Iterable[altair.Chart | altair.LayerChart], width: int = WIDTH, height: int = HEIGHT
) -> dict[str, Any]:
    """Return the specification of layers drawn on top of each other."""
    import altair as alt

    return finished(alt.layer(*layers).properties(width=width, height=height))


THEME: Final[dict[str, Any]] = {
    "background": "transparent",
    "font": "sans-serif",
    "padding": 4,
    "axis": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "gridColor": GRID,
        "domainColor": MUTED,
        "tickColor": MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "axisX": {"grid": False},
    "view": {"stroke": None},
    "point": {"filled": True, "opacity": 1},
    "text": {"fontSize": 12},
    "header": {"labelFontSize": 12},
}
"""The looks shared by all charts, as Vega-Lite configuration."""


def finished(chart: altair.LayerChart | altair.FacetChart) -> dict[str, Any]:
    """Return the specification of a chart with the theme."""
    return chart.configure(**THEME).to_dict()


def thinned(points: Sequence[Point], most: int) -> Sequence[Point]:
    """Return at most so many of some points, evenly, the last one among them."""
    step = max(1, -(-len(points) // most))
    return points[::-1][::step][::-1]
