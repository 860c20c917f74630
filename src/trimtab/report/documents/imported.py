"""``trimtab import --json``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from trimtab.errors import Interrupted, TrimtabError
from trimtab.model.imported import Imported, ImportedFile
from trimtab.model.run import Sample
from trimtab.report.documents.base import Document, rfc3339
from trimtab.report.documents.check import ErrorDocument, SampleDocument


class ImportedSampleDocument(SampleDocument):
    """One number of a file; ``result`` names the result where a file has several."""

    result: str | None


class ImportedResultDocument(Document):
    """One result of a file, and the run under which it is kept."""

    name: str | None
    status: str
    reason: str | None
    run: str | None
    new: bool
    at: datetime | None
    at_reason: str | None
    warnings: tuple[str, ...]


class ImportedFileDocument(Document):
    """One file: what it is, what it was worth, and every number in it."""

    file: str
    kind: str | None
    status: str
    reason: str | None
    part_of: str | None
    results: tuple[ImportedResultDocument, ...]
    samples: tuple[ImportedSampleDocument, ...]


class ImportDocument(Document):
    """``trimtab import --json``."""

    store: str | None
    site: str
    files: tuple[ImportedFileDocument, ...]
    error: ErrorDocument | None


def file_values(one: ImportedFile) -> dict[str, Any]:
    """Return a file as the plain values of `ImportedFileDocument`.

    Not through that class: a directory of surveys holds a quarter of a million samples.
    """
    return {
        "file": one.file,
        "kind": one.kind,
        "status": one.status.value,
        "reason": one.reason,
        "part_of": one.part_of,
        "results": [_result(result) for result in one.results],
        "samples": [
            {**_sample(sample), "result": result.name}
            for result in one.results
            for sample in result.samples
        ]
        + [reading for result in one.results for reading in _readings(result)],
    }


_LINE = re.compile(r"line ([0-9]+)")


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
                "result": result.name,
            }


def _result(one: Imported) -> dict[str, Any]:
    return {
        "name": one.name,
        "status": one.status.value,
        "reason": one.reason,
        "run": one.run,
        "new": one.new,
        "at": None if one.at is None else rfc3339(one.at),
        "at_reason": one.at_reason,
        "warnings": list(one.warnings),
    }


def _sample(sample: Sample) -> dict[str, Any]:
    return {
        "metric": sample.metric,
        "unit": sample.unit,
        "value": sample.value,
        "statistic": sample.statistic,
        "repetition": sample.repetition,
        "target": sample.target,
        "output": sample.output,
        "line": sample.line,
        "reason": sample.reason,
    }


def import_json(files: Iterable[ImportedFile], *, store: str | None, site: str) -> Iterator[str]:
    """Yield an `ImportDocument` as JSON, piece by piece, each file as soon as it is there.

    What ends it early stands in ``error``, and is raised when the document is whole.
    """
    head = json.dumps({"store": store, "site": site})
    yield f'{head[:-1]}, "files": ['
    try:
        for number, one in enumerate(files):
            yield (",\n" if number else "\n") + json.dumps(file_values(one), allow_nan=False)
    except (TrimtabError, Interrupted) as error:
        told = {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
        yield f'\n], "error": {json.dumps(told)}}}\n'
        error.reported = True
        raise
    yield '\n], "error": null}\n'
