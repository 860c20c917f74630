"""The journal of a plan: what was meant and what came of it, on stable storage before and after.

::

    plan ...                        which plan; its hash says which file a row is
    begin ...                       a run; who, when, up to which horizon
    shared                          who may carry the plan out
    claim rows 0..999               fsynced, and only then is the first file touched
    done  rows 0..999 outcomes ...  fsynced, and only then does the next batch begin
    synced                          the file system has all that on stable storage
    claim rows 1000..1999           (killed here)
    begin ...                       a run that goes on
    takeover rows 1000..1999
    done  rows 1000..1999 recovered
    ...
    end target-reached

One directory a plan, with a file a line (`trimtab.record.numbered`), within one that only root can
write to. One process at a time is at work on a file system, since two would each delete what the
other was about to; but where several hosts carry a plan out all of them append to its journal
(`shared`).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, TypeGuard

from trimtab.errors import DataError, RefusedError, UnreadableError, unreleased
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
    decode,
    decoded,
    encode,
)
from trimtab.purge.run.shared import Shared, advanced
from trimtab.purge.run.standing import Standing, replay
from trimtab.purge.run.state import CAPS_WINDOW_S, Spent
from trimtab.record.chain import locked
from trimtab.record.numbered import NumberedLines, opened_lines, text_of
from trimtab.record.system_errors import system_errors
from trimtab.record.trusted import trusted_directory
from trimtab.visible import visible

SUFFIX: Final = ".journal.lines"
_UNRELEASED_SUFFIX: Final = ".journal.jsonl"
"""Of a file: those are not read, and what they say must not be forgotten."""
_PLAN_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}\Z")
_CLOCK_DOUBT: Final = timedelta(days=2)
"""By how much a clock may have been set between a line and the time of its file."""


def read(path: Path) -> Chronicle:
    """Return what a journal says.

    Raises
    ------
    DataError
        It was changed or damaged, or is of an unreleased version.
    UnreadableError
        It cannot be read.
    """
    text = _whole(path)
    try:
        return decode(text)
    except DataError as error:
        raise error.of(visible(path)) from error


def _whole(path: Path) -> bytes:
    """Return the lines of a journal, none of which is missing; their chain is not looked at."""
    if path.is_file():
        raise unreleased("the journal", CHANGED_HINT, file=visible(path))
    head = read_head(path)  # first: it is not before the journal then, whoever is writing
    text = text_of(path)
    check_head(path, text, head)
    return text


def journals(directory: Path) -> tuple[Path, ...]:
    """Return the journals of a directory, in the order of their names."""
    hint = "ask as root, or name another place with --place"
    with system_errors(f"{directory} cannot be read", code="journals-unreadable", hint=hint):
        if not directory.is_dir():
            return ()
        # One that is gone, and whose head is there, is read as well, and complained of.
        paths = {
            path.with_name(path.name.removesuffix(HEAD_SUFFIX)) for path in directory.iterdir()
        }
        return tuple(sorted(p for p in paths if p.name.endswith((SUFFIX, _UNRELEASED_SUFFIX))))


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
    """A journal that runs of several hosts write at once, or one alone.

    Attributes
    ----------
    path
        Its directory.
    shared
        How far all are, by the lines that were read.
    """

    def __init__(self, lines: NumberedLines, since: datetime, directory: int) -> None:
        self.path, self.shared = lines.path, Shared(since)
        self._lines, self._directory = lines, directory

    @property
    def standing(self) -> Standing:
        """How far the plan is, with what became of every row."""
        return replay(read(self.path))

    def refresh(self) -> None:
        """Read what others wrote.

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


def _is_end(line: Line) -> TypeGuard[DoneLine | ReleasedLine | EndLine]:
    """Whether it says what became of files; what a dry run says may be lost."""
    return isinstance(line, ReleasedLine | EndLine) or (isinstance(line, DoneLine) and line.apply)


@contextlib.contextmanager
def opened(
    directory: Path, plan: PlanLine, *, at: datetime, lease_s: float | None, owner: int = 0
) -> Iterator[Journal]:
    """Open the journal of a plan to write it, from the first line on if there is none.

    Parameters
    ----------
    directory
        All hosts that carry the plan out have it in common.
    at
        The time now; what was deleted longer ago than caps reach does not count against them.
    lease_s
        How long a claim holds, if no run has said so yet: several hosts carry the plan out. 0: one
        does. ``None``: nothing is claimed, as by a dry run.
    owner
        Whose the directory has to be.

    Raises
    ------
    RefusedError
        Another run is at work on the file system; one host carries the plan out, or several do; the
        directory is not root's alone; the journal is of another plan.
    DataError
        The journal was changed or damaged.
    UnreadableError
        It cannot be read or written.
    """
    since = at - timedelta(seconds=CAPS_WINDOW_S)
    with _directory(directory, plan, owner=owner, shared=bool(lease_s)) as held:
        unreleased_path, path = (
            directory / f"{plan.plan}{suffix}" for suffix in (_UNRELEASED_SUFFIX, SUFFIX)
        )
        _whole(unreleased_path)
        _whole(path)
        with opened_lines(path, owner=owner, hint=CHANGED_HINT) as lines:
            with system_errors(f"cannot open {visible(path)}", code="journal-unreadable"):
                os.fsync(held)  # its name too has to outlast a power cut
            journal = Journal(lines, since, held)
            journal.refresh()
            _begin(journal, plan, at, lease_s)
            yield journal


def _begin(journal: Journal, plan: PlanLine, at: datetime, lease_s: float | None) -> None:
    """Write the first lines where no run has; refuse a journal that is for other runs."""
    while (known := journal.shared.plan) is None:
        journal.offer(plan)
    if not known.is_of(plan):
        raise RefusedError(
            f"{visible(journal.path)} is the journal of another plan, or the plan is "
            "not the one it was",
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
            f"one host began to carry out plan {visible(plan.plan)}",
            code="plan-not-shared",
            hint="go on without --shared, or make a new plan",
        )


@contextlib.contextmanager
def _directory(directory: Path, plan: PlanLine, *, owner: int, shared: bool) -> Iterator[int]:
    """Make the directory of the journals and lock the file system of a plan in it."""
    if not _PLAN_ID.match(plan.plan):
        raise DataError(f"{visible(plan.plan[:80])!r} is no id of a plan", code="plan-id-malformed")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        shown = visible(directory)
        raise UnreadableError(
            f"cannot make {shown}: {error.strerror}", code="journal-unwritable"
        ) from error
    hint = "two runs at once would each delete what the other is about to: wait for it"
    with (
        trusted_directory(directory, "the journals' directory", owner=owner) as held,
        locked(plan.key, held, visible(plan.file_system), hint=hint, shared=shared),
    ):
        yield held
