"""IO500: the result of a whole run, from its ``result_summary.txt`` and ``result.txt``.

The summary has rate, time and validity of each phase; ``result.txt`` next to it has times, commands
and errors. Each can also be read alone, as can the output of ``io500`` itself, which contains the
summary's lines. For the shell scripts before 2020, ``result_summary.txt`` and
``io-500-summary.*.txt`` are read.

``summary`` and ``details`` parse the two files, ``figures`` decides which figures are credible. The
outputs of IOR and mdtest in the same directory are separate results.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from trimtab.errors import DataError
from trimtab.measure.io500.details import details_of
from trimtab.measure.io500.figures import measured
from trimtab.measure.io500.summary import KIND, Run, runs_of
from trimtab.measure.measurement import Measurement
from trimtab.measure.source import Format, Mark, Source

__all__ = ["FORMAT", "KIND", "read"]

_SUMMARY_NAME: Final = "result_summary.txt"
_DETAILS_NAME: Final = "result.txt"
_SUMMARY: Final = re.compile(
    r"^(?:IO500 version\b|\[RESULT[^]\n]{0,12}\] .{1,80} : time [0-9])", re.MULTILINE
)
_DETAILS: Final = re.compile(r"^config-hash +=", re.MULTILINE)


def read(source: Source) -> tuple[Measurement, ...]:
    """Return a result for each benchmark of a run, and one for the score.

    Raises
    ------
    DataError
        It has no IO500 phase.
    """
    runs = runs_of(source.text)
    if not runs:
        details = details_of(source.text, output=0)
        runs = [Run(version=details.version, mode=details.mode, phases=details.phases())]
        runs[0].score = details.score
    else:
        beside = source.beside.get(_DETAILS_NAME, b"").decode("utf-8-sig", "replace")
        details = details_of(beside if len(runs) == 1 else "", output=1)
    if not any(run.phases for run in runs):
        raise DataError("no IO500 phase in this file", code="no-result", line=1)
    measurements: list[Measurement] = []
    for number, run in enumerate(runs, start=1):
        suffix = f" run {number}" if number > 1 else ""
        printed = _printed(run)
        for result in measured(run, details, suffix=suffix):
            name = (result.name or "").removesuffix(suffix)
            measurements.append(replace(result, identity=printed and f"{name}\n{printed}"))
    return tuple(measurements)


def _printed(run: Run) -> str | None:
    """Return the figures of a run, which are equal in IO500's output and summary."""
    if run.score is None or run.score.total is None or run.unreadable:
        return None
    phases = (
        f"{phase.name} {phase.figure} {phase.runtime_s} {phase.invalid}" for phase in run.phases
    )
    return "\n".join((*phases, str(run.score.total)))


def _recognises(source: Source) -> bool:
    head = source.head.replace("\r", "")
    return _SUMMARY.search(head) is not None or _DETAILS.search(head) is not None


def _companions(name: str) -> tuple[str, ...]:
    return (_DETAILS_NAME,) if name == _SUMMARY_NAME else ()


def _instead(name: str) -> tuple[str, ...]:
    return (_SUMMARY_NAME,) if name == _DETAILS_NAME else ()


_BEGINNING: Final = re.compile(rb"^IO500 version\b", re.MULTILINE)
FORMAT: Final = Format(
    KIND,
    _recognises,
    read,
    _companions,
    _instead,
    beginning=Mark((b"IO500 version",), _BEGINNING),
)
