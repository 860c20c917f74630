"""The horizon of single OSTs: what brings each under its limit, and where none does.

A file system is as fast as its fullest OST. A purge takes the old files wherever they lie, so the
cut-off is the one that the last OST needs; an OST that is full of young files is helped by none,
and then its fullness is a matter of placement, not of age.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trimtab.purge.horizon.curve import HOUR_S, AgeCurve, Freed
from trimtab.purge.horizon.horizon import HorizonStatus
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.rules import moment
from trimtab.units import format_bytes, format_duration, format_percent


@dataclass(frozen=True, slots=True)
class OstHorizon:
    """What one OST needs, and what the common cut-off does for it.

    Attributes
    ----------
    cut_off_hour
        The earliest that brings it to the limit; ``None`` where nothing is needed or none does.
    best
        Its use if all of it that is eligible went; ``None`` where the index holds more than is
        used.
    freed, after
        By the common cut-off.
    """

    index: int
    usage: Usage
    status: HorizonStatus
    excess_bytes: int
    cut_off_hour: int | None
    best: Usage | None
    freed: Freed
    after: Usage | None

    @property
    def name(self) -> str:
        """As Lustre names it."""
        return ost_name(self.index)


@dataclass(frozen=True, slots=True)
class OstHorizons:
    """The common cut-off of all OSTs that a horizon can bring under a limit.

    Attributes
    ----------
    cut_off_hour
        Of the OST that needs the latest; ``None`` where no horizon is needed, or none helps.
    target
        The overall target that comes to the same, rounded down to a hundredth of a per cent;
        ``None`` as ``cut_off_hour``, and where fullness after it cannot be told.
    freed
        From all OSTs together, by the common cut-off.
    osts
        By their index.
    doubts
        Sentences about what does not fit together.
    """

    limit: float
    youngest_hour: int
    cut_off_hour: int | None
    target: float | None
    freed: Freed
    osts: tuple[OstHorizon, ...]
    doubts: tuple[str, ...] = ()

    @property
    def unfixable(self) -> tuple[OstHorizon, ...]:
        """Those that no horizon brings under the limit."""
        return tuple(one for one in self.osts if one.status is HorizonStatus.OUT_OF_REACH)

    def words(self, at_s: int) -> tuple[str, ...]:
        """Return what it comes to in sentences, ages as of a time in seconds since 1970."""
        return tuple(_words(self, at_s))


def ost_name(index: int) -> str:
    """Return an OST's name.

    Examples
    --------
    >>> ost_name(18)
    'OST0012'
    """
    return f"OST{index:04x}"


def find_ost_horizons(
    curves: Mapping[int, AgeCurve],
    usages: Mapping[int, Usage],
    limit: float,
    *,
    whole: AgeCurve,
    usage: Usage,
    youngest_hour: int,
) -> OstHorizons:
    """Return the cut-off that brings every OST under its limit that one can bring there.

    Parameters
    ----------
    curves
        Of each OST what is eligible of its objects, by the hour of the file's last use. One that
        is not there holds nothing of that kind.
    usages
        Of each OST, as ``lfs df`` has it.
    limit
        Fullness that no OST is to be above.
    whole, usage
        Of the file system.
    youngest_hour
        Hours since 1970: no cut-off is later, because of the minimum age.
    """
    allowed = {index: curve.before(youngest_hour) for index, curve in curves.items()}
    needs = {
        index: _need(one.excess_bytes(limit), allowed.get(index, AgeCurve.empty()))
        for index, one in usages.items()
    }
    cut_off = max((one.hour for one in needs.values() if one.hour is not None), default=None)
    freed = Freed() if cut_off is None else whole.before(youngest_hour).freed_before(cut_off)
    after = None if cut_off is None else usage.after(freed.allocated_bytes)
    return OstHorizons(
        limit=limit,
        youngest_hour=youngest_hour,
        cut_off_hour=cut_off,
        # Down: a target that asks for a byte less would stop an hour too early.
        target=None if after is None else after.used_bytes * 10_000 // after.total_bytes / 10_000,
        freed=freed,
        osts=tuple(_one(index, usages[index], needs[index], cut_off) for index in sorted(usages)),
        doubts=tuple(_doubts(allowed, usages)),
    )


@dataclass(frozen=True, slots=True)
class _Need:
    """What an OST needs by itself."""

    excess_bytes: int
    hour: int | None
    curve: AgeCurve


def _need(excess_bytes: int, curve: AgeCurve) -> _Need:
    hour = curve.earliest_freeing(excess_bytes) if excess_bytes else None
    return _Need(excess_bytes, hour, curve)


def _one(index: int, usage: Usage, need: _Need, cut_off: int | None) -> OstHorizon:
    if not need.excess_bytes:
        status = HorizonStatus.MET_ALREADY
    else:
        status = HorizonStatus.OUT_OF_REACH if need.hour is None else HorizonStatus.REACHED
    freed = Freed() if cut_off is None else need.curve.freed_before(cut_off)
    return OstHorizon(
        index=index,
        usage=usage,
        status=status,
        excess_bytes=need.excess_bytes,
        cut_off_hour=need.hour,
        best=usage.after(need.curve.total.allocated_bytes),
        freed=freed,
        after=usage.after(freed.allocated_bytes),
    )


def _doubts(curves: Mapping[int, AgeCurve], usages: Mapping[int, Usage]) -> Iterator[str]:
    for index, curve in sorted(curves.items()):
        held = curve.total.allocated_bytes
        if index not in usages:
            yield f"files lie on {ost_name(index)}, of which no use is known"
        elif held > usages[index].used_bytes:
            yield (
                f"the index holds {format_bytes(held)} on {ost_name(index)}, which uses "
                f"{format_bytes(usages[index].used_bytes)}"
            )


def _words(found: OstHorizons, at_s: int) -> Iterator[str]:
    limit = format_percent(found.limit)
    if found.cut_off_hour is None and not found.unfixable:
        yield f"Every OST is at or under {limit}: nothing has to go."
    if found.cut_off_hour is not None:
        cut_off_s = found.cut_off_hour * HOUR_S
        which = "every OST" if not found.unfixable else "every OST that a horizon can bring there"
        target = (
            ""
            if found.target is None
            else f"; that is a target of {format_percent(found.target, 2)} of the whole"
        )
        yield (
            f"Deleting what was last used before {moment(cut_off_s)} "
            f"({format_duration(at_s - cut_off_s)} ago) brings {which} to {limit} or under{target}."
        )
    youngest = format_duration(at_s - found.youngest_hour * HOUR_S)
    for one in found.unfixable:
        best = "" if one.best is None else f", at best {format_percent(one.best.fullness)}"
        yield (
            f"No horizon down to {youngest} fixes {one.name}: it is at "
            f"{format_percent(one.usage.fullness)}{best}. Move files off it, or stop new ones."
        )
    yield from (f"{doubt[:1].upper()}{doubt[1:]}." for doubt in found.doubts)
