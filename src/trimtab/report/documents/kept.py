"""``trimtab status``, ``runs`` and ``show`` with ``--json``: what is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from trimtab.model.run import Run
from trimtab.model.status import SeriesStatus, Status
from trimtab.model.verdict import Trend
from trimtab.record.kept import KeptOutput
from trimtab.report.documents.base import Bounds, Document, bounds, fields, level
from trimtab.report.documents.changes import ChangePointDocument, change_document
from trimtab.report.documents.check import (
    RunDocument,
    VerdictDocument,
    run_document,
    verdict_document,
)


class TrendDocument(Document):
    """How a metric changes from day to day, as a fraction of its median."""

    direction: str
    days: int
    from_: datetime | None = Field(alias="from")
    to: datetime | None
    change_per_day: float | None
    change_per_day_interval: Bounds
    level: float | None
    reason: str


class SeriesDocument(Document):
    """Where one series of comparable runs stands."""

    site: str
    probe: str
    kind: str
    metric: str
    unit: str
    runs: int
    last_at: datetime
    last_value: float
    asked: dict[str, Any]
    verdict: VerdictDocument
    trend: TrendDocument
    suspect: ChangePointDocument | None


class IncidentStatusDocument(Document):
    """An incident that is not over; ``cause``: the likeliest, null where it is unexplained."""

    site: str
    id: str
    at: datetime
    state: str
    certainty: str
    effect: float | None
    summary: str
    cause: str | None
    confidence: float | None


class JudgedStatusDocument(Document):
    """When the incidents of a site were last looked for, and the runs since."""

    site: str
    at: datetime
    until: datetime | None
    newer_runs: int


class SlowTargetDocument(Document):
    """One target of the last survey."""

    target: str
    value: float


class SlowestTargetsDocument(Document):
    """The slowest targets of the last survey of a site."""

    site: str
    at: datetime
    metric: str
    unit: str
    targets: int
    median: float
    slowest: tuple[SlowTargetDocument, ...]


class SweepStatusDocument(Document):
    """A sweep that something is kept of; ``trimtab sweep --no-run --json`` has its series."""

    site: str
    name: str
    probe: str
    settings: int
    runs: int


class CostDocument(Document):
    """What the probes of a site cost it, in the week up to the last run."""

    site: str
    from_: datetime = Field(alias="from")
    to: datetime
    runs: int
    bytes_written: int
    bytes_read: int
    node_hours: float | None
    drive_writes_per_day: float | None
    reason: str | None


class StatusDocument(Document):
    """``trimtab status --json``."""

    store: str
    window_s: float
    sites: tuple[str, ...]
    series: tuple[SeriesDocument, ...]
    costs: tuple[CostDocument, ...]
    sweeps: tuple[SweepStatusDocument, ...]
    incidents: tuple[IncidentStatusDocument, ...]
    judged: tuple[JudgedStatusDocument, ...]
    slowest: tuple[SlowestTargetsDocument, ...]
    runs: tuple[RunDocument, ...]


class RunsDocument(Document):
    """``trimtab runs --json``; without raw outputs, which ``show`` has."""

    store: str
    runs: tuple[RunDocument, ...]


class KeptOutputDocument(Document):
    """One raw output as it is kept, with the file that holds it."""

    ordinal: int
    label: str
    argv: tuple[str, ...]
    exit_code: int | None
    started_at: datetime | None
    elapsed_s: float | None
    truncated: bool
    stdout_bytes: int
    stdout_sha256: str
    stdout_file: str
    stderr_bytes: int
    stderr_sha256: str


class ShowDocument(Document):
    """``trimtab show RUN --json``: a run with the commands and raw outputs behind its numbers."""

    store: str
    run: RunDocument
    outputs: tuple[KeptOutputDocument, ...]


def status_document(status: Status) -> StatusDocument:
    """Return where things stand as its JSON document."""
    return StatusDocument(
        store=status.store,
        window_s=status.window_s,
        sites=status.sites,
        series=tuple(_series(one) for one in status.series),
        costs=tuple(
            CostDocument.model_validate({**fields(one, CostDocument), "from_": one.from_})
            for one in status.costs
        ),
        sweeps=tuple(
            SweepStatusDocument.model_validate(fields(one, SweepStatusDocument))
            for one in status.sweeps
        ),
        incidents=tuple(
            IncidentStatusDocument.model_validate(fields(one, IncidentStatusDocument))
            for one in status.incidents
        ),
        judged=tuple(
            JudgedStatusDocument.model_validate(fields(one, JudgedStatusDocument))
            for one in status.judged
        ),
        slowest=tuple(
            SlowestTargetsDocument.model_validate(
                {
                    **fields(one, SlowestTargetsDocument),
                    "slowest": [
                        {"target": target, "value": value} for target, value in one.slowest
                    ],
                }
            )
            for one in status.slowest
        ),
        runs=tuple(run_document(run) for run in status.last_runs),
    )


def runs_document(store: str, runs: Sequence[Run]) -> RunsDocument:
    """Return a list of runs as its JSON document."""
    return RunsDocument(store=store, runs=tuple(run_document(run) for run in runs))


def show_document(
    store: str, run: Run, outputs: Sequence[KeptOutput], files: Mapping[int, str]
) -> ShowDocument:
    """Return a run with its raw outputs as its JSON document.

    Parameters
    ----------
    files
        Ordinal of an output to the file that holds its standard output.
    """
    kept = (
        KeptOutputDocument.model_validate(
            {**fields(one, KeptOutputDocument), "stdout_file": files[one.ordinal]}
        )
        for one in outputs
    )
    return ShowDocument(store=store, run=run_document(run), outputs=tuple(kept))


def _series(one: SeriesStatus) -> SeriesDocument:
    return SeriesDocument.model_validate(
        {
            **fields(one, SeriesDocument),
            "metric": one.verdict.metric,
            "unit": one.verdict.unit,
            "asked": dict(one.asked),
            "verdict": verdict_document(one.verdict),
            "trend": trend_document(one.trend),
            "suspect": None if one.suspect is None else change_document(one.suspect),
        }
    )


def trend_document(trend: Trend) -> TrendDocument:
    """Return a trend as its JSON document."""
    return TrendDocument.model_validate(
        {
            **fields(trend, TrendDocument),
            "from_": trend.from_,
            "direction": trend.direction.value,
            "change_per_day_interval": bounds(trend.change_per_day_interval),
            "level": level(trend.change_per_day_interval),
        }
    )
