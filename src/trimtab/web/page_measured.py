"""The pages of measurements: series, runs, targets. All state is in the address."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup

from trimtab.base.error import TrimtabError, UsageError
from trimtab.base.text import metric_title
from trimtab.base.units import format_duration
from trimtab.show.chart import stylesheet
from trimtab.show.document import GOAL_TONES, Table
from trimtab.web.api import compared, conditional, moment
from trimtab.web.desk import Desk, DeskOf
from trimtab.web.page_dashboard_chart import marked_specification, marks_at
from trimtab.web.page_series import (
    CHANGES,
    Compared,
    Ends,
    Zone,
    around_events,
    between,
    compared_parts,
    day_charts,
    days_above,
    frame_of_runs,
    utc_text,
    zones_of,
)
from trimtab.web.request_guard import HEAVY, heavy_with
from trimtab.web.template import (
    MARKED,
    ROWS,
    Address,
    Offset,
    figures,
    framed,
    likeliest,
    link,
    listed_sites,
    page,
    part,
    sections,
)

if TYPE_CHECKING:
    pass

router = APIRouter(include_in_schema=False)
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
    """Return a static file of the pages; only those listed in a table are read."""
    if name == "kit.css":
        return conditional(request, str(stylesheet().text).encode(), "text/css")
    if name == "vega.js":
        from trimtab.web import page_dashboard_chart

        return conditional(request, page_dashboard_chart.vega_bundle().encode(), "text/javascript")
    if name not in _FILES:
        raise UsageError("there is no such file", code="page-unknown")
    data = (resources.files("trimtab.web") / "static" / name).read_bytes()
    return conditional(request, data, _FILES[name])


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
    entries = desk.listed(site)
    chosen = name or (entries[0].id if entries else "")
    if not chosen:
        return page(request, site, "series", "series.html.j2", entries=(), chosen="")
    times = Zone(zone)
    judgement = desk.series(site, chosen)
    ends = times.read(since), times.read(until, end=True)
    runs = [run for run in desk.runs(site, chosen) if _is_between(run[0], *ends)]
    comparison, problem = None, None
    if before and after:
        try:
            both = times.stretch(before), times.stretch(after)
            comparison = _comparison(desk, site, chosen, both)
        except UsageError as error:
            problem = error
    timezone = desk.place(site).timezone
    has_days = judgement.verdict.goal is not None and judgement.days
    incidents = desk.incidents(site) if has_days else ()

    def days() -> str:
        return figures(desk, site, chosen, day_charts(desk.whole_series(site, chosen)))

    return page(
        request,
        site,
        "series",
        "series.html.j2",
        entries=entries,
        chosen=chosen,
        series=judgement,
        tone=GOAL_TONES[judgement.verdict.status],
        sides=_sides(judgement.changes),
        around=around_events(desk.store.events(site=site, kinds=CHANGES), judgement),
        comparison=comparison,
        problem=problem,
        query={"since": since, "until": until, "before": before, "after": after, "zone": zone},
        zone=times,
        zones=zones_of(timezone, zone),
        timezone=timezone,
        days=days_above(judgement, timezone, incidents),
        likeliest=likeliest,
        figures=Markup(desk.remembered(site, f"days of {chosen}", str, days, *MARKED)),
        total=len(runs),
        offset=offset,
        rows_each=ROWS,
        runs=runs[::-1][offset : offset + ROWS],
        chart=link(site, "chart", chosen, since=utc_text(ends[0]), until=utc_text(ends[1])),
    )


def _is_between(at: datetime, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or at >= since) and (until is None or at <= until)


def _comparison(desk: Desk, site: str, chosen: str, both: tuple[Ends, Ends]) -> Compared:
    judgement = desk.series(site, chosen)
    key = judgement.key
    result = compared(desk, site, both, probe=key.probe, metric=key.metric)
    # Drawn again each time: stretches are countless, and a drawing is large.
    return compared_parts(result, frame_of_runs(desk.runs(site, chosen)), judgement, both)


def _sides(changes: Sequence[Any]) -> list[tuple[Any, str, str]]:
    """Return each change with the stretches on either side, in the form for `compare`."""
    edges = [utc_text(change.at) for change in changes]
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
    """Return the specification of the chart of a series, with as many points as are visible."""

    def make() -> str:
        from trimtab.web import page_dashboard_chart

        judgement, frame = desk.series(site, name), frame_of_runs(desk.runs(site, name))
        stretch = between(frame, moment(since or None), moment(until or None, end=True))
        largest: Any = frame["value"].max()
        chart = page_dashboard_chart.series_chart(judgement, stretch, largest=largest)
        return _as_json(marked_specification(chart, marks_at(desk, site)))

    # Stretches of time are countless: their charts are drawn each time.
    is_whole = not (since or until)
    body = desk.remembered(site, f"chart of {name}", str, make, *MARKED) if is_whole else make()
    return Response(body, media_type="application/json")


def _as_json(chart: dict[str, Any]) -> str:
    return json.dumps(chart, allow_nan=False)


_EXCERPT: Final = 40
_SAMPLES: Final = 200


@router.get("/s/{site:path}/runs/{identifier}", dependencies=HEAVY)
def run_page(request: Request, desk: DeskOf, site: str, identifier: str) -> Response:
    """Show one run: each number beside the line of output that it was read from."""
    from trimtab.store.page import samples_table

    run = desk.run(site, identifier)
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
        site,
        "series",
        "run.html.j2",
        run=run,
        samples=samples_table(run.samples[:_SAMPLES]),
        outputs=outputs,
        problem=problem,
    )


def _excerpt(content: bytes, lines: Sequence[int]) -> list[tuple[int, str, bool]]:
    """Return the lines of an output with numbers that were read, each with two around it."""
    every = content.decode("utf-8", "surrogateescape").splitlines()
    near = sorted({line + step for line in lines for step in range(-2, 3)} or set(range(1, 11)))
    numbered = [n for n in near if 1 <= n <= len(every)][:_EXCERPT]
    return [(n, every[n - 1][:400], n in lines) for n in numbered]


# Targets


@dataclass(frozen=True, slots=True)
class TargetsParts:
    """The targets of a site, those in trouble first.

    Attributes
    ----------
    at
        Time of the snapshot that shows them.
    table
        A row for each.
    words
        Searchable text of each.
    trimmed
        When each was last trimmed.
    """

    at: datetime | None
    table: Table | None
    words: tuple[str, ...]
    trimmed: tuple[datetime | None, ...]


@dataclass(frozen=True, slots=True)
class SurveysParts:
    """Surveys of single targets: metrics with their names, drawings as text."""

    metrics: tuple[tuple[str, str], ...]
    spreads: str


@router.get("/s/{site:path}/targets")
def targets_page(
    request: Request, desk: DeskOf, site: str, *, find: Address = "", offset: Offset = 0
) -> Response:
    """Draw every survey, and list the targets, those in trouble first."""
    from trimtab.answers.page import chosen_targets

    held = desk.remembered(site, "targets", TargetsParts, lambda: _targets_parts(desk, site))
    surveys = desk.remembered(
        site, "surveys", SurveysParts, lambda: _surveys_parts(desk, site), *MARKED
    )
    now, words = desk.now(site), find.lower()
    matching = [number for number, of_target in enumerate(held.words) if words in of_target]
    ages = {
        number: f"trimmed {format_duration((now - at).total_seconds())} ago"
        for number in matching[offset : offset + ROWS]
        for at in [held.trimmed[number]]
        if at is not None
    }
    return page(
        request,
        site,
        "targets",
        "targets.html.j2",
        at=held.at,
        find=find,
        total=len(held.words),
        found=len(matching),
        offset=offset,
        rows_each=ROWS,
        targets=chosen_targets(held.table, matching[offset : offset + ROWS], ages),
        metrics=surveys.metrics,
        spreads=Markup(surveys.spreads),
    )


def _targets_parts(desk: Desk, site: str) -> TargetsParts:
    from trimtab.answers.page import targets_table
    from trimtab.answers.page_web_overview import glance_at

    state = desk.state(site)
    targets = () if state is None else state.targets
    trimmed = {target.name: target.trimmed_at for target in glance_at(desk, site).targets}
    return TargetsParts(
        at=None if state is None else state.snapshot.at,
        table=targets_table(targets, link=partial(link, site, "target")),
        words=tuple(
            " ".join(
                [
                    target.name,
                    target.seen.target.server or "",
                    *(trouble.text for trouble in target.troubles),
                ]
            ).lower()
            for target in targets
        ),
        trimmed=tuple(trimmed.get(target.name) for target in targets),
    )


def _surveys_parts(desk: Desk, site: str) -> SurveysParts:
    from trimtab.web import page_dashboard_chart

    judged = desk.judged(site)
    if judged is None:
        return SurveysParts((), "")
    metrics = tuple((tail.metric, metric_title(tail.metric)) for tail in judged.judgement.tails)
    return SurveysParts(
        metrics, figures(desk, site, "surveys", page_dashboard_chart.spread_charts(judged))
    )


@router.get("/s/{site:path}/survey/{metric}")
def survey_data(desk: DeskOf, site: str, metric: str) -> Response:
    """Return the specification of the heat map of survey rates."""

    def make() -> str:
        from trimtab.web import page_dashboard_chart

        return _as_json(
            page_dashboard_chart.survey_map(desk.judged(site), metric, marks_at(desk, site))
        )

    body = desk.remembered(site, f"survey of {metric}", str, make, *MARKED)
    return Response(body, media_type="application/json")


@router.get("/s/{site:path}/target/{name:path}", dependencies=HEAVY)
def target_page(request: Request, desk: DeskOf, site: str, name: str) -> Response:
    """Show one target: its current readings, its surveys and its history."""

    def make() -> str:
        from trimtab.answers.page import target_document
        from trimtab.web import page_dashboard_chart

        state = desk.state(site)
        by_name = {} if state is None else {target.name: target for target in state.targets}
        if state is None or name not in by_name:
            raise UsageError("no such target", code="target-unknown")
        document = target_document(state, by_name[name])
        charts = page_dashboard_chart.life_charts(desk.store, site, name, by_name[name].full_when)
        events = [
            event for event in desk.events(site) if name in event.targets or not event.targets
        ]
        return part(
            "target.html.j2",
            document=document,
            sections=sections(desk, site, f"target {name}", document),
            figures=Markup(figures(desk, site, name, charts)),
            events=events[: -ROWS - 1 : -1],
        )

    body = desk.remembered(site, f"target {name}", str, make)
    return framed(request, site, "targets", body)
