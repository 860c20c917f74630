"""Documents of a purge: ``trimtab purge scan|horizon|plan|notify|arm|run|report|query ...``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trimtab.purge.horizon.answer import Answer
from trimtab.purge.horizon.curve import HOUR_S, Freed
from trimtab.purge.horizon.forecast import Growth
from trimtab.purge.horizon.horizon import Horizon, OwnedBy, Step
from trimtab.purge.horizon.replay import Replay, Share, UserReplay
from trimtab.purge.horizon.targets import GroupHorizon, GroupHorizons, ost_name
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.index.manifest import FileSystemIdentity, Manifest, Unread
from trimtab.purge.index.owners import user_name
from trimtab.purge.notice.mailing import MailFailure, MailResult
from trimtab.purge.plan.model import Plan, UserTotals
from trimtab.purge.plan.publication import UserList
from trimtab.purge.report import Day, Measured, PlanStanding, UserDay
from trimtab.purge.rules import RulesInForce
from trimtab.purge.run.messages import Objection
from trimtab.purge.run.runner import RunResult
from trimtab.purge.signs import KINDS, MAY_BE, Kind, Signs, Suspicion, statement
from trimtab.report.documents.encode import shape
from trimtab.report.documents.measured import Problem
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.purge.index.query import Answer as QueryAnswer

Plain = bool | int | float | str | None
Cell = Plain | list[Plain]


@dataclass(frozen=True, slots=True)
class IndexDocument:
    """An index as its manifest describes it.

    ``obstacles`` say why nothing may be deleted by it; empty: a plan may be made from it.
    """

    directory: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class HorizonAt:
    """A cut-off and what deleting everything before it does.

    ``before`` is null where nothing has to go, ``usage_after`` where it cannot be told.
    """

    horizon: Horizon
    as_of_s: int


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """What the lists take from one user or project; ``least`` and ``most`` differ within a day."""

    owned: OwnedBy
    name: str | None


@dataclass(frozen=True, slots=True)
class PoolRow:
    """What the OSTs of one pool need together; files on several of them count on each."""

    horizon: GroupHorizon


@dataclass(frozen=True, slots=True)
class PurgeHorizonDocument:
    """The horizon of an index: the cut-off of now, that of the lists, and the curve."""

    directory: str
    manifest: Manifest
    answer: Answer
    rules: RulesInForce
    usage: Usage
    totals: Freed
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PurgePlanDocument:
    """A plan in its place; nothing is deleted by it before ``earliest``, nor after ``expires_at``.

    ``earliest`` counts from when it was made; it is later, the later the plan is published.
    """

    directory: str
    plan: Plan
    new_key: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PurgePolicyDocument:
    """A policy file that was written or read; ``file`` is null where it was only printed."""

    file: str | None
    name: str
    root: str
    sha256: str
    warnings: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class LookedAt:
    """An index that was looked at."""

    index_id: str
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A kind of sign that was not looked for."""

    kind: Kind
    reason: str


@dataclass(frozen=True, slots=True)
class PurgeEvasionDocument:
    """Signs that files are kept alive without being used: none of it is proof."""

    directory: str
    signs: Signs


@dataclass(frozen=True, slots=True)
class PurgeReplayDocument:
    """What a cut-off of then would have deleted, and what became of it."""

    replay: Replay
    before_s: int


@dataclass(frozen=True, slots=True)
class PurgeNotifyDocument:
    """A plan made public; ``fresh`` is false where it was before, and no list was touched."""

    plan: str
    directory: str
    fresh: bool
    published_at: datetime
    not_before: datetime
    expires_at: datetime
    previous_plan: str | None
    lists: tuple[UserList, ...]
    mails: MailResult | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PurgeArmDocument:
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


@dataclass(frozen=True, slots=True)
class PurgeRunDocument:
    """What a run came to; of a dry run, what it would have.

    ``files`` and ``bytes`` are as the plan lists them, ``freed_bytes`` as they were freed.
    ``outcomes`` are rows of the plan. ``unexplained`` are files that an interrupted run had moved
    aside and that fit no row: they are left there, and a person has to look.
    """

    plan: str
    root: str
    rows: int
    result: RunResult
    notes: tuple[str, ...]
    error: Problem | None


@dataclass(frozen=True, slots=True)
class PurgeReportDocument:
    """What became of plans, day by day, by the journals of one host."""

    place: str
    days: tuple[Day, ...]
    plans: tuple[PlanStanding, ...]


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """A column of an answer, with its type as Polars names it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class PurgeQueryDocument:
    """The answer to a question; names of files are visible text."""

    columns: tuple[ColumnRow, ...]
    rows: tuple[dict[str, Cell], ...]
    cut_off: bool
    notes: tuple[str, ...]


def query_document(answer: QueryAnswer) -> PurgeQueryDocument:
    """Return the document of the answer to a question."""
    frame = answer.frame
    return PurgeQueryDocument(
        tuple(ColumnRow(name, str(kind)) for name, kind in frame.schema.items()),
        tuple(
            {name: _cell(value) for name, value in row.items()}
            for row in frame.iter_rows(named=True)
        ),
        answer.cut_off,
        answer.notes,
    )


def moment_of(at_s: float | None) -> datetime | None:
    """Return a time; ``None`` where there is none, or no date for it."""
    try:
        return None if at_s is None else datetime.fromtimestamp(at_s, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _time_of(at_s: int) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _visible(text: str | bytes | None) -> str | None:
    return None if text is None else _shown(text)


def _shown(text: str | bytes) -> str:
    return visible(text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text)


def _name_of(uid: int) -> str | None:
    return _visible(user_name(uid))


def _hour(hour: int | None) -> datetime | None:
    return None if hour is None else moment_of(hour * HOUR_S)


def _growth_interval(growth: Growth) -> tuple[int, int] | None:
    low, high = growth.low_bytes, growth.high_bytes
    return None if low is None or high is None else (low, high)


def _owners(owners: Iterable[OwnedBy], *, users: bool) -> list[OwnerRow]:
    return [OwnerRow(owned, _name_of(owned.owner) if users else None) for owned in owners]


def _groups(horizons: GroupHorizons | None) -> tuple[GroupHorizon, ...]:
    return () if horizons is None else horizons.groups


def _looked_at(manifest: Manifest) -> LookedAt:
    return LookedAt(manifest.index_id, moment_of(manifest.as_of_s))


def _passed_over(signs: Signs) -> list[PassedOver]:
    return [
        PassedOver(kind, signs.passed_over[kind]) for kind in KINDS if kind in signs.passed_over
    ]


def _cell(value: object) -> Cell:
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else _plain(value)


def _plain(value: object) -> Plain:
    """Return a value that JSON has; times and what else there is as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


shape(FileSystemIdentity, omit=["device"])
shape(Unread, derive={"path": (str, lambda unread: _shown(unread.path))})
shape(
    Manifest,
    omit=["filesystem", "started_ns", "ended_ns", "atime_settings", "schema_version"],
    derive={
        "root": (str, lambda manifest: _shown(manifest.root)),
        "file_system": (FileSystemIdentity | None, lambda manifest: manifest.filesystem),
        "tool": (str, lambda manifest: visible(manifest.tool)),
        "started_at": (
            datetime | None,
            lambda manifest: moment_of(manifest.started_ns and manifest.started_ns // 10**9),
        ),
        "ended_at": (datetime, lambda manifest: _time_of(manifest.as_of_s)),
        "obstacles": (tuple[str, ...], lambda manifest: manifest.obstacles),
        "names": (int, lambda manifest: manifest.rows),
        "size_bytes": (int, lambda manifest: manifest.size_bytes),
        "notes": (tuple[str, ...], lambda manifest: [_shown(note) for note in manifest.notes]),
    },
)
shape(IndexDocument, inline={"manifest": ()})
shape(Usage, omit=["capacity_bytes"], derive={"fullness": (float, lambda usage: usage.fullness)})
shape(
    RulesInForce,
    omit=[
        *("as_of_s", "old_enough_before_s", "exempt_paths", "exempt_users", "exempt_groups"),
        *("exempt_projects", "words"),
    ],
    derive={
        "old_enough_before": (datetime, lambda rules: _time_of(rules.old_enough_before_s)),
        "exemptions": (tuple[str, ...], lambda rules: [one.shown for one in rules.exemptions]),
        "expired": (tuple[str, ...], lambda rules: [one.shown for one in rules.expired]),
    },
)
shape(
    Horizon,
    omit=["usage", "cut_off_hour", "after"],
    derive={
        "before": (datetime | None, lambda horizon: moment_of(horizon.cut_off_s)),
        "shortfall_bytes": (int, lambda horizon: horizon.shortfall_bytes),
        "usage_after": (Usage | None, lambda horizon: horizon.after),
    },
)
shape(
    HorizonAt,
    omit=["as_of_s"],
    inline={"horizon": ()},
    derive={"age_s": (int | None, lambda cut: cut.horizon.age_s(cut.as_of_s))},
)
shape(
    Step,
    omit=["cut_off_hour", "after"],
    derive={
        "before": (datetime, lambda step: _time_of(step.cut_off_hour * HOUR_S)),
        "usage_after": (Usage | None, lambda step: step.after),
    },
)
shape(OwnedBy, omit=["owner"], derive={"id": (int, lambda owned: owned.owner)})
shape(OwnerRow, inline={"owned": ()})
shape(
    GroupHorizon,
    omit=["group", "cut_off_hour", "best", "after"],
    derive={
        "name": (str, lambda group: visible(group.name)),
        "before": (datetime | None, lambda group: _hour(group.cut_off_hour)),
        "usage_after": (Usage | None, lambda group: group.after),
        "usage_at_best": (Usage | None, lambda group: group.best),
    },
)
shape(
    PoolRow,
    inline={"horizon": ()},
    derive={
        "limit": (float, lambda pool: pool.horizon.group.limit),
        "osts": (tuple[str, ...], lambda pool: list(map(ost_name, pool.horizon.group.osts))),
    },
)
shape(
    Growth,
    omit=["low_bytes", "high_bytes"],
    derive={"interval": (tuple[int, int] | None, _growth_interval)},
)
shape(UserList, omit=["text_sha256", "lines_sha256", "names_sha256"])
shape(
    MailFailure,
    derive={
        "account": (str, lambda failure: visible(failure.account)),
        "reason": (str, lambda failure: visible(failure.reason)),
    },
)
shape(
    Objection,
    derive={
        "reason": (str, lambda objection: visible(objection.reason)),
        "hint": (str | None, lambda objection: _visible(objection.hint)),
    },
)
shape(
    PurgeHorizonDocument,
    omit=["totals"],
    inline={"manifest": ("index_id", "root"), "answer": ()},
    derive={
        "files": (int, lambda document: document.totals.files),
        "allocated_bytes": (int, lambda document: document.totals.allocated_bytes),
        "needed": (
            HorizonAt,
            lambda document: HorizonAt(document.answer.needed, document.answer.as_of_s),
        ),
        "published": (
            HorizonAt,
            lambda document: HorizonAt(document.answer.published, document.answer.as_of_s),
        ),
    },
)
shape(
    Answer,
    omit=["as_of_s", "needed", "published"],
    derive={
        "as_of": (datetime, lambda answer: _time_of(answer.as_of_s)),
        "users": (tuple[OwnerRow, ...], lambda answer: _owners(answer.users, users=True)),
        "projects": (tuple[OwnerRow, ...], lambda answer: _owners(answer.projects, users=False)),
        "osts": (tuple[GroupHorizon, ...], lambda answer: _groups(answer.osts)),
        "pools": (
            tuple[PoolRow, ...],
            lambda answer: [PoolRow(group) for group in _groups(answer.pools)],
        ),
    },
)
shape(
    UserTotals,
    omit=["oldest_use_s", "newest_use_s"],
    derive={
        "name": (str | None, lambda user: _name_of(user.uid)),
        "oldest_use": (datetime | None, lambda user: moment_of(user.oldest_use_s)),
        "newest_use": (datetime | None, lambda user: moment_of(user.newest_use_s)),
    },
)
shape(
    Plan,
    omit=["format", "id", "index", "policy", "rules", "horizon"],
    inline={"candidates": ("files", "size_bytes", "allocated_bytes", "users")},
    derive={
        "plan": (str, lambda plan: plan.id),
        "root": (str, lambda plan: plan.file_system.root),
        "file_system": (FileSystemIdentity, lambda plan: plan.file_system.identity),
        "earliest": (datetime, lambda plan: plan.earliest),
        "index_id": (str, lambda plan: plan.index.id),
        "policy": (str, lambda plan: plan.policy.name),
        "policy_sha256": (str, lambda plan: plan.policy.sha256),
        "before": (datetime, lambda plan: plan.before),
        "needed_before": (datetime | None, lambda plan: moment_of(plan.horizon.needed_before_s)),
        "target": (float, lambda plan: plan.horizon.target),
        "usage": (
            Usage,
            lambda plan: Usage(plan.horizon.used_bytes, plan.horizon.available_bytes),
        ),
        "to_free_bytes": (int, lambda plan: plan.horizon.to_free_bytes),
        "candidates_sha256": (str, lambda plan: plan.candidates.sha256),
        "obstacles": (tuple[str, ...], lambda plan: plan.index.obstacles),
        "words": (tuple[str, ...], lambda plan: (*plan.rules.words, *plan.horizon.words)),
    },
)
shape(PurgePlanDocument, inline={"plan": ()})
shape(
    Suspicion,
    omit=["first_s", "last_s"],
    derive={
        "name": (str | None, lambda sign: _name_of(sign.uid)),
        "first": (datetime | None, lambda sign: moment_of(sign.first_s)),
        "last": (datetime | None, lambda sign: moment_of(sign.last_s)),
        "may_be": (str, lambda sign: MAY_BE[sign.kind]),
        "query": (str, statement),
    },
)
shape(
    Signs,
    omit=["manifest", "limits", "found"],
    derive={
        "root": (str, lambda signs: _shown(signs.manifest.root)),
        "index": (LookedAt, lambda signs: _looked_at(signs.manifest)),
        "earlier": (tuple[LookedAt, ...], lambda signs: list(map(_looked_at, signs.earlier))),
        "minimum_files": (int, lambda signs: signs.limits.files),
        "unused_s": (int, lambda signs: signs.limits.old_s),
        "counted": (tuple[str, ...], lambda signs: signs.limits.counted),
        "looked_for": (
            tuple[Kind, ...],
            lambda signs: [kind for kind in KINDS if kind not in signs.passed_over],
        ),
        "passed_over": (tuple[PassedOver, ...], _passed_over),
        "signs": (tuple[Suspicion, ...], lambda signs: signs.found),
    },
)
shape(PurgeEvasionDocument, inline={"signs": ()})
shape(UserReplay, derive={"name": (str | None, lambda user: _name_of(user.uid))})
shape(
    Replay,
    omit=["then_s", "later_s"],
    derive={
        "then": (datetime | None, lambda replay: moment_of(replay.then_s)),
        "later": (datetime | None, lambda replay: moment_of(replay.later_s)),
        "deleted": (Share, lambda replay: replay.deleted),
        "missed": (Share, lambda replay: replay.missed),
        "words": (tuple[str, ...], lambda replay: replay.words),
    },
)
shape(
    PurgeReplayDocument,
    omit=["before_s"],
    inline={"replay": ()},
    derive={"before": (datetime | None, lambda document: moment_of(document.before_s))},
)
shape(
    RunResult,
    omit=["id", "apply", "torn_bytes"],
    derive={
        "run": (str, lambda run: run.id),
        "applied": (bool, lambda run: run.apply),
        "text": (str, lambda run: visible(run.text)),
        "unexplained": (tuple[str, ...], lambda run: list(map(_shown, run.unexplained))),
        "trim_due": (bool, lambda run: run.trim_due),
        "journal": (str, lambda run: visible(str(run.journal))),
    },
)
shape(PurgeRunDocument, inline={"result": ()})
shape(Measured, inline={"usage": ()})
shape(UserDay, derive={"name": (str | None, lambda user: _name_of(user.uid))})
