"""Documents of a purge: ``trimtab purge scan|horizon|plan|notify|arm|run|report|query ...``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from trimtab.config.targets import ost_name
from trimtab.purge.horizon.answer import Answer
from trimtab.purge.horizon.curve import Freed
from trimtab.purge.horizon.forecast import Growth
from trimtab.purge.horizon.horizon import Horizon, OwnedBy
from trimtab.purge.horizon.replay import Replay, UserReplay
from trimtab.purge.horizon.targets import GroupHorizon
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.index.manifest import Manifest
from trimtab.purge.index.owners import user_name
from trimtab.purge.notice.mailing import MailResult
from trimtab.purge.plan.model import Plan, PlannedRules, UserTotals
from trimtab.purge.plan.names import escape
from trimtab.purge.plan.publication import UserList
from trimtab.purge.policy import Exemption
from trimtab.purge.report import Day, Measured, PlanStanding, UserDay
from trimtab.purge.rules import RulesInForce
from trimtab.purge.run.aside import AsideFile
from trimtab.purge.run.records import RunPace
from trimtab.purge.run.result import RunResult
from trimtab.purge.signs import MAY_BE, Signs, Suspicion, statement
from trimtab.report.documents.encode import bounds, mapped, shape
from trimtab.report.documents.values import Problem
from trimtab.units import EpochS
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.purge.index.query import Answer as QueryAnswer

Plain = bool | int | float | str | None
Cell = Plain | list[Plain]


@dataclass(frozen=True, slots=True)
class IndexDocument:
    """An index as described by its manifest.

    ``obstacles`` say why no file may be deleted by it; empty: a plan may be made from it.
    """

    directory: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """One owner's part of the lists; ``least`` and ``most`` differ within a day."""

    owned: OwnedBy
    name: str | None


@dataclass(frozen=True, slots=True)
class PurgeHorizonDocument:
    """The horizon of an index: the current cut-off, that of the lists, and the curve."""

    directory: str
    manifest: Manifest
    answer: Answer
    rules: RulesInForce
    usage: Usage
    totals: Freed
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PurgePlanDocument:
    """A stored plan; it deletes nothing before ``earliest``, nor after ``expires_at``.

    ``earliest`` counts from its creation; publishing the plan later delays it.
    """

    directory: str
    plan: Plan
    new_key: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PurgePolicyDocument:
    """A policy file that was written or read; ``file`` is null if it was only printed."""

    file: str | None
    name: str
    root: str
    sha256: str
    warnings: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class PurgeEvasionDocument:
    """Signs that files are kept artificially young: none of it is proof."""

    directory: str
    signs: Signs


@dataclass(frozen=True, slots=True)
class PurgeReplayDocument:
    """What a past cut-off would have deleted, and its later use."""

    replay: Replay
    before_s: EpochS


@dataclass(frozen=True, slots=True)
class PurgeNotifyDocument:
    """A published plan; ``fresh`` is false if it was published before and no list was changed."""

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
    """Who armed a plan, and from when that counts; null: a second person is missing."""

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
    """The result of a run; for a dry run, what the result would have been.

    ``files`` and ``bytes`` are those of the plan, ``freed_bytes`` those actually freed.
    ``outcomes`` are rows of the plan. ``unexplained`` are files moved aside by an interrupted run
    that match no row: they are left there for a person to check.
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
    """Files put aside by interrupted runs beneath a root, and the fate of each.

    ``fate`` is ``waits``, ``restored``, ``name_taken``, ``directory_gone``, ``origin_unknown``,
    ``in_use`` or ``failed``. ``interrupted`` are plans whose last batch is unfinished.
    """

    root: str
    restored: bool
    files: tuple[AsideFile, ...]
    interrupted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PurgeReportDocument:
    """The outcome of plans, day by day, from the journals of one host."""

    place: str
    days: tuple[Day, ...]
    plans: tuple[PlanStanding, ...]


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """A column of an answer, with its Polars type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class PurgeQueryDocument:
    """The answer to a query; names of files are visible text."""

    columns: tuple[ColumnRow, ...]
    rows: tuple[dict[str, Cell], ...]
    cut_off: bool
    notes: tuple[str, ...]


def query_document(answer: QueryAnswer) -> PurgeQueryDocument:
    """Return the document of the answer to a query."""
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


def _name_of(uid: int) -> str | None:
    name = user_name(uid)
    return None if name is None else visible(name)


_USER_NAME = mapped("uid", _name_of, str | None)


def _owners(owners: Iterable[OwnedBy], *, users: bool) -> list[OwnerRow]:
    return [OwnerRow(owned, _name_of(owned.owner) if users else None) for owned in owners]


def _ost_names(indices: Iterable[int]) -> list[str]:
    return list(map(ost_name, indices))


def _exemptions(exemptions: Iterable[Exemption]) -> list[str]:
    return [exemption.shown for exemption in exemptions]


def _cell(value: object) -> Cell:
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else _plain(value)


def _plain(value: object) -> Plain:
    """Return a value supported by JSON; times and others as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


shape(
    Manifest,
    omit=["filesystem", "schema_version"],
    derive={
        "file_system": "filesystem",
        "obstacles": (tuple[str, ...], attrgetter("obstacles")),
        "names": "rows",
        "size_bytes": "size_bytes",
    },
)
shape(IndexDocument, inline={"manifest": ()})
shape(Usage, derive={"fullness": "fullness"})
shape(
    RulesInForce,
    omit=["exempt_paths", "exempt_users", "exempt_groups", "exempt_projects"],
    derive={
        "exemptions": mapped("exemptions", _exemptions, tuple[str, ...]),
        "expired": mapped("expired", _exemptions, tuple[str, ...]),
    },
)
shape(Horizon, derive={"shortfall_bytes": "shortfall_bytes"})
shape(OwnerRow, inline={"owned": ()})
shape(
    GroupHorizon,
    inline={"group": ("name", "limit")},
    derive={"osts": mapped("group.osts", _ost_names, tuple[str, ...])},
)
shape(
    Growth,
    omit=["low_bytes", "high_bytes"],
    derive={"interval": bounds("low_bytes", "high_bytes", int)},
)
shape(
    PurgeHorizonDocument,
    inline={"manifest": ("index_id", "root"), "answer": (), "totals": ()},
)
shape(
    Answer,
    derive={
        "users": (tuple[OwnerRow, ...], lambda answer: _owners(answer.users, users=True)),
        "projects": (tuple[OwnerRow, ...], lambda answer: _owners(answer.projects, users=False)),
    },
)
shape(UserTotals, derive={"name": _USER_NAME})
shape(PlannedRules, omit=["exempt_paths", "exempt_users", "exempt_groups", "exempt_projects"])
shape(
    Plan,
    omit=["format", "id", "quarantine"],
    inline={"candidates": ("files", "size_bytes", "allocated_bytes", "users")},
    derive={
        "plan": "id",
        "policy": "policy.name",
        "policy_sha256": "policy.sha256",
        "earliest": "earliest",
    },
)
shape(PurgePlanDocument, inline={"plan": ()})
shape(
    Suspicion,
    derive={
        "name": _USER_NAME,
        "may_be": mapped("kind", MAY_BE.__getitem__, str),
        "query": (str, statement),
    },
)
shape(
    Signs,
    omit=["found"],
    inline={"manifest": ("index_id", "root", "ended")},
    derive={
        "signs": "found",
        "earlier": (
            tuple[str, ...],
            lambda signs: [manifest.index_id for manifest in signs.earlier],
        ),
    },
)
shape(PurgeEvasionDocument, inline={"signs": ()})
shape(UserReplay, derive={"name": _USER_NAME})
shape(
    Replay,
    derive={
        "deleted": "deleted",
        "missed": "missed",
        "words": (tuple[str, ...], attrgetter("words")),
    },
)
shape(PurgeReplayDocument, inline={"replay": ()})
shape(
    RunResult,
    omit=["id", "apply", "errors", "unwatched"],
    derive={"run": "id", "applied": "apply", "trim_due": "trim_due"},
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
