"""``trimtab purge scan|import|horizon|plan|policy --json``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from trimtab.purge.horizon.answer import Answer
from trimtab.purge.horizon.curve import HOUR_S, Freed
from trimtab.purge.horizon.forecast import Growth
from trimtab.purge.horizon.horizon import Horizon, OwnedBy, Step
from trimtab.purge.horizon.targets import GroupHorizon, ost_name
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.index.manifest import FileSystemIdentity, Manifest
from trimtab.purge.plan.model import Plan
from trimtab.purge.policy_file import LoadedPolicy
from trimtab.purge.rules import RulesInForce
from trimtab.report.documents.base import Document, fields
from trimtab.visible import visible

Naming = Callable[[int], str | None]


class FileSystemDocument(Document):
    """By what a file system is known again."""

    kind: str
    name: str | None
    fsid: int | None


class ShardDocument(Document):
    """One Parquet file of an index."""

    name: str
    rows: int
    size_bytes: int
    sha256: str | None


class UnreadDocument(Document):
    """A subtree that is not in an index; its path relative to the root, made visible."""

    path: str
    reason: str


class RefusedDocument(Document):
    """A record of a list that could not be taken."""

    record: int | None
    offset_bytes: int | None
    reason: str
    text: str


class IndexDocument(Document):
    """An index as its manifest describes it.

    ``obstacles`` say why nothing may be deleted by it; empty: a plan may be made from it.
    """

    directory: str
    index_id: str
    root: str
    file_system: FileSystemDocument | None
    source: str
    tool: str
    started_at: datetime | None
    ended_at: datetime
    times: str
    time_resolution_ns: int
    lacking: list[str]
    complete: bool
    obstacles: list[str]
    names: int
    size_bytes: int
    shards: list[ShardDocument]
    unread: list[UnreadDocument]
    refused: int
    refused_examples: list[RefusedDocument]
    vanished: int
    notes: list[str]


class FreedDocument(Document):
    """Files, and what they take up."""

    files: int
    allocated_bytes: int


class UsageDocument(Document):
    """How full a file system or OST is, used / (used + available)."""

    used_bytes: int
    available_bytes: int
    fullness: float


class KeptDocument(Document):
    """Files that may not be deleted, and why."""

    reason: str
    files: int
    allocated_bytes: int


class HorizonDocument(Document):
    """A cut-off and what deleting everything before it does.

    ``before`` is null where nothing has to go, ``usage_after`` where it cannot be told.
    """

    status: Literal["met_already", "reached", "out_of_reach"]
    target: float
    required_bytes: int
    before: datetime | None
    age_s: int | None
    freed: FreedDocument
    shortfall_bytes: int
    usage_after: UsageDocument | None
    eligible: FreedDocument
    kept: list[KeptDocument]
    doubts: list[str]


class StepDocument(Document):
    """What a horizon of one age would free."""

    before: datetime
    age_s: int
    freed: FreedDocument
    usage_after: UsageDocument | None


class OwnerDocument(Document):
    """What the lists take from one user or project; ``least`` and ``most`` differ within a day."""

    id: int
    name: str | None
    least: FreedDocument
    most: FreedDocument
    eligible: FreedDocument


class OstDocument(Document):
    """What one OST needs, and what the common cut-off does for it."""

    name: str
    status: Literal["met_already", "reached", "out_of_reach"]
    usage: UsageDocument
    excess_bytes: int
    before: datetime | None
    freed: FreedDocument
    usage_after: UsageDocument | None
    usage_at_best: UsageDocument | None


class PoolDocument(OstDocument):
    """What the OSTs of one pool need together; files on several of them count on each."""

    limit: float
    osts: list[str]


class GrowthDocument(Document):
    """What use is expected to grow by; null with a reason where it cannot be said."""

    ahead_s: int
    middle_bytes: int | None
    interval: tuple[int, int] | None
    level: float
    days: int
    reason: str | None


class RulesDocument(Document):
    """Who may be deleted: as the plan's rules."""

    counted: list[str]
    reads_count: bool
    minimum_age_s: int
    old_enough_before: datetime
    minimum_size_bytes: int
    exemptions: list[str]
    expired: list[str]
    linked: bool


class PurgeHorizonDocument(Document):
    """The horizon of an index: the cut-off of now, that of the lists, and the curve."""

    directory: str
    index_id: str
    root: str
    as_of: datetime
    usage: UsageDocument
    files: int
    allocated_bytes: int
    rules: RulesDocument
    needed: HorizonDocument
    published: HorizonDocument
    growth: GrowthDocument | None
    steps: list[StepDocument]
    users: list[OwnerDocument]
    projects: list[OwnerDocument]
    osts: list[OstDocument]
    pools: list[PoolDocument]
    future_files: int
    words: list[str]
    notes: list[str]


class PlanUserDocument(Document):
    """What of one user stands in a plan."""

    uid: int
    name: str | None
    files: int
    size_bytes: int
    allocated_bytes: int
    oldest_use: datetime | None
    newest_use: datetime | None
    held_bytes: int | None


class PurgePlanDocument(Document):
    """A plan in its place; nothing is deleted by it before ``earliest``, nor after ``expires_at``.

    ``earliest`` counts from when it was made; it is later, the later the plan is published.
    """

    directory: str
    plan: str
    root: str
    file_system: FileSystemDocument
    made_at: datetime
    notice_s: int
    earliest: datetime
    expires_at: datetime
    index_id: str
    policy: str
    policy_sha256: str
    before: datetime
    needed_before: datetime | None
    target: float
    usage: UsageDocument
    to_free_bytes: int
    files: int
    size_bytes: int
    allocated_bytes: int
    candidates_sha256: str
    users: list[PlanUserDocument]
    new_key: bool
    obstacles: list[str]
    words: list[str]
    notes: list[str]


class PurgePolicyDocument(Document):
    """A policy file that was written or read; ``file`` is null where it was only printed."""

    file: str | None
    name: str
    root: str
    sha256: str
    warnings: list[str]
    text: str


def index_document(manifest: Manifest, directory: Path) -> IndexDocument:
    """Return an index as its JSON document."""
    started = manifest.started_ns
    return IndexDocument(
        directory=str(directory),
        index_id=manifest.index_id,
        root=shown(manifest.root),
        file_system=_file_system(manifest.filesystem),
        source=manifest.source.value,
        tool=visible(manifest.tool),
        started_at=None if started is None else moment_of(started // 10**9),
        ended_at=_required(manifest.as_of_s),
        times=manifest.times.value,
        time_resolution_ns=manifest.time_resolution_ns,
        lacking=sorted(lack.value for lack in manifest.lacking),
        complete=manifest.complete,
        obstacles=list(manifest.obstacles),
        names=manifest.rows,
        size_bytes=manifest.size_bytes,
        shards=[ShardDocument(**fields(one, ShardDocument)) for one in manifest.shards],
        unread=[UnreadDocument(path=shown(one.path), reason=one.reason) for one in manifest.unread],
        refused=manifest.refused,
        refused_examples=[
            RefusedDocument(**fields(one, RefusedDocument)) for one in manifest.refused_examples
        ],
        vanished=manifest.vanished,
        notes=[visible(note) for note in manifest.notes],
    )


def horizon_document(
    found: Answer,
    manifest: Manifest,
    directory: Path,
    *,
    rules: RulesInForce,
    usage: Usage,
    totals: Freed,
    notes: Iterable[str],
    user: Naming,
) -> PurgeHorizonDocument:
    """Return what an index says of a target as its JSON document."""
    osts, pools = (() if one is None else one.groups for one in (found.osts, found.pools))
    return PurgeHorizonDocument(
        directory=str(directory),
        index_id=manifest.index_id,
        root=shown(manifest.root),
        as_of=_required(found.as_of_s),
        usage=_usage(usage),
        files=totals.files,
        allocated_bytes=totals.allocated_bytes,
        rules=_rules(rules),
        needed=_horizon(found.needed, found.as_of_s),
        published=_horizon(found.published, found.as_of_s),
        growth=None if found.growth is None else _growth(found.growth),
        steps=[_step(one) for one in found.steps],
        users=[_owner(one, user(one.owner)) for one in found.users],
        projects=[_owner(one, None) for one in found.projects],
        osts=[_ost(one) for one in osts],
        pools=[_pool(one) for one in pools],
        future_files=found.future_files,
        words=list(found.words),
        notes=list(notes),
    )


def plan_document(
    plan: Plan, directory: Path, *, new_key: bool, notes: Iterable[str], user: Naming
) -> PurgePlanDocument:
    """Return a plan as its JSON document."""
    horizon, candidates = plan.horizon, plan.candidates
    return PurgePlanDocument(
        directory=str(directory),
        plan=plan.id,
        root=plan.file_system.root,
        file_system=FileSystemDocument(**fields(plan.file_system, FileSystemDocument)),
        made_at=plan.made_at,
        notice_s=plan.notice_s,
        earliest=plan.earliest,
        expires_at=plan.expires_at,
        index_id=plan.index.id,
        policy=plan.policy.name,
        policy_sha256=plan.policy.sha256,
        before=plan.before,
        needed_before=moment_of(horizon.needed_before_s),
        target=horizon.target,
        usage=_usage(Usage(horizon.used_bytes, horizon.available_bytes)),
        to_free_bytes=horizon.to_free_bytes,
        files=candidates.files,
        size_bytes=candidates.size_bytes,
        allocated_bytes=candidates.allocated_bytes,
        candidates_sha256=candidates.sha256,
        users=[
            PlanUserDocument(
                **dict(
                    fields(one, PlanUserDocument),
                    name=name_of(one.uid, user),
                    oldest_use=moment_of(one.oldest_use_s),
                    newest_use=moment_of(one.newest_use_s),
                )
            )
            for one in candidates.users
        ],
        new_key=new_key,
        obstacles=list(plan.index.obstacles),
        words=[*plan.rules.words, *horizon.words],
        notes=list(notes),
    )


def policy_document(loaded: LoadedPolicy, file: Path | None) -> PurgePolicyDocument:
    """Return a policy as its JSON document."""
    return PurgePolicyDocument(
        file=None if file is None else str(file),
        name=loaded.policy.name,
        root=visible(loaded.policy.root),
        sha256=loaded.sha256,
        warnings=list(loaded.warnings),
        text=loaded.text,
    )


def moment_of(at_s: int | None) -> datetime | None:
    """Return a time; ``None`` where there is none, or no date for it."""
    try:
        return None if at_s is None else datetime.fromtimestamp(at_s, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def shown(path: bytes) -> str:
    """Return a path as visible text."""
    return visible(path.decode("utf-8", "surrogateescape"))


def name_of(uid: int, user: Naming) -> str | None:
    """Return the name of a user as visible text."""
    name = user(uid)
    return None if name is None else visible(name)


def _required(at_s: int) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _file_system(identity: FileSystemIdentity | None) -> FileSystemDocument | None:
    if identity is None:
        return None
    return FileSystemDocument(**fields(identity, FileSystemDocument))


def _usage(usage: Usage) -> UsageDocument:
    return UsageDocument(**fields(usage, UsageDocument))


def _usage_or_none(usage: Usage | None) -> UsageDocument | None:
    return None if usage is None else _usage(usage)


def _freed(freed: Freed) -> FreedDocument:
    return FreedDocument(**fields(freed, FreedDocument))


def _rules(rules: RulesInForce) -> RulesDocument:
    return RulesDocument(
        counted=list(rules.counted),
        reads_count=rules.reads_count,
        minimum_age_s=rules.minimum_age_s,
        old_enough_before=_required(rules.old_enough_before_s),
        minimum_size_bytes=rules.minimum_size_bytes,
        exemptions=[one.shown for one in rules.exemptions],
        expired=[one.shown for one in rules.expired],
        linked=rules.linked,
    )


def _horizon(found: Horizon, as_of_s: int) -> HorizonDocument:
    return HorizonDocument(
        status=found.status.value,
        target=found.target,
        required_bytes=found.required_bytes,
        before=moment_of(found.cut_off_s),
        age_s=found.age_s(as_of_s),
        freed=_freed(found.freed),
        shortfall_bytes=found.shortfall_bytes,
        usage_after=_usage_or_none(found.after),
        eligible=_freed(found.eligible),
        kept=[KeptDocument(**fields(one, KeptDocument)) for one in found.kept],
        doubts=list(found.doubts),
    )


def _step(step: Step) -> StepDocument:
    return StepDocument(
        before=_required(step.cut_off_hour * HOUR_S),
        age_s=step.age_s,
        freed=_freed(step.freed),
        usage_after=_usage_or_none(step.after),
    )


def _owner(one: OwnedBy, name: str | None) -> OwnerDocument:
    return OwnerDocument(
        id=one.owner,
        name=None if name is None else visible(name),
        least=_freed(one.least),
        most=_freed(one.most),
        eligible=_freed(one.eligible),
    )


def _pool(one: GroupHorizon) -> PoolDocument:
    return PoolDocument(
        **dict(_ost(one)),
        limit=one.group.limit,
        osts=[ost_name(index) for index in one.group.osts],
    )


def _ost(one: GroupHorizon) -> OstDocument:
    hour = one.cut_off_hour
    return OstDocument(
        name=visible(one.name),
        status=one.status.value,
        usage=_usage(one.usage),
        excess_bytes=one.excess_bytes,
        before=None if hour is None else moment_of(hour * HOUR_S),
        freed=_freed(one.freed),
        usage_after=_usage_or_none(one.after),
        usage_at_best=_usage_or_none(one.best),
    )


def _growth(growth: Growth) -> GrowthDocument:
    low, high = growth.low_bytes, growth.high_bytes
    return GrowthDocument(
        ahead_s=growth.ahead_s,
        middle_bytes=growth.middle_bytes,
        interval=None if low is None or high is None else (low, high),
        level=growth.level,
        days=growth.days,
        reason=growth.reason,
    )
