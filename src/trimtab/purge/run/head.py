"""How far a journal was when a batch ended last, kept beside it: a shorter one has lost lines.

The chain of a journal shows that a line was changed, put in or taken out, and cannot show that its
last lines are missing. The head is written once the line it names is on stable storage, so a
journal whose process was killed, or whose host lost power, is never behind it. Whoever puts back
both, or removes both, is not noticed.
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
"""Behind the name of the journal."""
_SIZE_MAX_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Head:
    """The line at which a batch or a run ended last.

    Attributes
    ----------
    lines
        Its number, from 1.
    sum
        Of that line, and with it of all before.
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
    """Write how far a journal is; it is on stable storage then.

    Parameters
    ----------
    directory
        Descriptor of the directory that it lies in.

    Raises
    ------
    UnreadableError
        It cannot be written.
    """
    words = {"lines": head.lines, "sum": head.sum, "at": head.at.astimezone(UTC).isoformat()}
    write_durably(head_path(journal).name, directory, json.dumps(words).encode("ascii") + b"\n")


def read_head(journal: Path) -> Head | None:
    """Return how far a journal was; ``None``: no batch of it ended.

    Raises
    ------
    DataError
        It is no head.
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
            "it does not say how far its journal was",
            file=shown,
            code="journal-malformed",
            hint=f"see what happened to it; {_aside(journal)}",
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
        Lines are missing, or it is another one.
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
        else f"line {head.lines:,} is not the one that it had "
    )
    raise DataError(
        f"{lost}when a batch or run ended at {head.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC; what "
        "they said was deleted is not known any more",
        file=visible(journal),
        code="journal-truncated",
        hint=f"put it back from a backup; where there is none, {_aside(journal)}",
    )


def _aside(journal: Path) -> str:
    names = f"{visible(journal.name)} and {visible(head_path(journal).name)}"
    return (
        f"keep it as evidence: move {names} to another directory, let 20 hours pass, since the "
        "caps know nothing of what it counted, and make a new plan"
    )
