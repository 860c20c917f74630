"""A plan made: the candidates chosen, frozen, hashed and signed. Nothing is deleted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trimtab.errors import RefusedError, TrimtabError, UnreadableError
from trimtab.loop.purging.horizons import Answer, Question, ask_horizon, shard_paths
from trimtab.loop.purging.measuring import Measure, usage_now
from trimtab.loop.purging.place import PurgePlace, prepared
from trimtab.model.identifier import new_identifier
from trimtab.purge.plan import (
    Plan,
    PlanDraft,
    PlannedFileSystem,
    PlannedHorizon,
    PlannedIndex,
    PlannedPolicy,
    PlannedRules,
    SigningKey,
    create_key,
    freeze,
    read_key,
    staging,
)
from trimtab.purge.plan.model import rules_of
from trimtab.purge.policy_file import LoadedPolicy
from trimtab.purge.policy_text import policy_text

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Made:
    """A plan in its place.

    Attributes
    ----------
    directory
        Of the plan.
    answer
        The horizon that it follows from.
    new_key
        Whether the site's key was made for it: keep a copy of it, and it alone.
    """

    directory: Path
    plan: Plan
    answer: Answer
    new_key: bool


def make_plan(
    question: Question,
    policy: LoadedPolicy,
    out: Path,
    *,
    place: PurgePlace,
    now: datetime,
    measure: Measure = usage_now,
) -> Made:
    """Return the plan that a policy makes of an index, written to ``out``.

    Raises
    ------
    RefusedError
        There is nothing that would have to go, or nothing that may; the directories are not
        root's alone.
    UsageError
        There is something at ``out`` already, or the index does not fit the policy.
    """
    answer = ask_horizon(question, now=now, measure=measure)
    before_s = answer.listed.cut_off_s
    if before_s is None:
        raise RefusedError(
            f"nothing has to go: {answer.listed.words(answer.rules.as_of_s)[0]}",
            hint="a plan is made where use is, or is forecast to be, over the target",
        )
    if not answer.listed.freed.files:
        raise RefusedError(
            "nothing may go: no file is old enough under this policy",
            hint="trimtab purge horizon shows why each is kept",
        )
    key, new_key = signing_key(prepared(place))
    with staging(out, owner=place.owner) as staged:
        _select(question, answer, before_s, staged.candidates)
        plan = freeze(
            _draft(question, policy, answer, before_s, now),
            staged,
            key=key,
            held_bytes={one.owner: one.eligible.allocated_bytes for one in answer.users},
        )
    return Made(staged.out, plan, answer, new_key)


def signing_key(place: PurgePlace) -> tuple[SigningKey, bool]:
    """Return the site's key and whether it was made now."""
    if place.key.exists():
        return read_key(place.key, owner=place.owner), False
    return create_key(place.key, owner=place.owner), True


def _select(question: Question, answer: Answer, before_s: int, out: Path) -> None:
    from trimtab._core import select

    try:
        select(
            shard_paths(question.directory, answer.manifest),
            answer.rules.core(),
            before_s=before_s,
            out=str(out),
            threads=question.threads,
        )
    except TrimtabError:
        raise
    except OSError as error:
        raise UnreadableError(f"the candidates could not be written: {error}") from error


def _draft(
    question: Question, policy: LoadedPolicy, answer: Answer, before_s: int, now: datetime
) -> PlanDraft:
    horizon, listed = answer.horizon, answer.listed
    words = (*horizon.words(answer.rules.as_of_s), *listed.words(answer.rules.as_of_s))
    if answer.growth is not None:
        words = (*words, answer.growth.words)
    return PlanDraft(
        id=new_identifier(now),
        made_at=now,
        notice_s=policy.policy.notice_s,
        valid_s=policy.policy.valid_s,
        file_system=_file_system(answer),
        index=_index(question, answer),
        policy=_policy(policy),
        rules=_rules(answer),
        horizon=PlannedHorizon(
            before_s=before_s,
            needed_before_s=horizon.cut_off_s,
            target=horizon.target,
            used_bytes=answer.usage.used_bytes,
            available_bytes=answer.usage.available_bytes,
            to_free_bytes=listed.required_bytes,
            words=tuple(dict.fromkeys(words)),
        ),
    )


def _policy(policy: LoadedPolicy) -> PlannedPolicy:
    """Return the policy with every name as a number: it means the same whenever it is read."""
    text = policy_text(policy.policy, every_key=True)
    return PlannedPolicy(policy.policy.name, text, hashlib.sha256(text.encode()).hexdigest())


def _file_system(answer: Answer) -> PlannedFileSystem:
    system = answer.manifest.filesystem
    if system is None:
        raise RefusedError(
            "the index does not say which file system it is of, and nothing may be deleted by it",
            hint="trimtab purge scan, or import with --file-system",
        )
    return PlannedFileSystem(system.kind, system.name, system.fsid, answer.policy.root)


def _index(question: Question, answer: Answer) -> PlannedIndex:
    manifest = answer.manifest
    data = (question.directory / MANIFEST).read_bytes()
    started = manifest.started_ns
    return PlannedIndex(
        id=manifest.index_id,
        sha256=hashlib.sha256(data).hexdigest(),
        source=manifest.source.value,
        started_at=None if started is None else _moment(started),
        ended_at=_moment(manifest.ended_ns),
        times=manifest.times.value,
        time_resolution_ns=manifest.time_resolution_ns,
        obstacles=manifest.obstacles,
    )


def _rules(answer: Answer) -> PlannedRules:
    rules = answer.rules
    return rules_of(
        counted=rules.counted,
        as_of_s=rules.as_of_s,
        old_enough_before_s=rules.old_enough_before_s,
        exempt_paths=rules.exempt_paths,
        minimum_size_bytes=rules.minimum_size_bytes,
        exempt_users=rules.exempt_users,
        exempt_groups=rules.exempt_groups,
        exempt_projects=rules.exempt_projects,
        linked=rules.linked,
        words=rules.words,
    )


def _moment(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // 10**9, UTC)
