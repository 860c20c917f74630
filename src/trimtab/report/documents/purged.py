"""Documents of a purge: ``trimtab purge scan|horizon|plan|notify|arm|run|report|query ...``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from trimtab.purge.horizon.answer import Answer
from trimtab.purge.horizon.curve import HOUR_S, Freed
from trimtab.purge.horizon.forecast import Growth
from trimtab.purge.horizon.horizon import Horizon, OwnedBy, Step
from trimtab.purge.horizon.replay import Replay, UserReplay
from trimtab.purge.horizon.targets import GroupHorizon, GroupHorizons, ost_name
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.index.manifest import (
    FileSystemIdentity,
    Followed,
    FollowedMdt,
    Incremental,
    Manifest,
    Shard,
    Unread,
)
from trimtab.purge.index.owners import user_name
from trimtab.purge.notice.mailing import MailFailure, MailResult
from trimtab.purge.plan.model import Plan, UserTotals
from trimtab.purge.plan.names import escape
from trimtab.purge.plan.publication import UserList
from trimtab.purge.policy import Exemption
from trimtab.purge.report import Day, Measured, PlanStanding, UserDay
from trimtab.purge.rules import RulesInForce
from trimtab.purge.run.aside import AsideFile
from trimtab.purge.run.messages import Objection
from trimtab.purge.run.records import RunPace
from trimtab.purge.run.result import RunResult
from trimtab.purge.signs import KINDS, MAY_BE, Kind, Signs, Suspicion, statement
from trimtab.report.documents.encode import Derived, bounds, mapped, shape
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
class PurgeRecoverDocument:
    """What interrupted runs put aside beneath a root, and what became of each file.

    ``fate`` is ``waits``, ``restored``, ``name_taken``, ``directory_gone``, ``origin_unknown``,
    ``in_use`` or ``failed``. ``interrupted`` are plans whose last batch has no end.
    """

    root: str
    restored: bool
    files: tuple[AsideFile, ...]
    interrupted: tuple[str, ...]


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


def _moment(path: str) -> Derived:
    return mapped(path, moment_of, datetime | None)


def _time(path: str) -> Derived:
    return mapped(path, lambda at_s: datetime.fromtimestamp(at_s, UTC), datetime)


def _text(path: str) -> Derived:
    return mapped(path, _shown, str)


def _shown(text: str | bytes) -> str:
    return visible(text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text)


def _name_of(uid: int) -> str | None:
    name = user_name(uid)
    return None if name is None else _shown(name)


_USER_NAME = mapped("uid", _name_of, str | None)


def _hour(hour: int | None) -> datetime | None:
    return None if hour is None else moment_of(hour * HOUR_S)


def _owners(owners: Iterable[OwnedBy], *, users: bool) -> list[OwnerRow]:
    return [OwnerRow(owned, _name_of(owned.owner) if users else None) for owned in owners]


def _exemptions(exemptions: Iterable[Exemption]) -> list[str]:
    return [exemption.shown for exemption in exemptions]


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


shape(
    FileSystemIdentity,
    omit=["device", "uuid", "mount", "made_ns", "root_inode", "root_path"],
)
shape(Unread, derive={"path": _text("path")})
shape(Shard, omit=["read_ns"])
shape(
    Incremental,
    omit=["full_ns"],
    derive={
        "read_since": (datetime, lambda scan: moment_of(scan.full_ns // 10**9)),
    },
)
shape(FollowedMdt, omit=["scanned", "due", "missing"])
shape(Followed, omit=["generation", "again"])
shape(
    Manifest,
    omit=["filesystem", "started_ns", "ended_ns", "atime_settings", "schema_version"],
    derive={
        "root": _text("root"),
        "file_system": "filesystem",
        "tool": _text("tool"),
        "started_at": (
            datetime | None,
            lambda manifest: moment_of(manifest.started_ns and manifest.started_ns // 10**9),
        ),
        "ended_at": _time("as_of_s"),
        "obstacles": (tuple[str, ...], attrgetter("obstacles")),
        "names": "rows",
        "size_bytes": "size_bytes",
        "notes": (tuple[str, ...], lambda manifest: [_shown(note) for note in manifest.notes]),
    },
)
shape(IndexDocument, inline={"manifest": ()})
shape(Usage, omit=["capacity_bytes"], derive={"fullness": "fullness"})
shape(
    RulesInForce,
    omit=[
        *("as_of_s", "old_enough_before_s", "exempt_paths", "exempt_users", "exempt_groups"),
        "exempt_projects",
    ],
    derive={
        "old_enough_before": _time("old_enough_before_s"),
        "exemptions": mapped("exemptions", _exemptions, tuple[str, ...]),
        "expired": mapped("expired", _exemptions, tuple[str, ...]),
    },
)
shape(
    Horizon,
    omit=["usage", "cut_off_hour", "after"],
    derive={
        "before": _moment("cut_off_s"),
        "shortfall_bytes": "shortfall_bytes",
        "usage_after": "after",
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
        "before": mapped("cut_off_hour", _hour, datetime),
        "usage_after": (Usage | None, attrgetter("after")),
    },
)
shape(OwnedBy, omit=["owner"], derive={"id": "owner"})
shape(OwnerRow, inline={"owned": ()})
shape(
    GroupHorizon,
    omit=["group", "cut_off_hour", "best", "after"],
    derive={
        "limit": "group.limit",
        "name": _text("name"),
        "before": mapped("cut_off_hour", _hour, datetime | None),
        "usage_after": "after",
        "usage_at_best": "best",
    },
)
shape(
    PoolRow,
    inline={"horizon": ()},
    derive={
        "osts": (tuple[str, ...], lambda pool: list(map(ost_name, pool.horizon.group.osts))),
    },
)
shape(
    Growth,
    omit=["low_bytes", "high_bytes"],
    derive={"interval": bounds("low_bytes", "high_bytes", int)},
)
shape(UserList, omit=["text_sha256", "lines_sha256", "names_sha256"])
shape(MailFailure, derive={"account": _text("account"), "reason": _text("reason")})
shape(
    Objection,
    derive={
        "reason": _text("reason"),
        "hint": mapped("hint", lambda hint: hint and _shown(hint), str | None),
    },
)
shape(
    PurgeHorizonDocument,
    omit=["totals"],
    inline={"manifest": ("index_id", "root"), "answer": ()},
    derive={
        "files": "totals.files",
        "allocated_bytes": "totals.allocated_bytes",
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
        "as_of": _time("as_of_s"),
        "users": (tuple[OwnerRow, ...], lambda answer: _owners(answer.users, users=True)),
        "projects": (tuple[OwnerRow, ...], lambda answer: _owners(answer.projects, users=False)),
        "osts": mapped("osts", _groups, tuple[GroupHorizon, ...]),
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
        "name": _USER_NAME,
        "oldest_use": _moment("oldest_use_s"),
        "newest_use": _moment("newest_use_s"),
    },
)
shape(
    Plan,
    omit=["format", "id", "index", "policy", "rules", "horizon", "quarantine"],
    inline={"candidates": ("files", "size_bytes", "allocated_bytes", "users")},
    derive={
        "plan": "id",
        "root": "file_system.root",
        "file_system": "file_system.identity",
        "earliest": "earliest",
        "index_id": "index.id",
        "policy": "policy.name",
        "policy_sha256": "policy.sha256",
        "before": "before",
        "needed_before": _moment("horizon.needed_before_s"),
        "target": "horizon.target",
        "usage": (
            Usage,
            lambda plan: Usage(plan.horizon.used_bytes, plan.horizon.available_bytes),
        ),
        "to_free_bytes": "horizon.to_free_bytes",
        "candidates_sha256": "candidates.sha256",
        "obstacles": "index.obstacles",
        "words": (tuple[str, ...], lambda plan: (*plan.rules.words, *plan.horizon.words)),
    },
)
shape(PurgePlanDocument, inline={"plan": ()})
shape(
    Suspicion,
    omit=["first_s", "last_s"],
    derive={
        "name": _USER_NAME,
        "first": _moment("first_s"),
        "last": _moment("last_s"),
        "may_be": mapped("kind", MAY_BE.__getitem__, str),
        "query": (str, statement),
    },
)
shape(
    Signs,
    omit=["manifest", "limits", "found"],
    derive={
        "root": _text("manifest.root"),
        "index": mapped("manifest", _looked_at, LookedAt),
        "earlier": (tuple[LookedAt, ...], lambda signs: list(map(_looked_at, signs.earlier))),
        "minimum_files": "limits.files",
        "unused_s": "limits.old_s",
        "counted": "limits.counted",
        "looked_for": (
            tuple[Kind, ...],
            lambda signs: [kind for kind in KINDS if kind not in signs.passed_over],
        ),
        "passed_over": (tuple[PassedOver, ...], _passed_over),
        "signs": "found",
    },
)
shape(PurgeEvasionDocument, inline={"signs": ()})
shape(UserReplay, derive={"name": _USER_NAME})
shape(
    Replay,
    omit=["then_s", "later_s"],
    derive={
        "then": _moment("then_s"),
        "later": _moment("later_s"),
        "deleted": "deleted",
        "missed": "missed",
        "words": (tuple[str, ...], attrgetter("words")),
    },
)
shape(
    PurgeReplayDocument,
    omit=["before_s"],
    inline={"replay": ()},
    derive={"before": _moment("before_s")},
)
shape(
    RunResult,
    omit=["id", "apply"],
    derive={
        "run": "id",
        "applied": "apply",
        "text": _text("text"),
        "unexplained": (tuple[str, ...], lambda run: list(map(_shown, run.unexplained))),
        "trim_due": "trim_due",
        "journal": mapped("journal", lambda path: visible(str(path)), str),
    },
)
shape(
    AsideFile,
    omit=["quarantine"],
    derive={
        "place": (str, lambda file: escape(file.place)),
        "origin": (str | None, lambda file: file.origin and escape(file.origin)),
        "owner": _USER_NAME,
    },
)
shape(RunPace, derive={"rows_per_s": "rows_per_s"})
shape(PurgeRunDocument, inline={"result": ()})
shape(Measured, inline={"usage": ()})
shape(UserDay, derive={"name": _USER_NAME})
