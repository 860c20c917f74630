"""``trimtab purge notify|arm|run|report|query --json``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import trimtab.purge.report as purge_report
from trimtab.errors import TrimtabError
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.notice.mailing import MailFailure, MailResult
from trimtab.purge.notice.notify import Published
from trimtab.purge.plan.load import LoadedPlan
from trimtab.purge.report import Day, PurgeReport
from trimtab.purge.run.messages import Objection
from trimtab.purge.run.runner import RunResult
from trimtab.purge.run.situation import ArmedBy
from trimtab.report.documents.base import Document, fields
from trimtab.report.documents.check import ErrorDocument
from trimtab.report.documents.purge import Naming, UsageDocument, name_of, shown
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.purge.index.query import Answer as QueryAnswer


Plain = bool | int | float | str | None
Value = Plain | list[Plain]


class ListDocument(Document):
    """The list that one user was given; its files are ``name`` with a suffix each."""

    uid: int
    account: str | None
    name: str
    files: int
    new_files: int | None
    gone_files: int | None


class MailFailureDocument(Document):
    """A user who was not told by mail, or about whom that is not known."""

    uid: int
    account: str
    reason: str


class MailsDocument(Document):
    """What became of the mails of a plan."""

    sent: int
    sent_before: int
    unclear: list[MailFailureDocument]
    failures: list[MailFailureDocument]


class PurgeNotifyDocument(Document):
    """A plan made public; ``fresh`` is false where it was before, and no list was touched."""

    plan: str
    directory: str
    fresh: bool
    published_at: datetime
    not_before: datetime
    expires_at: datetime
    previous_plan: str | None
    lists: list[ListDocument]
    mails: MailsDocument | None
    notes: list[str]


class PurgeArmDocument(Document):
    """Who armed a plan, and from when on that counts; null: a second person is missing."""

    plan: str
    at: datetime
    person: int | None
    name: str
    kind: str
    people: int
    effective_at: datetime | None
    not_before: datetime
    expires_at: datetime


class ObjectionDocument(Document):
    """What a guard says against a run."""

    guard: str
    reason: str
    hint: str | None


class PurgeRunDocument(Document):
    """What a run came to; of a dry run, what it would have.

    ``files`` and ``bytes`` are as the plan lists them, ``freed_bytes`` as they were freed.
    ``outcomes`` are rows of the plan. ``unexplained`` are files that an interrupted run had moved
    aside and that fit no row: they are left there, and a person has to look.
    """

    run: str
    plan: str
    root: str
    applied: bool
    reason: str
    text: str
    files: int
    bytes: int
    freed_bytes: int
    outcomes: dict[str, int]
    rows: int
    rows_left: int
    recovered_rows: int
    unexplained: list[str]
    before: UsageDocument | None
    after: UsageDocument | None
    objections: list[ObjectionDocument]
    trim_due: bool
    notes: list[str]
    journal: str
    error: ErrorDocument | None


class FullnessDocument(Document):
    """How full the file system was at a time."""

    at: datetime
    used_bytes: int
    available_bytes: int
    fullness: float


class UserDayDocument(Document):
    """What of one user went on a day."""

    uid: int
    name: str | None
    files: int
    bytes: int


class RunDayDocument(Document):
    """A run that was at work on a day; ``end`` is null where it never said how it ended."""

    run: str
    plan: str
    began: datetime | None
    horizon: datetime | None
    who: str
    end: str | None
    text: str | None
    objections: list[str]
    unexplained: list[str]


class DayDocument(Document):
    """What was deleted on one day, or by dry runs would have been."""

    day: str
    dry: bool
    files: int
    bytes: int
    freed_bytes: int
    kept: dict[str, int]
    horizons: list[datetime]
    before: FullnessDocument | None
    after: FullnessDocument | None
    users: list[UserDayDocument]
    runs: list[RunDayDocument]


class StandingDocument(Document):
    """How far a plan is, over all its runs."""

    plan: str
    root: str
    file_system: str
    rows: int
    outcomes: dict[str, int]
    waiting_rows: int
    interrupted_rows: int
    torn_lines: int


class PurgeReportDocument(Document):
    """What became of plans, day by day, by the journals of one host."""

    place: str
    days: list[DayDocument]
    plans: list[StandingDocument]


class ColumnDocument(Document):
    """A column of an answer, with its type as Polars names it."""

    name: str
    type: str


class PurgeQueryDocument(Document):
    """The answer to a question; names of files are visible text."""

    columns: list[ColumnDocument]
    rows: list[dict[str, Value]]
    cut_off: bool
    notes: list[str]


def notify_document(
    told: Published,
    mails: MailResult | None,
    notes: Sequence[str],
) -> PurgeNotifyDocument:
    """Return what came of making a plan public as its JSON document."""
    publication, plan = told.publication, told.loaded.plan
    return PurgeNotifyDocument(
        plan=plan.id,
        directory=visible(publication.directory),
        fresh=told.fresh,
        published_at=publication.published_at,
        not_before=publication.not_before,
        expires_at=plan.expires_at,
        previous_plan=publication.previous_plan_id,
        lists=[
            ListDocument(**dict(fields(one, ListDocument), account=_visible(one.account)))
            for one in publication.lists
        ],
        mails=None if mails is None else _mails(mails),
        notes=list(notes),
    )


def arm_document(
    loaded: LoadedPlan, by: ArmedBy, *, kind: str, people: int, effective_at_s: float | None
) -> PurgeArmDocument:
    """Return who armed a plan as its JSON document."""
    assert loaded.publication is not None
    return PurgeArmDocument(
        plan=loaded.plan.id,
        at=datetime.fromtimestamp(by.at_s, UTC),
        person=by.person,
        name=by.name,
        kind=kind,
        people=people,
        effective_at=(
            None if effective_at_s is None else datetime.fromtimestamp(effective_at_s, UTC)
        ),
        not_before=loaded.publication.not_before,
        expires_at=loaded.plan.expires_at,
    )


def run_document(
    result: RunResult,
    loaded: LoadedPlan,
    error: TrimtabError | None,
    notes: Sequence[str] = (),
) -> PurgeRunDocument:
    """Return what a run came to as its JSON document."""
    return PurgeRunDocument(
        run=result.id,
        plan=loaded.plan.id,
        root=loaded.plan.file_system.root,
        applied=result.apply,
        reason=result.reason.value,
        text=visible(result.text),
        files=result.files,
        bytes=result.bytes,
        freed_bytes=result.freed_bytes,
        outcomes=dict(result.outcomes),
        rows=loaded.plan.candidates.files,
        rows_left=result.rows_left,
        recovered_rows=result.recovered_rows,
        unexplained=[shown(path) for path in result.unexplained],
        before=_usage(result.before),
        after=_usage(result.after),
        objections=[_objection(one) for one in result.objections],
        trim_due=result.trim_due,
        notes=list(notes),
        journal=visible(str(result.journal)),
        error=None if error is None else ErrorDocument(**fields(error, ErrorDocument)),
    )


def report_document(found: PurgeReport, place: str, user: Naming) -> PurgeReportDocument:
    """Return what became of plans as its JSON document."""
    return PurgeReportDocument(
        place=visible(place),
        days=[_day(one, user) for one in found.days],
        plans=[StandingDocument(**fields(one, StandingDocument)) for one in found.plans],
    )


def query_document(found: QueryAnswer) -> PurgeQueryDocument:
    """Return the answer to a question as its JSON document."""
    frame = found.frame
    return PurgeQueryDocument(
        columns=[ColumnDocument(name=name, type=str(kind)) for name, kind in frame.schema.items()],
        rows=[
            {name: _value(value) for name, value in row.items()}
            for row in frame.iter_rows(named=True)
        ],
        cut_off=found.cut_off,
        notes=list(found.notes),
    )


def _mails(mails: MailResult) -> MailsDocument:
    return MailsDocument(
        sent=mails.sent,
        sent_before=mails.sent_before,
        unclear=[_failure(one) for one in mails.unclear],
        failures=[_failure(one) for one in mails.failures],
    )


def _failure(one: MailFailure) -> MailFailureDocument:
    return MailFailureDocument(
        uid=one.uid, account=visible(one.account), reason=visible(one.reason)
    )


def _objection(one: Objection) -> ObjectionDocument:
    return ObjectionDocument(guard=one.guard, reason=visible(one.reason), hint=_visible(one.hint))


def _usage(usage: Usage | None) -> UsageDocument | None:
    return None if usage is None else UsageDocument(**fields(usage, UsageDocument))


def _fullness(one: purge_report.Measured | None) -> FullnessDocument | None:
    return None if one is None else FullnessDocument(at=one.at, **fields(one.usage, UsageDocument))


def _day(one: Day, user: Naming) -> DayDocument:
    return DayDocument(
        day=one.day.isoformat(),
        dry=one.dry,
        files=one.files,
        bytes=one.bytes,
        freed_bytes=one.freed_bytes,
        kept=dict(one.kept),
        horizons=list(one.horizons),
        before=_fullness(one.before),
        after=_fullness(one.after),
        users=[
            UserDayDocument(**dict(fields(this, UserDayDocument), name=name_of(this.uid, user)))
            for this in one.users
        ],
        runs=[RunDayDocument(**fields(run, RunDayDocument)) for run in one.runs],
    )


def _visible(text: str | None) -> str | None:
    return None if text is None else visible(text)


def _value(value: object) -> Value:
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else _plain(value)


def _plain(value: object) -> Plain:
    """Return a value that JSON has; times and what else there is as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
