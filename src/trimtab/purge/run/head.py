"""Store how long a journal was at the last end of a batch; a shorter one has lost lines.

The chain of a journal detects changed, inserted and removed lines, but not missing last lines. The
head is written once its line is on stable storage, so after a kill or a power failure a journal is
never behind it. Restoring or removing both files together is not detected.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trimtab.errors import DataError, UnreadableError
from trimtab.record.chain import sum_of
from trimtab.record.trusted import write_durably
from trimtab.visible import visible

SUFFIX: Final = ".head.json"
"""Appended to the name of the journal."""
_SIZE_MAX_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Head:
    """The line at which a batch or run last ended.

    Attributes
    ----------
    lines
        Line number, from 1.
    sum
        Hash of that line, which covers all lines before it.
    at
        When it was written.
    """

    lines: int
    sum: str
    at: datetime


def head_path(journal: Path) -> Path:
    """Return the file of a journal's head."""
    return journal.with_name(f"{journal.name}{SUFFIX}")


def write_head(journal: Path, directory: int, head: Head) -> None:
    """Write the head of a journal to stable storage.

    Parameters
    ----------
    directory
        Descriptor of its directory.

    Raises
    ------
    UnreadableError
        It cannot be written.
    """
    words = {"lines": head.lines, "sum": head.sum, "at": head.at.astimezone(UTC).isoformat()}
    write_durably(head_path(journal).name, directory, json.dumps(words).encode("ascii") + b"\n")


def read_head(journal: Path) -> Head | None:
    """Return the head of a journal; ``None`` if no batch has ended.

    Raises
    ------
    DataError
        The file is not a head.
    UnreadableError
        It cannot be read.
    """
    path = head_path(journal)
    shown = visible(path)
    try:
        with path.open("rb") as stream:
            words: Any = json.loads(stream.read(_SIZE_MAX_BYTES))
        return Head(int(words["lines"]), str(words["sum"]), datetime.fromisoformat(words["at"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableError(
            f"cannot read {shown}: {error.strerror}", code="unreadable-file"
        ) from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(
            "not a valid head of a journal",
            file=shown,
            code="journal-malformed",
            hint=f"find out what happened to it; {_aside(journal)}",
        ) from error


def check_head(journal: Path, text: bytes, head: Head | None) -> None:
    """Check that a journal is not behind its head.

    Parameters
    ----------
    text
        The whole journal; read after the head.

    Raises
    ------
    DataError
        Lines are missing, or it is another journal.
    """
    if head is None:
        return
    lines = text.split(b"\n")[:-1]
    if len(lines) >= head.lines and sum_of(lines[head.lines - 1]) == head.sum:
        return
    missing = head.lines - len(lines)
    lost = (
        f"its last {missing:,} lines are missing: it has {len(lines):,}, and had {head.lines:,} "
        if missing > 0
        else f"line {head.lines:,} differs from the one it had "
    )
    raise DataError(
        f"{lost}when a batch or run ended at {head.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC; "
        "their record of deletions is lost",
        file=visible(journal),
        code="journal-truncated",
        hint=f"restore it from a backup; without one, {_aside(journal)}",
    )


def _aside(journal: Path) -> str:
    names = f"{visible(journal.name)} and {visible(head_path(journal).name)}"
    return (
        f"keep it as evidence: move {names} to another directory, wait 20 hours, since the caps no "
        "longer include its deletions, and make a new plan"
    )
