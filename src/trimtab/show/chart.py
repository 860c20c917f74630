"""Charts: their scales and points, vocabulary, colours and size, and their drawing as SVG.

Scales and points are worked out from plain values. Every colour is one of the roles below. The
stylesheet recolours them on a dark screen; a drawing by itself, and on paper, is the light one. No
two series differ only by colour: shape, dash or fill differs too.

Drawing needs no browser, no network and no script: vl-convert runs Vega in its own engine. The same
specification gives identical text. The stylesheet and the environment of all templates are here,
too.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from trimtab.base import text
from trimtab.base.code_version import __version__
from trimtab.base.run import LatencyHistogram, Timeline
from trimtab.base.text import metric_text, printable

if TYPE_CHECKING:
    from datetime import datetime

    import altair
    from jinja2 import Environment
    from markupsafe import Markup


STALL_FRACTION: Final = 0.1
"""An interval that moved less than this part of its repetition's median interval is a stall."""

_BANDWIDTH_UNITS: Final = (
    (1e15, "PB/s"),
    (1e12, "TB/s"),
    (1e9, "GB/s"),
    (1e6, "MB/s"),
    (1e3, "KB/s"),
)
_TIME_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


@dataclass(frozen=True, slots=True)
class Scale:
    """The unit of an axis: divide base SI by ``divisor`` to get ``unit``."""

    divisor: float
    unit: str


@dataclass(frozen=True, slots=True)
class Stalls:
    """Intervals in which almost nothing moved: count, total, and the longest stretch."""

    count: int
    of: int
    longest_s: float
    longest_repetition: int | None


@dataclass(frozen=True, slots=True)
class Tail:
    """The latency distribution: the fraction of operations that took ``latency_s`` or longer.

    Attributes
    ----------
    latency_s, fraction
        The points of the curve, latency ascending, fraction descending from 1; a latency is the
        upper bound of its bucket.
    marks
        Name to latency: ``p50``, ``p99``, ``p99.9`` if there are enough operations, ``max``.
    operations
        Number of operations behind the curve.
    """

    latency_s: tuple[float, ...]
    fraction: tuple[float, ...]
    marks: tuple[tuple[str, float, float], ...]
    operations: int


def bandwidth_scale(largest_bytes_per_s: float) -> Scale:
    """Return the decimal unit in which ``largest_bytes_per_s`` reads well."""
    for divisor, unit in _BANDWIDTH_UNITS:
        if largest_bytes_per_s >= divisor * 0.9995:
            return Scale(divisor, unit)
    return Scale(1.0, "B/s")


def value_scale(largest: float, unit: str) -> Scale:
    """Return the unit in which values up to ``largest`` read well."""
    if unit == "B/s":
        return bandwidth_scale(largest)
    if unit == "s":
        for divisor, name in _TIME_UNITS:
            if largest >= divisor:
                return Scale(divisor, name)
    return Scale(1.0, unit)


def size_scale(largest_bytes: float) -> Scale:
    """Return the binary unit in which sizes up to ``largest_bytes`` read well."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    power = next((power for power in (5, 4, 3, 2, 1) if largest_bytes >= 1024.0**power), 0)
    return Scale(1024.0**power, units[power])


def round_top(value: float) -> float:
    """Return the next round figure at or above ``value``: the top of an axis.

    Examples
    --------
    >>> round_top(1.94), round_top(0.63), round_top(8.2)
    (2.0, 0.8, 10.0)
    """
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0):
        # The power is a float: rounding must not exclude 1.1 * 10**n itself.
        if value <= step * power * (1 + 1e-12):
            return round(step * power, 12)
    return round(10.0 * power, 12)


def stalls_of(timelines: Sequence[Timeline]) -> Stalls:
    """Return the stalls in all repetitions, without each one's last interval, which is cut."""
    count = of = 0
    longest_s, longest_repetition = 0.0, None
    for timeline in timelines:
        stretch = 0
        for stalled in stalled_intervals(timeline):
            of += 1
            count += stalled
            stretch = stretch + 1 if stalled else 0
            if stretch * timeline.interval_s > longest_s:
                longest_s, longest_repetition = stretch * timeline.interval_s, timeline.repetition
    return Stalls(count, of, longest_s, longest_repetition)


def stalled_intervals(timeline: Timeline) -> tuple[bool, ...]:
    """Return for each interval but the last whether almost nothing moved in it."""
    whole = timeline.moved_bytes[:-1]
    if not whole:
        return ()
    limit = STALL_FRACTION * median(whole)
    # With a median of 0 the repetition stalled for most of its time: all of it is a stall.
    return tuple(moved < limit or moved == 0 for moved in whole)


def merged(timeline: Timeline, intervals_max: int) -> Timeline:
    """Return the timeline with neighbouring intervals summed until there are few enough."""
    factor = math.ceil(len(timeline.moved_bytes) / intervals_max)
    if factor <= 1:
        return timeline
    moved = timeline.moved_bytes
    sums = tuple(sum(moved[start : start + factor]) for start in range(0, len(moved), factor))
    return Timeline(timeline.access, timeline.repetition, timeline.interval_s * factor, sums)


def tail_of(histograms: Sequence[LatencyHistogram], points_max: int = 300) -> Tail | None:
    """Return the latency tail over all histograms together, ``None`` if nothing was counted.

    Notes
    -----
    A quantile is the upper bound of its bucket, so it is never too small; the rank of quantile q
    among n operations is ceil(q n).
    """
    buckets = _pooled(histograms)
    if not buckets:
        return None
    latencies = [upper for upper, _ in buckets]
    upto = list(accumulate(count for _, count in buckets))
    total = upto[-1]
    slower = [(total - before) / total for before in [0, *upto[:-1]]]
    marks = tuple(
        (name, latencies[index], slower[index]) for name, index in _mark_indices(upto, total)
    )
    chosen = _thinned(latencies, points_max, keep={latency for _, latency, _ in marks})
    return Tail(
        tuple(latencies[index] for index in chosen),
        tuple(slower[index] for index in chosen),
        marks,
        total,
    )


def _pooled(histograms: Sequence[LatencyHistogram]) -> list[tuple[float, int]]:
    counts: dict[float, int] = {}
    for histogram in histograms:
        for upper_s, count in zip(histogram.upper_s, histogram.count, strict=True):
            # A logarithmic axis has no zero; no real operation takes none.
            if count > 0 and upper_s > 0 and math.isfinite(upper_s):
                counts[upper_s] = counts.get(upper_s, 0) + count
    return sorted(counts.items())


def _mark_indices(upto: list[int], total: int) -> list[tuple[str, int]]:
    quantiles = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)]
    marks = [
        (name, bisect_left(upto, math.ceil(quantile * total)))
        for name, quantile in quantiles
        # A quantile beyond the slowest operation would be that operation under another name.
        if total * (1 - quantile) >= 1
    ]
    return [*marks, ("max", len(upto) - 1)]


def _thinned(latencies: list[float], points_max: int, *, keep: set[float]) -> list[int]:
    if len(latencies) <= points_max:
        return list(range(len(latencies)))
    span = math.log(latencies[-1] / latencies[0])
    cells = [int(math.log(latency / latencies[0]) / span * points_max) for latency in latencies]
    new_cell = [True, *(left != right for left, right in pairwise(cells))]
    return [index for index, latency in enumerate(latencies) if new_cell[index] or latency in keep]


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
    """Return at most a given number of points, evenly spaced, including the last."""
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
