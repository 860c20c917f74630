"""Ask an index for the horizon of a target, or for what a past policy would have deleted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.base.encode import mapped, shape
from trimtab.base.error import RefusedError, TrimtabError, UsageError, visible
from trimtab.base.units import EpochS, format_bytes, plural
from trimtab.judge.growth import Growth, forecast_growth
from trimtab.purge.core_call import Measure, core_errors, usage_now
from trimtab.purge.fullness import Freed, Usage
from trimtab.purge.horizon.group_horizon import pool_groups
from trimtab.purge.horizon.horizon_answer import (
    HorizonAnswer,
    HorizonResult,
    Replay,
    answer,
    replay,
)
from trimtab.purge.horizon.horizon_estimate import SizeBias
from trimtab.purge.index.dask_pieces import TallyPart, chosen_by_workers, merged_tally, pieces
from trimtab.purge.index.index_view import readable, scanned
from trimtab.purge.index.manifest import Lack, Manifest, SizesMode, TimeTrust, shard_paths
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.index.size_sample import size_bias
from trimtab.purge.purge_policy import Policy
from trimtab.purge.rules_in_force import RulesInForce, rules_in_force
from trimtab.purge.run.run_journal import freed_before
from trimtab.purge.site_facts import SiteSays, ask_site, use_over_time
from trimtab.store.location import PurgePlace

if TYPE_CHECKING:
    from trimtab._core import Tally


@dataclass(frozen=True, slots=True)
class HorizonQuestion:
    """Inputs of a horizon.

    Attributes
    ----------
    directory
        Directory of the index.
    policy
        Source of target, rules and ages; ``None``: the defaults, for the requested target.
    target, target_ost, target_pool
        Replacement for the policy's target; at most one of them.
    usage
        Usage of the file system; ``None``: it is measured now.
    site, store_url
        Source of whether reads count, the usage of each OST, the OSTs of each pool and past
        growth; ``None``: these are unknown.
    place
        Place whose journals record what purges deleted; it is added back before growth is
        forecast.
    ahead_s
        Length of the forecast, in seconds; ``None``: that of the policy's lists.
    dask
        Scheduler whose workers read the index, as `trimtab.reach.dask_worker.answering` has it.
    """

    directory: Path
    policy: Policy | None = None
    target: float | None = None
    target_ost: float | None = None
    target_pool: tuple[tuple[str, float], ...] = ()
    usage: Usage | None = None
    site: str | None = None
    store_url: str | None = None
    place: PurgePlace | None = None
    ahead_s: int | None = None
    threads: int = 0
    dask: str | None = None

    @property
    def names_target(self) -> bool:
        """Whether it names a target in place of the policy's."""
        return bool(self.target_pool) or (self.target, self.target_ost) != (None, None)


@dataclass(frozen=True, slots=True)
class PurgeHorizonDocument:
    """The horizon of an index: the current cut-off, that of the lists, and the curve.

    Attributes
    ----------
    directory
        Directory of the index, as it was named.
    rules
        Rules in force for this index and time.
    total
        All regular files of the index.
    notes
        Notes for the reader besides the answer's own sentences, one sentence each.
    policy
        The policy used: its target and forecast may be the question's.
    bias
        Error of the sizes in the index; ``None`` without a sample.
    """

    directory: Path
    manifest: Manifest
    answer: HorizonAnswer
    rules: RulesInForce
    usage: Usage
    total: Freed
    notes: tuple[str, ...]
    policy: Policy
    bias: SizeBias | None = None

    @property
    def result(self) -> HorizonResult:
        """The part that reports show and the store keeps."""
        return HorizonResult(
            visible(self.policy.root),
            self.manifest.index_id,
            self.answer,
            self.usage,
            tuple(self.rules.words),
            self.total,
            self.notes,
        )


shape(
    PurgeHorizonDocument,
    omit=["policy", "bias"],
    inline={"manifest": ("index_id", "root"), "answer": (), "total": ()},
    derive={"directory": mapped("directory", str, str)},
)


def ask_horizon(
    question: HorizonQuestion, *, now: datetime, measure: Measure = usage_now
) -> PurgeHorizonDocument:
    """Return the horizon of a target, with the whole curve.

    Raises
    ------
    UsageError
        The index is of another root, or does not tell what a rule needs.
    UnreadableError
        It cannot be read.
    """
    manifest = load_manifest(question.directory)
    policy = _policy(question, manifest)
    answers = SiteSays() if question.site is None else ask_site(question.site, policy.root, now=now)
    _require_pools(policy, answers)
    usage = question.usage or measure(policy.root)
    rules = rules_in_force(
        policy,
        manifest,
        answers.reads,
        now_s=int(now.timestamp()),
        quarantines=_quarantines(policy.root) if question.usage is None else (),
    )
    tally = _tally(question, policy, manifest, rules)
    bias = size_bias(question.directory, manifest, rules)
    growth, notes = _growth(question, policy, answers, now)
    horizon = answer(
        policy,
        rules,
        tally,
        usage,
        ost_usages=answers.osts,
        pools=answers.pools,
        growth=growth,
        bias=bias,
    )
    return PurgeHorizonDocument(
        directory=question.directory,
        manifest=manifest,
        answer=horizon,
        rules=rules,
        usage=usage,
        total=Freed(tally.files, tally.allocated_bytes),
        policy=policy,
        notes=(*_notes(manifest, question), *_of_sizes(manifest, tally, bias), *notes),
        bias=bias,
    )


def _quarantines(root: str) -> tuple[bytes, ...]:
    """Return where files of plans wait for a person beneath a root that has answered.

    A scan leaves these directories out; another tool's list may have them.
    """
    from trimtab import _core

    try:
        return tuple(_core.quarantines(root))
    except OSError:
        return ()


def _require_pools(policy: Policy, answers: SiteSays) -> None:
    """Raise where a policy's pools are not what a site has, before an index is read for nothing."""
    if policy.target_pool and answers.why_no_pools is not None:
        raise UsageError(
            f"the OSTs of pools are unknown: {answers.why_no_pools}",
            code="pools-unknown",
            hint="lfs pool_list shows them on a client; or use target, for the whole",
        )
    if answers.pools is not None and answers.osts is not None:
        pool_groups(policy.target_pool, answers.pools, answers.osts)


def _policy(question: HorizonQuestion, manifest: Manifest) -> Policy:
    policy = question.policy
    if policy is None:
        if not question.names_target:
            raise UsageError(
                "the target fullness is missing",
                code="target-missing",
                hint="--target 70%, or --policy POLICY.toml",
            )
        policy = Policy("asked", manifest.root.decode("utf-8", "surrogateescape"))
    if question.names_target:
        policy = replace(
            policy,
            target=question.target,
            target_ost=question.target_ost,
            target_pool=question.target_pool,
        )
    if question.ahead_s is not None:
        policy = replace(policy, forecast_s=question.ahead_s)
    return policy


def _tally(
    question: HorizonQuestion, policy: Policy, manifest: Manifest, rules: RulesInForce
) -> Tally:
    whole = TallyPart(
        tuple(shard_paths(question.directory, manifest)),
        rules,
        users=True,
        projects=Lack.PROJECT not in manifest.lacking,
        osts=policy.is_of_osts and Lack.LAYOUT not in manifest.lacking,
        threads=question.threads,
    )
    if question.dask is None:
        return whole.answer()
    shards = pieces(question.directory, manifest)
    return merged_tally(
        [replace(whole, shards=piece, threads=1) for piece in shards], question.dask
    )


def choose(
    question: HorizonQuestion, horizon: PurgeHorizonDocument, before_s: int, out: Path
) -> None:
    """Write the candidates of a cut-off to a file, the longest unused first.

    Raises
    ------
    ToolError, DataError
        The index cannot be read, or the file not be written.
    """
    from trimtab._core import select

    if question.dask is not None:
        chosen_by_workers(
            question.directory, horizon.manifest, horizon.rules,
            before_s=before_s, out=out, dask=question.dask,
        )  # fmt: skip
        return
    with core_errors("choosing the candidates", hint="is there room beside the plan?"):
        select(
            shard_paths(question.directory, horizon.manifest),
            horizon.rules.core(),
            before_s=before_s,
            out=str(out),
            threads=question.threads,
        )


def _growth(
    question: HorizonQuestion, policy: Policy, answers: SiteSays, now: datetime
) -> tuple[Growth | None, tuple[str, ...]]:
    """Return the forecast, and notes on it."""
    if question.site is None:
        if question.ahead_s is None:
            return None, ()
        raise UsageError(
            "growth is forecast from the snapshots of a site, and none is named",
            code="site-missing",
            hint="--site NAME, whose snapshots trimtab watch NAME keeps",
        )
    notes: tuple[str, ...] = ()
    purged: tuple[tuple[int, int], ...] = ()
    try:
        points = use_over_time(answers.site, question.store_url or answers.store_url, until=now)
    except TrimtabError as error:
        return None, (f"past growth is unknown: {error.message}",)
    try:
        purged = () if question.place is None else freed_before(question.place.journals)
    except (TrimtabError, OSError) as error:
        said_why = getattr(error, "message", None) or str(error)
        notes = (f"deletions by purges are unknown, growth may look too small: {said_why}",)
    return forecast_growth(points, ahead_s=policy.horizon_ahead_s, purged=purged), notes


def _of_sizes(manifest: Manifest, tally: Tally, bias: SizeBias | None) -> Iterator[str]:
    """Yield notes on the accuracy of an index's sizes, where its source has lazy ones."""
    if bias is None or manifest.sizes is None:
        is_exact = manifest.sizes is not None and manifest.sizes.mode is SizesMode.EXACT
        if manifest.times is TimeTrust.MDS_ONLY and not is_exact:
            yield (
                "sizes are the last that the MDS received, and can be far too small: "
                "scan with --sizes sampled"
            )
        return
    whole = bias.whole
    listed = tally.allocated_bytes
    low, high = (format_bytes(max(0, round(listed + end))) for end in (whole.low, whole.high))
    yield (
        f"the index lists {format_bytes(listed)}; exact sizes of a random sample of "
        f"{plural(manifest.sizes.looked_at, 'file', ',')} give "
        f"{format_bytes(max(0, round(listed + whole.bytes)))} ({low} to {high}): the horizon and "
        "the amounts of users are corrected accordingly"
    )
    if manifest.sizes.unknown:
        yield (
            f"{plural(manifest.sizes.unknown, 'file', ',')} of the sample could not be looked at: "
            "gone since, or on a server that did not answer"
        )


def _notes(manifest: Manifest, question: HorizonQuestion) -> Iterator[str]:
    for obstacle in manifest.obstacles:
        yield f"nothing may be deleted with this index: {obstacle}"
    if question.site is None:
        yield (
            "no site is named: whether reads are recorded is not known, and they do not extend "
            "life (--site NAME)"
        )


@dataclass(frozen=True, slots=True)
class PurgeReplayDocument:
    """Files that a past cut-off would have deleted, and their later use."""

    replay: Replay
    before_s: EpochS


shape(PurgeReplayDocument, inline={"replay": ()})


def replay_policy(
    question: HorizonQuestion,
    later: Path,
    *,
    before: datetime | None = None,
    reads_known: bool = False,
    measure: Measure = usage_now,
) -> PurgeReplayDocument:
    """Return the files of an earlier index that a policy would have deleted, and their later fate.

    Parameters
    ----------
    question
        Question about the earlier index.
    later
        Directory of the later index.
    before
        The cut-off; ``None``: the horizon of the target.
    reads_known
        Whether every class of client recorded reads in between.

    Raises
    ------
    UsageError
        The two indexes are of different file systems, or the later one is not later.
    RefusedError
        Nothing would have been deleted.
    """
    import polars as pl

    afterwards = load_manifest(later)
    earlier = load_manifest(question.directory)
    require_same(earlier, afterwards)
    # As of the earlier index: an exemption that has ended since kept its files at that time.
    then = datetime.fromtimestamp(earlier.as_of_s, UTC)
    horizon = ask_horizon(question, now=then, measure=measure)
    before_s = horizon.answer.needed.cut_off_s
    if before is not None:
        before_s = int(before.timestamp()) // 3600 * 3600
    if before_s is None:
        raise RefusedError(
            f"nothing would have been deleted: {horizon.answer.needed.words(earlier.as_of_s)[0]}",
            code="nothing-needed",
            hint="give usage at that time with --used and --available, or a cut-off with --before",
        )
    with tempfile.TemporaryDirectory(prefix="trimtab-replay-") as aside:
        candidates = Path(aside, "candidates.parquet")
        choose(question, horizon, before_s, candidates)
        with readable():
            came = replay(
                pl.scan_parquet(candidates, glob=False),
                scanned(later, afterwards),
                then_s=earlier.as_of_s,
                later_s=afterwards.as_of_s,
                reads_known=reads_known,
            )
    return PurgeReplayDocument(came, before_s)


def require_same(earlier: Manifest, later: Manifest) -> None:
    """Raise unless two indexes are of the same root and file system.

    Raises
    ------
    UsageError
        They are known to be of different ones.
    """
    first, other = earlier.filesystem, later.filesystem
    if earlier.root != later.root or (first and other and not first.may_be_same(other)):
        raise UsageError(
            "the two indexes are not of the same file system and root",
            code="indexes-differ",
            hint="files are followed by their identity in that file system",
        )
