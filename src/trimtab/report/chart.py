"""What every chart of a report has in common: its words, its colours, its size.

Every colour is one of the roles below. The page repaints the roles on a dark screen; a drawing on
its own, and on paper, is the light one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import altair

INK: Final = "#1b232c"
MUTED: Final = "#596673"
GRID: Final = "#e1e6ea"
ACCENT: Final = "#0a6c8c"
ALARM: Final = "#b3271e"

WIDTH: Final = 372
"""Pixels of the plot itself; with its axis a drawing is about 440 wide and still legible at 360."""
HEIGHT: Final = 190


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing to be, with the words around it.

    Attributes
    ----------
    name
        Unique within a page.
    caption
        What is drawn and how to read it.
    notes
        What the marks in the drawing stand for: ``a`` and its reason.
    specification
        Vega-Lite with its data inside.
    """

    name: str
    title: str
    caption: str
    specification: dict[str, Any]
    notes: tuple[tuple[str, str], ...] = ()


def finished(chart: altair.LayerChart | altair.FacetChart) -> dict[str, Any]:
    """Return the specification of a chart with the looks that all charts share."""
    axis = {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "gridColor": GRID,
        "domainColor": MUTED,
        "tickColor": MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    }
    configured = chart.configure(
        background="transparent",
        font="sans-serif",
        padding=4,
        axis=axis,
        axisX={"grid": False},
        view={"stroke": None},
        text={"fontSize": 12},
        header={"labelFontSize": 12},
    )
    return configured.to_dict()
