"""Find the horizon that brings single OSTs or pools under their limits, and those it cannot help.

A file system is as fast as its fullest OST. A purge deletes old files on every OST, so the common
cut-off is the latest that any OST needs. No cut-off helps an OST full of young files; its fullness
is a matter of placement, not of age.

A pool is a set of OSTs with a common limit; its usage and curve are the sums of theirs. An OST is a
group of one, so both are handled alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from trimtab.base.encode import mapped, shape
from trimtab.base.error import UsageError, visible
from trimtab.base.name_set import ost_name
from trimtab.base.units import EpochHour, enumerated, format_bytes, format_duration, format_percent
from trimtab.purge.fullness import HOUR_S, AgeCurve, Freed, Usage
from trimtab.purge.horizon.horizon import HorizonStatus
from trimtab.purge.rules_in_force import moment

_SHOWN_POOLS: Final = 12


@dataclass(frozen=True, slots=True)
class OstGroup:
    """OSTs with a common limit on their fullness.

    Attributes
    ----------
    noun
        Kind of group.
    name
        ``OST0012``, or the pool's name without the file system's.
    osts
        OST indices, ascending.
    limit
        Highest fullness, a fraction.
    """

    noun: Literal["OST", "pool"]
    name: str
    osts: tuple[int, ...]
    limit: float

    @property
    def shown(self) -> str:
        """Name for sentences: ``OST0012``, ``pool flash``."""
        return self.name if self.noun == "OST" else f"pool {visible(self.name)}"


@dataclass(frozen=True, slots=True)
class GroupHorizon:
    """Requirement of one group, and the effect of the common cut-off on it.

    Attributes
    ----------
    usage
        Usage of its OSTs together.
    cut_off_hour
        The earliest cut-off that brings it to the limit; ``None`` if none is needed or none
        suffices.
    best
        Usage if all its eligible bytes were deleted; ``None`` if the index has more bytes than are
        used.
    freed, after
        Effect of the common cut-off. A file with objects on several OSTs of a pool counts on each.
    """

    group: OstGroup
    usage: Usage
    status: HorizonStatus
    excess_bytes: int
    cut_off_hour: EpochHour | None
    best: Usage | None
    freed: Freed
    after: Usage | None

    @property
    def name(self) -> str:
        """Name of the group."""
        return self.group.name

    @property
    def index(self) -> int:
        """Index of its first, or only, OST."""
        return self.group.osts[0]


@dataclass(frozen=True, slots=True)
class GroupHorizons:
    """The common cut-off for all groups that a horizon can bring under their limits.

    Attributes
    ----------
    youngest_hour
        Latest cut-off that the minimum age allows, in hours since 1970.
    cut_off_hour
        The latest cut-off that a group needs, in hours since 1970; ``None`` if none is needed or
        none helps.
    target
        The equivalent overall target, rounded down to a hundredth of a per cent; ``None`` like
        ``cut_off_hour``, or if the fullness after it is unknown.
    freed
        What the common cut-off frees on the whole file system.
    groups
        At least one, in the order passed in.
    doubts
        Sentences about inconsistent figures.
    """

    youngest_hour: EpochHour
    cut_off_hour: EpochHour | None
    target: float | None
    freed: Freed
    groups: tuple[GroupHorizon, ...]
    doubts: tuple[str, ...] = ()

    @property
    def unfixable(self) -> tuple[GroupHorizon, ...]:
        """Groups that no horizon brings under the limit."""
        return tuple(group for group in self.groups if group.status is HorizonStatus.OUT_OF_REACH)

    def words(self, at_s: int) -> tuple[str, ...]:
        """Return the result as sentences; ages are as of a time in seconds since 1970."""
        return tuple(_words(self, at_s))


def find_group_horizons(
    curves: Mapping[int, AgeCurve],
    usages: Mapping[int, Usage],
    groups: Iterable[OstGroup],
    *,
    whole: AgeCurve,
    usage: Usage,
    youngest_hour: int,
) -> GroupHorizons:
    """Return the common cut-off that brings every group under its limit, if a cut-off can.

    Old files are deleted on all OSTs, including those of other groups.

    Parameters
    ----------
    curves
        Eligible objects of each OST by index, by the hour of the file's last use. An OST without a
        curve has no eligible object.
    usages
        Bytes of each OST by index, as in ``lfs df``; at least one.
    groups
        Groups and their limits (`ost_groups`, `pool_groups`). An OST may be in several.
    whole, usage
        Curve and bytes of the file system.
    youngest_hour
        Latest cut-off that the minimum age allows, in hours since 1970.

    Returns
    -------
    GroupHorizons
        The common cut-off, what it frees, and what each group needs, in the order of ``groups``.
    """
    allowed = {index: curve.before(youngest_hour) for index, curve in curves.items()}
    needs = [_need(group, allowed, usages) for group in groups]
    hours = [need.cut_off_hour for need, _ in needs if need.cut_off_hour is not None]
    cut_off = max(hours, default=None)
    freed = Freed() if cut_off is None else whole.before(youngest_hour).freed_before(cut_off)
    after = None if cut_off is None else usage.after(freed.allocated_bytes)
    return GroupHorizons(
        youngest_hour=youngest_hour,
        cut_off_hour=cut_off,
        # Rounded down: a target that needs one byte less would stop an hour too early.
        target=None if after is None else after.used_bytes * 10_000 // after.total_bytes / 10_000,
        freed=freed,
        groups=tuple(_with_cut_off(need, curve, cut_off) for need, curve in needs),
        doubts=tuple(_doubts(allowed, usages)),
    )


def ost_groups(limit: float, usages: Mapping[int, Usage]) -> tuple[OstGroup, ...]:
    """Return each OST of known usage as a group, in index order.

    Parameters
    ----------
    limit
        Highest fullness of any OST, a fraction.
    """
    return tuple(OstGroup("OST", ost_name(index), (index,), limit) for index in sorted(usages))


def pool_groups(
    limits: Iterable[tuple[str, float]],
    pools: Mapping[str, tuple[int, ...]],
    usages: Mapping[int, Usage],
) -> tuple[OstGroup, ...]:
    """Return the pools that have a limit, with their OSTs.

    Parameters
    ----------
    limits
        Name of each pool and its highest fullness, a fraction.
    pools
        OST indices of every pool of the file system, by name.
    usages
        Bytes of every OST, by index.

    Returns
    -------
    tuple of OstGroup
        In the order of ``limits``.

    Raises
    ------
    UsageError
        A pool does not exist or has no OST, or the usage of one of its OSTs is unknown: a target
        for part of a pool would guarantee nothing.
    """
    return tuple(_pool_group(name, limit, pools, usages) for name, limit in limits)


def _pool_group(
    name: str,
    limit: float,
    pools: Mapping[str, tuple[int, ...]],
    usages: Mapping[int, Usage],
) -> OstGroup:
    shown = visible(name)
    if name not in pools:
        known = [visible(pool) for pool in sorted(pools)]
        raise UsageError(
            f"the file system has no pool {shown}",
            code="pool-unknown",
            hint=f"its pools are {enumerated(known, _SHOWN_POOLS)}"
            if known
            else "it has no pools at all: lfs pool_list",
        )
    osts = tuple(sorted(pools[name]))
    if not osts:
        raise UsageError(
            f"the pool {shown} has no OST", code="pool-empty", hint="add OSTs with lctl pool_add"
        )
    unknown = [ost_name(index) for index in osts if index not in usages]
    if unknown:
        raise UsageError(
            f"fullness of {', '.join(unknown[:_SHOWN_POOLS])} in pool {shown} unknown",
            code="ost-usage-unknown",
            hint="is it deactivated, or its server down? lfs df lists the OSTs that answer",
        )
    return OstGroup("pool", name, osts, limit)


def _need(
    group: OstGroup, curves: Mapping[int, AgeCurve], usages: Mapping[int, Usage]
) -> tuple[GroupHorizon, AgeCurve]:
    """Return what a group needs on its own, and its curve."""
    curve = AgeCurve.together([curves[index] for index in group.osts if index in curves])
    usage = _together([usages[index] for index in group.osts])
    excess_bytes, hour = usage.excess_bytes(group.limit), None
    status = HorizonStatus.MET_ALREADY
    if excess_bytes:
        hour = curve.earliest_freeing(excess_bytes)
        status = HorizonStatus.OUT_OF_REACH if hour is None else HorizonStatus.REACHED
    best = usage.after(curve.total.allocated_bytes)
    need = GroupHorizon(group, usage, status, excess_bytes, hour, best, Freed(), usage.after(0))
    return need, curve


def _with_cut_off(need: GroupHorizon, curve: AgeCurve, cut_off: int | None) -> GroupHorizon:
    if cut_off is None:
        return need
    freed = curve.freed_before(cut_off)
    return replace(need, freed=freed, after=need.usage.after(freed.allocated_bytes))


def _together(usages: list[Usage]) -> Usage:
    """Return the sum of usages."""
    if len(usages) == 1:
        return usages[0]
    return Usage(
        sum(usage.used_bytes for usage in usages), sum(usage.available_bytes for usage in usages)
    )


def _doubts(curves: Mapping[int, AgeCurve], usages: Mapping[int, Usage]) -> Iterator[str]:
    for index, curve in sorted(curves.items()):
        held = curve.total.allocated_bytes
        if index not in usages:
            yield f"files have objects on {ost_name(index)}, whose usage is unknown"
        elif held > usages[index].used_bytes:
            yield (
                f"the index has {format_bytes(held)} on {ost_name(index)}, which reports only "
                f"{format_bytes(usages[index].used_bytes)} used"
            )


def _words(horizons: GroupHorizons, at_s: int) -> Iterator[str]:
    if horizons.cut_off_hour is None and not horizons.unfixable:
        yield f"Every {_limits(horizons.groups)[0]}: nothing must be deleted."
    if horizons.cut_off_hour is not None:
        cut_off_s = horizons.cut_off_hour * HOUR_S
        noun, to = horizons.groups[0].group.noun, _limits(horizons.groups)[1]
        which = f"every {noun}"
        if horizons.unfixable:
            which = f"{which} that a horizon can help"
        target = (
            ""
            if horizons.target is None
            else f"; for the whole that is a target of {format_percent(horizons.target, 2)}"
        )
        yield (
            f"Deleting files last used before {moment(cut_off_s)} "
            f"({format_duration(at_s - cut_off_s)} ago) brings {which} to {to}{target}."
        )
    youngest = format_duration(at_s - horizons.youngest_hour * HOUR_S)
    for group in horizons.unfixable:
        best = "" if group.best is None else f", at best {format_percent(group.best.fullness)}"
        yield (
            f"No horizon down to {youngest} fixes {group.group.shown}: it is at "
            f"{format_percent(group.usage.fullness)}{best}. Move files off it, or close it to new "
            "ones."
        )
    yield from (f"{doubt[:1].upper()}{doubt[1:]}." for doubt in horizons.doubts)


def _limits(groups: tuple[GroupHorizon, ...]) -> tuple[str, str]:
    """Return the limits in two wordings: a state of all groups, and a goal."""
    noun = groups[0].group.noun
    limits = {row.group.limit for row in groups}
    if len(limits) == 1:
        limit = format_percent(limits.pop())
        return f"{noun} is at or under {limit}", f"{limit} or under"
    each = ", ".join(f"{visible(row.name)} {format_percent(row.group.limit)}" for row in groups)
    return f"{noun} is at or under its limit ({each})", f"its limit or under ({each})"


def _ost_names(indices: Iterable[int]) -> list[str]:
    return list(map(ost_name, indices))


shape(
    GroupHorizon,
    inline={"group": ("name", "limit")},
    derive={"osts": mapped("group.osts", _ost_names, tuple[str, ...])},
)
