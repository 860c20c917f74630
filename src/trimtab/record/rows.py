"""Model values as rows of the store's tables, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, Table

from trimtab.errors import UnreadableError
from trimtab.message import Message
from trimtab.model.event import Event, EventKind
from trimtab.model.run import RawOutput, Run, RunStatus, Sample, values_of_sample
from trimtab.record import schema
from trimtab.record.checksums import require_row
from trimtab.record.comparability import comparability_key
from trimtab.record.kept import KeptOutput, value_of
from trimtab.record.raw import RawDirectory
from trimtab.record.text import storable

if TYPE_CHECKING:
    pass


def row_of(value: Any, table: Table, /, **more: Any) -> dict[str, Any]:
    """Return the row of a value: the columns that have the name of a field, and those of ``more``.

    Columns that the value has no field for, and that are not given, are left to the database.
    """
    row = {name: getattr(value, name) for name in _columns(table, type(value)) if name not in more}
    for name, entry in row.items():
        if isinstance(entry, Enum):
            row[name] = entry.value
    return row | more


@cache
def _columns(table: Table, kind: type) -> tuple[str, ...]:
    names = {field.name for field in fields(kind)}
    return tuple(column.name for column in table.columns if column.name in names)


def run_row(run: Run, site_number: int, import_key: str | None) -> dict[str, Any]:
    """Return the row of a run, without its samples and outputs."""
    return row_of(
        run,
        schema.run,
        site=site_number,
        comparability=comparability_key(run),
        import_key=import_key,
        sample_checksum=schema.checksum(sample_rows(run.samples)),
    )


def sample_rows(samples: Iterable[Sample]) -> list[tuple[Any, ...]]:
    """Return the rows of samples as the database has them: all columns but the run, in order.

    A value that is not finite is kept as missing, with that as its reason: SQLite would turn
    NaN into a missing value without one, and neither is a measurement.
    """
    made: list[tuple[Any, ...]] = []
    for ordinal, sample in enumerate(samples):
        value, reason = sample.value, sample.reason
        if value is not None and not math.isfinite(value):
            not_finite = Message(
                "figure-not-finite", f"the figure was {float(value)}, which is no measurement"
            )
            value, reason = None, f"{reason}; {not_finite}" if reason else not_finite
        made.append(
            (
                ordinal,
                sample.metric,
                None if value is None else float(value) + 0.0,  # SQLite has no -0.0
                sample.repetition,
                None if sample.target is None else storable(sample.target),
                storable(sample.statistic),
                sample.output,
                sample.line,
                None if reason is None else storable(reason),
            )
        )
    return made


def output_row(output: RawOutput, run_number: int, ordinal: int) -> dict[str, Any]:
    """Return the row of a raw output whose content is kept."""
    contents = {
        "stdout_sha256": RawDirectory.name_of(output.stdout),
        "stdout_bytes": len(output.stdout),
        "stderr_sha256": RawDirectory.name_of(output.stderr),
        "stderr_bytes": len(output.stderr),
    }
    return row_of(output, schema.output, run=run_number, ordinal=ordinal, **contents)


def event_row(event: Event, site_number: int) -> dict[str, Any]:
    """Return the row of an event."""
    return row_of(event, schema.event, site=site_number)


def to_run(row: Row[Any], samples: tuple[Sample, ...], outputs: tuple[RawOutput, ...]) -> Run:
    """Return the run of a row that also has ``site_name``."""
    with understood(f"run {row.id}"):
        status = RunStatus(row.status)
    return value_of(Run, row, site=row.site_name, status=status, samples=samples, outputs=outputs)


def to_sample(row: Row[Any]) -> Sample:
    """Return the sample of a row."""
    with understood(f"sample {row.ordinal} of run number {row.run}"):
        return Sample(*values_of_sample(row))


def to_output(row: Row[Any]) -> KeptOutput:
    """Return what is known of a raw output without reading it."""
    require_row(schema.output, row._mapping, f"output {row.ordinal} of run number {row.run}")
    return value_of(KeptOutput, row, argv=tuple(row.argv))


def to_event(row: Row[Any]) -> Event:
    """Return the event of a row that also has ``site_name``."""
    with understood(f"event {row.id}"):
        kind = EventKind(row.kind)
    return value_of(Event, row, site=row.site_name, kind=kind, targets=tuple(row.targets))


@contextmanager
def understood(noun: str) -> Iterator[None]:
    """Tell that a newer program wrote a word that this one does not have."""
    try:
        yield
    except ValueError as error:
        raise UnreadableError(
            f"{noun} cannot be understood: {error}",
            code="record-unreadable",
            hint="a newer Trimtab may have written it; everything else in the store is intact",
        ) from error
