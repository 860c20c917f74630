"""A spell: a trouble in one series, survey or counter, before spells are merged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

from trimtab.explain.incidents.looks import Look
from trimtab.judge.occasions import usual_gap_s
from trimtab.model.incident import Recurrence, Shape
from trimtab.model.series import ChangeStatus, SeriesKey
from trimtab.model.verdict import Interval

Item = TypeVar("Item")
SURVEYS: Final = "surveys"
"""Part of the name of every spell from surveys of single targets."""


TOGETHER: Final = timedelta(hours=6)
"""Bad runs this close belong to one trouble; twice their distance if runs are sparse."""


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch in which one thing deviated from its usual state.

    Attributes
    ----------
    name
        Display name: ``ior write_bandwidth``, ``surveys``.
    at, until
        First and last bad run; ``until`` is ``None`` while ongoing.
    last
        Last bad run or look so far, also while ongoing.
    depth
        Deviation in its own standard deviations: the deepest leads.
    what
        Description without times: "17 % lower".
    is_level
        Confirmed level change: its incident lasts as long as it does.
    is_broken
        Runs that failed or did not start: nothing was measured.
    moved
        Names of the series that show it, if several together do.
    """

    shape: Shape
    key: SeriesKey | None
    name: str
    at: datetime
    until: datetime | None
    last: datetime
    detected_at: datetime
    certainty: ChangeStatus
    depth: float
    what: str
    effect: float | None = None
    effect_interval: Interval | None = None
    runs: int = 0
    unfinished: int = 0
    targets: tuple[str, ...] = ()
    is_level: bool = False
    is_broken: bool = False
    moved: tuple[str, ...] = ()
    recurs: Recurrence | None = None

    def is_same(self, other: Spell) -> bool:
        """Return whether two spells of a kind overlap in time and, if recurring, in hours."""
        if self.name != other.name or self.at > other.last or other.at > self.last:
            return False
        if self.recurs is None or other.recurs is None:
            return self.recurs is other.recurs
        return self.recurs.meets(other.recurs)

    @property
    def is_lost(self) -> bool:
        """Whether it consists only of short stretches of runs without a figure."""
        lost = self.is_broken or (self.key is not None and 0 < self.unfinished == self.runs)
        return lost and self.shape is Shape.DIP


def id_of(*words: str) -> str:
    """Return a stable identifier of what these words name: twelve hexadecimal digits."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]


def name_of(key: SeriesKey) -> str:
    """Return the display name of a series."""
    target = "" if key.target is None else f" of {key.target}"
    apart = f" ({key.apart})" if key.apart else ""
    return f"{key.probe} {key.metric}{target}{apart}"


def percent_off(effect: float, *, more_is_better: bool) -> str:
    """Return an effect as text.

    Examples
    --------
    >>> percent_off(0.83, more_is_better=True)
    '17 % lower'
    >>> percent_off(1.2, more_is_better=False)
    '20 % longer'
    """
    change = abs(effect - 1) * 100
    lower = "lower" if more_is_better else "shorter"
    higher = "higher" if more_is_better else "longer"
    return f"{change:.0f} % {lower if effect < 1 else higher}"


def apart(times: Sequence[datetime]) -> timedelta:
    """Return the largest distance between bad runs of a series that belong to one trouble.

    Examples
    --------
    >>> apart([datetime(2026, 3, day) for day in (2, 3, 4)]).days
    2
    """
    return max(TOGETHER, timedelta(seconds=2 * usual_gap_s([at.timestamp() for at in times])))


def carried(looks: Iterable[tuple[Look, Iterable[Spell]]]) -> list[Spell]:
    """Join the spells of successive looks: one reported by several looks is one spell.

    A look reports each spell that overlaps its four weeks. The begin is that of the first look
    that reported it, so it does not move as the spell continues.
    """
    spells: list[Spell] = []
    for look, seen in looks:
        # Only a spell in the last look can still be ongoing.
        spells = [
            spell if spell.until is not None else replace(spell, until=spell.last)
            for spell in spells
        ]
        for spell in seen:
            if spell.at >= look.to or spell.last < look.from_:
                continue
            before = next((place for place, each in enumerate(spells) if each.is_same(spell)), None)
            if before is None:
                spells.append(spell)
            elif spell.last > spells[before].last or spell.until is None:
                first = spells[before]
                spells[before] = replace(spell, at=first.at, detected_at=first.detected_at)
    return spells


def grouped(
    items: Iterable[Item], at: Callable[[Item], datetime], longest: timedelta
) -> list[list[Item]]:
    """Split time-ordered items into groups; a longer gap begins a new one.

    Examples
    --------
    >>> hours = [datetime(2026, 3, 2, hour) for hour in (0, 1, 9, 10)]
    >>> [len(group) for group in grouped(hours, lambda at: at, timedelta(hours=6))]
    [2, 2]
    """
    groups: list[list[Item]] = []
    for item in items:
        if groups and at(item) - at(groups[-1][-1]) <= longest:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups
