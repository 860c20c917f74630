"""Vega-Lite specifications drawn as SVG that stands inside a page.

No browser, no network, no script: vl-convert runs Vega in its own engine. The same specification
gives the same text, byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from trimtab.report.chart import Chart
from trimtab.report.text import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_SIZE = re.compile(r'\A<svg [^>]*?width="([0-9.]+)" height="([0-9.]+)"[^>]*>')
_IDENTIFIER = re.compile(r'(\bid="|url\(#|href="#)([A-Za-z][\w-]*)')
_BACKGROUND_PATHS = re.compile(r'<path class="(?:background|foreground)"[^>]*d=""[^>]*/>')


def render_svg(specification: Mapping[str, Any], *, name: str, label: str) -> str:
    """Return an inline ``<svg>`` element that fills the width of what it stands in.

    Parameters
    ----------
    specification
        A Vega-Lite specification with its data inside.
    name
        Unique in the page: several drawings share one space of identifiers.
    label
        What the drawing shows, for those who cannot see it.

    Raises
    ------
    ValueError
        Vega rejects the specification: a bug in the chart.
    """
    import vl_convert

    # Plain JSON text with every lone surrogate spelled out: the engine takes only valid UTF-8.
    text = json.dumps(_clean(specification), allow_nan=False)
    svg = vl_convert.vegalite_to_svg(text, allowed_base_urls=[])
    return _inline(svg, name=name, label=label)


def drawn(charts: Iterable[Chart | None]) -> tuple[tuple[Chart, Markup], ...]:
    """Return each chart that there is with its drawing, as markup for a page."""
    from markupsafe import Markup

    # What Vega draws is escaped by Vega; the page trusts nothing else as markup.
    return tuple(
        (
            chart,
            Markup(
                render_svg(
                    chart.specification, name=chart.name, label=f"{chart.title}. {chart.caption}"
                )
            ),
        )
        for chart in charts
        if chart is not None
    )


@cache
def environment() -> Environment:
    """Return the template environment: everything escaped, and nothing shown that cannot be seen.

    A name that a template misspells is an error, not an empty place.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("trimtab.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )


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
    return (
        f'<svg class="drawing" role="img" aria-label="{escape(printable(label))}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">{body}'
    )
