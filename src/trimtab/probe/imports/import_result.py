"""Results of importing files that other tools wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from trimtab.base.error import Message
from trimtab.base.run import Sample
from trimtab.base.snapshot import Snapshot

UNRECOGNISED: Final = (
    "unrecognised format; if only the beginning is odd, name the format with --kind"
)
"""Reason for a file of unknown format, of which a directory may contain many."""
EMPTY: Final = "the file is empty"


class FileStatus(StrEnum):
    """Status of an imported file; of several results, the worst that still has a number."""

    OK = "ok"
    PARTIAL = "partial"
    """Partly readable; something is missing."""
    FAILED = "failed"
    """The file reports that the benchmark failed, or that its result does not count."""
    UNREADABLE = "unreadable"
    """Of unknown format, damaged, or not accessible."""


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
