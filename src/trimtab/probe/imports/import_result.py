"""Results of importing files that other tools wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from trimtab.base.error import Interrupted, Message, TrimtabError, code_of
from trimtab.base.run import Sample
from trimtab.base.snapshot import Snapshot
from trimtab.show.encode import SCHEMA_VERSION, Problem, dumps, plain_of, shape

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


_LINE: Final = re.compile(r"line ([0-9]+)")


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
