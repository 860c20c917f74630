"""Charts: their vocabulary, colours and size, and their drawing as SVG inside a page.

Every colour is one of the roles below. The stylesheet recolours them on a dark screen; a drawing by
itself, and on paper, is the light one. No two series differ only by colour: shape, dash or fill
differs too.

Drawing needs no browser, no network and no script: vl-convert runs Vega in its own engine. The same
specification gives identical text. The stylesheet and the environment of all templates are here,
too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from trimtab.base.code_version import __version__
from trimtab.show import text
from trimtab.show.chart_series import Scale, round_top
from trimtab.show.text import metric_text, printable

if TYPE_CHECKING:
    from datetime import datetime

    import altair
    from jinja2 import Environment
    from markupsafe import Markup


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


NOT_DRAWN: Final = "Not drawn: vl-convert, of the extra charts, is not installed."

_SIZE = re.compile(r'\A<svg [^>]*?width="([0-9.]+)" height="([0-9.]+)"[^>]*>')
_IDENTIFIER = re.compile(r'(\bid="|url\(#|href="#)([A-Za-z][\w-]*)')
_MARK = re.compile(r'<(path|line|rect) aria-label="([^"]*)"([^>]*role="graphics-symbol"[^>]*)/>')
_LONG_NUMBER = re.compile(r"-?[0-9]+\.[0-9]{3,}")
_BACKGROUND_PATHS = re.compile(r'<path class="(?:background|foreground)"[^>]*d=""[^>]*/>')


def render_svg(specification: Mapping[str, Any], *, name: str, label: str) -> str:
    """Return an inline ``<svg>`` element that fills the width of its container.

    Parameters
    ----------
    specification
        A Vega-Lite specification with its data inside.
    name
        Unique within the page: several drawings share one space of identifiers.
    label
        What the drawing shows, for screen readers.

    Raises
    ------
    ImportError
        vl-convert is not installed.
    ValueError
        Vega rejects the specification: a bug in the chart.
    """
    import vl_convert

    # Plain JSON text with every lone surrogate escaped: the engine accepts only valid UTF-8.
    json_text = json.dumps(_clean(specification), allow_nan=False)
    svg = vl_convert.vegalite_to_svg(json_text, allowed_base_urls=[])
    return _inline(svg, name=name, label=label)


def drawn(charts: Iterable[Chart | None]) -> tuple[tuple[Chart, Markup], ...]:
    """Return each existing chart with its drawing, as markup for a page.

    Without vl-convert, a sentence replaces each drawing and says what to install.
    """
    from markupsafe import Markup

    def drawing(chart: Chart) -> Markup:
        label = f"{chart.title}. {chart.caption}"
        try:
            # Vega escapes what it draws; the page trusts nothing else as markup.
            return Markup(render_svg(chart.specification, name=chart.name, label=label))
        except ImportError:
            return Markup("<p>{}</p>").format(NOT_DRAWN)

    return tuple((chart, drawing(chart)) for chart in charts if chart is not None)


@dataclass(frozen=True, slots=True)
class Stylesheet:
    """The one stylesheet of all pages.

    Attributes
    ----------
    hash
        In the form of a Content-Security-Policy: the page allows only this stylesheet.
    """

    text: Markup
    hash: str


@cache
def stylesheet() -> Stylesheet:
    """Return the stylesheet that pages include, and that a server would serve as a file."""
    import base64
    import hashlib
    from importlib import resources

    from markupsafe import Markup

    css = (resources.files("trimtab.show") / "templates" / "kit.css").read_text("utf-8")
    digest = hashlib.sha256(css.encode()).digest()
    return Stylesheet(Markup(css), f"sha256-{base64.b64encode(digest).decode()}")


@cache
def environment() -> Environment:
    """Return the template environment: everything is escaped, invisible characters are shown.

    A misspelt name in a template is an error, not an empty place.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("trimtab.show", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"stylesheet": stylesheet(), "trimtab_version": __version__, "text": text}  # pyrefly: ignore[bad-assignment]
    return made


def _finalize(value: object) -> object:
    from markupsafe import Markup

    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return "not known" if value is None else value


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {str(key): _clean(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(part) for part in value]
    return value


def _inline(svg: str, *, name: str, label: str) -> str:
    from markupsafe import escape

    size = _SIZE.match(svg)
    if size is None:
        raise ValueError("the drawing does not begin with an <svg> element that has a size")
    width, height = size.groups()
    body = _BACKGROUND_PATHS.sub("", svg[size.end() :])
    body = _IDENTIFIER.sub(rf"\g<1>{name}-\g<2>", body)
    body = _MARK.sub(_with_tooltip, body).removesuffix("</svg>")
    # The drawing is one image with one label: screen readers skip its parts, which have roles.
    return (
        f'<svg class="drawing" role="img" aria-label="{escape(printable(label))}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<g aria-hidden="true">{body}</g></svg>'
    )


def _with_tooltip(mark: re.Match[str]) -> str:
    """Return a mark whose label a browser shows as a tooltip, without a script."""
    element, label, attributes = mark.groups()
    short = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.4g}", label)
    return f"<{element}{attributes}><title>{short}</title></{element}>"
