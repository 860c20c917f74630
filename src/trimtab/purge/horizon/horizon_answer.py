"""The horizon of a policy on an index, and what a past policy's deletions would have cost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Final

from trimtab.base.encode import shape
from trimtab.base.error import UsageError
from trimtab.base.units import EpochS, format_bytes, format_duration, format_percent, plural
from trimtab.judge.growth import Growth
from trimtab.purge.fullness import AgeCurve, Freed, OwnerDays, Usage
from trimtab.purge.horizon.group_horizon import (
    GroupHorizon,
    GroupHorizons,
    find_group_horizons,
    ost_groups,
    pool_groups,
)
from trimtab.purge.horizon.horizon import (
    AGES_DAYS,
    DAY_S,
    Horizon,
    HorizonStatus,
    OwnedBy,
    Step,
    find_horizon,
    owners,
    publication_bytes,
    steps,
)
from trimtab.purge.horizon.horizon_estimate import SizeBias
from trimtab.purge.owner import USER_NAME, printed_name
from trimtab.purge.purge_policy import Policy
from trimtab.purge.rules_in_force import HOUR_S, RulesInForce, moment

if TYPE_CHECKING:
    import polars as pl

    from trimtab._core import Tally


@dataclass(frozen=True, slots=True)
class HorizonAnswer:
    """The horizon of a policy on one index.

    Attributes
    ----------
    as_of_s
        Time of the metadata, in seconds since 1970; ages are counted back from it.
    needed
        The horizon now: the least that a run deletes.
    published
        The horizon of the lists: the most that a run may delete, with growth until then.
    growth
        Expected growth of usage; ``None`` without a forecast.
    osts, pools
        With ``target_ost`` what each OST needs; with ``target_pool``, each pool with a target.
    steps
        Effect of other ages, none younger than the minimum age.
    users, projects
        What the published horizon frees per user or project.
    future_files
        Files with times after the end of the scan, which count as its end.
    """

    as_of_s: EpochS
    needed: Horizon
    published: Horizon
    growth: Growth | None
    osts: GroupHorizons | None
    pools: GroupHorizons | None
    steps: tuple[Step, ...]
    users: tuple[OwnedBy, ...]
    projects: tuple[OwnedBy, ...]
    future_files: int = 0
    words: tuple[str, ...] = ()


def answer(
    policy: Policy,
    rules: RulesInForce,
    tally: Tally,
    usage: Usage,
    *,
    ost_usages: Mapping[int, Usage] | None = None,
    pools: Mapping[str, tuple[int, ...]] | None = None,
    growth: Growth | None = None,
    bias: SizeBias | None = None,
) -> HorizonAnswer:
    """Return the horizon of a policy on an index, and the extent of its lists.

    Parameters
    ----------
    policy, rules, tally
        The policy, its `rules_in_force`, and what ``rules.core()`` counted, with users.
    usage, ost_usages, pools
        Bytes of the whole; of each OST by index, and the OST indices of each pool by name. The
        last two are required by ``target_ost`` and ``target_pool``.
    growth
        Over ``policy.horizon_ahead_s``; ``None``: lists cover today's need.
    bias
        How far listed sizes are wrong; lists cover the need even at the lower end.

    Raises
    ------
    UsageError
        The policy has no target, or the usage, pools or layout that its target needs are unknown.
    """
    listed_curve, groups = curve_of(tally), None
    curve = listed_curve if bias is None else bias.curve(listed_curve)
    youngest_hour = rules.old_enough_before_s // HOUR_S
    if policy.is_of_osts:
        groups = _groups(
            policy, _layout(policy, tally, curve), _known(policy, ost_usages), pools,
            whole=curve, usage=usage, youngest_hour=youngest_hour,
        )  # fmt: skip
    target = _target(policy, usage, groups)
    find = partial(
        find_horizon, curve, usage, target, youngest_hour=youngest_hour, kept_back=tally.kept()
    )
    # By the groups' own cut-off: their overall target is rounded.
    exactly = None if groups is None or groups.target is None else groups.freed.allocated_bytes
    needed = find(required_bytes=exactly)
    more = 0 if growth is None else growth.high_bytes or 0
    listed = publication_bytes(usage, target, growth_bytes=more, factor=policy.publish_factor)
    published = find(required_bytes=max(listed, needed.required_bytes))
    if bias is not None:
        published = _surely(published, bias.curve(listed_curve, low=True), curve, youngest_hour)
    cut_off = published.cut_off_hour
    ages_days = [days for days in AGES_DAYS if days * DAY_S >= rules.minimum_age_s]
    outcome = HorizonAnswer(
        as_of_s=rules.as_of_s,
        needed=needed,
        published=published,
        growth=growth,
        osts=None if policy.target_ost is None else groups,
        pools=groups if policy.target_pool else None,
        steps=steps(curve, usage, as_of_s=rules.as_of_s, ages_days=ages_days),
        users=() if cut_off is None else _owned(user_days(tally), cut_off, bias),
        projects=() if cut_off is None else _owned(project_days(tally), cut_off, bias, False),
        future_files=tally.future_files,
    )
    return replace(outcome, words=tuple(_words(outcome, policy, rules, tally)))


def _owned(
    listed: OwnerDays,
    cut_off_hour: int,
    bias: SizeBias | None,
    users: bool = True,
) -> tuple[OwnedBy, ...]:
    days = listed if bias is None else bias.owner_days(listed, users=users)
    return owners(days, cut_off_hour)


def _surely(published: Horizon, low: AgeCurve, curve: AgeCurve, youngest_hour: int) -> Horizon:
    """Return the horizon of lists that suffice even at the lower bound of file sizes.

    If only the estimate suffices, all files that may be listed are.
    """
    if published.status is not HorizonStatus.REACHED:
        return published
    hour = low.before(youngest_hour).earliest_freeing(published.required_bytes) or youngest_hour
    freed = curve.freed_before(hour)
    after = published.usage.after(freed.allocated_bytes)
    return replace(published, cut_off_hour=hour, freed=freed, after=after)


def _groups(
    policy: Policy,
    curves: Mapping[int, AgeCurve],
    usages: Mapping[int, Usage],
    pools: Mapping[str, tuple[int, ...]] | None,
    *,
    whole: AgeCurve,
    usage: Usage,
    youngest_hour: int,
) -> GroupHorizons:
    """Return what each OST needs, or each pool that has a target."""
    if policy.target_ost is not None:
        limited = ost_groups(policy.target_ost, usages)
    elif pools is None:
        raise UsageError(
            "the policy has a target for pools, but their OSTs are unknown",
            code="pools-unknown",
            hint="--site SITE with a Lustre mounted here: lfs pool_list lists them",
        )
    else:
        limited = pool_groups(policy.target_pool, pools, usages)
    return find_group_horizons(
        curves, usages, limited, whole=whole, usage=usage, youngest_hour=youngest_hour
    )


def _known(policy: Policy, ost_usages: Mapping[int, Usage] | None) -> Mapping[int, Usage]:
    if not ost_usages:
        noun, each = (
            ("pools", "each of their OSTs") if policy.target_pool else ("OSTs", "each of them")
        )
        raise UsageError(
            f"the policy has a target for {noun}, but the fullness of {each} is unknown",
            code="ost-usage-unknown",
            hint="--site SITE with a Lustre whose OSTs all answer; or set target, for the whole",
        )
    return ost_usages


def _layout(policy: Policy, tally: Tally, curve: AgeCurve) -> Mapping[int, AgeCurve]:
    curves = ost_curves(tally)
    if not curves and curve.total.files:
        noun = "pools" if policy.target_pool else "OSTs"
        raise UsageError(
            f"the policy has a target for {noun}, but the index lacks the layout of files",
            code="layout-unknown",
            hint="trimtab purge scan ROOT --index DIR --with layout",
        )
    return curves


def _target(policy: Policy, usage: Usage, groups: GroupHorizons | None) -> float:
    """Return the target fullness of the whole file system.

    If no group needs anything now, this is the fullness at which the first group would reach its
    limit at the present imbalance; the lists are made for that.
    """
    if groups is None:
        if policy.target is None:
            raise UsageError(
                "the policy has no target", code="target-missing", hint='[policy] target = "70%"'
            )
        return policy.target
    if groups.target is not None:
        return groups.target
    # Space outside the pools has no limit, so it may be fuller than the pools' limit.
    most = 1.0 if policy.target_ost is None else policy.target_ost
    whole = Fraction(usage.used_bytes, usage.total_bytes)
    shares = [
        int(_reached(group, whole) * 10_000) / 10_000
        for group in groups.groups
        if group.status is HorizonStatus.MET_ALREADY and group.usage.used_bytes
    ]
    # Rounding down would delete files of a group that is just at its limit.
    least = -(-usage.used_bytes * 10_000 // usage.total_bytes) / 10_000
    return min(most, max(least, min(shares, default=most)))


def _reached(group: GroupHorizon, whole: Fraction) -> Fraction:
    """Return the fullness of the whole when a group reaches its limit, all growing alike."""
    fullness = Fraction(group.usage.used_bytes, group.usage.total_bytes)
    return Fraction(str(group.group.limit)) * whole / fullness


def _words(
    outcome: HorizonAnswer, policy: Policy, rules: RulesInForce, tally: Tally
) -> Iterator[str]:
    yield from rules.words
    for groups in (outcome.osts, outcome.pools):
        if groups is not None:
            yield from groups.words(outcome.as_of_s)
    yield from outcome.needed.words(outcome.as_of_s)
    if outcome.growth is not None:
        yield outcome.growth.words
    if outcome.published.required_bytes:
        yield from _published(outcome, policy)
    if outcome.future_files:
        latest = tally.latest_future_s
        until = "" if latest is None else f", the latest {moment(latest)}"
        yield (
            f"{plural(outcome.future_files, 'file', ',')} with times after the scan{until}; these "
            "count as its end, or the files would never be deleted."
        )


def _published(outcome: HorizonAnswer, policy: Policy) -> Iterator[str]:
    published = outcome.published
    assert published.cut_off_s is not None
    grown = (
        "at the present usage"
        if outcome.growth is None or outcome.growth.high_bytes is None
        else "if usage grows to the upper end of the forecast"
    )
    yield (
        f"Lists name files last used before {moment(published.cut_off_s)}: "
        f"{format_bytes(published.freed.allocated_bytes)}, for {policy.publish_factor:g} times "
        f"what a target of {format_percent(published.target, 2)} needs {grown}."
    )
    if published.status is HorizonStatus.OUT_OF_REACH:
        yield "That is all that may be deleted, and less than needed."


def curve_of(tally: Tally) -> AgeCurve:
    """Return the curve of all eligible files, by the hour of their last use."""
    return AgeCurve.from_buffers(*tally.hours())


def user_days(tally: Tally) -> OwnerDays:
    """Return the eligible files of each user, by the day of their last use."""
    return OwnerDays.from_buffers((uid, tally.days_of_user(uid)) for uid in tally.users())


def project_days(tally: Tally) -> OwnerDays:
    """Return the eligible files of each project, by the day of their last use."""
    return OwnerDays.from_buffers(
        (project, tally.days_of_project(project)) for project in tally.projects()
    )


def ost_curves(tally: Tally) -> dict[int, AgeCurve]:
    """Return the curve of each OST that holds eligible objects, by OST index."""
    return {index: AgeCurve.from_buffers(*tally.hours_of_ost(index)) for index in tally.osts()}


@dataclass(frozen=True, slots=True)
class HorizonResult:
    """The horizon of an index.

    Attributes
    ----------
    root, index
        Root of the listed tree, in printable form; the id of its index.
    rules, notes
        Sentences: the rules in force, and what a reader should know.
    total
        All regular files of the index.
    """

    KEPT_AS: ClassVar = "horizon"

    root: str
    index: str
    answer: HorizonAnswer
    usage: Usage
    rules: tuple[str, ...]
    total: Freed
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """One owner's part of the lists; ``least`` and ``most`` differ within a day."""

    owned: OwnedBy
    name: str | None


def _owner_rows(owners: Iterable[OwnedBy], *, users: bool) -> list[OwnerRow]:
    return [OwnerRow(owned, printed_name(owned.owner) if users else None) for owned in owners]


shape(OwnerRow, inline={"owned": ()})
shape(
    HorizonAnswer,
    derive={
        "users": (tuple[OwnerRow, ...], lambda answer: _owner_rows(answer.users, users=True)),
        "projects": (
            tuple[OwnerRow, ...],
            lambda answer: _owner_rows(answer.projects, users=False),
        ),
    },
)


_DAY_S: Final = 86400
_BAND_DAYS: Final = 28
USERS_MAXIMUM: Final = 100


class Afterwards(StrEnum):
    """Later fate of a file that would have been deleted; the first that applies, in this order."""

    GONE = "gone"
    """Its owner deleted it, or another object now has its number: no loss."""
    WRITTEN = "written"
    """Its data changed: it would have been missed."""
    READ = "read"
    """It was read: it would have been missed. Known only if reads are recorded."""
    CHANGED = "changed"
    """Only the inode changed: a rename, or a change of owner, mode, links or times."""
    UNTOUCHED = "untouched"
    """It was not used."""


_MISSED: Final = (Afterwards.WRITTEN, Afterwards.READ)


@dataclass(frozen=True, slots=True)
class UserReplay:
    """Files of one user that would have been deleted, and the part that was used afterwards."""

    uid: int
    deleted: Freed
    missed: Freed


@dataclass(frozen=True, slots=True)
class AgeReplay:
    """The same for files of one age at the time: a band of four weeks from ``from_days``."""

    from_days: int
    deleted: Freed
    missed: Freed


@dataclass(frozen=True, slots=True)
class Replay:
    """Files that a past cut-off would have deleted, and their later fate.

    Attributes
    ----------
    then_s, later_s
        Times of the two indexes, in seconds since 1970.
    outcomes
        All candidates by their later fate; `Afterwards.READ` only if reads are known.
    reads_known
        Whether every class of client recorded reads in between.
    users
        Users who would have missed files, most bytes first, at most `USERS_MAXIMUM`.
    ages
        By age at that time, youngest first: shows from which age a later cut-off does harm.
    """

    then_s: EpochS
    later_s: EpochS
    reads_known: bool
    outcomes: dict[Afterwards, Freed]
    users: tuple[UserReplay, ...]
    ages: tuple[AgeReplay, ...]

    @property
    def deleted(self) -> Freed:
        """All files that would have been deleted."""
        return sum(self.outcomes.values(), Freed())

    @property
    def missed(self) -> Freed:
        """Files that were used afterwards; only written ones if reads are unknown."""
        return sum((self.outcomes.get(outcome, Freed()) for outcome in _MISSED), Freed())

    @property
    def words(self) -> tuple[str, ...]:
        """The result as sentences."""
        span = format_duration(self.later_s - self.then_s)
        whole, missed = self.deleted, self.missed
        if not whole.files:
            return ("Nothing would have been deleted.",)
        use = "read or written" if self.reads_known else "written"
        part = missed.allocated_bytes / whole.allocated_bytes if whole.allocated_bytes else None
        share = "" if part is None else f" ({format_percent(part, 2)} of the bytes)"
        first = (
            f"{plural(whole.files, 'file', ',')} with {format_bytes(whole.allocated_bytes)} would "
            f"have been deleted; {plural(missed.files, 'file', ',')} with "
            f"{format_bytes(missed.allocated_bytes)}{share} were {use} in the {span} after it."
        )
        if self.reads_known:
            return (first,)
        return first, "Unknown how much was only read: not every client records reads."


def replay(
    candidates: pl.LazyFrame,
    later: pl.LazyFrame,
    *,
    then_s: int,
    later_s: int,
    reads_known: bool,
) -> Replay:
    """Return what a past cut-off would have deleted, and what became of it.

    Parameters
    ----------
    candidates
        Rows that the core's ``select`` chose from the earlier index by the past rules and cut-off:
        ``id``, ``device``, ``uid``, ``allocated_bytes``, the four times in ns, ``last_use_s``. A
        file with several names counts once.
    later
        The later index, with the same columns.
    then_s, later_s, reads_known
        As in `Replay`.

    Raises
    ------
    UsageError
        The later index is not later.

    Notes
    -----
    Two rows are the same object if their number and, if both indexes have it, their birth time
    agree: inode numbers are reused, FIDs never. Device numbers change at a remount, so they are
    compared only if an index has several. A file read during the earlier scan may count as read
    afterwards; files unused for 8 weeks rarely are.
    """
    import polars as pl

    if later_s <= then_s:
        raise UsageError(
            "the later index is not later than the earlier one",
            code="index-not-later",
            hint="swap the two indexes",
        )
    joined = _joined(candidates, later)
    judged = joined.with_columns(outcome=_afterwards(reads_known=reads_known))
    missed = pl.col("outcome").is_in([outcome.value for outcome in _MISSED])
    age_days = (pl.lit(then_s) - pl.col("last_use_s")) // _DAY_S
    counted = (
        judged.with_columns(missed=missed, from_days=age_days // _BAND_DAYS * _BAND_DAYS)
        .group_by("outcome", "missed", "uid", "from_days")
        .agg(pl.len().alias("files"), pl.sum("allocated_bytes"))
        .collect(engine="streaming")
    )
    return Replay(
        then_s=then_s,
        later_s=later_s,
        reads_known=reads_known,
        outcomes={
            Afterwards(outcome): Freed(files, size)
            for outcome, files, size in _sums(counted, "outcome").rows()
        },
        users=_users(counted),
        ages=tuple(
            AgeReplay(band, deleted, missed)
            for band, deleted, missed in sorted(_both(counted, "from_days"))
        ),
    )


def _joined(candidates: pl.LazyFrame, later: pl.LazyFrame) -> pl.LazyFrame:
    """Return each candidate object once, joined with its columns in the later index."""
    import polars as pl

    devices = [
        frame.select(pl.n_unique("device")).collect(engine="streaming").item()
        for frame in (candidates, later)
    ]
    key = ["id"] if max(devices) <= 1 else ["id", "device"]
    columns = [*key, "atime_ns", "mtime_ns", "ctime_ns", "btime_ns"]
    before = candidates.unique(subset=key, keep="any")
    # Drop everything but the candidates first: only they are held in memory.
    after = later.select(columns).join(before.select(key), on=key, how="semi")
    after = after.unique(subset=key, keep="any")
    after = after.with_columns(there=pl.lit(value=True))
    return before.join(after, on=key, how="left", suffix="_later")


def _afterwards(*, reads_known: bool) -> pl.Expr:
    import polars as pl

    born = pl.col("btime_ns").ne(pl.col("btime_ns_later")).fill_null(value=False)
    written = pl.col("mtime_ns_later").gt(pl.col("mtime_ns")).fill_null(value=False)
    read = pl.col("atime_ns_later").gt(pl.col("atime_ns")).fill_null(value=False)
    changed = pl.col("ctime_ns_later").ne(pl.col("ctime_ns")).fill_null(value=False)
    return (
        pl.when(pl.col("there").is_null() | born)
        .then(pl.lit(Afterwards.GONE.value))
        .when(written)
        .then(pl.lit(Afterwards.WRITTEN.value))
        .when(read if reads_known else pl.lit(value=False))
        .then(pl.lit(Afterwards.READ.value))
        .when(changed)
        .then(pl.lit(Afterwards.CHANGED.value))
        .otherwise(pl.lit(Afterwards.UNTOUCHED.value))
    )


def _sums(counted: pl.DataFrame, *by: str) -> pl.DataFrame:
    import polars as pl

    return counted.group_by(by).agg(pl.sum("files"), pl.sum("allocated_bytes"))


def _both(counted: pl.DataFrame, by: str) -> list[tuple[int, Freed, Freed]]:
    """Return what would have been deleted and missed for each value of a column."""
    whole = {key: Freed(files, size) for key, files, size in _sums(counted, by).rows()}
    part = _sums(counted.filter("missed"), by)
    missed = {key: Freed(files, size) for key, files, size in part.rows()}
    return [(key, share, missed.get(key, Freed())) for key, share in whole.items()]


def _users(counted: pl.DataFrame) -> tuple[UserReplay, ...]:
    hurt = [UserReplay(*row) for row in _both(counted, "uid") if row[2].files]
    hurt.sort(key=lambda user: (-user.missed.allocated_bytes, user.uid))
    return tuple(hurt[:USERS_MAXIMUM])


shape(UserReplay, derive={"name": USER_NAME})
shape(
    Replay,
    derive={
        "deleted": "deleted",
        "missed": "missed",
        "words": (tuple[str, ...], attrgetter("words")),
    },
)
