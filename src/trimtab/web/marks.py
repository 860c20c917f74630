"""Marks of incidents and of the log book on every chart over time. Pure.

::

    ▂▂▂▂▂▂▂▂          ▂▂▂▂     incidents, along the upper edge: what lies beneath can be pointed at
        ▾     ▾                entries of the log book, beneath them
    · ' . · · . ' · . · '
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from trimtab.base.event import EventKind
from trimtab.base.visible import visible
from trimtab.show.chart import ALARM, INK, Chart, Key, milliseconds

if TYPE_CHECKING:
    from trimtab.base.event import Event
    from trimtab.store.kept import KeptIncident
    from trimtab.web.desk import Desk

ROUTINE: Final = frozenset(
    {EventKind.TRIM, EventKind.PURGE, EventKind.TARGET_CLOSED, EventKind.TARGET_OPENED}
)
"""Kinds of events that recur: as many marks would hide the others."""
KEYS: Final = (
    Key("light-bar", "alarm", "incident, along the upper edge"),
    Key("triangle", "ink", "entry of the log book"),
)
_MOST: Final = 60
_WORDS: Final = 100
_BAND: Final = (0, 5)
"""Pixels below the upper edge; a triangle is centred beneath."""
_TRIANGLE: Final = 12
_MARK_OF_INCIDENT: Final = {"type": "rect", "color": ALARM, "opacity": 0.35}
_MARK_OF_EVENT: Final = {
    "type": "point",
    "shape": "triangle-down",
    "filled": True,
    "size": 30,
    "color": INK,
    "opacity": 0.8,
}


@dataclass(frozen=True, slots=True)
class ChartMarks:
    """What is marked: times in milliseconds, each with its words; no end: it goes on."""

    events: tuple[tuple[float, str], ...] = ()
    incidents: tuple[tuple[float, float | None, str], ...] = ()


def marks_at(desk: Desk, site: str) -> ChartMarks:
    """Return the marks of a site's log book and incidents on charts."""
    return marks_of(desk.events(site), desk.incidents(site))


def marks_of(events: Sequence[Event], incidents: Sequence[KeptIncident]) -> ChartMarks:
    """Return the marks of a site, the last of each; where events are many, notes give way."""
    unusual = [event for event in events if event.kind not in ROUTINE]
    ranked = sorted(unusual, key=lambda event: (event.kind is not EventKind.NOTE, event.at))
    words = [
        (milliseconds(event.at), visible(f"{event.kind.value}: {event.detail}"[:_WORDS]))
        for event in ranked
    ]
    spans = [
        (
            milliseconds(incident.at),
            None if incident.until is None else milliseconds(incident.until),
            visible(incident.summary[:_WORDS]),
        )
        for incident in sorted(incidents, key=lambda incident: incident.at)
    ]
    return ChartMarks(tuple(words[-_MOST:]), tuple(spans[-_MOST:]))


def marked(chart: Chart, marks: ChartMarks, *, with_keys: bool = True) -> Chart:
    """Return a chart with the marks of its stretch of time; one that is not over time as it is.

    Parameters
    ----------
    with_keys
        Whether its own legend explains them.
    """
    specification = marked_specification(chart.specification, marks)
    if specification is chart.specification:
        return chart
    keys = zip(KEYS, (marks.incidents, marks.events), strict=True)
    legend = [*chart.legend, *(key for key, of_key in keys if with_keys and of_key)]
    return replace(chart, specification=specification, legend=tuple(legend))


def marked_specification(specification: Any, marks: ChartMarks) -> Any:
    """Return a layered specification with marks, as it is where there is nothing to mark."""
    axes = [
        x for x in _values(specification, "x") if isinstance(x, dict) and x.get("field") == "at"
    ]
    times = [at for name in ("at", "to") for at in _values(specification, name)]
    known = [at for at in times if isinstance(at, (int, float))]
    if not axes or not known or axes[0].get("type") != "temporal":
        return specification
    layers = [*_layers(marks, axes[0], min(known), max(known))]
    return (
        {**specification, "layer": [*specification["layer"], *layers]} if layers else specification
    )


def survey_layers(
    marks: ChartMarks, x: Any, surveys: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    """Yield the layers above a map whose columns are surveys, not times.

    An incident marks each survey during it, an entry of the log book the next survey.

    Parameters
    ----------
    surveys
        Name of each column to its time in milliseconds, by time.
    """
    spans = [
        {"at": name, "what": summary}
        for since, until, summary in marks.incidents
        for name, at in surveys.items()
        if since <= at and (until is None or at <= until)
    ]
    first = min(surveys.values(), default=0.0)
    points = [
        {"at": name, "what": summary}
        for at, summary in marks.events
        if (name := next((each for each, of in surveys.items() if of >= at >= first), None))
    ]
    lower, upper = (-edge for edge in _BAND)
    if spans:
        yield _layer(spans, _MARK_OF_INCIDENT, x=x, y={"value": upper}, y2={"value": lower})
    if points:
        yield _layer(points, _MARK_OF_EVENT, x=x, y={"value": -_TRIANGLE})


def _layer(rows: list[dict[str, Any]], mark: Any, **encoding: Any) -> dict[str, Any]:
    words = {"field": "what", "type": "nominal"}
    shared = {"tooltip": words, "description": words}
    return {"data": {"values": rows}, "mark": mark, "encoding": {**shared, **encoding}}


def _layers(marks: ChartMarks, x: Any, begin: float, end: float) -> Iterator[dict[str, Any]]:
    spans = [
        {"at": max(since, begin), "to": min(end if until is None else until, end), "what": summary}
        for since, until, summary in marks.incidents
        if since <= end and (until is None or until >= begin)
    ]
    if spans:
        upper, lower = ({"value": edge} for edge in _BAND)
        yield _layer(spans, _MARK_OF_INCIDENT, x=x, x2={"field": "to"}, y=upper, y2=lower)
    points = [{"at": at, "what": summary} for at, summary in marks.events if begin <= at <= end]
    if points:
        yield _layer(points, _MARK_OF_EVENT, x=x, y={"value": _TRIANGLE})


def _values(node: Any, name: str) -> Iterator[Any]:
    """Yield every value of a name, however deep."""
    if isinstance(node, dict):
        if name in node:
            yield node[name]
        for value in node.values():
            yield from _values(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _values(value, name)
