"""Values of periods of four weeks on a fixed calendar: those of past periods are reused.

A value rests on the rows of its period alone, so after a new run only that of the last period is
made again::

    ├── 28 days ──┼── 28 days ──┼── 28 days ──┼── the last ─┤
      as kept       as kept       a late run    a new run
                                  made again    made again
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from trimtab.store.kept import Keeping, RestsOn

PERIOD: Final = timedelta(days=28)
"""As long as a look for incidents; it begins at midnight UTC."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RESOLUTION: Final = timedelta(microseconds=1)

Period = int | None
"""Number of the period since 1970; ``None``: of the rows without a time."""
RunPoint = tuple[str, int, bool, dict[str, float]]
"""Id and begin of a run (microseconds since 1970), whether it did not finish, median by metric."""
Sum = tuple[int, int]
"""Number of rows, and the sum of their checksums."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums that differ if anything of a site has changed, also in place.

    Attributes
    ----------
    runs
        Sums of runs with their samples, by comparability; the windows of maintenance belong to
        those and to slots.
    slots
        Sums by item.
    tables
        Sums of the other tables and of the site itself, by name.
    runs_in, snapshots_in
        Sums of runs by comparability and period, of snapshots by period.
    """

    runs: Mapping[str, Sum] = field(default_factory=dict)
    slots: Mapping[str, Sum] = field(default_factory=dict)
    tables: Mapping[str, Sum] = field(default_factory=dict)
    runs_in: Mapping[tuple[str, Period], Sum] = field(default_factory=dict)
    snapshots_in: Mapping[int, Sum] = field(default_factory=dict)


def bounds_of(period: int) -> tuple[datetime, datetime]:
    """Return the first and the last moment of a period.

    Examples
    --------
    >>> begin, end = bounds_of(730)
    >>> begin.isoformat(), end.date().isoformat()
    ('2025-12-18T00:00:00+00:00', '2026-01-14')
    """
    begin = _EPOCH + period * PERIOD
    return begin, begin + PERIOD - _RESOLUTION


def period_at(at: datetime) -> int:
    """Return the period of a time.

    Examples
    --------
    >>> period_at(bounds_of(730)[1])
    730
    """
    return (at - _EPOCH) // PERIOD


def in_order(periods: Iterable[Period]) -> tuple[Period, ...]:
    """Return the distinct periods by time, that of rows without a time first.

    Examples
    --------
    >>> in_order([7, None, 3, 7])
    (None, 3, 7)
    """
    return tuple(sorted({*periods}, key=lambda period: (period is not None, period or 0)))


@dataclass
class KeptPeriods(Generic[Value]):
    """The values of some periods: those that are kept and still hold, and those to be made.

    Attributes
    ----------
    noun, kind
        As in `Keeping.remembered`.
    rests_on
        What the value of a period rests on.
    """

    look: Keeping
    noun: str
    kind: Any
    rests_on: Callable[[Period], RestsOn]
    periods: Sequence[Period]

    @cached_property
    def _held(self) -> dict[Period, Value]:
        self.look.fetch([self._noun(period) for period in self.periods])
        return {
            period: known[0]
            for period in self.periods
            if (known := self.look.known(*self._place(period))) is not None
        }

    def _noun(self, period: Period) -> str:
        return f"{self.noun}, period {period}"

    def _place(self, period: Period) -> tuple[str, Any, RestsOn]:
        return self._noun(period), self.kind, self.rests_on(period)

    @property
    def first(self) -> list[Value]:
        """The values of the periods before the first whose value must be made."""
        return [self._held[at] for at in takewhile(self._held.__contains__, self.periods)]

    @property
    def missing(self) -> tuple[Period, ...]:
        """The periods whose value must be made."""
        return tuple(period for period in self.periods if period not in self._held)

    def filled(self, made: Iterable[Value]) -> list[Value]:
        """Return the values of all periods.

        Parameters
        ----------
        made
            The values of the `missing` periods, in their order; they are kept.
        """
        new = {
            period: self.look.note(*self._place(period), value)
            for period, value in zip(self.missing, made, strict=True)
        }
        return [(new if period in new else self._held)[period] for period in self.periods]
