"""The journal of a plan: intentions and results, each on stable storage before the next step.

::

    plan ...                        which plan; its hash says which file a row is
    begin ...                       a run: who, when, up to which horizon
    shared                          which hosts may carry out the plan
    claim rows 0..999               fsynced, and only then is the first file touched
    done  rows 0..999 outcomes ...  fsynced, and only then does the next batch begin
    synced                          all of this is on stable storage
    claim rows 1000..1999           (killed here)
    begin ...                       a run that continues
    takeover rows 1000..1999
    done  rows 1000..1999 recovered
    ...
    end target-reached

One directory per plan, with one file per line (`trimtab.store.chain`), in a directory that only
root can write. Only one process at a time works on a file system, since two would each delete what
the other is about to; but if several hosts carry out a plan, all append to its journal (`shared`).

The chain detects changed, inserted and removed lines, but not missing last lines. So the length of
the journal at the last end of a batch, its head, is stored beside it; a shorter journal has lost
lines. The head is written once its line is on stable storage, so after a kill or a power failure a
journal is never behind it. Restoring or removing both files together is not detected.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeGuard

from trimtab.base.error import (
    DataError,
    RefusedError,
    UnreadableError,
    system_errors,
    unreleased,
    visible,
)
from trimtab.base.trusted_file import trusted_directory, write_durably
from trimtab.purge.run.journal_line import (
    CHANGED_HINT,
    Chronicle,
    DoneLine,
    Line,
    PlanLine,
    ReleasedLine,
    RunEndLine,
    SharedLine,
    UndoneLine,
    decode,
    decoded,
    encode,
)
from trimtab.purge.run.plan_progress import PlanProgress, Shared, advanced, replay
from trimtab.purge.run.rows import CAPS_WINDOW_S, Spent
from trimtab.store.chain import NumberedLines, locked, opened_lines, sum_of, text_of

HEAD_SUFFIX: Final = ".head.json"
"""Appended to the name of the journal."""
_SIZE_MAX_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class JournalHead:
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
    return journal.with_name(f"{journal.name}{HEAD_SUFFIX}")


def write_head(journal: Path, directory: int, head: JournalHead) -> None:
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


def read_head(journal: Path) -> JournalHead | None:
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
        return JournalHead(
            int(words["lines"]), str(words["sum"]), datetime.fromisoformat(words["at"])
        )
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


def check_head(journal: Path, text: bytes, head: JournalHead | None) -> None:
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


JOURNAL_SUFFIX: Final = ".journal.lines"
_UNRELEASED_SUFFIX: Final = ".journal.jsonl"
"""Suffix of journals of unreleased versions: unreadable, but their records must not be lost."""
_PLAN_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}\Z")
_CLOCK_DOUBT: Final = timedelta(days=2)
"""Possible clock adjustment between a line and the time of its file."""


def read(path: Path) -> Chronicle:
    """Return the contents of a journal.

    Raises
    ------
    DataError
        It was changed or damaged, or is from an unreleased version.
    UnreadableError
        It cannot be read.
    """
    text = _whole(path)
    try:
        return decode(text)
    except DataError as error:
        raise error.of(visible(path)) from error


def _whole(path: Path) -> bytes:
    """Return the lines of a journal after checking that none is missing.

    The chain is not checked.
    """
    if path.is_file():
        raise unreleased("the journal", CHANGED_HINT, file=visible(path))
    head = read_head(path)  # first, so it cannot be ahead of the journal
    text = text_of(path)
    check_head(path, text, head)
    return text


def journals(directory: Path) -> tuple[Path, ...]:
    """Return the journals of a directory, by name."""
    hint = "run as root, or name another directory with --place"
    with system_errors(f"{directory} cannot be read", code="journals-unreadable", hint=hint):
        if not directory.is_dir():
            return ()
        # A journal that is gone but whose head exists is included, so that reading it fails.
        paths = {
            path.with_name(path.name.removesuffix(HEAD_SUFFIX)) for path in directory.iterdir()
        }
        return tuple(
            sorted(p for p in paths if p.name.endswith((JOURNAL_SUFFIX, _UNRELEASED_SUFFIX)))
        )


def spent_since(
    directory: Path, plan: PlanLine, since: datetime, *, but: Path | None = None
) -> Spent:
    """Return deletions of all runs on a plan's file system since a time, from all journals.

    Caps apply per day, not per process: a run started repeatedly, by hand or by a faulty timer,
    must not delete a full cap each time.

    Parameters
    ----------
    but
        A journal to leave out.
    """
    total = Spent()
    for path in journals(directory):
        if path == but:
            continue
        # Journals written long before have no line since; over years they become many.
        if _written_at_s(path) < (since - _CLOCK_DOUBT).timestamp():
            continue
        chronicle = read(path)
        if chronicle.plan is None or not chronicle.plan.shares_caps(plan):
            continue
        for line in chronicle.lines:
            if _is_end(line) and not isinstance(line, RunEndLine) and line.at >= since:
                total += line.spent
    return total


def freed_before(directory: Path) -> tuple[tuple[int, int], ...]:
    """Return what the runs of all journals in a directory freed: seconds since 1970, and bytes.

    Raises
    ------
    UnreadableError
        A journal cannot be read.
    """
    freed = []
    for path in journals(directory):
        for line in read(path).lines:
            if isinstance(line, DoneLine) and line.apply:
                freed.append((int(line.at.timestamp()), line.freed_bytes))
            elif isinstance(line, UndoneLine):
                freed.append((int(line.at.timestamp()), -line.bytes))
    return tuple(freed)


def _written_at_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return head_path(path).stat().st_mtime


class RunJournal:
    """A journal that runs on one or several hosts write at once.

    Attributes
    ----------
    path
        Its directory.
    shared
        Progress of all hosts, from the lines read.
    """

    def __init__(self, lines: NumberedLines, since: datetime, directory: int) -> None:
        self.path, self.shared = lines.path, Shared(since)
        self._lines, self._directory = lines, directory

    @property
    def standing(self) -> PlanProgress:
        """Progress of the plan, with the outcome of every row."""
        return replay(read(self.path))

    def refresh(self) -> None:
        """Read lines written by others.

        Raises
        ------
        DataError
            The journal was changed or damaged.
        UnreadableError
            It cannot be read.
        """
        lines = self._lines.read()
        try:
            self.shared = advanced(self.shared, map(decoded, lines))
        except DataError as error:
            raise error.of(visible(self.path)) from error

    def offer(self, line: Line) -> bool:
        """Write a line if it is the next one, and return whether it was.

        Else read the others' lines.

        Raises
        ------
        DataError, UnreadableError
            As `refresh`; or the line could not be written.
        """
        after = advanced(self.shared, (line,))  # raises before a contradictory line is written
        if self._lines.append(encode(line)):
            self.shared = after
            if _is_end(line):
                head = JournalHead(self._lines.count, self._lines.last_sum, line.at)
                write_head(self.path, self._directory, head)
            return True
        self.refresh()
        return False

    def write(self, line: Line) -> None:
        """Write a line that is valid whatever others write before it.

        Raises
        ------
        DataError, UnreadableError
            As `offer`; the run must then stop, since it would leave no record.
        """
        while not self.offer(line):
            pass


def _is_end(line: Line) -> TypeGuard[DoneLine | ReleasedLine | RunEndLine]:
    """Whether a line records the outcome of files; lines of dry runs may be lost."""
    return isinstance(line, ReleasedLine | RunEndLine) or (
        isinstance(line, DoneLine) and line.apply
    )


@contextlib.contextmanager
def opened(
    directory: Path, plan: PlanLine, *, at: datetime, lease_s: float | None, owner: int = 0
) -> Iterator[RunJournal]:
    """Open the journal of a plan for writing, and begin it if there is none.

    Parameters
    ----------
    directory
        Directory shared by all hosts that carry out the plan.
    at
        Current time; deletions older than the window of the caps do not count.
    lease_s
        Duration of a claim, if no run has set it yet: several hosts carry out the plan. 0: one host
        does. ``None``: nothing is claimed, as in a dry run.
    owner
        Uid that must own the directory.

    Raises
    ------
    RefusedError
        Another run is active on the file system; the plan is shared and this run is not, or the
        reverse; others can write the directory; the journal belongs to another plan.
    DataError
        The journal was changed or damaged.
    UnreadableError
        It cannot be read or written.
    """
    since = at - timedelta(seconds=CAPS_WINDOW_S)
    with _directory(directory, plan, owner=owner, shared=bool(lease_s)) as held:
        unreleased_path, path = (
            directory / f"{plan.plan}{suffix}" for suffix in (_UNRELEASED_SUFFIX, JOURNAL_SUFFIX)
        )
        _whole(unreleased_path)
        _whole(path)
        with opened_lines(path, owner=owner, hint=CHANGED_HINT) as lines:
            with system_errors(f"cannot open {visible(path)}", code="journal-unreadable"):
                os.fsync(held)  # its name must survive a power failure too
            journal = RunJournal(lines, since, held)
            journal.refresh()
            _begin(journal, plan, at, lease_s)
            yield journal


def _begin(journal: RunJournal, plan: PlanLine, at: datetime, lease_s: float | None) -> None:
    """Write the first lines if no run has; refuse a journal of another plan or mode."""
    while (known := journal.shared.plan) is None:
        journal.offer(plan)
    if not known.is_of(plan):
        raise RefusedError(
            f"{visible(journal.path)} is the journal of another plan, or the plan was changed",
            code="journal-mismatch",
            hint="a plan is never changed: make a new one",
        )
    if lease_s is None:
        return
    while journal.shared.lease_s is None:
        journal.offer(SharedLine(at, lease_s))
    if journal.shared.lease_s and not lease_s:
        raise RefusedError(
            f"several hosts carry out plan {visible(plan.plan)}",
            code="plan-shared",
            hint="run it with --shared, as they do",
        )
    if lease_s and not journal.shared.lease_s:
        raise RefusedError(
            f"a single host began to carry out plan {visible(plan.plan)}",
            code="plan-not-shared",
            hint="continue without --shared, or make a new plan",
        )


@contextlib.contextmanager
def _directory(directory: Path, plan: PlanLine, *, owner: int, shared: bool) -> Iterator[int]:
    """Create the directory of the journals and lock the file system of a plan in it."""
    if not _PLAN_ID.match(plan.plan):
        raise DataError(f"{visible(plan.plan[:80])!r} is not a plan id", code="plan-id-malformed")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        shown = visible(directory)
        raise UnreadableError(
            f"cannot create {shown}: {error.strerror}", code="journal-unwritable"
        ) from error
    hint = "wait for the other run: two at once would each delete what the other is about to"
    with (
        trusted_directory(directory, "the journals' directory", owner=owner) as held,
        locked(plan.key, held, visible(plan.file_system), hint=hint, shared=shared),
    ):
        yield held
