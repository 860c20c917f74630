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
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from trimtab.errors import DataError, RefusedError, UnreadableError
from trimtab.purge.run.records import (
    CHANGED_HINT,
    BatchLine,
    BeginLine,
    Chronicle,
    DoneLine,
    EndLine,
    Line,
    PlanLine,
    SharedLine,
    SyncedLine,
    TornLine,
    UndoneLine,
    chronicle_of,
    decode,
    decoded,
    encode,
)
from trimtab.purge.run.shared import Claim, Shared, advanced
from trimtab.purge.run.state import (
    DELETED,
    NOT_BEGUN,
    Batch,
    Rows,
    Spent,
    joined,
    rows_with,
    without,
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
_EVER: Final = datetime.min.replace(tzinfo=UTC)
_CLOCK_DOUBT: Final = timedelta(days=2)
"""By how much a clock may have been set between a line and the time of its file."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Rows of a batch that were deleted and may be there again after a power cut.

    Attributes
    ----------
    run
        Whose host has to say that they are on stable storage; where one host deletes, any run does.
    """

    batch: Rows
    rows: tuple[Rows, ...]
    run: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a plan is.

    Attributes
    ----------
    todo
        Rows that no run has dealt with, in order; those of ``open_batch`` are not among them.
    open_batch
        A batch that was begun and not ended: some of its files may be gone.
    fates
        What became of the rows that were dealt with, in the order in which that happened.
    unended
        The run that began and did not say that it ended; ``None``: every run did.
    unsettled
        What was deleted and is not known to be on stable storage: the stretches of each batch.
    claims
        Where several hosts carry the plan out: every batch that was begun and not ended.
    """

    todo: tuple[Rows, ...]
    open_batch: Batch | None = None
    fates: tuple[tuple[Rows, str], ...] = ()
    unended: str | None = None
    unsettled: tuple[Unsettled, ...] = ()
    claims: tuple[Claim, ...] = ()

    @property
    def open_rows(self) -> int:
        """How many rows are in batches that were begun and not ended."""
        batches = [claim.batch for claim in self.claims]
        batches += [] if self.open_batch is None else [self.open_batch]
        return sum(batch.rows.count for batch in batches)

    def fate(self, row: int) -> str | None:
        """Return what became of a row; ``None``: nothing yet."""
        return next((outcome for rows, outcome in self.fates if row in rows), None)


def replay(chronicle: Chronicle) -> Standing:
    """Return how far a plan is, from its journal.

    Raises
    ------
    DataError
        Lines do not fit together: a batch that was dealt with twice, or ended without a beginning.
    """
    if any(isinstance(line, SharedLine) for line in chronicle.lines[:1]):
        return _replay_shared(chronicle)
    plan = chronicle.plan
    todo: tuple[Rows, ...] = (Rows(0, plan.rows),) if plan and plan.rows else ()
    open_batch: Batch | None = None
    fates: list[tuple[Rows, str]] = []
    unended: str | None = None
    unsettled: list[Unsettled] = []
    for number, line in enumerate(chronicle.lines, start=2):
        match line:
            case BeginLine():
                unended = line.run
            case EndLine():
                unended = None
            case BatchLine():
                _check_begun(line, todo, open_batch, number)
                open_batch = Batch(line.rows, line.leave)
                todo = without(todo, line.rows)
            case DoneLine(apply=True):
                _check_done(line, open_batch, number)
                open_batch = None
                again = tuple(rows_with(line.rows, line.outcomes, NOT_BEGUN))
                todo = joined((*todo, *again)) if again else todo
                fates += _fates(line)
                if deleted := tuple(rows_with(line.rows, line.outcomes, DELETED)):
                    unsettled.append(Unsettled(line.rows, deleted))
            case SyncedLine():
                unsettled = []
            case UndoneLine():
                unsettled = _without_undone(line, unsettled, number)
                fates = [fate for pair in fates for fate in _without_fates(pair, line.rows)]
                todo = joined((*todo, *line.rows))
    return Standing(todo, open_batch, tuple(fates), unended, tuple(unsettled))


def _replay_shared(chronicle: Chronicle) -> Standing:
    plan = () if chronicle.plan is None else (chronicle.plan,)
    shared = advanced(Shared(_EVER), (*plan, *chronicle.lines))
    fates: list[tuple[Rows, str]] = []
    unsettled: list[Unsettled] = []
    for number, line in enumerate(chronicle.lines, start=2):
        match line:
            case DoneLine(apply=True):
                fates += _fates(line)
                if deleted := tuple(rows_with(line.rows, line.outcomes, DELETED)):
                    unsettled.append(Unsettled(line.rows, deleted, line.run))
            case SyncedLine():
                # What another host did is on its way to the disk by itself.
                unsettled = [known for known in unsettled if known.run != line.run]
            case UndoneLine():
                unsettled = _without_undone(line, unsettled, number)
                fates = [fate for pair in fates for fate in _without_fates(pair, line.rows)]
    return Standing(
        shared.todo, fates=tuple(fates), unsettled=tuple(unsettled), claims=shared.claims
    )


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
    try:
        return decode(text_of(path) if path.is_dir() else path.read_bytes())
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
        return tuple(sorted(path for path in directory.iterdir() if path.name.endswith(suffixes)))


def spent_since(
    directory: Path, file_system: str, since: datetime, *, but: Path | None = None
) -> Spent:
    """Return what every run on a file system deleted since a time, by a directory's journals.

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
        if path.stat().st_mtime < (since - _CLOCK_DOUBT).timestamp():
            continue
        chronicle = read(path)
        if chronicle.plan is None or chronicle.plan.file_system != file_system:
            continue
        for line in chronicle.lines:
            if isinstance(line, DoneLine) and line.apply and line.at >= since:
                total += line.spent
    return total


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

    def __init__(self, file: ChainedFile, chronicle: Chronicle) -> None:
        self.path = file.path
        self.standing = replay(chronicle)
        self.torn_bytes = len(chronicle.torn)
        self._file = file

    def write(self, line: Line) -> None:
        """Write a line and see it to stable storage.

        Raises
        ------
        UnreadableError
            It could not be written: the run must not go on, since nobody would know of it.
        """
        self._file.append(encode(line))


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
            yield _ready(file, plan, at)


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

    def __init__(self, lines: NumberedLines, since: datetime) -> None:
        self.path, self.shared = lines.path, Shared(since)
        self._lines = lines

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
    with _directory(directory, plan, owner=owner, shared=True):
        if (directory / f"{plan.plan}{SUFFIX}").exists():
            raise RefusedError(
                f"one host began to carry out plan {visible(plan.plan)}",
                code="plan-not-shared",
                hint="go on without --shared, or make a new plan",
            )
        path = _shared_path(directory, plan)
        with opened_lines(path, owner=owner, hint=CHANGED_HINT) as lines:
            journal = SharedJournal(lines, since)
            journal.refresh()
            journal.check_whole()
            _begin_shared(journal, plan, SharedLine(at, lease_s))
            yield journal


def _begin_shared(journal: SharedJournal, plan: PlanLine, line: SharedLine) -> None:
    while journal.shared.number == 0:
        journal.offer(plan)
    while journal.shared.lease_s is None:
        journal.offer(line)
    if read(journal.path).plan != plan:
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
        locked(plan.file_system, held, visible(plan.file_system), hint=hint, shared=shared),
    ):
        yield held


def _ready(file: ChainedFile, plan: PlanLine, at: datetime) -> Journal:
    shown = visible(os.fspath(file.path))
    chain = file.read(hint=CHANGED_HINT)
    try:
        chronicle = chronicle_of(chain)
        if chronicle.plan is not None and chronicle.plan != plan:
            raise RefusedError(
                f"{shown} is the journal of another plan, or the plan is not the one it was",
                code="journal-mismatch",
                hint="a plan is never changed: make a new one",
            )
        journal = Journal(file, chronicle)
    except DataError as error:
        raise error.of(shown) from error
    if chronicle.plan is None:
        journal.write(plan)
        journal.standing = Standing((Rows(0, plan.rows),) if plan.rows else ())
    elif chronicle.torn:
        beginning = visible(chronicle.torn[:_TORN_SHOWN_MAX].decode("ascii", "backslashreplace"))
        journal.write(TornLine(at.astimezone(UTC), len(chronicle.torn), beginning))
    return journal


def _check_begun(
    line: BatchLine, todo: tuple[Rows, ...], open_batch: Batch | None, number: int
) -> None:
    if open_batch is not None:
        raise DataError(
            "a batch begins before the one before it has ended",
            code="journal-contradictory",
            line=number,
        )
    if sum(rows.count for rows in without(todo, line.rows)) != sum(rows.count for rows in todo) - (
        line.rows.count
    ):
        raise DataError(
            "a batch has rows that were dealt with before",
            code="journal-contradictory",
            line=number,
        )


def _check_done(line: DoneLine, open_batch: Batch | None, number: int) -> None:
    if open_batch is None or open_batch.rows != line.rows:
        raise DataError(
            "a batch ends that was not begun", code="journal-contradictory", line=number
        )
    if sum(count for _, count in line.outcomes) != line.rows.count:
        raise DataError(
            "a batch does not say of every row what became of it",
            code="journal-contradictory",
            line=number,
        )


def _without_undone(line: UndoneLine, unsettled: list[Unsettled], number: int) -> list[Unsettled]:
    """Return what is still unsettled; raise where rows are undone that were not deleted."""
    for place, known in enumerate(unsettled):
        rest = known.rows
        for rows in line.rows:
            rest = without(rest, rows)
        count = sum(rows.count for rows in known.rows) - sum(rows.count for rows in rest)
        if known.batch == line.batch and count == sum(rows.count for rows in line.rows):
            remaining = [replace(known, rows=joined(rest))] if rest else []
            return [*unsettled[:place], *remaining, *unsettled[place + 1 :]]
    raise DataError(
        "rows are undone that were not deleted", code="journal-contradictory", line=number
    )


def _without_fates(fate: tuple[Rows, str], undone: tuple[Rows, ...]) -> list[tuple[Rows, str]]:
    rest: tuple[Rows, ...] = (fate[0],)
    for rows in undone:
        rest = without(rest, rows)
    return [(rows, fate[1]) for rows in rest]


def _fates(line: DoneLine) -> Iterator[tuple[Rows, str]]:
    first = line.rows.first
    for outcome, count in line.outcomes:
        if outcome != NOT_BEGUN:
            yield Rows(first, count), outcome
        first += count
