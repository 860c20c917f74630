"""Find the horizon, the cut-off that brings a file system to its target.

It is the earliest sufficient cut-off, which deletes the least: a file just younger than the horizon
is retained. It is known before anything is deleted, so it can be published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil
from typing import Final

from trimtab.base.encode import shape
from trimtab.base.error import UsageError
from trimtab.base.units import (
    EpochHour,
    format_bytes,
    format_duration,
    format_exact_percent,
    format_percent,
    plural,
)
from trimtab.purge.fullness import HOUR_S, AgeCurve, Freed, OwnerDays, Usage
from trimtab.purge.rules_in_force import moment

DAY_S: Final = 86400
AGES_DAYS: Final = (14, 28, 42, 56, 70, 84, 112, 140, 182, 273, 365, 547, 730, 1095, 1826)
"""Ages in days shown in tables; the curve itself has every hour."""
_DIFFERENCE: Final = 0.1
"""Fraction by which an index and ``df`` may differ.

``df`` includes snapshots, quota files and data written since the scan.
"""


class HorizonStatus(StrEnum):
    """Whether a cut-off is needed and sufficient."""

    MET_ALREADY = "met_already"
    """Nothing must be deleted."""
    REACHED = "reached"
    """Deleting files older than the cut-off suffices."""
    OUT_OF_REACH = "out_of_reach"
    """Deleting all eligible files does not suffice."""


@dataclass(frozen=True, slots=True)
class KeptBack:
    """Retained files and the reason: ``too_young``, ``exempt_user`` ..."""

    reason: str
    files: int
    allocated_bytes: int


@dataclass(frozen=True, slots=True)
class Horizon:
    """A cut-off and its effect.

    Attributes
    ----------
    status
        Whether anything must be deleted, and whether the cut-off suffices.
    target
        Fullness to reach, a fraction.
    usage
        Usage before the deletion.
    required_bytes
        Bytes to free.
    cut_off_hour
        Hours since 1970; files last used before it are deleted. If the target is out of reach, the
        youngest that the minimum age allows; ``None`` if nothing must be deleted.
    freed
        Files and bytes before the cut-off.
    after
        Usage after the deletion; ``None`` if unknown, because the index has more bytes than are
        used.
    eligible
        All files that the rules allow to be deleted, regardless of the cut-off.
    kept
        All others, by reason; most bytes first.
    doubts
        Sentences about inconsistent figures.
    """

    status: HorizonStatus
    target: float
    usage: Usage
    required_bytes: int
    cut_off_hour: EpochHour | None
    freed: Freed
    after: Usage | None
    eligible: Freed
    kept: tuple[KeptBack, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def cut_off_s(self) -> int | None:
        """The cut-off in seconds since 1970."""
        return None if self.cut_off_hour is None else self.cut_off_hour * HOUR_S

    @property
    def shortfall_bytes(self) -> int:
        """Bytes missing to the target."""
        return max(0, self.required_bytes - self.freed.allocated_bytes)

    def age_s(self, at_s: int) -> int | None:
        """Return the age of the cut-off, in seconds, at a time in seconds since 1970."""
        return None if self.cut_off_s is None else at_s - self.cut_off_s

    def words(self, at_s: int) -> tuple[str, ...]:
        """Return the result as sentences; ages are as of a time in seconds since 1970."""
        return tuple(_words(self, at_s))


@dataclass(frozen=True, slots=True)
class Step:
    """Effect of a horizon of one age."""

    cut_off_hour: EpochHour
    age_s: int
    freed: Freed
    after: Usage | None


@dataclass(frozen=True, slots=True)
class OwnedBy:
    """Effect of a cut-off on the files of one user or project.

    Attributes
    ----------
    owner
        Uid or project number.
    least, most
        Bounds of what is freed; equal unless the cut-off falls within a day, since the share of
        that day before the cut-off is unknown.
    eligible
        All files of the owner that the rules allow to be deleted.
    """

    owner: int
    least: Freed
    most: Freed
    eligible: Freed


def find_horizon(
    curve: AgeCurve,
    usage: Usage,
    target: float,
    *,
    youngest_hour: int,
    kept_back: Mapping[str, tuple[int, int]] | None = None,
    required_bytes: int | None = None,
) -> Horizon:
    """Return the earliest cut-off that brings usage to or under a target.

    Parameters
    ----------
    curve
        All eligible files, by the hour of their last use.
    usage
        Bytes used and available now.
    target
        Fullness to reach, used / (used + available), a fraction.
    youngest_hour
        Latest cut-off that the minimum age allows, in hours since 1970.
    kept_back
        Retained files by reason: number and allocated bytes.
    required_bytes
        Bytes to free, if more than the target requires now (`publication_bytes`).

    Returns
    -------
    Horizon
        The cut-off, what it frees and the usage after it; ``doubts`` if figures disagree.

    Raises
    ------
    UsageError
        ``target`` is not between 0 and 1, or ``required_bytes`` is negative.
    """
    eligible = curve.before(youngest_hour)
    required = usage.excess_bytes(target) if required_bytes is None else required_bytes
    if required < 0:
        raise UsageError(
            f"{required} bytes cannot be freed", code="value-out-of-range", hint="take 0 or more"
        )
    hour = eligible.earliest_freeing(required) if required else None
    if not required:
        status, freed = HorizonStatus.MET_ALREADY, Freed()
    elif hour is None:
        status, hour, freed = HorizonStatus.OUT_OF_REACH, youngest_hour, eligible.total
    else:
        status, freed = HorizonStatus.REACHED, eligible.freed_before(hour)
    others = tuple(KeptBack(reason, *numbers) for reason, numbers in (kept_back or {}).items())
    return Horizon(
        status=status,
        target=target,
        usage=usage,
        required_bytes=required,
        cut_off_hour=hour,
        freed=freed,
        after=usage.after(freed.allocated_bytes),
        eligible=eligible.total,
        kept=tuple(sorted(others, key=lambda group: (-group.allocated_bytes, group.reason))),
        doubts=tuple(_doubts(eligible.total, others, usage, known=kept_back is not None)),
    )


def publication_bytes(
    usage: Usage, target: float, *, growth_bytes: int = 0, factor: float = 2.0
) -> int:
    """Return the bytes that the files on published lists must hold together.

    Parameters
    ----------
    usage
        Bytes used and available now.
    target
        Fullness to reach, a fraction.
    growth_bytes
        Upper bound of the forecast until the plan expires. Negative growth counts as 0.
    factor
        The policy's ``publish_factor``: owners use, move or protect much of a list.

    Raises
    ------
    UsageError
        ``target`` is not between 0 and 1.

    Notes
    -----
    ``factor x (used + growth - target x (used + available))``, or 0 if that is not positive. Growth
    cannot exceed the available bytes.

    Examples
    --------
    >>> publication_bytes(Usage(80, 20), 0.7, growth_bytes=5, factor=2.0)
    30
    """
    growth = min(max(0, growth_bytes), usage.available_bytes)
    grown = Usage(usage.used_bytes + growth, usage.available_bytes - growth)
    return ceil(Fraction(str(factor)) * grown.excess_bytes(target))


def steps(
    curve: AgeCurve, usage: Usage, *, as_of_s: int, ages_days: Iterable[int] = AGES_DAYS
) -> tuple[Step, ...]:
    """Return what cut-offs of several ages would free, oldest first.

    Parameters
    ----------
    curve
        All eligible files, by the hour of their last use.
    usage
        Bytes used and available now.
    as_of_s
        Time from which ages are counted back, to the beginning of the hour, in seconds since 1970.
    ages_days
        Ages in days. Those younger than the curve free all of it.
    """
    rows = []
    for days in sorted(set(ages_days), reverse=True):
        hour = (as_of_s - days * DAY_S) // HOUR_S
        freed = curve.freed_before(hour)
        rows.append(Step(hour, as_of_s - hour * HOUR_S, freed, usage.after(freed.allocated_bytes)))
    return tuple(rows)


def owners(days: OwnerDays, cut_off_hour: int) -> tuple[OwnedBy, ...]:
    """Return what a cut-off frees for each user or project, most bytes first.

    Parameters
    ----------
    days
        Eligible files of each owner, by the day of their last use.
    cut_off_hour
        Hours since 1970. Within a day, the result has the least and the most that it can free.

    Returns
    -------
    tuple of OwnedBy
        Owners for whom the cut-off frees nothing are omitted.
    """
    least, most = days.freed_before(cut_off_hour)
    rows = [
        OwnedBy(owner, *freed)
        for owner, *freed in zip(days.owners.tolist(), least, most, days.totals, strict=True)
    ]
    taken = (row for row in rows if row.most.files)
    return tuple(sorted(taken, key=lambda row: (-row.most.allocated_bytes, row.owner)))


def _doubts(
    eligible: Freed, others: Iterable[KeptBack], usage: Usage, *, known: bool
) -> Iterator[str]:
    if eligible.allocated_bytes > usage.used_bytes:
        yield (
            f"the index has {format_bytes(eligible.allocated_bytes)} that may be deleted, but the "
            f"file system reports only {format_bytes(usage.used_bytes)} used: the fullness "
            "afterwards is unknown"
        )
        return
    if not known:
        return
    indexed = eligible.allocated_bytes + sum(kept_back.allocated_bytes for kept_back in others)
    if abs(indexed - usage.used_bytes) > _DIFFERENCE * max(usage.used_bytes, 1):
        yield (
            f"the index accounts for {format_bytes(indexed)} of {format_bytes(usage.used_bytes)} "
            "used: does it cover the whole file system, and is it recent? Deleting files with "
            "snapshots or shared extents frees less than they hold"
        )


def _words(horizon: Horizon, at_s: int) -> Iterator[str]:
    use, target = format_percent(horizon.usage.fullness), format_exact_percent(horizon.target)
    if horizon.status is HorizonStatus.MET_ALREADY:
        yield f"Usage is {use}; the target of {target} is met, and nothing must be deleted."
    else:
        assert horizon.cut_off_s is not None
        # Enough digits to tell a fullness just above the target from the target.
        after = (
            "" if horizon.after is None else f", which leaves {_percent(horizon.after, horizon)}"
        )
        yield (
            f"Deleting files last used before {moment(horizon.cut_off_s)} "
            f"({format_duration(at_s - horizon.cut_off_s)} ago) frees "
            f"{format_bytes(horizon.freed.allocated_bytes)} in "
            f"{plural(horizon.freed.files, 'file', ',')}{after}."
        )
    if horizon.status is HorizonStatus.OUT_OF_REACH:
        yield (
            f"No horizon reaches {target}: that is all that may be deleted, "
            f"{format_bytes(horizon.shortfall_bytes)} too little."
        )
        for kept_back in horizon.kept:
            yield (
                f"Retained, {kept_back.reason.replace('_', ' ')}: "
                f"{format_bytes(kept_back.allocated_bytes)} in "
                f"{plural(kept_back.files, 'file', ',')}."
            )
    yield from (f"{doubt[:1].upper()}{doubt[1:]}." for doubt in horizon.doubts)


def _percent(usage: Usage, horizon: Horizon) -> str:
    for digits in (1, 2, 3, 4):
        text = format_percent(usage.fullness, digits)
        if not usage.excess_bytes(horizon.target) or text != format_percent(horizon.target, digits):
            return text
    return f"just over {format_exact_percent(horizon.target)}"


shape(Horizon, derive={"shortfall_bytes": "shortfall_bytes"})
