"""Draw Vega-Lite specifications as SVG inside a page.

No browser, no network, no script: vl-convert runs Vega in its own engine. The same specification
gives identical text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from trimtab.config.version import __version__
from trimtab.report import text
from trimtab.report.chart import Chart
from trimtab.report.text import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

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

    css = (resources.files("trimtab.report") / "templates" / "kit.css").read_text("utf-8")
    digest = hashlib.sha256(css.encode()).digest()
    return Stylesheet(Markup(css), f"sha256-{base64.b64encode(digest).decode()}")


@cache
def environment() -> Environment:
    """Return the template environment: everything is escaped, invisible characters are shown.

    A misspelt name in a template is an error, not an empty place.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("trimtab.report", "templates"),
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
