"""Report purges by day, from the journals alone: files, bytes, and rows retained with the reason.

Nothing is counted twice or guessed: a row belongs to the day on which its batch ended, and a run
without a recorded end is reported as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, tzinfo
from typing import Final

from trimtab.base.encode import shape
from trimtab.purge.fullness import Usage
from trimtab.purge.owner import USER_NAME
from trimtab.purge.run.journal_line import (
    Chronicle,
    ClaimLine,
    DoneLine,
    FullnessLine,
    Line,
    PlanLine,
    ReleasedLine,
    RunBeginLine,
    RunEndLine,
    RunPace,
    SharedLine,
    SyncedLine,
    TakeoverLine,
    UndoneLine,
)
from trimtab.purge.run.plan_progress import PlanProgress, replay
from trimtab.purge.run.rows import DELETED, GONE, NOT_BEGUN, WOULD_DELETE, Rows, row_count


@dataclass(frozen=True, slots=True)
class Measured:
    """Usage of the file system at a time."""

    at: datetime
    usage: Usage


@dataclass(frozen=True, slots=True)
class UserDay:
    """Deletions of one user's files on a day; bytes as listed in the plan."""

    uid: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RunDay:
    """A run that was active on a day.

    Attributes
    ----------
    end, text
        Reason of its end, as code and sentence; ``None`` if no end was recorded on that day.
    objections
        Why the guards held it back, or would have in a dry run.
    unexplained
        Files set aside that no row explains: an administrator must check them.
    pace
        Its speed on that day.
    """

    run: str
    plan: str
    began: datetime | None = None
    horizon: datetime | None = None
    who: str = ""
    end: str | None = None
    text: str | None = None
    objections: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    pace: RunPace = field(default_factory=RunPace)


@dataclass(frozen=True, slots=True)
class Day:
    """Deletions of one day, or those that dry runs would have made.

    Attributes
    ----------
    day
        Date in the requested time zone.
    dry
        Whether the day is of dry runs; these are never mixed with others.
    files, bytes, freed_bytes
        Deleted files; bytes as listed, and as freed. In an interrupted batch, files found gone
        count too.
    kept
        Rows retained, by reason, including those left because of a cap.
    horizons
        Cut-offs of the plans, in order.
    before, after
        First and last measurement of the day; ``after`` is ``None`` if there was only one, or if
        files were deleted after it.
    users
        Users, most bytes first.
    """

    day: date
    dry: bool
    files: int
    bytes: int
    freed_bytes: int
    kept: Mapping[str, int]
    horizons: tuple[datetime, ...]
    before: Measured | None
    after: Measured | None
    users: tuple[UserDay, ...]
    runs: tuple[RunDay, ...]


@dataclass(frozen=True, slots=True)
class PlanStanding:
    """Progress of a plan over all its runs.

    Attributes
    ----------
    outcomes
        Number of rows by outcome; the rest is waiting.
    interrupted_rows
        Rows of an interrupted batch; the next run determines their outcome.
    """

    plan: str
    root: str
    file_system: str
    rows: int
    outcomes: Mapping[str, int]
    waiting_rows: int
    interrupted_rows: int


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """Days of purging, and the progress of plans."""

    days: tuple[Day, ...]
    plans: tuple[PlanStanding, ...]


def report(
    chronicles: Sequence[Chronicle],
    *,
    first: date | None = None,
    last: date | None = None,
    timezone: tzinfo = UTC,
) -> PurgeReport:
    """Return the report of journals by day; on each day real runs come before dry runs.

    Parameters
    ----------
    first, last
        First and last day reported, inclusive; ``None`` for no limit.
    timezone
        Time zone of the days.

    Raises
    ------
    DataError
        Lines of a journal are contradictory.
    """
    days: dict[tuple[date, bool], _Gathered] = {}
    for chronicle in chronicles:
        if chronicle.plan is not None:
            _gather(days, chronicle.plan, chronicle.lines, timezone)
    chosen = [
        gathered.day(day, dry=dry)
        for (day, dry), gathered in sorted(days.items())
        if (first is None or day >= first) and (last is None or day <= last)
    ]
    plans = (_standing(c.plan, replay(c)) for c in chronicles if c.plan is not None)
    return PurgeReport(tuple(chosen), tuple(plans))


_SILENT: Final = (ClaimLine, TakeoverLine, SharedLine, PlanLine, SyncedLine, ReleasedLine)
"""Lines without daily totals."""


@dataclass(slots=True)
class _Gathered:
    """Totals of a day while its lines are read."""

    files: int = 0
    bytes: int = 0
    freed_bytes: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    users: dict[int, tuple[int, int]] = field(default_factory=dict)
    usages: list[Measured] = field(default_factory=list)
    deleted_at: datetime | None = None
    runs: dict[str, RunDay] = field(default_factory=dict)

    def take(self, line: FullnessLine | DoneLine) -> None:
        if isinstance(line, FullnessLine):
            usage = Usage(line.used_bytes, line.available_bytes)
            self.usages.append(Measured(line.at, usage))
            return
        if line.apply and line.files:
            self.deleted_at = max(line.at, self.deleted_at or line.at)
        self._count(line, 1)
        self.freed_bytes += line.freed_bytes
        gone = {DELETED, WOULD_DELETE, NOT_BEGUN, *({GONE} if line.recovered else ())}
        for outcome, count in line.outcomes:
            if outcome not in gone:
                self.kept[outcome] += count

    def undo(self, line: UndoneLine) -> None:
        """Subtract rows that were counted as deleted but were not."""
        self._count(line, -1)
        self.freed_bytes -= min(self.freed_bytes, line.bytes)

    def _count(self, line: DoneLine | UndoneLine, sign: int) -> None:
        self.files += sign * line.files
        self.bytes += sign * line.bytes
        for uid, counted in line.by_user.items():
            before = self.users.get(uid, (0, 0))
            files, size = (max(0, old + sign * n) for old, n in zip(before, counted, strict=True))
            self.users[uid] = (files, size)

    def _after(self, usages: Sequence[Measured]) -> Measured | None:
        deleted_at = self.deleted_at
        return next((m for m in usages[-1:] if deleted_at is None or m.at >= deleted_at), None)

    def day(self, day: date, *, dry: bool) -> Day:
        usages = sorted(self.usages, key=lambda measured: measured.at)
        users = (UserDay(uid, files, size) for uid, (files, size) in self.users.items())
        horizons = {run.horizon for run in self.runs.values() if run.horizon is not None}
        return Day(
            day=day,
            dry=dry,
            files=self.files,
            bytes=self.bytes,
            freed_bytes=self.freed_bytes,
            kept=dict(self.kept.most_common()),
            horizons=tuple(sorted(horizons)),
            before=usages[0] if usages else None,
            after=self._after(usages[1:]),
            users=tuple(sorted(users, key=lambda user: (-user.bytes, user.uid))),
            runs=tuple(self.runs.values()),
        )


def _gather(
    days: dict[tuple[date, bool], _Gathered],
    plan: PlanLine,
    lines: Iterable[Line],
    timezone: tzinfo,
) -> None:
    begun: dict[str, RunBeginLine] = {}
    days_of_batches: dict[Rows, _Gathered] = {}
    for line in lines:
        if isinstance(line, _SILENT):
            continue
        if isinstance(line, UndoneLine):
            days_of_batches[line.batch].undo(line)
            continue
        if isinstance(line, RunBeginLine):
            begun[line.run] = line
        begin = begun.get(line.run)
        dry = begin is not None and not begin.apply
        key = (line.at.astimezone(timezone).date(), dry)
        gathered = days.setdefault(key, _Gathered())
        if line.run not in gathered.runs:
            gathered.runs[line.run] = _run_day(plan, line.run, begin)
        if isinstance(line, RunEndLine):
            known = gathered.runs[line.run]
            gathered.runs[line.run] = replace(
                known,
                end=line.reason,
                text=line.text,
                objections=line.objections or known.objections,
                unexplained=line.unexplained,
            )
        elif not isinstance(line, RunBeginLine):
            gathered.take(line)
            if isinstance(line, DoneLine):
                known = gathered.runs[line.run]
                gathered.runs[line.run] = replace(known, pace=known.pace.after(line))
                if line.apply:
                    days_of_batches[line.rows] = gathered


def _run_day(plan: PlanLine, run: str, begin: RunBeginLine | None) -> RunDay:
    if begin is None:
        return RunDay(run, plan.plan)
    return RunDay(run, plan.plan, begin.at, begin.horizon, begin.who, objections=begin.objections)


def _standing(plan: PlanLine, standing: PlanProgress) -> PlanStanding:
    outcomes: Counter[str] = Counter()
    for rows, outcome in standing.fates:
        outcomes[outcome] += rows.count
    return PlanStanding(
        plan=plan.plan,
        root=plan.root,
        file_system=plan.file_system,
        rows=plan.rows,
        outcomes=dict(outcomes.most_common()),
        waiting_rows=row_count(standing.todo),
        interrupted_rows=standing.open_rows,
    )


@dataclass(frozen=True, slots=True)
class PurgeReportDocument:
    """The outcome of plans, day by day, from the journals of one host."""

    place: str
    days: tuple[Day, ...]
    plans: tuple[PlanStanding, ...]


shape(Measured, inline={"usage": ()})
shape(UserDay, derive={"name": USER_NAME})
