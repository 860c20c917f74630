"""Pages as text: templates over the page kit of `show`, and the values and links they need."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote, urlencode

from fastapi import Query, Request, Response
from markupsafe import Markup

from trimtab.base.error import TrimtabError
from trimtab.base.run import METRIC_UNITS
from trimtab.base.text import metric_text, minute_text
from trimtab.base.units import format_bytes, format_percent, format_value
from trimtab.explain.headline import short_summary
from trimtab.explain.page import STATE_TONES
from trimtab.show.chart import drawn, environment
from trimtab.web.access import Role, identity_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jinja2 import Environment

    from trimtab.show.chart import Chart
    from trimtab.show.document import Document, Drawings, Section
    from trimtab.store.kept import KeptIncident
    from trimtab.web.desk import Desk
    from trimtab.web.page_dashboard_chart import ChartMarks

    Sections = tuple[tuple[Section, Drawings], ...]

MARKED: Final = ("event", "incident")
"""Tables whose rows are marked on charts of runs."""
Address = Annotated[str, Query(max_length=90)]
Offset = Annotated[int, Query(ge=0, le=10**9)]
ROWS: Final = 50
"""Rows of a table on one page."""
_METRIC: Final = re.compile(rf"\b(?:{'|'.join(METRIC_UNITS)})\b")
FOLDED_FROM: Final = 12
"""A table of so many rows, beside the subject of a page, is folded."""
REFRESH_S: Final = 60
NAV: Final = (
    ("overview", "Overview"),
    ("series", "Series"),
    ("targets", "Targets"),
    ("inventory", "Inventory"),
    ("incidents", "Incidents"),
    ("ladder", "Ladder"),
    ("sweeps", "Sweeps"),
    ("purge", "Purge"),
    ("twin", "Twin"),
    ("actions", "Actions"),
    ("settings", "Settings"),
)


@cache
def _templates() -> Environment:
    from jinja2 import ChoiceLoader, PackageLoader

    kit = environment()
    loader = ChoiceLoader([PackageLoader("trimtab.web", "templates"), kit.loader])  # type: ignore[list-item]
    made = kit.overlay(loader=loader)
    made.globals |= {  # pyrefly: ignore[bad-assignment]
        "value": format_value,
        "bytes": format_bytes,
        "percent": format_percent,
        "link": link,
        "when": minute_text,
        "state_words": STATE_TONES,
        "short": lambda summary: in_words(short_summary(summary)),
        "in_words": in_words,
        "folded_from": FOLDED_FROM,
        "Role": Role,
    }
    return made


def link(site: str, page: str, *parts: str, **query: object) -> str:
    """Return the address of a page, every part of it quoted."""
    path = "/".join(quote(part, safe="") for part in ("s", site, page, *parts))
    values = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return f"/{path}" + (f"?{urlencode(values)}" if values else "")


def part(template: str, **values: Any) -> str:
    """Return a template as text for a page, with all values escaped."""
    return _templates().get_template(template).render(refresh_s=REFRESH_S, **values)


def drawings(desk: Desk, site: str, noun: str, charts: Iterable[Chart | None]) -> Drawings:
    """Return charts with their drawings, which are kept until the charts change."""
    made = [chart for chart in charts if chart is not None]
    texts = [
        desk.remembered(
            site,
            f"drawing of {noun}: {chart.name}",
            str,
            lambda chart=chart: str(drawn([chart])[0][1]),
            basis=chart,
        )
        for chart in made
    ]
    return tuple(zip(made, map(Markup, texts), strict=True))


def sections(desk: Desk, site: str, noun: str, document: Document) -> Sections:
    """Return the sections of a document with their drawings; see `drawings`."""
    return tuple(
        (section, drawings(desk, site, noun, (chart() for chart in section.charts)))
        for section in document.sections
    )


def figures(
    desk: Desk,
    site: str,
    noun: str,
    charts: Iterable[Chart | None],
    *,
    marks: ChartMarks | None = None,
    with_keys: bool = True,
) -> str:
    """Return charts as text for a page, those over time with marks; empty without charts."""
    from trimtab.web.page_dashboard_chart import marked, marks_at

    if marks is None:
        marks = marks_at(desk, site)
    shown = (chart and marked(chart, marks, with_keys=with_keys) for chart in charts)
    return part("figures.html.j2", figures=drawings(desk, site, noun, shown)).strip()


def page(request: Request, site: str, current: str, template: str, **values: Any) -> Response:
    """Return a page of a site."""
    identity = identity_of(request)
    person = {"identity": identity, "may_write": identity.role.covers(Role.OPERATOR)}
    return framed(request, site, current, part(template, site=site, **person, **values))


def framed(request: Request, site: str, current: str, body: str) -> Response:
    """Return a page of a site around its body, a text of `part`."""
    html = part(
        "site.html.j2",
        site=site,
        nav=NAV,
        current=current,
        body=Markup(body),
        identity=identity_of(request),
    )
    return Response(html, media_type="text/html")


def problem_page(error: TrimtabError, status: int) -> str:
    """Return the page of a problem."""
    return part("problem.html.j2", error=error, status=status)


def listed_sites(names: list[str]) -> str:
    """Return the page that lists the sites."""
    return part("sites.html.j2", sites=names)


def in_words(summary: str) -> str:
    """Return a sentence with readable names of metrics.

    Examples
    --------
    >>> in_words("hourly write_bandwidth 18 % lower")
    'hourly write bandwidth 18 % lower'
    """
    return _METRIC.sub(lambda metric: metric_text(metric[0]), summary)


def likeliest(incident: KeptIncident) -> str:
    """Return the likeliest cause of a stored incident with its probability."""
    cause = incident.likeliest
    if not cause:
        return "cause unknown"
    return f"{incident.chain_text} ({format_percent(cause['confidence'], 0)})"
