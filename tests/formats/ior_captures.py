"""The captures of every version of IOR, and what each of them proves."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.formats.recorded import FIXTURES

from trimtab.formats.measurement import OutputFile

FOLDER: Final = FIXTURES / "ior"
OK, PARTIAL, FAILED = "ok", "partial", "failed"
_BY_STATUSES: Final = {
    (OK,): (
        *("text-shared", "repeat", "random", "odd-sizes", "deadline", "direct", "mpiio", "quiet"),
        *("verbose-2", "verbose-3", "wear-out", "json-repeat", "json-file", "json-verbose"),
        *("deadline-json", "wear-out-json", "time-limit", "time-limit-json", "summary-only"),
    ),
    (OK, OK): ("script", "json-script", "twice"),
    (PARTIAL,): (
        *("summary-of-three", "csv", "csv-file", "deadline-csv", "terminated", "terminated-json"),
    ),
    (FAILED,): (
        *("full", "full-json", "full-mpiio", "corrupt", "open-failed", "bad-size", "bad-option"),
        *("dry-run", "dummy"),
    ),
}
EVERY_VERSION: Final = {
    case: statuses for statuses, cases in _BY_STATUSES.items() for case in cases
}
"""The statuses of the results in a capture, the same in every version but for `DIFFERENT`."""
DIFFERENT: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("3.2.1", "bad-option"): (OK,),  # it went on with defaults
    ("3.2.1", "csv"): (FAILED,),  # nothing but its options, without commas
    ("3.3.0", "csv"): (),  # and not even its header: a data error
    ("4.1.0+dev", "terminated"): (FAILED,),  # no repetition was done
}


def captures() -> list[tuple[str, str, Path]]:
    """Return version, case and file of each."""
    return [
        (path.parent.name, path.stem, path)
        for path in sorted(FOLDER.glob("*/*.out"))
        if path.stem in EVERY_VERSION
    ]


def capture(version: str, case: str) -> OutputFile:
    """Return one of them, to be read."""
    path = FOLDER / version / f"{case}.out"
    return OutputFile(path.name, path.read_bytes())
