"""Model values as rows of the store's tables, and back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Row

from trimtab.errors import UnreadableError
from trimtab.message import Message
from trimtab.model.event import Event, EventKind
from trimtab.model.run import RawOutput, Run, RunStatus, Sample
from trimtab.model.telemetry import Snapshot
from trimtab.record import batch
from trimtab.record.comparability import comparability_key
from trimtab.record.kept import KeptOutput, Site


def of_run(run: Run, site_number: int, import_key: str | None) -> dict[str, Any]:
    """Return the row of a run, without its samples and outputs."""
    return {
        "id": run.id,
        "site": site_number,
        "probe": run.probe,
        "kind": run.kind,
        "comparability": comparability_key(run),
        "status": run.status.value,
        "at": run.at,
        "until": run.until,
        "at_reason": run.at_reason,
        "tool_version": run.tool_version,
        "path": run.path,
        "host": run.host,
        "trimtab_version": run.trimtab_version,
        "parameters": run.parameters,
        "problem": run.problem,
        "import_key": import_key,
    }


def of_sample(sample: Sample, run_number: int, ordinal: int) -> dict[str, Any]:
    """Return the row of a sample.

    A value that is not finite is kept as missing, with that as its reason: SQLite would turn
    NaN into a missing value without one, and neither is a measurement.
    """
    value, reason = sample.value, sample.reason
    if value is not None and not math.isfinite(value):
        not_finite = Message(
            "figure-not-finite", f"the figure was {float(value)}, which is no measurement"
        )
        value, reason = None, f"{reason}; {not_finite}" if reason else not_finite
    return {
        "run": run_number,
        "ordinal": ordinal,
        "metric": sample.metric,
        "value": value,
        "repetition": sample.repetition,
        "target": sample.target,
        "statistic": sample.statistic,
        "output": sample.output,
        "line": sample.line,
        "reason": reason,
    }


def of_output(
    output: RawOutput, run_number: int, ordinal: int, *, hashes: tuple[str, str]
) -> dict[str, Any]:
    """Return the row of a raw output whose content is kept under those two hashes."""
    return {
        "run": run_number,
        "ordinal": ordinal,
        "label": output.label,
        "argv": list(output.argv),
        "stdout_sha256": hashes[0],
        "stdout_bytes": len(output.stdout),
        "stderr_sha256": hashes[1],
        "stderr_bytes": len(output.stderr),
        "exit_code": output.exit_code,
        "started_at": output.started_at,
        "elapsed_s": output.elapsed_s,
        "truncated": output.truncated,
    }


def of_kept_output(output: KeptOutput, run_number: int) -> dict[str, Any]:
    """Return the row of a raw output whose content is kept already."""
    row = {name: getattr(output, name) for name in output.__slots__}
    return {**row, "argv": list(output.argv), "run": run_number}


def of_event(event: Event, site_number: int) -> dict[str, Any]:
    """Return the row of an event."""
    return {
        "id": event.id,
        "site": site_number,
        "kind": event.kind.value,
        "at": event.at,
        "until": event.until,
        "targets": list(event.targets),
        "detail": event.detail,
        "source": event.source,
    }


def of_snapshot(snapshot: Snapshot, identifier: str) -> dict[str, Any]:
    """Return the row of a snapshot, without its site."""
    return {
        "id": identifier,
        "at": snapshot.at,
        "driver": snapshot.driver,
        "complete": snapshot.complete,
        "batch": batch.encode(snapshot),
    }


def to_snapshot(row: Row[Any]) -> Snapshot:
    """Return the snapshot of a row."""
    return batch.decode(row.batch, at=row.at, driver=row.driver, complete=row.complete)


def to_run(row: Row[Any], samples: tuple[Sample, ...], outputs: tuple[RawOutput, ...]) -> Run:
    """Return the run of a row that also has ``site_name``."""
    with understood(f"run {row.id}"):
        status = RunStatus(row.status)
    return Run(
        id=row.id,
        site=row.site_name,
        probe=row.probe,
        kind=row.kind,
        status=status,
        at=row.at,
        until=row.until,
        at_reason=row.at_reason,
        tool_version=row.tool_version,
        path=row.path,
        host=row.host,
        trimtab_version=row.trimtab_version,
        parameters=row.parameters,
        problem=row.problem,
        samples=samples,
        outputs=outputs,
    )


def to_sample(row: Row[Any]) -> Sample:
    """Return the sample of a row."""
    with understood(f"sample {row.ordinal} of run number {row.run}"):
        return Sample(
            metric=row.metric,
            value=row.value,
            repetition=row.repetition,
            target=row.target,
            statistic=row.statistic,
            output=row.output,
            line=row.line,
            reason=row.reason,
        )


def to_output(row: Row[Any]) -> KeptOutput:
    """Return what is known of a raw output without reading it."""
    return KeptOutput(
        ordinal=row.ordinal,
        label=row.label,
        argv=tuple(row.argv),
        stdout_sha256=row.stdout_sha256,
        stdout_bytes=row.stdout_bytes,
        stderr_sha256=row.stderr_sha256,
        stderr_bytes=row.stderr_bytes,
        exit_code=row.exit_code,
        started_at=row.started_at,
        elapsed_s=row.elapsed_s,
        truncated=row.truncated,
        pruned_at=row.pruned_at,
    )


def to_event(row: Row[Any]) -> Event:
    """Return the event of a row that also has ``site_name``."""
    with understood(f"event {row.id}"):
        kind = EventKind(row.kind)
    return Event(
        id=row.id,
        site=row.site_name,
        kind=kind,
        at=row.at,
        detail=row.detail,
        source=row.source,
        until=row.until,
        targets=tuple(row.targets),
    )


def to_site(row: Row[Any]) -> Site:
    """Return the site of a row."""
    return Site(row.name, row.driver, row.identity, row.path, row.timezone)


@contextmanager
def understood(noun: str) -> Iterator[None]:
    """Tell that a newer program wrote a word that this one does not have."""
    try:
        yield
    except ValueError as error:
        raise UnreadableError(
            f"{noun} cannot be understood: {error}",
            code="record-unreadable",
            hint="a newer Trimtab may have written it; everything else in the store stands",
        ) from error
