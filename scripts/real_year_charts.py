"""The charts of the page about a year of two systems: SVG files that stand by themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final

from real_year_data import SITES, One, Year
from real_year_tables import DIP

from trimtab.show.chart import ACCENT, ALARM, HEIGHT, INK, MUTED, WIDTH, finished, render_svg

if TYPE_CHECKING:
    import altair

_COLORS: Final = {
    "edison-scratch1": MUTED,
    "edison-scratch2": ALARM,
    "edison-scratch3": ACCENT,
    "mira-fs1": INK,
}
_EDISON: Final = SITES[:3]
_GIGA: Final = 1e9
_SVG_NUMBER: Final = re.compile(r"-?[0-9]+\.[0-9]{3,}")
_SPOKEN: Final = re.compile(r' (?:aria-[a-z]+|role)="[^"]*"')
# A page without a dark theme shows them; a drawing of its own has to bring its paper.
_PAPER: Final = '<rect width="100%" height="100%" fill="#ffffff"/>'


def charts(year: Year) -> dict[str, str]:
    """Return name of the file to SVG."""
    made = {
        "year-cov": (_cov(year), "COV of each series against its MAD-CV"),
        "year-shared-read": (_shared_read(year), "IOR reading one shared file on Edison, by week"),
        "year-fullness": (_fullness(year), "Write bandwidth against the fullest OST"),
        "year-failovers": (_failovers(year), "Writes on scratch2 with its failovers"),
        "year-broken-probe": (_broken(year), "BD-CATS on scratch1 with the broken probe"),
        "year-dips": (_dips(year), "HACC-IO reads on Mira, dips against the rest"),
    }
    return {
        f"{name}.svg": standalone(chart, name=name, label=label)
        for name, (chart, label) in made.items()
    }


def standalone(chart: altair.LayerChart, *, name: str, label: str) -> str:
    """Return a drawing as a file of its own: with a name space, on paper, without idle digits."""
    svg = render_svg(finished(chart), name=name, label=label)
    head, rest = svg.split(">", 1)
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    rest = _SPOKEN.sub("", rest)
    rest = _SVG_NUMBER.sub(lambda found: f"{float(found[0]):.1f}", rest)
    return f"{head}>{_PAPER}{rest}\n"


def _data(rows: Sequence[dict[str, Any]]) -> altair.Chart:
    import altair as alt

    return alt.Chart(alt.Data(values=list(rows)))


def _layered(*layers: altair.Chart) -> altair.LayerChart:
    import altair as alt

    layered: altair.LayerChart = alt.layer(*layers)  # type: ignore[assignment]
    return layered.properties(width=WIDTH + 120, height=HEIGHT)


def _time(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _x_time() -> altair.X:
    import altair as alt

    axis = alt.Axis(tickCount=6, labelOverlap=True, format="%b %Y")
    return alt.X("at:T", title="time (UTC)", scale=alt.Scale(type="utc", padding=8), axis=axis)


def _y(field: str, title: str, *, log: bool = False, top: float | None = None) -> altair.Y:
    import altair as alt

    if log:
        scale = alt.Scale(type="log")
    else:
        scale = alt.Scale(zero=True) if top is None else alt.Scale(domain=[0, top])
    axis = alt.Axis(tickCount=5, domain=False, tickSize=0)
    return alt.Y(f"{field}:Q", title=title, scale=scale, axis=axis)


def _cov(year: Year) -> altair.LayerChart:
    import altair as alt

    rows = []
    for one in year.series:
        spread = one.judgement.overall
        if spread.cov is not None and spread.mad_cv is not None:
            rows.append({"site": one.site, "x": 100 * spread.mad_cv, "y": 100 * spread.cov})
    x = alt.X(
        "x:Q", title="MAD-CV in % (log)", scale=alt.Scale(type="log", domain=[2, 100], nice=False)
    )
    y = alt.Y(
        "y:Q",
        title="COV in % (log)",
        scale=alt.Scale(type="log", domain=[2, 100], nice=False),
        axis=alt.Axis(domain=False, tickSize=0),
    )
    ends = [{"x": 2, "y": 2}, {"x": 100, "y": 100}]
    layers = [_data(ends).mark_line(color=MUTED, strokeDash=[4, 3]).encode(x=x, y=y)]
    goal = _data([{"y": 8}]).mark_rule(color=ALARM, strokeDash=[2, 2])
    layers.append(goal.encode(y="y:Q"))
    for site, color in (("edison", ACCENT), ("mira", INK)):
        own = [row for row in rows if str(row["site"]).startswith(site)]
        shape = "circle" if site == "edison" else "square"
        marks = _data(own).mark_point(filled=True, shape=shape, size=42, color=color, opacity=0.9)
        layers.append(marks.encode(x=x, y=y))
    return _layered(*layers)


def _weeks(one: One) -> list[dict[str, Any]]:
    """Return the median of each week of a series."""
    weeks: dict[tuple[int, int], list[tuple[datetime, float]]] = {}
    for run in one.runs:
        if run.value is not None:
            year, week, _ = run.at.isocalendar()
            weeks.setdefault((year, week), []).append((run.at, run.value))
    return [
        {
            "at": _time(median_time([at for at, _ in found])),
            "y": median(v for _, v in found) / _GIGA,
        }
        for _, found in sorted(weeks.items())
    ]


def median_time(times: Sequence[datetime]) -> datetime:
    """Return the middle one of some times; of an even number the earlier."""
    ordered = sorted(times)
    return ordered[(len(ordered) - 1) // 2]


def _shared_read(year: Year) -> altair.LayerChart:
    x, y = _x_time(), _y("y", "GB/s (log)", log=True)
    layers = []
    for site in _EDISON:
        rows = _weeks(year.of(site, "ior-shared-read"))
        marks = _data(rows).mark_point(filled=True, size=24, color=_COLORS[site], opacity=0.9)
        layers.append(marks.encode(x=x, y=y))
    return _layered(*layers)


def _fullness(year: Year) -> altair.LayerChart:
    import altair as alt

    x = alt.X("x:Q", title="fullest OST in %", scale=alt.Scale(domain=[30, 100]))
    y = _y("y", "GB/s", top=90)
    layers = []
    for site in _EDISON:
        bands: dict[int, list[float]] = {}
        for run in year.of(site, "ior-fpp-write").runs:
            share = run.telemetry.get("fullest_target_fraction")
            if share is not None and run.value is not None:
                bands.setdefault(int(100 * share) // 4, []).append(run.value / _GIGA)
        rows = []
        for band, values in sorted(bands.items()):
            if len(values) >= 5:
                low, _, high = quantiles(values, n=4)
                middle = 4 * band + 2 + 0.6 * (_EDISON.index(site) - 1)
                rows.append({"x": middle, "y": median(values), "low": low, "high": high})
        base = _data(rows).encode(x=x)
        color = _COLORS[site]
        layers.append(base.mark_rule(color=color, opacity=0.7).encode(y="low:Q", y2="high:Q"))
        layers.append(base.mark_point(filled=True, size=34, color=color, opacity=1).encode(y=y))
    return _layered(*layers)


def _failovers(year: Year) -> altair.LayerChart:
    import altair as alt

    one, x, y = year.of("edison-scratch2", "ior-fpp-write"), _x_time(), _y("y", "GB/s", top=60)
    stretches = [
        {"at": _time(event.at), "to": _time(event.until)}
        for event in year.events["edison-scratch2"]
    ]
    shade = _data(stretches).mark_rect(color=ALARM, opacity=0.13)
    runs = [
        {"at": _time(run.at), "y": run.value / _GIGA} for run in one.runs if run.value is not None
    ]
    levels = [{"at": _time(change.at)} for change in one.judgement.changes]
    return _layered(
        shade.encode(x=x, x2=alt.X2("to:T")),
        _data(runs).mark_point(filled=True, size=9, color=ACCENT, opacity=0.9).encode(x=x, y=y),
        _data(levels).mark_rule(color=INK).encode(x=x),
    )


def _broken(year: Year) -> altair.LayerChart:
    one, x, y = (
        year.of("edison-scratch1", "dbscan_read"),
        _x_time(),
        _y("y", "GB/s (log)", log=True),
    )
    judged = [
        {"at": _time(run.at), "y": run.value / _GIGA} for run in one.runs if run.value is not None
    ]
    odd = [{"at": _time(run.at), "y": (run.value or 0.0) / _GIGA} for run in one.left_out]
    hollow = _data(odd).mark_point(filled=False, size=30, color=ALARM, strokeWidth=1.2, opacity=1)
    return _layered(
        _data(judged).mark_point(filled=True, size=9, color=ACCENT, opacity=0.9).encode(x=x, y=y),
        hollow.encode(x=x, y=y),
    )


def _dips(year: Year) -> altair.LayerChart:
    one, x, y = year.of("mira-fs1", "hacc_io_read"), _x_time(), _y("y", "GB/s", top=22)
    usual = one.median
    layers = [_data([{"y": usual / _GIGA}]).mark_rule(color=ACCENT, opacity=0.5).encode(y="y:Q")]
    for is_dip, color, size in ((False, ACCENT, 9), (True, ALARM, 26)):
        rows = [
            {"at": _time(run.at), "y": run.value / _GIGA}
            for run in one.runs
            if run.value is not None and (run.value < DIP * usual) is is_dip
        ]
        marks = _data(rows).mark_point(filled=True, size=size, color=color, opacity=0.9)
        layers.append(marks.encode(x=x, y=y))
    return _layered(*layers)
