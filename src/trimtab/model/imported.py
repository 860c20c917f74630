"""What came of importing files that others made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from trimtab.model.run import Sample
from trimtab.model.telemetry import Snapshot

UNRECOGNISED: Final = (
    "of no format that Trimtab knows; --kind says which it is where only the beginning is odd"
)
"""What is said of a file that is something else: of many, in a directory that is walked."""
EMPTY: Final = "the file is empty"


class FileStatus(StrEnum):
    """What a file was worth; of several results in it, the worst that still leaves a number."""

    OK = "ok"
    PARTIAL = "partial"
    """What could be read stands, and something is missing."""
    FAILED = "failed"
    """It says that the benchmark failed, or that its result does not count."""
    UNREADABLE = "unreadable"
    """Of no known format, damaged, or not to be opened."""


@dataclass(frozen=True, slots=True)
class Imported:
    """One result of a file.

    Attributes
    ----------
    name
        What sets it apart from others of the same file; ``None`` where it is the only one.
    run
        Id of the run, or of the snapshot, under which it is kept; ``None`` where nothing was.
    new
        Whether it was kept now; the same raw output imported earlier is not kept twice.
    at, at_reason
        When it was measured, or why that is not known.
    snapshot
        What it says of targets, where it is no benchmark's.
    site
        Under which a snapshot is kept.
    told
        What else it says, as `trimtab.measure.measurement.Measurement.reported`.
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


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """One file that was named, or found in a directory that was.

    Attributes
    ----------
    kind
        The format, of a file of several benchmarks all of them with commas; ``None`` where none
        recognises it.
    named
        Whether a person named it; otherwise a directory was walked.
    part_of
        The file with which it was read, where its result is in that one.
    """

    file: str
    kind: str | None
    status: FileStatus
    reason: str | None = None
    results: tuple[Imported, ...] = ()
    named: bool = False
    part_of: str | None = None
