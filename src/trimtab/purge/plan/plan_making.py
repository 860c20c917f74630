"""Make a plan: choose the candidates, freeze, hash and sign them. Deletes nothing."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from trimtab.base.encode import mapped, shape
from trimtab.base.error import RefusedError
from trimtab.base.event import new_identifier
from trimtab.purge.core_call import Look, Measure, core_errors, look_on, require_answer, usage_now
from trimtab.purge.horizon.horizon_question import (
    HorizonQuestion,
    PurgeHorizonDocument,
    ask_horizon,
    choose,
)
from trimtab.purge.index import index_view
from trimtab.purge.index.dask_pieces import all_totals
from trimtab.purge.index.index_query import By
from trimtab.purge.index.manifest import Manifest
from trimtab.purge.index.manifest_file import MANIFEST
from trimtab.purge.index.size_sample import ExactCandidates, look_at_candidates
from trimtab.purge.plan.deletion_plan import (
    QUARANTINE_PREFIX,
    DeletionPlan,
    PlanDraft,
    PlannedFileSystem,
    PlannedHorizon,
    PlannedIndex,
    PlannedPolicy,
    PlannedRules,
    escape,
    same_named,
)
from trimtab.purge.plan.plan_directory import freeze, staging
from trimtab.purge.plan.plan_signature import SigningKey, create_key, read_key
from trimtab.purge.policy_file import LoadedPolicy, policy_text
from trimtab.purge.root_facts import look_beneath, require_exempt_paths, root_facts
from trimtab.store.location import PurgePlace, prepared


@dataclass(frozen=True, slots=True)
class PurgePlanDocument:
    """A stored plan; it deletes nothing before ``earliest``, nor after ``expires_at``.

    ``earliest`` counts from its creation; publishing the plan later delays it.

    Attributes
    ----------
    directory
        Directory of the plan.
    new_key
        Whether the site's key was made for it.
    notes
        Warnings of the policy, and what a reader of the horizon should know.
    horizon
        The horizon that it follows from.
    """

    directory: Path
    plan: DeletionPlan
    new_key: bool
    notes: tuple[str, ...]
    horizon: PurgeHorizonDocument


shape(
    PurgePlanDocument,
    omit=["horizon"],
    inline={"plan": ()},
    derive={"directory": mapped("directory", str, str)},
)


def make_plan(
    question: HorizonQuestion,
    policy: LoadedPolicy,
    out: Path,
    *,
    place: PurgePlace,
    now: datetime,
    measure: Measure = usage_now,
    progress: Callable[[str, float], None] = lambda step, part: None,
    look: Look | None = None,
) -> PurgePlanDocument:
    """Return the plan that a policy makes of an index, written to ``out``.

    Parameters
    ----------
    look
        Looks up the current size and project of each candidate; ``None``: on Lustre that of this
        host, elsewhere none, since sizes of an index are exact there.

    Raises
    ------
    RefusedError
        Nothing must be deleted, or nothing may be; an exempt path does not exist; the directories
        are not root's alone.
    NoAnswer
        The file system hangs.
    UsageError
        ``out`` exists already, or the index does not fit the policy.
    """
    progress("reading the index", 0.0)
    require_answer(policy.policy.root, "the plan")
    require_exempt_paths(
        policy.policy, look_beneath(policy.policy.root), now_s=int(now.timestamp())
    )
    horizon = ask_horizon(replace(question, policy=policy.policy), now=now, measure=measure)
    published = horizon.answer.published
    before_s = published.cut_off_s
    if before_s is None:
        raise RefusedError(
            f"nothing must be deleted: {published.words(horizon.rules.as_of_s)[0]}",
            code="nothing-needed",
            hint="a plan is made where use is, or is forecast to be, over the target",
        )
    if not published.freed.files:
        raise RefusedError(
            "nothing may be deleted: no file is old enough under this policy",
            code="nothing-eligible",
            hint="trimtab purge horizon --index DIR --policy FILE shows why each is kept",
        )
    key, new_key = signing_key(prepared(place))
    with staging(out, owner=place.owner) as staged:
        progress("choosing the candidates", 0.3)
        choose(question, horizon, before_s, staged.candidates)
        looked = None
        if look is None and _file_system(horizon).kind == "lustre":
            look = look_on(policy.policy.root, lustre=True, project=True, threads=question.threads)
        if look is not None:
            progress("looking at the candidates", 0.5)
            with core_errors("looking at the candidates"):
                looked = look_at_candidates(staged.candidates, look, horizon.rules)
            _require_files(looked)
        progress("freezing and signing", 0.7)
        plan = freeze(
            _draft(question, policy, horizon, before_s, now, looked=looked),
            staged,
            key=key,
            held_bytes=_held(question, horizon),
        )
    notes = (*policy.warnings, *horizon.notes)
    return PurgePlanDocument(staged.out, plan, new_key, notes, horizon)


def signing_key(place: PurgePlace) -> tuple[SigningKey, bool]:
    """Return the site's key and whether it was made now."""
    if place.key.exists():
        return read_key(place.key, owner=place.owner), False
    return create_key(place.key, owner=place.owner), True


def _require_files(looked: ExactCandidates) -> None:
    if not looked.files:
        raise RefusedError(
            f"nothing may be deleted: {' '.join(looked.sentences)}",
            code="nothing-eligible",
            hint="see whether all targets answer: trimtab targets SITE",
        )


def _held(question: HorizonQuestion, horizon: PurgeHorizonDocument) -> dict[int, int]:
    """Return the bytes of each user, corrected if a sample shows that listed sizes are wrong."""
    listed = held_by_users(question.directory, horizon.manifest, question.dask)
    return listed if horizon.bias is None else horizon.bias.held(listed)


def held_by_users(directory: Path, manifest: Manifest, dask: str | None = None) -> dict[int, int]:
    """Return the space of all files of each user, each file counted once, by uid.

    If blocks are not known, lengths are used instead, as elsewhere for such an index.
    """
    import polars as pl

    with index_view.readable():
        rows = all_totals(directory, manifest, By.USER, dask)
        held = rows.group_by("uid").agg(pl.col("allocated_bytes").sum())
        frame = held.collect(engine="streaming")
    return {int(uid): int(held_bytes) for uid, held_bytes in frame.iter_rows()}


def _draft(
    question: HorizonQuestion,
    policy: LoadedPolicy,
    horizon: PurgeHorizonDocument,
    before_s: int,
    now: datetime,
    *,
    looked: ExactCandidates | None,
) -> PlanDraft:
    needed, published = horizon.answer.needed, horizon.answer.published
    return PlanDraft(
        id=new_identifier(now),
        made_at=now,
        notice_s=policy.policy.notice_s,
        valid_s=policy.policy.valid_s,
        file_system=_file_system(horizon),
        index=_index(question, horizon, exact=looked is not None),
        policy=_policy(policy),
        rules=same_named(
            PlannedRules,
            horizon.rules,
            exempt_paths=tuple(map(escape, horizon.rules.exempt_paths)),
        ),
        horizon=PlannedHorizon(
            before_s=before_s,
            needed_before_s=needed.cut_off_s,
            target=needed.target,
            used_bytes=horizon.usage.used_bytes,
            available_bytes=horizon.usage.available_bytes,
            to_free_bytes=published.required_bytes,
            words=(
                *(word for word in horizon.answer.words if word not in horizon.rules.words),
                *(() if looked is None else looked.sentences),
            ),
        ),
        quarantine=f"{QUARANTINE_PREFIX}{secrets.token_hex(16)}",
    )


def _policy(policy: LoadedPolicy) -> PlannedPolicy:
    """Return the policy with every name as a number: it means the same whenever it is read."""
    text = policy_text(policy.policy, every_key=True)
    return PlannedPolicy(policy.policy.name, text, hashlib.sha256(text.encode()).hexdigest())


def _file_system(horizon: PurgeHorizonDocument) -> PlannedFileSystem:
    system = horizon.manifest.filesystem
    if system is None:
        raise RefusedError(
            "the index does not say which file system it is of, and nothing may be deleted by it",
            code="file-system-unknown",
            hint="trimtab purge scan ROOT --index DIR, or import while it is mounted",
        )
    return same_named(PlannedFileSystem, system, root=horizon.policy.root)


def _index(
    question: HorizonQuestion, horizon: PurgeHorizonDocument, *, exact: bool
) -> PlannedIndex:
    manifest = horizon.manifest
    data = (question.directory / MANIFEST).read_bytes()
    oldest_ns = manifest.oldest_ns
    started = None if manifest.started_ns is None else min(manifest.started_ns, oldest_ns)
    return PlannedIndex(
        id=manifest.index_id,
        sha256=hashlib.sha256(data).hexdigest(),
        source=manifest.source.value,
        started_at=None if started is None else _moment(started),
        ended_at=_moment(oldest_ns),
        times=manifest.times.value,
        time_resolution_ns=manifest.time_resolution_ns,
        obstacles=manifest.obstacles,
        sizes="exact" if exact else None,
        atime_settings=manifest.atime_settings or root_facts(horizon.policy.root).atime_settings,
    )


def _moment(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // 10**9, UTC)
