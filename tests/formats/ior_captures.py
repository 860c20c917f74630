"""The captures of every version of IOR, and what each of them proves."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.formats.recorded import FIXTURES

from trimtab.formats.source import OutputFile

FOLDER: Final = FIXTURES / "ior"
OK, PARTIAL, FAILED = "ok", "partial", "failed"
EVERY_VERSION: Final[dict[str, tuple[str, ...]]] = {
    "text-shared": (OK,),
    "repeat": (OK,),
    "random": (OK,),
    "odd-sizes": (OK,),
    "deadline": (OK,),
    "direct": (OK,),
    "mpiio": (OK,),
    "verbose-2": (OK,),
    "verbose-3": (OK,),
    "quiet": (OK,),
    "wear-out": (OK,),
    "json-repeat": (OK,),
    "json-file": (OK,),
    "json-verbose": (OK,),
    "deadline-json": (OK,),
    "wear-out-json": (OK,),
    "time-limit": (OK,),
    "time-limit-json": (OK,),
    "script": (OK, OK),
    "json-script": (OK, OK),
    "twice": (OK, OK),
    "summary-only": (OK,),
    "summary-of-three": (PARTIAL,),
    "csv": (PARTIAL,),
    "csv-file": (PARTIAL,),
    "deadline-csv": (PARTIAL,),
    "terminated": (PARTIAL,),
    "terminated-json": (PARTIAL,),
    "full": (FAILED,),
    "full-json": (FAILED,),
    "full-mpiio": (FAILED,),
    "corrupt": (FAILED,),
    "open-failed": (FAILED,),
    "bad-size": (FAILED,),
    "bad-option": (FAILED,),
    "dry-run": (FAILED,),
    "dummy": (FAILED,),
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
