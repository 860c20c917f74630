"""An index asked: how old files have to be to go, and what each age would free."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.errors import UsageError
from trimtab.loop.purging.measuring import Measure, use_over_time, usage_now
from trimtab.purge.horizon.curve import AgeCurve, DayCurve
from trimtab.purge.horizon.forecast import Growth, forecast_growth
from trimtab.purge.horizon.horizon import (
    Horizon,
    OwnedBy,
    Step,
    find_horizon,
    owners,
    publication_bytes,
    steps,
)
from trimtab.purge.horizon.targets import OstHorizons, find_ost_horizons
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.index.manifest import Lack, Manifest
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.policy import Policy
from trimtab.purge.rules import HOUR_S, IndexFacts, ReadRecording, RulesInForce, rules_in_force

if TYPE_CHECKING:
    from trimtab._core import Tally


@dataclass(frozen=True, slots=True)
class Question:
    """What a horizon is asked for.

    Attributes
    ----------
    directory
        Of the index.
    policy
        Its target, rules and ages.
    reads
        Whether reads extend life here.
    usage
        How full the file system is; ``None``: it is asked now.
    ost_usages
        Of each OST by its index, for ``target_ost``.
    site, store_url
        Whose snapshots tell how use has grown; ``None``: growth is not forecast.
    ahead_s
        How far the forecast looks; ``None``: as far as the policy's lists.
    """

    directory: Path
    policy: Policy
    reads: ReadRecording = ReadRecording()
    usage: Usage | None = None
    ost_usages: dict[int, Usage] | None = None
    site: str | None = None
    store_url: str | None = None
    ahead_s: int | None = None
    threads: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What an index says of a policy.

    Attributes
    ----------
    rules
        In force for this index and time.
    horizon
        The cut-off that reaches the target as things stand.
    listed
        The cut-off of the lists to publish: the forecast's upper bound, times the policy's factor.
    growth
        ``None`` where nobody was asked how use has grown.
    steps
        What other horizons would free.
    users, projects
        What the cut-off takes from whom; of ``listed``.
    held_bytes
        What all eligible files of each user take up.
    osts
        ``None`` without ``target_ost``.
    future_files
        Files with a time beyond the end of the scan.
    """

    manifest: Manifest
    policy: Policy
    rules: RulesInForce
    usage: Usage
    horizon: Horizon
    listed: Horizon
    growth: Growth | None
    steps: tuple[Step, ...]
    users: tuple[OwnedBy, ...]
    projects: tuple[OwnedBy, ...]
    osts: OstHorizons | None
    files: int
    allocated_bytes: int
    future_files: int
    latest_future_s: int | None


def ask_horizon(question: Question, *, now: datetime, measure: Measure = usage_now) -> Answer:
    """Return the horizon that a policy's target asks for, and the whole curve beside it.

    Raises
    ------
    UsageError
        The index is of another root, or does not tell what a rule needs.
    UnreadableError
        It cannot be read.
    """
    policy = question.policy
    manifest = load_manifest(question.directory)
    rules = rules_in_force(
        policy, IndexFacts.of(manifest), question.reads, now_s=int(now.timestamp())
    )
    usage = question.usage or measure(policy.root)
    tally = _tally(question, manifest, rules)
    curve, kept = AgeCurve.from_buffers(*tally.hours()), tally.kept()
    youngest_hour = rules.old_enough_before_s // HOUR_S
    osts = _osts(question, tally, curve, usage, youngest_hour)
    target = _target(policy, osts, usage)
    horizon = find_horizon(curve, usage, target, youngest_hour=youngest_hour, kept=kept)
    growth = _growth(question, now)
    ahead = 0 if growth is None or growth.high_bytes is None else growth.high_bytes
    wanted = publication_bytes(usage, target, growth_bytes=ahead, factor=policy.publish_factor)
    listed = find_horizon(
        curve, usage, target, youngest_hour=youngest_hour, kept=kept, required_bytes=wanted
    )
    hour = listed.cut_off_hour
    return Answer(
        manifest=manifest,
        policy=policy,
        rules=rules,
        usage=usage,
        horizon=horizon,
        listed=listed,
        growth=growth,
        steps=steps(curve, usage, as_of_s=rules.as_of_s),
        users=_owners(tally.users(), tally.days_of_user, hour),
        projects=_owners(tally.projects(), tally.days_of_project, hour),
        osts=osts,
        files=tally.files,
        allocated_bytes=tally.allocated_bytes,
        future_files=tally.future_files,
        latest_future_s=tally.latest_future_s,
    )


def shard_paths(directory: Path, manifest: Manifest) -> list[str]:
    """Return the shards of an index as paths."""
    return [str(directory / shard.name) for shard in manifest.shards]


def _tally(question: Question, manifest: Manifest, rules: RulesInForce) -> Tally:
    from trimtab._core import tally

    return tally(
        shard_paths(question.directory, manifest),
        rules.core(),
        threads=question.threads,
        users=True,
        projects=Lack.PROJECT not in manifest.lacking,
        osts=question.policy.target_ost is not None,
    )


def _osts(
    question: Question, tally: Tally, curve: AgeCurve, usage: Usage, youngest_hour: int
) -> OstHorizons | None:
    limit = question.policy.target_ost
    if limit is None:
        return None
    if not question.ost_usages:
        raise UsageError(
            "target_ost is set, and how full each OST is is not known",
            hint="give the site, whose driver asks for it: --site NAME",
        )
    curves = {index: AgeCurve.from_buffers(*tally.hours_of_ost(index)) for index in tally.osts()}
    return find_ost_horizons(
        curves,
        question.ost_usages,
        limit,
        whole=curve,
        usage=usage,
        youngest_hour=youngest_hour,
    )


def _target(policy: Policy, osts: OstHorizons | None, usage: Usage) -> float:
    if policy.target is not None:
        return policy.target
    if osts is not None and osts.target is not None:
        return osts.target
    return min(1.0, usage.fullness)


def _growth(question: Question, now: datetime) -> Growth | None:
    if question.site is None:
        return None
    ahead_s = question.policy.horizon_ahead_s if question.ahead_s is None else question.ahead_s
    points = use_over_time(question.site, question.store_url, until=now)
    return forecast_growth(points, ahead_s=ahead_s)


def _owners(known: list[int], days_of, hour: int | None) -> tuple[OwnedBy, ...]:
    if hour is None:
        return ()
    return owners({one: DayCurve.from_buffers(*days_of(one)) for one in known}, hour)
