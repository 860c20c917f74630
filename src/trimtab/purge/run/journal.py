"""The journal of a plan: what was meant and what came of it, on stable storage before and after.

::

    plan ...                        which plan; its hash says which file a row is
    begin ...                       a run; who, when, up to which horizon
    batch rows 0..999               fsynced, and only then is the first file touched
    done  rows 0..999 outcomes ...  fsynced, and only then does the next batch begin
    synced                          the file system has all that on stable storage
    batch rows 1000..1999           (killed here)
    begin ...                       a run that goes on
    done  rows 1000..1999 recovered
    ...
    end target-reached

One file a plan, in a directory that only root can write to. One process at a time is at work on a
file system, since two would each delete what the other was about to. Where several hosts carry a
plan out its journal is a directory, to which all of them append (`shared`).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeGuard

from trimtab.errors import DataError, RefusedError, UnreadableError
from trimtab.purge.run.head import SUFFIX as HEAD_SUFFIX
from trimtab.purge.run.head import Head, check_head, head_path, read_head, write_head
from trimtab.purge.run.records import (
    CHANGED_HINT,
    Chronicle,
    DoneLine,
    EndLine,
    Line,
    PlanLine,
    ReleasedLine,
    SharedLine,
    TornLine,
    chronicle_of,
    decode,
    decoded,
    encode,
)
from trimtab.purge.run.shared import Shared, advanced
from trimtab.purge.run.standing import EVER, Standing, replay
from trimtab.purge.run.state import (
    Rows,
    Spent,
)
from trimtab.record.chain import ChainedFile, locked, opened_chain
from trimtab.record.numbered import NumberedLines, opened_lines, text_of
from trimtab.record.system_errors import system_errors
from trimtab.record.trusted import trusted_directory
from trimtab.visible import visible

SUFFIX: Final = ".journal.jsonl"
SHARED_SUFFIX: Final = ".journal.lines"
"""Of the directory that is the journal of several hosts."""
_PLAN_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}\Z")
_TORN_SHOWN_MAX: Final = 200
_CLOCK_DOUBT: Final = timedelta(days=2)
"""By how much a clock may have been set between a line and the time of its file."""


def read(path: Path) -> Chronicle:
    """Return what a journal says; a line that its process did not finish is left out.

    Raises
    ------
    DataError
        It was changed or damaged.
    UnreadableError
        It cannot be read.
    """
    shown = visible(os.fspath(path))
    head = read_head(path)  # first: it is not before the journal then, whoever is writing
    try:
        text = text_of(path) if path.is_dir() else path.read_bytes()
        chronicle = decode(text)
        check_head(path, text, head)
        return chronicle
    except FileNotFoundError as error:
        check_head(path, b"", head)
        raise UnreadableError(f"{shown} is not there", code="unreadable-file") from error
    except OSError as error:
        raise UnreadableError(
            f"cannot read {shown}: {error.strerror}", code="unreadable-file"
        ) from error
    except DataError as error:
        raise error.of(shown) from error


def journals(directory: Path) -> tuple[Path, ...]:
    """Return the journals of a directory, in the order of their names."""
    suffixes = (SUFFIX, SHARED_SUFFIX)
    hint = "ask as root, or name another place with --place"
    with system_errors(f"{directory} cannot be read", code="journals-unreadable", hint=hint):
        if not directory.is_dir():
            return ()
        # One that is gone, and whose head is there, is read as well, and complained of.
        paths = {
            path.with_name(path.name.removesuffix(HEAD_SUFFIX)) for path in directory.iterdir()
        }
        return tuple(sorted(path for path in paths if path.name.endswith(suffixes)))


def spent_since(
    directory: Path, plan: PlanLine, since: datetime, *, but: Path | None = None
) -> Spent:
    """Return what every run on a plan's file system deleted since a time, by all journals.

    Caps are of a day's work and not of a process: a run that is started again and again, by hand or
    by a timer gone wrong, must not delete a cap's worth each time.

    Parameters
    ----------
    but
        A journal that is left out.
    """
    total = Spent()
    for path in journals(directory):
        if path == but:
            continue
        # What was written long before has no line since; the journals of years are many.
        if _written_at_s(path) < (since - _CLOCK_DOUBT).timestamp():
            continue
        chronicle = read(path)
        if chronicle.plan is None or not chronicle.plan.shares_caps(plan):
            continue
        for line in chronicle.lines:
            if _is_end(line) and not isinstance(line, EndLine) and line.at >= since:
                total += line.spent
    return total


def _written_at_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return head_path(path).stat().st_mtime


class Journal:
    """A journal that this process writes, and nobody else.

    Attributes
    ----------
    path
        Its file.
    standing
        How far the plan was when it was opened.
    torn_bytes
        What was cut off: a line that was not finished.
    """

    def __init__(self, file: ChainedFile, chronicle: Chronicle, directory: int) -> None:
        self.path = file.path
        self.standing = replay(chronicle)
        self.torn_bytes = len(chronicle.torn)
        self._file, self._directory = file, directory
        self._lines = len(chronicle.lines) + (chronicle.plan is not None)

    def write(self, line: Line) -> None:
        """Write a line and see it to stable storage.

        Raises
        ------
        UnreadableError
            It could not be written: the run must not go on, since nobody would know of it.
        """
        self._file.append(encode(line))
        self._lines += 1
        if _is_end(line):
            write_head(self.path, self._directory, Head(self._lines, self._file.last_sum, line.at))


def _is_end(line: Line) -> TypeGuard[DoneLine | ReleasedLine | EndLine]:
    """Whether it says what became of files; what a dry run says may be lost."""
    return isinstance(line, ReleasedLine | EndLine) or (isinstance(line, DoneLine) and line.apply)


@contextlib.contextmanager
def opened(directory: Path, plan: PlanLine, *, at: datetime, owner: int = 0) -> Iterator[Journal]:
    """Open the journal of a plan to write it, from the first line on if there is none.

    Parameters
    ----------
    at
        The time now; it stands in the line that tells of a torn one.
    owner
        Whose the directory has to be.

    Raises
    ------
    RefusedError
        Another run is at work on the file system; the directory is not root's alone; the journal
        is of another plan.
    DataError
        The journal was changed or damaged.
    UnreadableError
        It cannot be read or written.
    """
    with _directory(directory, plan, owner=owner, shared=False) as held:
        path = directory / f"{plan.plan}{SUFFIX}"
        if _shared_path(directory, plan).exists():
            raise RefusedError(
                f"several hosts carry out plan {visible(plan.plan)}",
                code="plan-shared",
                hint="run it with --shared, as they do",
            )
        with opened_chain(path, held, owner=owner) as file:
            yield _ready(file, held, plan, at)


def reopened(
    directory: Path, plan: PlanLine, standing: Standing, *, at: datetime, owner: int = 0
) -> contextlib.AbstractContextManager[Journal | SharedJournal]:
    """Open the journal of a plan that was read before, of which nothing else need be known.

    Raises
    ------
    RefusedError, DataError, UnreadableError
        As `opened` and `opened_shared`.
    """
    if not standing.claims:
        return opened(directory, plan, at=at, owner=owner)
    lease_s = standing.lease_s
    return opened_shared(directory, plan, at=at, since=EVER, lease_s=lease_s, owner=owner)


class SharedJournal:
    """A journal that runs of several hosts write at once.

    Attributes
    ----------
    path
        Its directory.
    shared
        How far all are, by the lines that were read.
    torn_bytes
        Of a line that was not finished: there is none.
    """

    torn_bytes = 0

    def __init__(self, lines: NumberedLines, since: datetime, directory: int) -> None:
        self.path, self.shared = lines.path, Shared(since)
        self._lines, self._directory = lines, directory

    @property
    def standing(self) -> Standing:
        """How far the plan is, with what became of every row."""
        return replay(read(self.path))

    def refresh(self) -> Shared:
        """Return how far all are by now.

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
            raise error.of(visible(os.fspath(self.path))) from error
        return self.shared

    def check_whole(self) -> None:
        """Check that no line is missing.

        Raises
        ------
        DataError
            One is, and later ones are there.
        """
        last = self._lines.last()
        if last > self.refresh().number:
            number = self.shared.number + 1
            raise DataError(
                f"line {number} is missing and line {last} is there",
                file=visible(os.fspath(self.path)),
                code="journal-changed",
                hint=CHANGED_HINT,
            )

    def offer(self, line: Line) -> bool:
        """Return whether a line is the next one; if another is, that is read, and nothing written.

        Raises
        ------
        DataError, UnreadableError
            As `refresh`; or it could not be written.
        """
        after = advanced(self.shared, (line,))  # what does not fit is not written
        if self._lines.append(encode(line)):
            self.shared = after
            if _is_end(line):
                head = Head(self._lines.count, self._lines.last_sum, line.at)
                write_head(self.path, self._directory, head)
            return True
        self.refresh()
        return False

    def write(self, line: Line) -> None:
        """Write a line that holds whatever others write before it.

        Raises
        ------
        DataError, UnreadableError
            As `offer`: the run must not go on, since nobody would know of it.
        """
        while not self.offer(line):
            pass


@contextlib.contextmanager
def opened_shared(
    directory: Path,
    plan: PlanLine,
    *,
    at: datetime,
    since: datetime,
    lease_s: float,
    owner: int = 0,
) -> Iterator[SharedJournal]:
    """Open the journal that several hosts write, from the first line on if there is none.

    Parameters
    ----------
    directory
        All hosts have it in common.
    since
        What was deleted earlier does not count against the caps.
    lease_s
        How long a claim holds, if no run has said so yet.

    Raises
    ------
    RefusedError
        One host carries the plan out, or another plan of the file system; otherwise as `opened`.
    DataError, UnreadableError
        As `opened`.
    """
    with _directory(directory, plan, owner=owner, shared=True) as held:
        if (directory / f"{plan.plan}{SUFFIX}").exists():
            raise RefusedError(
                f"one host began to carry out plan {visible(plan.plan)}",
                code="plan-not-shared",
                hint="go on without --shared, or make a new plan",
            )
        path = _shared_path(directory, plan)
        with opened_lines(path, owner=owner, hint=CHANGED_HINT) as lines:
            journal = SharedJournal(lines, since, held)
            journal.refresh()
            journal.check_whole()
            _begin_shared(journal, plan, SharedLine(at, lease_s))
            yield journal


def _begin_shared(journal: SharedJournal, plan: PlanLine, line: SharedLine) -> None:
    while journal.shared.number == 0:
        journal.offer(plan)
    while journal.shared.lease_s is None:
        journal.offer(line)
    known = read(journal.path).plan
    if known is None or not known.is_of(plan):
        raise RefusedError(
            f"{visible(os.fspath(journal.path))} is the journal of another plan, or the plan is "
            "not the one it was",
            code="journal-mismatch",
            hint="a plan is never changed: make a new one",
        )


def _shared_path(directory: Path, plan: PlanLine) -> Path:
    return directory / f"{plan.plan}{SHARED_SUFFIX}"


@contextlib.contextmanager
def _directory(directory: Path, plan: PlanLine, *, owner: int, shared: bool) -> Iterator[int]:
    """Make the directory of the journals and lock the file system of a plan in it."""
    if not _PLAN_ID.match(plan.plan):
        raise DataError(f"{visible(plan.plan[:80])!r} is no id of a plan", code="plan-id-malformed")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        shown = visible(os.fspath(directory))
        raise UnreadableError(
            f"cannot make {shown}: {error.strerror}", code="journal-unwritable"
        ) from error
    hint = "two runs at once would each delete what the other is about to: wait for it"
    with (
        trusted_directory(directory, "the journals' directory", owner=owner) as held,
        locked(plan.key, held, visible(plan.file_system), hint=hint, shared=shared),
    ):
        yield held


def _ready(file: ChainedFile, directory: int, plan: PlanLine, at: datetime) -> Journal:
    shown = visible(os.fspath(file.path))
    read(file.path)  # before a line that was not finished is cut off: it may be no journal at all
    chain = file.read(hint=CHANGED_HINT)
    try:
        chronicle = chronicle_of(chain)
        if chronicle.plan is not None and not chronicle.plan.is_of(plan):
            raise RefusedError(
                f"{shown} is the journal of another plan, or the plan is not the one it was",
                code="journal-mismatch",
                hint="a plan is never changed: make a new one",
            )
        journal = Journal(file, chronicle, directory)
    except DataError as error:
        raise error.of(shown) from error
    if chronicle.plan is None:
        journal.write(plan)
        journal.standing = Standing((Rows(0, plan.rows),) if plan.rows else ())
    elif chronicle.torn:
        beginning = visible(chronicle.torn[:_TORN_SHOWN_MAX].decode("ascii", "backslashreplace"))
        journal.write(TornLine(at.astimezone(UTC), len(chronicle.torn), beginning))
    return journal
