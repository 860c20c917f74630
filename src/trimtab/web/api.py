"""The HTTP API: the documents of ``--json`` in pages, series as files, and log book entries.

OpenAPI follows from the declarations of the documents: one JSON Schema for ``--json`` and the API.
The files are days, windows, surveys, a target's readings, and a run's output.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from trimtab.base.error import UsageError
from trimtab.base.event import WRITTEN, Event
from trimtab.base.units import parse_moment
from trimtab.web.access import Identity, Operator
from trimtab.web.desk import Desk, DeskOf
from trimtab.web.page_series import Ends, Zone, between, frame_of_runs
from trimtab.web.request_guard import HEAVY, turn_of

if TYPE_CHECKING:
    import polars as pl
    from fastapi import FastAPI

    from trimtab.answers.action_ledger import ActionsDocument
    from trimtab.base.series import JudgeDocument
    from trimtab.explain.status import SiteState
    from trimtab.judge.comparison_result import CompareResult
    from trimtab.store.page import EventsDocument, RunsDocument


_COMPONENTS: Final = "#/components/schemas/"
_DESCRIBED: Final[list[tuple[dict[str, Any], str]]] = []
"""Responses, each with the name of its document in `api_document`; pages have no such name."""


def answers(document: str) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of a route that answers with a document, by its name."""
    return {
        200: _response(document, "The document."),
        "4XX": _response("FailureDocument", "Refused, with the reason and its code."),
    }


def _response(document: str, description: str) -> dict[str, Any]:
    content: dict[str, Any] = {}
    _DESCRIBED.append((content, document))
    return {"description": description, "content": content}


def _documents() -> dict[str, type]:
    """Return every document by its name, by which the responses refer to it from now on."""
    from trimtab.web.api_document import DOCUMENTS

    names = {document.__name__: name for name, document in DOCUMENTS.items()}
    for content, of_response in _DESCRIBED:
        schema = {"$ref": f"{_COMPONENTS}{names[of_response]}"}
        content["application/json"] = {"schema": schema}
    return {names[document]: DOCUMENTS[names[document]] for _, document in _DESCRIBED}


def described(application: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    from fastapi.openapi.utils import get_openapi

    from trimtab.base.encode import schema

    if application.openapi_schema is None:
        documents = _documents()
        document = get_openapi(
            title="Trimtab", version=application.version, routes=application.routes
        )
        components = document.setdefault("components", {}).setdefault("schemas", {})
        for name, kind in documents.items():
            # Two documents may have different types of the same name.
            text = json.dumps(schema(kind)).replace("#/$defs/", f"{_COMPONENTS}{name}.")
            whole = json.loads(text)
            definitions = whole.pop("$defs")
            whole.pop("$schema")
            components |= {f"{name}.{each}": of for each, of in definitions.items()}
            components[name] = whole
        application.openapi_schema = document
    return application.openapi_schema or {}


Make = TypeVar("Make", bound=Callable[..., object])

PREFIX: Final = "/api/v1"
LIMIT_MAX: Final = 1000
Offset = Annotated[int, Query(ge=0, le=10**9, description="Entries to skip.")]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Maximum number of entries.")]
Moment = Annotated[
    str | None, Query(max_length=40, description="RFC 3339; without an offset it is UTC.")
]
Stretch = Annotated[str, Query(max_length=90, description="FROM..TO, in UTC.")]
Probe = Annotated[str | None, Query(max_length=200)]

router = APIRouter(prefix=PREFIX)


def conditional(
    request: Request, body: bytes, media_type: str, name: str = "", tag: str = "", **headers: str
) -> Response:
    """Return a body, or that the client already has it; ``tag`` is its `tag_of`."""
    tag = tag or tag_of(body)
    headers |= {"etag": tag, "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if name:
        headers["content-disposition"] = f'attachment; filename="{name}"'
    return Response(body, media_type=media_type, headers=headers)


def tag_of(body: bytes) -> str:
    """Return the entity tag of a body."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def answer(request: Request, document: object) -> Response:
    """Return a document, or that the client already has it."""
    from trimtab.base.encode import to_json

    return conditional(request, to_json(document).encode(), "application/json")


def document(
    router: APIRouter,
    path: str,
    *,
    pages: str = "",
    is_kept: bool = False,
    dependencies: Sequence[Any] = (),
) -> Callable[[Make], Make]:
    """Declare the address, below a site, of the document that a function returns.

    Parameters
    ----------
    pages
        The list of the document that is divided into pages: its attribute, or the path to it.
    is_kept
        Whether it depends only on the site's record and takes long: then its text is stored, for
        an address without a query.
    """

    def declared(make: Make) -> Make:
        def route(request: Request, **values: Any) -> Response:
            desk, site = values["desk"], values["site"]
            page = _page(**{name: values.pop(name) for name in _PAGE}) if pages else slice(0)

            def body() -> str:
                from trimtab.base.encode import to_json

                desk.place(site)
                whole, total = make(**values), ""
                if pages:
                    total = str(len(attrgetter(pages)(whole)))
                    whole = _cut(whole, pages, page)
                text = to_json(whole)
                return f"{total} {tag_of(text.encode())}\n{text}"

            if is_kept and not _has_query(request):
                held = desk.remembered(site, f"document {request.url.path}", str, body)
            else:
                held = body()
            first, _, content = held.partition("\n")
            total, _, tag = first.partition(" ")
            headers = _of_page(request, page.stop, total) if pages else {}
            return conditional(request, content.encode(), "application/json", tag=tag, **headers)

        parameters = [*inspect.signature(make).parameters.values(), _REQUEST]
        parameters += _PAGE.values() if pages else ()
        functools.update_wrapper(route, make)
        vars(route)["__signature__"] = inspect.Signature(parameters)
        router.get(
            f"/sites/{{site:path}}/{path}",
            responses=answers(make.__annotations__["return"]),
            dependencies=dependencies,
        )(route)
        return make

    return declared


def _page(*, offset: Offset = 0, limit: Limit = LIMIT_MAX) -> slice:
    return slice(offset, offset + limit)


_PAGE: Final = inspect.signature(_page, eval_str=True).parameters
_REQUEST: Final = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)


def _has_query(request: Request) -> bool:
    """Return whether an address has any parameter of its route."""
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    return not known.isdisjoint(request.query_params)


def _cut(whole: Any, path: str, page: slice) -> Any:
    """Return a document with part of the list at a path."""
    name, _, inner = path.partition(".")
    held = getattr(whole, name)
    return replace(whole, **{name: _cut(held, inner, page) if inner else held[page]})


def _of_page(request: Request, end: int, total: str) -> dict[str, str]:
    """Return the headers of a page: how many entries there are, and where the next page is."""
    if end >= int(total):
        return {"x-total-count": total}
    query = request.url.include_query_params(offset=end).query
    return {"x-total-count": total, "link": f'<?{query}>; rel="next"'}


def moment(text: str | None, *, end: bool = False) -> datetime | None:
    """Return a time from an address; for a date, its beginning or end."""
    return None if text is None else parse_moment(text, "UTC", end=end)


@router.get("/sites", responses=answers("SitesPage"))
def sites(request: Request, desk: DeskOf) -> Response:
    """List the sites that are served."""
    from trimtab.web.api_document import SitesPage

    return answer(request, SitesPage(desk.sites()))


@document(router, "runs", dependencies=HEAVY)
def runs(desk: DeskOf, site: str, probe: Probe = None, limit: Limit = 20) -> RunsDocument:
    """Return what `trimtab runs --site SITE --probe NAME --top LIMIT --json` prints."""
    from trimtab.store.page import RunsDocument

    newest = desk.store.runs(site=site, probe=probe, limit=limit)
    return RunsDocument(str(desk.store.location), newest)


@document(router, "series", pages="judgement.series", is_kept=True)
def series(desk: DeskOf, site: str) -> JudgeDocument:
    """Return what `trimtab judge SITE --json` prints; `id` names a series below."""
    from trimtab.base.series import JudgeDocument

    judged = desk.judged(site)
    if judged is None:
        raise UsageError("no run can be judged", code="series-unknown")
    return JudgeDocument(judged.judgement, judged.store)


@document(router, "series/{name}", is_kept=True)
def one_series(desk: DeskOf, site: str, name: str) -> JudgeDocument:
    """Return one of these series."""
    judged, alone = series(desk, site), desk.whole_series(site, name)
    return replace(judged, judgement=replace(judged.judgement, series=(alone,), tails=()))


@document(router, "compare", dependencies=HEAVY)
def compare(
    desk: DeskOf,
    site: str,
    *,
    before: Stretch,
    after: Stretch,
    probe: Probe = None,
    metric: Annotated[str | None, Query(max_length=60)] = None,
) -> CompareResult:
    """Return the difference between the runs of two stretches of time."""
    both = Zone().stretch(before), Zone().stretch(after)
    return compared(desk, site, both, probe=probe, metric=metric)


def compared(
    desk: Desk, site: str, both: tuple[Ends, Ends], *, probe: str | None, metric: str | None
) -> CompareResult:
    """Return the comparison of two stretches of a site."""
    from trimtab.probe.compare import CompareRequest as Comparison
    from trimtab.probe.compare import compare_sides

    opened = (desk.store, desk.place(site))
    sides = ["..".join("" if at is None else at.isoformat() for at in ends) for ends in both]
    request = Comparison(f"@{sides[0]}", f"@{sides[1]}", metric=metric, probe=probe, opened=opened)
    return compare_sides(request)


@document(router, "targets", pages="targets", is_kept=True)
def targets(desk: DeskOf, site: str) -> SiteState:
    """Return what `trimtab targets SITE --at now --json` prints."""
    state = desk.state(site)
    if state is None:
        raise UsageError("no snapshot is stored", code="no-snapshot")
    return state


@document(router, "actions", dependencies=HEAVY)
def actions(
    desk: DeskOf,
    site: str,
    *,
    since: Moment = None,
    until: Moment = None,
    limit: Limit = LIMIT_MAX,
) -> ActionsDocument:
    """Return what `trimtab actions SITE --json` prints, of the newest actions of a stretch."""
    from trimtab.answers.action_ledger import ActionsDocument, ledger

    stretch = {"since": moment(since), "until": moment(until, end=True)}
    actions, effects = ledger(desk.store, desk.place(site), desk.now(site), **stretch, limit=limit)
    return ActionsDocument(str(desk.store.location), actions, effects)


@document(router, "events", pages="events", is_kept=True)
def events(
    desk: DeskOf, site: str, *, since: Moment = None, until: Moment = None
) -> EventsDocument:
    """Return what `trimtab event list SITE --json` prints."""
    stretch = {"since": moment(since), "until": moment(until, end=True)}
    return log_book(desk, desk.store.events(site=site, **stretch))


def log_book(desk: Desk, events: Sequence[Event]) -> EventsDocument:
    """Return events of a site as a document."""
    from trimtab.store.page import EventsDocument

    return EventsDocument(str(desk.store.location), tuple(events))


# Entries that users write


class WrittenEntry(BaseModel):
    """A log book entry as a user writes it."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NewEvent(WrittenEntry):
    """An entry of the log book."""

    kind: Literal[tuple(kind.value for kind in WRITTEN)] = "note"  # type: ignore[valid-type]
    detail: str = Field(max_length=2000)
    at: str | None = Field(default=None, max_length=40)
    targets: str | None = Field(default=None, max_length=2000)


ENTRY: Final = answers("EventsDocument")


@router.post("/sites/{site:path}/events", responses=ENTRY)
def write_event(
    request: Request, desk: DeskOf, operator: Operator, site: str, entry: NewEvent
) -> Response:
    """Add an entry to the log book of a site."""
    event = recorded(desk, site, operator, **entry.model_dump())
    return answer(request, log_book(desk, [event]))


SOURCE: Final = "dashboard"


def recorded(
    desk: Desk,
    site: str,
    operator: Identity,
    *,
    kind: str,
    detail: str,
    at: str | None = None,
    targets: str | None = None,
) -> Event:
    """Record an event in a user's name, and return it."""
    from trimtab.site.place import add_event

    return add_event(
        desk.store,
        desk.place(site),
        kind=kind,
        detail=detail,
        now=desk.now(site),
        at=at or None,
        targets=targets or None,
        source=f"{SOURCE}: {operator.user}",
    )


# Series and outputs as files

files_router = APIRouter(prefix=PREFIX)
Form = Literal["csv", "parquet", "arrow"]
Target = Annotated[str, Path(max_length=300)]
POINTS_MAX: Final = 20_000
SNAPSHOTS_MAX: Final = 1000
_SNAPSHOTS_EACH: Final = 50
"""Processed at a time: then other requests have their turn."""
_POINTS: Final = "Approximate number of runs for a chart; outliers are always included."
_FORMULA: Final = r"^([=+@\t\r\n\x{FF1D}\x{FF0B}\x{FF20}\x{FF0D}-])"
"""First characters that make a cell a formula; the last four are wide forms of the others."""
_FORMS: Final[dict[str, tuple[str, Callable[[Any, io.BytesIO], object]]]] = {
    "csv": ("text/csv; charset=utf-8", lambda frame, file: harmless(frame).write_csv(file)),
    "parquet": ("application/vnd.apache.parquet", lambda frame, file: frame.write_parquet(file)),
    "arrow": ("application/vnd.apache.arrow.file", lambda frame, file: frame.write_ipc(file)),
}


def as_file(request: Request, frame: pl.DataFrame, name: str, form: Form) -> Response:
    """Return a frame as a file of a form."""
    return conditional(request, _written(frame, form), _FORMS[form][0], f"{name}.{form}")


def _written(frame: pl.DataFrame, form: Form) -> bytes:
    file = io.BytesIO()
    _FORMS[form][1](frame, file)
    return file.getvalue()


@files_router.get("/sites/{site:path}/series/{name}/runs.{form}", response_class=Response)
def runs_file(
    request: Request,
    desk: DeskOf,
    site: str,
    name: str,
    form: Form,
    *,
    since: Moment = None,
    until: Moment = None,
    points: Annotated[int | None, Query(ge=4, le=POINTS_MAX, description=_POINTS)] = None,
) -> Response:
    """Return the runs of a series as a file: at (UTC), value, unfinished, run, outlier."""
    from trimtab.web import page_series

    key = desk.series(site, name).key

    def body() -> bytes:
        frame = frame_of_runs(desk.runs(site, name))
        stretch = between(frame, moment(since), moment(until, end=True))
        marked = stretch.with_columns(page_series.outliers(stretch))
        chosen = marked if points is None else page_series.sampled(marked, points)
        return _written(chosen.select("at", "value", "unfinished", "run", "outlier"), form)

    if form == "csv" and points is not None:  # for a chart: short, and requested again
        noun = f"runs of {name}: {points} {since or ''} {until or ''}"
        content = desk.held(site, noun, lambda: body().decode()).encode()
    else:
        content = body()
    return conditional(request, content, _FORMS[form][0], f"{key.metric}.{form}")


@files_router.get("/sites/{site:path}/series/{name}/days.{form}", response_class=Response)
def days_file(request: Request, desk: DeskOf, site: str, name: str, form: Form) -> Response:
    """Return every day of a series as a file: day, runs, mean, deviation, COV, median."""
    import polars as pl

    judgement = desk.series(site, name)
    frame = pl.DataFrame(judgement.days, infer_schema_length=None)
    return as_file(request, frame, f"{judgement.key.metric}-days", form)


@files_router.get("/sites/{site:path}/series/{name}/cov.{form}", response_class=Response)
def cov_file(request: Request, desk: DeskOf, site: str, name: str, form: Form) -> Response:
    """Return the COV over the window before each run: at (UTC), n, cov, low, high, status."""
    import polars as pl

    judgement = desk.whole_series(site, name)
    rows = [
        (
            each.at, each.n, each.cov, each.interval and each.interval.low,
            each.interval and each.interval.high, each.status.value,
        )
        for each in judgement.rolling
    ]  # fmt: skip
    numbers = dict.fromkeys(("cov", "low", "high"), pl.Float64)
    columns = {"at": pl.Datetime("us", "UTC"), "n": pl.Int64, **numbers, "status": pl.String}
    frame = pl.DataFrame(rows, columns, orient="row")
    return as_file(request, frame, f"{judgement.key.metric}-cov", form)


@files_router.get("/sites/{site:path}/surveys.{form}", response_class=Response, dependencies=HEAVY)
def surveys_file(
    request: Request,
    desk: DeskOf,
    site: str,
    form: Form,
    *,
    since: Moment = None,
    until: Moment = None,
) -> Response:
    """Return each target in each survey as a file: at (UTC), run, target, server, metric, value."""
    judged = desk.judged(site)
    surveys = None if judged is None else judged.surveys
    if surveys is None:
        raise UsageError("no survey is stored", code="series-unknown")
    return as_file(
        request, between(surveys, moment(since), moment(until, end=True)), "surveys", form
    )


@files_router.get(
    "/sites/{site:path}/targets/{target:path}/readings.{form}",
    response_class=Response,
    dependencies=HEAVY,
)
def readings_file(
    request: Request,
    desk: DeskOf,
    site: str,
    target: Target,
    form: Form,
    *,
    since: Moment = None,
    until: Moment = None,
) -> Response:
    """Return a target's readings in the snapshots of a stretch: at (UTC), name, label, value."""
    import polars as pl

    state = desk.state(site)
    if state is None or target not in {each.name for each in state.targets}:
        raise UsageError("no such target", code="target-unknown")
    times = desk.store.snapshot_times(site, since=moment(since), until=moment(until, end=True))
    if len(times) > SNAPSHOTS_MAX:
        raise UsageError(
            f"{len(times):,} snapshots are in this stretch, more than {SNAPSHOTS_MAX:,}",
            code="stretch-too-long",
            hint="name a shorter one: since, until",
        )
    parts = [times[at : at + _SNAPSHOTS_EACH] for at in range(0, len(times), _SNAPSHOTS_EACH)]

    def part(times: Sequence[datetime]) -> pl.DataFrame:
        frame, _ = desk.store.telemetry_frames(site, times, settings_at=(), target=target)
        return frame.sort("at", "name").select(
            "at", "name", "label", "number", pl.col("text").alias("words")
        )

    if form == "csv":
        return _streamed_csv(request, part, parts or [()], "readings")
    return as_file(request, pl.concat(map(part, parts or [()])), "readings", form)


def _streamed_csv(
    request: Request,
    part: Callable[[Sequence[datetime]], pl.DataFrame],
    parts: Sequence[Sequence[datetime]],
    name: str,
) -> Response:
    """Yield a table as it is computed: only a part of it is in memory."""
    turn = turn_of(request)

    def written(times: Sequence[datetime], *, is_first: bool = False) -> bytes:
        file = io.BytesIO()
        harmless(part(times)).write_csv(file, include_header=is_first)
        return file.getvalue()

    first = written(parts[0], is_first=True)  # a failure is still answered with its problem

    async def pieces() -> AsyncIterator[bytes]:
        yield first
        for times in parts[1:]:
            await turn.computing()
            try:
                piece = await run_in_threadpool(written, times)
            finally:
                turn.computed()
            yield piece

    headers = {
        "cache-control": "private, no-cache",
        "content-disposition": f'attachment; filename="{name}.csv"',
    }
    return StreamingResponse(pieces(), media_type=_FORMS["csv"][0], headers=headers)


def harmless(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table for spreadsheets: none of its texts, which come from servers, is a formula."""
    import polars as pl

    return frame.with_columns(pl.col(pl.String).str.replace(_FORMULA, "'$1"))


@files_router.get(
    "/sites/{site:path}/runs/{run}/outputs/{number}", response_class=Response, dependencies=HEAVY
)
def raw_output(
    request: Request,
    desk: DeskOf,
    site: str,
    run: Annotated[str, Path(max_length=40)],
    number: Annotated[int, Path(ge=0, le=1000)],
) -> Response:
    """Return the complete standard output of one command of a run."""
    outputs = desk.store.outputs(desk.run(site, run).id)
    if number >= len(outputs):
        raise UsageError("the run has no such output", code="run-unknown")
    content = desk.store.raw_output(outputs[number]).stdout
    return conditional(request, content, "text/plain; charset=utf-8", f"output-{number}.txt")
