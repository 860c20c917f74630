"""Every series as a file: days, windows, surveys, a target's readings; and a run's output."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from trimtab.base.error import UsageError
from trimtab.web.api import PREFIX, Moment, conditional, moment
from trimtab.web.desk import DeskOf
from trimtab.web.series_parts import between, frame_of_runs
from trimtab.web.turns import HEAVY, turn_of

if TYPE_CHECKING:
    import polars as pl

router = APIRouter(prefix=PREFIX)
Form = Literal["csv", "parquet", "arrow"]
Target = Annotated[str, Path(max_length=300)]
POINTS_MAX: Final = 20_000
SNAPSHOTS_MAX: Final = 1000
_SNAPSHOTS_EACH: Final = 50
"""Worked out at once: then others have their turn."""
_POINTS: Final = "About so many runs for a chart, outliers always among them."
_FORMULA: Final = r"^([=+@\t\r\n\x{FF1D}\x{FF0B}\x{FF20}\x{FF0D}-])"
"""With what a spreadsheet takes a cell for one; the latter four are wide forms of the others."""
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


@router.get("/sites/{site:path}/series/{name}/runs.{form}", response_class=Response)
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
    from trimtab.web import series_parts

    key = desk.series(site, name).key

    def body() -> bytes:
        frame = frame_of_runs(desk.runs(site, name))
        stretch = between(frame, moment(since), moment(until, end=True))
        marked = stretch.with_columns(series_parts.outliers(stretch))
        chosen = marked if points is None else series_parts.sampled(marked, points)
        return _written(chosen.select("at", "value", "unfinished", "run", "outlier"), form)

    if form == "csv" and points is not None:  # of a chart: short, and asked for again
        noun = f"runs of {name}: {points} {since or ''} {until or ''}"
        content = desk.held(site, noun, lambda: body().decode()).encode()
    else:
        content = body()
    return conditional(request, content, _FORMS[form][0], f"{key.metric}.{form}")


@router.get("/sites/{site:path}/series/{name}/days.{form}", response_class=Response)
def days_file(request: Request, desk: DeskOf, site: str, name: str, form: Form) -> Response:
    """Return every day of a series as a file: day, runs, mean, deviation, COV, median."""
    import polars as pl

    judgement = desk.series(site, name)
    frame = pl.DataFrame(judgement.days, infer_schema_length=None)
    return as_file(request, frame, f"{judgement.key.metric}-days", form)


@router.get("/sites/{site:path}/series/{name}/cov.{form}", response_class=Response)
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


@router.get("/sites/{site:path}/surveys.{form}", response_class=Response, dependencies=HEAVY)
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


@router.get(
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
            f"{len(times):,} snapshots lie in this stretch, more than {SNAPSHOTS_MAX:,}",
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
    """Return a table as it is worked out: no more of it is in memory than a part."""
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
    """Return a table for spreadsheets: no text in it, which comes from servers, is a formula."""
    import polars as pl

    return frame.with_columns(pl.col(pl.String).str.replace(_FORMULA, "'$1"))


@router.get(
    "/sites/{site:path}/runs/{run}/outputs/{number}", response_class=Response, dependencies=HEAVY
)
def raw_output(
    request: Request,
    desk: DeskOf,
    site: str,
    run: Annotated[str, Path(max_length=40)],
    number: Annotated[int, Path(ge=0, le=1000)],
) -> Response:
    """Return all that one command of a run printed on its standard output, as it was printed."""
    outputs = desk.store.outputs(desk.run(site, run).id)
    if number >= len(outputs):
        raise UsageError("the run has no such output", code="run-unknown")
    content = desk.store.raw_output(outputs[number]).stdout
    return conditional(request, content, "text/plain; charset=utf-8", f"output-{number}.txt")
