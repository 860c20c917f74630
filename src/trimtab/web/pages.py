"""The pages of what was measured: overview, series, runs, targets. All state is in the address."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from trimtab.errors import TrimtabError, UsageError
from trimtab.explain.troubles import slow_trouble
from trimtab.report import judge_charts
from trimtab.report.headline import tone_of
from trimtab.report.kit import GOAL_TONES
from trimtab.report.render import drawn, stylesheet
from trimtab.report.runs import samples_table
from trimtab.report.sections import drawn_sections
from trimtab.report.status import series_table, troubles_table
from trimtab.report.targets import target_document, targets_table
from trimtab.report.text import minute_text
from trimtab.units import format_duration, format_percent
from trimtab.web import charts
from trimtab.web.api import HEAVY, DeskOf, compared, conditional, heavy_with, moment
from trimtab.web.desk import Desk
from trimtab.web.files_api import between
from trimtab.web.render import ROWS, likeliest, link, listed_sites, page
from trimtab.web.series_parts import (
    Compared,
    Zone,
    around_events,
    compared_parts,
    day_figures,
    days_above,
    utc_text,
    zones_of,
)

if TYPE_CHECKING:
    from trimtab.model.overview import Overview, TargetOverview

router = APIRouter(include_in_schema=False)
Address = Annotated[str, Query(max_length=90)]
Offset = Annotated[int, Query(ge=0, le=10**9)]
_FILES: Final = {
    "app.css": "text/css",
    "app.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


@router.get("/")
def home(desk: DeskOf) -> Response:
    """Go to the one site, or list them."""
    sites = desk.sites()
    if len(sites) == 1:
        return Response(status_code=303, headers={"location": link(sites[0].name, "overview")})
    return Response(listed_sites([site.name for site in sites]), media_type="text/html")


@router.get("/static/{name}")
def static(request: Request, name: str) -> Response:
    """Return a file that belongs to the pages; only those of a table are read."""
    if name == "kit.css":
        return conditional(request, str(stylesheet().text).encode(), "text/css")
    if name == "vega.js":
        return conditional(request, charts.vega_bundle().encode(), "text/javascript")
    if name not in _FILES:
        raise UsageError("there is no such file", code="page-unknown")
    data = (resources.files("trimtab.web") / "static" / name).read_bytes()
    return conditional(request, data, _FILES[name])


# Overview


_TROUBLES: Final = 12


@router.get("/s/{site:path}/overview")
def overview_page(request: Request, desk: DeskOf, site: str) -> Response:
    """Show a site at one glance; htmx asks for it again every minute."""
    glance = desk.overview(site)
    ids = desk.series_ids(site)
    return page(
        request,
        desk,
        site,
        "overview",
        "overview.html.j2",
        glance=glance,
        tone=tone_of(desk.standing(site)),
        troubles=troubles_table(glance.troubles[:_TROUBLES]),
        ages=_ages(glance),
        series=series_table(
            glance.series,
            lambda entry: link(site, "series", name=entry.id) if entry.id in ids else "",
        ),
        slow=[(each.target, slow_trouble(each).text) for each in desk.standing(site).slow],
        panels=desk.panels(site),
        panel_keys=judge_charts.PANEL_KEYS,
        cells=[
            (target, _fullness_step(target), _target_title(target)) for target in glance.targets
        ],
        trims=_trim_ages(glance),
    )


def _ages(glance: Overview) -> list[tuple[str, str]]:
    def age(at: datetime | None) -> str:
        if at is None:
            return "none"
        age_s = (glance.at - at).total_seconds()
        words = "less than a minute" if age_s < 60.0 else format_duration(age_s)
        return f"{words} old ({minute_text(at)})"

    judged = glance.judged[0] if glance.judged else None
    searched = "not yet" if judged is None else minute_text(judged.at)
    if judged is not None and judged.newer_runs:
        searched += f", {judged.newer_runs:,} runs since"
    return [
        ("last run", age(glance.last_run_at)),
        ("last snapshot", age(glance.snapshot_at)),
        ("incidents searched", searched),
        ("watched by", glance.watched_by or "no process"),
    ]


def _fullness_step(target: TargetOverview) -> int:
    return 0 if target.fullness is None else min(10, max(0, int(target.fullness * 10)))


def _target_title(target: TargetOverview) -> str:
    full = (
        "fullness not known"
        if target.fullness is None
        else f"{format_percent(target.fullness)} full"
    )
    return "; ".join([f"{target.name}: {full}", *target.troubles])


def _trim_ages(glance: Overview) -> list[tuple[str, str]]:
    osts = [target for target in glance.targets if target.kind != "mdt"]
    known = sorted(
        ((glance.at - target.trimmed_at).total_seconds(), target.name)
        for target in osts
        if target.trimmed_at is not None
    )
    if not osts:
        return []
    never = len(osts) - len(known)
    pairs = [("targets with a recorded trim", f"{len(known):,} of {len(osts):,}")]
    if known:
        pairs += [
            ("median age", format_duration(known[len(known) // 2][0])),
            ("oldest", f"{format_duration(known[-1][0])} ({known[-1][1]})"),
        ]
    if never:
        pairs.append(("no trim recorded", f"{never:,}"))
    return pairs


# Series


@router.get("/s/{site:path}/series", dependencies=heavy_with("before", "after"))
def series_page(
    request: Request,
    desk: DeskOf,
    site: str,
    *,
    name: Address = "",
    since: Address = "",
    until: Address = "",
    before: Address = "",
    after: Address = "",
    zone: Annotated[str, Query(max_length=60)] = "UTC",
    offset: Offset = 0,
) -> Response:
    """List the series, and show one: chart, changes, a comparison, days, its runs."""
    entries = desk.series_ids(site)
    chosen = name or next(iter(entries), "")
    if not chosen:
        return page(request, desk, site, "series", "series.html.j2", entries={}, chosen="")
    times = Zone(zone)
    judgement, frame = desk.series(site, chosen)
    ends = times.read(since), times.read(until, end=True)
    stretch = between(frame, *ends)
    comparison, problem = None, None
    if before and after:
        try:
            both = times.stretch(before), times.stretch(after)
            comparison = _comparison(desk, site, chosen, both)
        except UsageError as error:
            problem = error
    rows = stretch.reverse().slice(offset, ROWS)
    timezone = desk.place(site).timezone
    incidents = desk.incidents(site)
    return page(
        request,
        desk,
        site,
        "series",
        "series.html.j2",
        entries=entries,
        chosen=chosen,
        series=judgement,
        tone=GOAL_TONES[judgement.verdict.status],
        sides=_sides(judgement.changes),
        around=around_events(desk.events(site), judgement),
        comparison=comparison,
        problem=problem,
        query={"since": since, "until": until, "before": before, "after": after, "zone": zone},
        zone=times,
        zones=zones_of(timezone, zone),
        timezone=timezone,
        days=days_above(judgement, timezone, incidents),
        likeliest=likeliest,
        figures=desk.remembered(site, "days", chosen, make=lambda: day_figures(judgement)),
        total=stretch.height,
        offset=offset,
        rows_each=ROWS,
        runs=list(rows.select("at", "value", "unfinished", "run").iter_rows()),
        chart=link(site, "chart", chosen, since=utc_text(ends[0]), until=utc_text(ends[1])),
    )


Ends = tuple[datetime | None, datetime | None]


def _comparison(desk: Desk, site: str, chosen: str, both: tuple[Ends, Ends]) -> Compared:
    judgement, frame = desk.series(site, chosen)
    sides = ["..".join(map(utc_text, ends)) for ends in both]
    key = judgement.key
    result = compared(desk, site, sides[0], sides[1], probe=key.probe, metric=key.metric)
    # Drawn again each time: of stretches there is no end, and a drawing is large.
    return compared_parts(result, frame, judgement, both)


def _sides(changes: Sequence[Any]) -> list[tuple[Any, str, str]]:
    """Return each change with the stretches between its neighbours, as `compare` takes them."""
    edges = [f"{change.at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for change in changes]
    ends = ["", *edges, ""]
    return [
        (change, f"{ends[n]}..{edges[n]}", f"{edges[n]}..{ends[n + 2]}")
        for n, change in enumerate(changes)
    ]


@router.get("/s/{site:path}/chart/{name}")
def chart_data(
    request: Request,
    desk: DeskOf,
    site: str,
    name: str,
    *,
    since: Address = "",
    until: Address = "",
) -> Response:
    """Return the specification of the chart of a series, with as many points as can be seen."""

    def make() -> bytes:
        judgement, frame = desk.series(site, name)
        stretch = between(frame, moment(since or None), moment(until or None, end=True))
        largest: Any = frame["value"].max()
        chart = charts.series_chart(judgement, stretch, largest=largest)
        return json.dumps(chart, allow_nan=False).encode()

    body = desk.encoded(site, "chart", name, since, until, make=make)
    return Response(body, media_type="application/json")


_EXCERPT: Final = 40
_SAMPLES: Final = 200


@router.get("/s/{site:path}/runs/{identifier}", dependencies=HEAVY)
def run_page(request: Request, desk: DeskOf, site: str, identifier: str) -> Response:
    """Show one run: each number beside the line of output that it was read from."""
    desk.place(site)
    run = desk.store.run(identifier)
    if run.site != site:
        raise UsageError("no such run", code="run-unknown")
    outputs, problem = [], None
    try:
        whole = desk.store.run(identifier, outputs=True)
        for place, output in enumerate(whole.outputs):
            lines = sorted({s.line for s in run.samples if s.output == place and s.line})
            outputs.append((output, _excerpt(output.stdout, lines)))
    except TrimtabError as error:
        problem = error
    return page(
        request,
        desk,
        site,
        "series",
        "run.html.j2",
        run=run,
        samples=samples_table(run.samples[:_SAMPLES]),
        outputs=outputs,
        problem=problem,
    )


def _excerpt(content: bytes, lines: Sequence[int]) -> list[tuple[int, str, bool]]:
    """Return the lines of an output that numbers came from, each with two around it."""
    every = content.decode("utf-8", "surrogateescape").splitlines()
    near = sorted({line + step for line in lines for step in range(-2, 3)} or set(range(1, 11)))
    numbered = [n for n in near if 1 <= n <= len(every)][:_EXCERPT]
    return [(n, every[n - 1][:400], n in lines) for n in numbered]


# Targets


@router.get("/s/{site:path}/targets")
def targets_page(
    request: Request, desk: DeskOf, site: str, *, find: Address = "", offset: Offset = 0
) -> Response:
    """Draw every survey, and list the targets, those in trouble first."""
    state, now, words = desk.state(site), desk.now(site), find.lower()
    everything = () if state is None else state.targets
    matching = [
        target
        for target in everything
        if words in " ".join([target.name, target.seen.target.server or "",
                              *(trouble.text for trouble in target.troubles)]).lower()
    ]  # fmt: skip
    trimmed = {
        target.name: f"trimmed {format_duration((now - target.trimmed_at).total_seconds())} ago"
        for target in desk.targets(site)
        if target.trimmed_at is not None
    }
    shown = matching[offset : offset + ROWS]
    return page(
        request,
        desk,
        site,
        "targets",
        "targets.html.j2",
        at=None if state is None else state.snapshot.at,
        find=find,
        total=len(everything),
        found=len(matching),
        offset=offset,
        rows_each=ROWS,
        targets=targets_table(shown, link=partial(link, site, "target"), trimmed=trimmed),
        metrics=charts.survey_metrics(desk, site),
        spreads=desk.remembered(
            site, "spreads", make=lambda: drawn(charts.spread_charts(desk, site))
        ),
    )


@router.get("/s/{site:path}/survey/{metric}")
def survey_data(desk: DeskOf, site: str, metric: str) -> Response:
    """Return the specification of the heat map of survey rates."""

    def make() -> str:
        return json.dumps(charts.survey_map(desk, site, metric), allow_nan=False)

    desk.place(site)
    return Response(
        desk.remembered(site, "survey", metric, make=make), media_type="application/json"
    )


@router.get("/s/{site:path}/target/{name:path}", dependencies=HEAVY)
def target_page(request: Request, desk: DeskOf, site: str, name: str) -> Response:
    """Show one target: its readings now, its surveys, what happened to it."""
    state = desk.state(site)
    by_name = {} if state is None else {target.name: target for target in state.targets}
    if state is None or name not in by_name:
        raise UsageError("no such target", code="target-unknown")
    document = target_document(state, by_name[name])
    events = [event for event in desk.events(site) if name in event.targets or not event.targets]
    return page(
        request,
        desk,
        site,
        "targets",
        "target.html.j2",
        document=document,
        sections=drawn_sections(document),
        figures=desk.remembered(
            site, "life", name, make=lambda: drawn(charts.life_charts(desk, site, name))
        ),
        events=events[: -ROWS - 1 : -1],
    )
