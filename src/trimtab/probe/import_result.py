"""Outcome of an imported file: the run of each result, and what is printed about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo

from trimtab.base.code_version import __version__
from trimtab.base.encode import SCHEMA_VERSION, Problem, dumps, plain_of, shape
from trimtab.base.error import Interrupted, Message, TrimtabError, code_of
from trimtab.base.event import new_identifier, utc_now
from trimtab.base.run import ASKED, Layer, Run, RunStatus, Sample
from trimtab.base.snapshot import Snapshot
from trimtab.formats.measurement import Measurement
from trimtab.store.history import JUDGED
from trimtab.store.kept import ImportedRun, KeptOutput
from trimtab.store.raw_output import EMPTY_SHA256

IMPORTED: Final = "imported"
"""Site and probe of results that were imported without either name."""
_ZONE_MAXIMUM: Final = timedelta(hours=14)
"""No zone is further from UTC (Pacific/Kiritimati)."""
_QUARTER: Final = timedelta(minutes=15)
_REPETITIONS_APART: Final = ("repetitions-not-printed", "companion-missing")
"""Codes of gaps in results that have only means: repetitions, or the file that has them."""
_LINE: Final = re.compile(r"line ([0-9]+)")


class FileStatus(StrEnum):
    """Status of an imported file; of several results, the worst that still has a number."""

    OK = "ok"
    PARTIAL = "partial"
    """Partly readable; something is missing."""
    FAILED = "failed"
    """The file reports that the benchmark failed, or that its result does not count."""
    UNREADABLE = "unreadable"
    """The file has an unknown format, is damaged, or is not accessible."""


_STATUS: Final = {
    RunStatus.OK: FileStatus.OK,
    RunStatus.PARTIAL: FileStatus.PARTIAL,
    RunStatus.UNFINISHED: FileStatus.PARTIAL,
}


@dataclass(frozen=True, slots=True)
class ImportTerms:
    """Facts about files that the user states because the files do not.

    Attributes
    ----------
    at
        Time of the measurement, if a file does not state it.
    timezone
        IANA name, for times printed without a zone; ``None``: unknown.
    layer
        Layer of the stack that was measured, if the content shows none or another.
    """

    site: str = IMPORTED
    probe: str = IMPORTED
    at: datetime | None = None
    timezone: str | None = None
    layer: Layer | None = None


@dataclass(frozen=True, slots=True)
class ImportTime:
    """Time of a result, or why it is unknown."""

    at: datetime | None
    reason: Message | None = None


def moment_of(printed: datetime | None, terms: ImportTerms) -> ImportTime:
    """Return the time of a result: as printed, in its known zone, else as the user states.

    Examples
    --------
    >>> moment_of(datetime(2024, 3, 1, 12, 0), ImportTerms(timezone="America/Los_Angeles")).at
    datetime.datetime(2024, 3, 1, 20, 0, tzinfo=datetime.timezone.utc)
    >>> moment_of(datetime(2024, 3, 1, 12, 0), ImportTerms()).reason
    'the output prints 2024-03-01 12:00:00 without a time zone; give it with --timezone'
    """
    if printed is None:
        if terms.at is not None:
            return ImportTime(terms.at)
        text = "the output prints no time; give it with --at"
        return ImportTime(None, Message("time-not-printed", text))
    if printed.tzinfo is not None:
        return ImportTime(printed.astimezone(UTC))
    if terms.timezone is not None:
        local = printed.replace(tzinfo=ZoneInfo(terms.timezone))
        at = local.astimezone(UTC)
        if at.astimezone(local.tzinfo).replace(tzinfo=None) != printed:
            text = f"{printed} did not exist in {terms.timezone}: clocks went forward"
            return ImportTime(None, Message("time-skipped", text))
        return ImportTime(at)
    if terms.at is None:
        text = f"the output prints {printed} without a time zone; give it with --timezone"
        return ImportTime(None, Message("time-without-zone", text))
    zone = _zone_of(printed, terms.at)
    if zone is None:
        return ImportTime(
            None,
            Message(
                "time-contradicted",
                f"the output prints {printed} (in an unknown zone), which is not "
                f"{terms.at:%Y-%m-%d %H:%M} UTC of --at",
            ),
        )
    return ImportTime(printed.replace(tzinfo=zone).astimezone(UTC))


def _zone_of(printed: datetime, at: datetime) -> timezone | None:
    """Return the zone that makes a printed time about the given one, in steps of 15 minutes."""
    quarters = round((printed.replace(tzinfo=UTC) - at) / _QUARTER)
    return timezone(quarters * _QUARTER) if abs(quarters * _QUARTER) <= _ZONE_MAXIMUM else None


def probe_of(measurement: Measurement, terms: ImportTerms) -> str:
    """Return the probe of which a result is a run."""
    return terms.probe if measurement.name is None else f"{terms.probe}: {measurement.name}"


def run_of(measurement: Measurement, terms: ImportTerms, *, file: str, ordinal: int) -> Run:
    """Return the run of one result of a file, without outputs.

    Parameters
    ----------
    ordinal
        Number of the result in its file.
    """
    began = moment_of(measurement.began, terms)
    until = _until(measurement, began, terms)
    if began.at is not None and until is not None and until < began.at:
        until = None
    recorded: Mapping[str, object] = {"result": ordinal, **measurement.reported}
    return Run(
        id=new_identifier(began.at or utc_now()),
        site=terms.site,
        probe=probe_of(measurement, terms),
        kind=measurement.kind,
        status=measurement.status,
        at=began.at,
        until=until,
        at_reason=began.reason,
        tool_version=measurement.tool_version,
        path=file,
        host=measurement.host,
        trimtab_version=__version__,
        parameters={
            ASKED: dict(measurement.requested),
            "layer": terms.layer or measurement.layer,
            "told": dict(recorded),
            "warnings": list(measurement.warnings),
        },
        problem=measurement.problem,
        samples=measurement.samples,
    )


def _until(measurement: Measurement, began: ImportTime, terms: ImportTerms) -> datetime | None:
    """Return its end, in the zone of its start."""
    ended = measurement.ended
    if ended is None or began.at is None:
        return None
    printed = measurement.began
    if ended.tzinfo is None and printed is not None and printed.tzinfo is None:
        return began.at + (ended - printed)
    return moment_of(ended, terms).at


def why_not_judged(measurement: Measurement, run: Run) -> Message | None:
    """Return why no series has a result; ``None`` if one has, or if it explains other results.

    As in `trimtab.store.history`, it needs figures of repetitions or of the whole, and a time.
    """
    if run.status not in JUDGED:
        return Message("result-failed", measurement.problem or str(run.status))
    if not measurement.samples:
        return None  # activity of jobs or of a server's processor
    totals = [sample for sample in measurement.samples if sample.statistic == "total"]
    is_counted = run.status is RunStatus.UNFINISHED or any(sample.believed for sample in totals)
    if totals and not is_counted:
        return Message("not-believed", totals[0].reason or "its figures are not credible")
    if not is_counted:
        reasons = (
            gap.reason for gap in measurement.missing if code_of(gap.reason) in _REPETITIONS_APART
        )
        text = next(reasons, "it has no figure of single repetitions")
        return Message("only-summaries", text)
    if run.at is None:
        return Message(code_of(run.at_reason) or "time-not-known", run.at_reason or "")
    return None


def imported_run(run: Run, outputs: tuple[tuple[str, int, str], ...], key: str) -> ImportedRun:
    """Return a run with its outputs as the store keeps them.

    Parameters
    ----------
    outputs
        Label, size in bytes and sha256 of each; its content is already stored.
    """
    usable = tuple(
        KeptOutput(
            ordinal=ordinal,
            label=label,
            argv=(),
            stdout_sha256=sha256,
            stdout_bytes=size,
            stderr_sha256=EMPTY_SHA256,
            stderr_bytes=0,
            exit_code=None,
            started_at=None,
            elapsed_s=None,
            truncated=False,
        )
        for ordinal, (label, size, sha256) in enumerate(outputs)
    )
    return ImportedRun(run, usable, key)


@dataclass(frozen=True, slots=True)
class Imported:
    """One result of a file.

    Attributes
    ----------
    name
        Distinguishes it from other results of the same file; ``None`` if it is the only one.
    status, reason
        Whether it is usable, and if not fully, why.
    samples
        The numbers, in base SI.
    run
        Id of the stored run or snapshot; ``None`` if nothing was stored.
    new
        Whether it was stored now; raw output imported earlier is not stored again.
    at, at_reason
        Time of the measurement, or why it is unknown.
    unjudged
        Why `trimtab judge` never uses it; ``None`` if it does, or if it is not a benchmark result
        that could be judged.
    snapshot
        Readings of targets, if the file is not a benchmark's.
    site
        Site under which it is stored.
    told
        Further reported values, as in `trimtab.formats.measurement.Measurement.reported`.
    """

    name: str | None
    status: FileStatus
    reason: str | None
    samples: tuple[Sample, ...]
    warnings: tuple[str, ...] = ()
    run: str | None = None
    new: bool = False
    at: datetime | None = None
    at_reason: str | None = None
    snapshot: Snapshot | None = None
    site: str | None = None
    told: Mapping[str, object] = field(default_factory=dict)
    unjudged: Message | None = None


def result_of(measurement: Measurement, run: Run) -> Imported:
    """Return the report on one result of a file and its run."""
    return Imported(
        name=measurement.name,
        status=_STATUS.get(measurement.status, FileStatus.FAILED),
        reason=measurement.problem,
        samples=measurement.samples,
        warnings=measurement.warnings,
        run=run.id,
        at=run.at,
        at_reason=run.at_reason,
        site=run.site,
        told=measurement.reported,
        unjudged=why_not_judged(measurement, run),
    )


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """One file that was named, or found in a named directory.

    Attributes
    ----------
    file
        Its path.
    kind
        The format; several, separated by commas, for a file of several benchmarks; ``None`` if
        not recognised.
    status, reason
        Whether it is usable, and if not fully, why.
    named
        Whether the user named the file; otherwise it was found in a directory.
    part_of
        The file with which it was read, if its result is reported there.
    """

    file: str
    kind: str | None
    status: FileStatus
    reason: str | None = None
    results: tuple[Imported, ...] = ()
    named: bool = False
    part_of: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedSample:
    """One number of a file; ``result`` names the result if a file has several."""

    sample: Sample
    result: str | None


@dataclass(frozen=True, slots=True)
class ImportDocument:
    """``trimtab import --json``."""

    store: str | None
    site: str
    files: tuple[ImportedFile, ...]
    error: Problem | None


def import_json(files: Iterable[ImportedFile], *, store: str | None, site: str) -> Iterator[str]:
    """Yield an `ImportDocument` as JSON, piece by piece, each file as soon as it is read.

    An error that ends it early is in ``error``, and is raised once the document is complete.
    """
    head = dumps({"schema_version": SCHEMA_VERSION, "store": store, "site": site})
    yield f'{head[:-1]}, "files": ['
    try:
        for number, file in enumerate(files):
            yield (",\n" if number else "\n") + dumps(file)
    except (TrimtabError, Interrupted) as error:
        yield f'\n], "error": {dumps(error)}}}\n'
        error.reported = True
        raise
    yield '\n], "error": null}\n'


def _imported_samples(file: ImportedFile) -> list[dict[str, Any]]:
    """Return every number of a file as the keys of `ImportedSample`.

    Bypasses that class: a directory of surveys has a quarter of a million samples.
    """
    plain = plain_of(Sample)
    samples = [
        {**plain(sample), "result": result.name}
        for result in file.results
        for sample in result.samples
    ]
    return samples + [reading for result in file.results for reading in _readings(result)]


def _readings(result: Imported) -> Iterator[dict[str, Any]]:
    """Yield each number of a snapshot as a sample: the metric is the telemetry's name."""
    for target in () if result.snapshot is None else result.snapshot.targets:
        for reading in target.readings:
            if isinstance(reading.value, (str, bool)):
                continue
            line = _LINE.search(reading.source or "")
            yield {
                "metric": reading.name,
                "unit": reading.unit or "1",
                "value": reading.value,
                "statistic": "total",
                "repetition": None,
                "target": target.target.name,
                "output": None,
                "line": None if line is None else int(line.group(1)),
                "reason": reading.reason,
                "reason_code": code_of(reading.reason),
                "result": result.name,
            }


shape(
    ImportedFile,
    omit=["named"],
    derive={"samples": (tuple[ImportedSample, ...], _imported_samples)},
)
shape(Imported, omit=["samples", "snapshot", "site", "told"])
shape(ImportedSample, inline={"sample": ()})
