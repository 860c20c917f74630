"""``trimtab check --json``: a check, its runs, verdicts and findings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from trimtab.errors import TrimtabError
from trimtab.model.check import CheckResult
from trimtab.model.filesystem import PathDescription
from trimtab.model.finding import Finding, Missing
from trimtab.model.run import RawOutput, Run, Sample
from trimtab.model.telemetry import NotAvailable, Setting, TargetSnapshot
from trimtab.model.verdict import Comparison, Verdict
from trimtab.report.documents.base import Bounds, Document, bounds, fields, level
from trimtab.report.documents.telemetry import (
    ReadingDocument,
    SettingDocument,
    reading_documents,
    setting_documents,
)


class VerdictDocument(Document):
    """A verdict on one metric of one probe."""

    metric: str
    unit: str
    probe: str
    target: str | None
    scope: str
    from_: datetime | None = Field(alias="from")
    to: datetime | None
    n: int
    mean: float | None
    mean_interval: Bounds
    median: float | None
    slowest: float | None
    cov: float | None
    cov_interval: Bounds
    level: float | None
    goal: float | None
    mad_cv: float | None
    unfinished: int
    cov_finished: float | None
    status: str
    reason: str


class ComparisonDocument(Document):
    """One run against earlier runs of the same probe."""

    metric: str
    unit: str
    probe: str
    n_earlier: int
    earlier_median: float | None
    this_median: float | None
    ratio: float | None
    ratio_interval: Bounds
    level: float | None
    reason: str


class ValueDocument(Document):
    """A value with its unit, and what it is of."""

    value: float | int | str | bool | None
    unit: str | None
    what: str
    source: str | None


class FixDocument(Document):
    """What to do; ``argv`` is complete and needs no shell around it."""

    argv: tuple[str, ...]
    prose: str


class FindingDocument(Document):
    """One thing that is wrong now."""

    id: str
    severity: str
    title: str
    target: str | None
    seen: ValueDocument
    evidence: tuple[ValueDocument, ...]
    source: str | None
    why: str
    fix: FixDocument
    confidence: float


class TargetDocument(Document):
    """One target as it is."""

    name: str
    kind: str
    server: str | None
    fullness: float | None
    readings: tuple[ReadingDocument, ...]
    settings: tuple[SettingDocument, ...]


class DeviceDocument(Document):
    """One block device beneath a path."""

    name: str
    kind: str
    size_bytes: int | None
    rotational: bool | None
    model: str | None
    transport: str | None
    beneath: tuple[str, ...]
    backing_file: str | None
    direct_to_backing: bool | None
    writeback_throttling_s: float | None
    scheduler: str | None
    write_cache: str | None
    logical_block_bytes: int | None
    discard_granularity_bytes: int | None
    discard_max_bytes: int | None
    link_bytes_per_s: float | None
    link_max_bytes_per_s: float | None
    label: str | None


class PathDocument(Document):
    """What a path is, and the layers beneath it."""

    path: str
    real_path: str
    mount_point: str
    kind: str
    fs_type: str
    source: str
    options: tuple[str, ...]
    fs_uuid: str | None
    read_only: bool
    is_flash: bool | None
    devices: tuple[DeviceDocument, ...]
    notes: tuple[str, ...]


class SampleDocument(Document):
    """One number of a run; a sample with a reason is kept and not judged."""

    metric: str
    unit: str
    value: float | None
    statistic: str
    repetition: int | None
    target: str | None
    output: int | None
    line: int | None
    reason: str | None


class OutputDocument(Document):
    """One raw output of a run, and the command that printed it."""

    label: str
    argv: tuple[str, ...]
    exit_code: int | None
    elapsed_s: float | None
    started_at: datetime | None
    truncated: bool
    stdout_bytes: int
    sha256: str


class RunDocument(Document):
    """One execution of a probe."""

    id: str
    site: str
    probe: str
    kind: str
    status: str
    at: datetime | None
    at_reason: str | None
    until: datetime | None
    tool_version: str | None
    trimtab_version: str | None
    host: str | None
    path: str | None
    parameters: dict[str, Any]
    problem: str | None
    samples: tuple[SampleDocument, ...]
    outputs: tuple[OutputDocument, ...]


class MissingDocument(Document):
    """Something that could not be seen."""

    what: str
    reason: str


class ErrorDocument(Document):
    """Why a command did not do what was asked."""

    message: str
    hint: str | None
    exit_code: int


class FailureDocument(Document):
    """What any command with ``--json`` prints when it has nothing else to print."""

    error: ErrorDocument


class CheckDocument(Document):
    """``trimtab check --json``."""

    site: str
    at: datetime
    host: str
    trimtab_version: str
    path: PathDocument
    targets: tuple[TargetDocument, ...]
    runs: tuple[RunDocument, ...]
    verdicts: tuple[VerdictDocument, ...]
    comparisons: tuple[ComparisonDocument, ...]
    findings: tuple[FindingDocument, ...]
    not_available: tuple[MissingDocument, ...]
    report: str | None
    error: ErrorDocument | None = None


def check_document(result: CheckResult, error: TrimtabError | None = None) -> CheckDocument:
    """Return a check as its JSON document, with what kept it from being whole."""
    return CheckDocument(
        site=result.site,
        at=result.at,
        host=result.host,
        trimtab_version=result.trimtab_version,
        path=path_document(result.path),
        targets=tuple(
            target_document(one, result.settings.get(one.target.name, {}))
            for one in result.snapshot.targets
        ),
        runs=() if result.run is None else (run_document(result.run),),
        verdicts=tuple(map(verdict_document, result.verdicts)),
        comparisons=tuple(map(comparison_document, result.comparisons)),
        findings=tuple(map(finding_document, result.findings)),
        not_available=tuple(map(_missing, result.not_available)),
        report=result.report,
        error=None if error is None else error_document(error),
    )


def error_document(error: TrimtabError) -> ErrorDocument:
    """Return an error as its JSON document."""
    return ErrorDocument(message=error.message, hint=error.hint, exit_code=error.exit_code)


def verdict_document(verdict: Verdict) -> VerdictDocument:
    """Return a verdict as its JSON document."""
    return VerdictDocument.model_validate(
        {
            **fields(verdict, VerdictDocument),
            "from_": verdict.from_,
            "mean_interval": bounds(verdict.mean_interval),
            "cov_interval": bounds(verdict.cov_interval),
            "level": level(verdict.cov_interval, verdict.mean_interval),
            "scope": verdict.scope.value,
            "status": verdict.status.value,
        }
    )


def comparison_document(comparison: Comparison) -> ComparisonDocument:
    """Return a comparison with earlier runs as its JSON document."""
    return ComparisonDocument.model_validate(
        {
            **fields(comparison, ComparisonDocument),
            "ratio_interval": bounds(comparison.ratio_interval),
            "level": level(comparison.ratio_interval),
        }
    )


def finding_document(finding: Finding) -> FindingDocument:
    """Return a finding as its JSON document."""
    return FindingDocument.model_validate(
        {
            **fields(finding, FindingDocument),
            "severity": finding.severity.value,
            "seen": fields(finding.seen, ValueDocument),
            "evidence": [fields(one, ValueDocument) for one in finding.evidence],
            "fix": {"argv": finding.fix.argv, "prose": finding.fix.prose},
        }
    )


def path_document(path: PathDescription) -> PathDocument:
    """Return the description of a path as its JSON document."""
    return PathDocument.model_validate(
        {
            **fields(path, PathDocument),
            "devices": [fields(device, DeviceDocument) for device in path.devices],
        }
    )


def target_document(
    target: TargetSnapshot, settings: Mapping[str, Setting | NotAvailable]
) -> TargetDocument:
    """Return a target with its readings and settings as its JSON document."""
    return TargetDocument(
        name=target.target.name,
        kind=target.target.kind,
        server=target.target.server,
        fullness=target.fullness(),
        readings=reading_documents(target.readings),
        settings=setting_documents(dict(sorted(settings.items()))),
    )


def run_document(run: Run) -> RunDocument:
    """Return a run with its samples and the hashes of its raw outputs as its JSON document."""
    return RunDocument.model_validate(
        {
            **fields(run, RunDocument),
            "status": run.status.value,
            "samples": sample_documents(run.samples),
            "outputs": [output_document(output) for output in run.outputs],
        }
    )


def sample_documents(samples: Iterable[Sample]) -> tuple[SampleDocument, ...]:
    """Return samples as their JSON documents."""
    return tuple(
        SampleDocument.model_validate(fields(sample, SampleDocument)) for sample in samples
    )


def output_document(output: RawOutput) -> OutputDocument:
    """Return a raw output without its bytes: its command, its size and its hash."""
    return OutputDocument.model_validate(
        {
            **fields(output, OutputDocument),
            "stdout_bytes": len(output.stdout),
            "sha256": hashlib.sha256(output.stdout).hexdigest(),
        }
    )


def _missing(missing: Missing) -> MissingDocument:
    return MissingDocument(what=missing.what, reason=missing.reason)
