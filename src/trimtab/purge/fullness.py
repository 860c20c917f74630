"""Fullness of a file system or target, and the curve of eligible files by hour of last use.

Fullness is what ``df`` and ``lfs df`` report. A horizon is read from the curve::

    allocated bytes                      cut-off
    last used before  ───────────────────┤
                     ▁▁▂▃▂▁▁▁▂▂▃▅▃▂▂▁▁▂▃▅█ ▆▇█    (too young, exempt: not on the curve)
                     └── what it frees ──┘

Hours are whole hours since 1970, UTC. A cut-off is the start of an hour, and a file is before it if
its last use is, so the hours below the cut-off hold exactly those files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Final

from trimtab.base.encode import shape
from trimtab.base.error import DataError, UsageError
from trimtab.base.units import percent_or_dash

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes used and available; reserved bytes are neither.

    Attributes
    ----------
    capacity_bytes
        Capacity of the whole; ``None`` if unknown. Fullness does not depend on it.
    """

    used_bytes: int
    available_bytes: int
    capacity_bytes: int | None = None

    def __post_init__(self) -> None:
        """Reject values without a fullness.

        Raises
        ------
        UsageError
            Bytes are negative or all 0.
        """
        if self.used_bytes < 0 or self.available_bytes < 0:
            raise UsageError(
                f"{self.used_bytes} bytes used and {self.available_bytes} available: negative",
                code="usage-negative",
                hint="take the numbers of df --block-size=1",
            )
        if self.total_bytes == 0:
            raise UsageError(
                "no bytes used and none available: fullness undefined",
                code="usage-empty",
                hint="is the file system mounted?",
            )

    @property
    def total_bytes(self) -> int:
        """Used and available bytes together, the denominator of fullness."""
        return self.used_bytes + self.available_bytes

    @property
    def fullness(self) -> float:
        """Used / (used + available)."""
        return self.used_bytes / self.total_bytes

    def excess_bytes(self, target: float) -> int:
        """Return the bytes to free so that fullness is at or under a target; 0 if it is.

        Parameters
        ----------
        target
            Fullness, a fraction.

        Raises
        ------
        UsageError
            ``target`` is not between 0 and 1.

        Notes
        -----
        Freed bytes become available, so the total does not change. The result is exact: the target
        counts as written, 0.7 as 7/10, and the result is the smallest whole number that reaches it.
        """
        if not 0 <= target <= 1:
            raise UsageError(
                f"{target} is not a fullness",
                code="value-out-of-range",
                hint='between 0 and 1: "70%"',
            )
        return max(0, ceil(self.used_bytes - Fraction(str(target)) * self.total_bytes))

    def after(self, freed_bytes: int) -> Usage | None:
        """Return the usage after a deletion; ``None`` if it frees more bytes than are used."""
        if not 0 <= freed_bytes <= self.used_bytes:
            return None
        return Usage(
            self.used_bytes - freed_bytes, self.available_bytes + freed_bytes, self.capacity_bytes
        )


shape(Usage, derive={"fullness": "fullness"})


if TYPE_CHECKING:
    Whole = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.int64]]

HOUR_S: Final = 3600
HOURS_PER_DAY: Final = 24
_SUM_MAXIMUM: Final = 2.0**62
"""Maximum sum of files or bytes: more means a broken index, and int64 would soon overflow."""


@dataclass(frozen=True, slots=True)
class Freed:
    """Files and allocated bytes that a deletion frees."""

    files: int = 0
    allocated_bytes: int = 0

    def __add__(self, other: Freed) -> Freed:
        """Return the sum."""
        return Freed(self.files + other.files, self.allocated_bytes + other.allocated_bytes)


@dataclass(frozen=True, eq=False)
class AgeCurve:
    """Eligible files and bytes by the hour of their last use.

    Attributes
    ----------
    hours
        Hours since 1970, ascending, each once; int64, shape (n,).
    files
        Number of files last used in each hour; int64, shape (n,).
    allocated_bytes
        Bytes allocated to them; int64, shape (n,).
    """

    hours: Whole
    files: Whole
    allocated_bytes: Whole

    def __post_init__(self) -> None:
        """Reject inconsistent arrays.

        Raises
        ------
        DataError
            Lengths differ, hours are not ascending, a value is negative, or the sum exceeds what
            any file system can hold.
        """
        import numpy as np

        if not len(self.hours) == len(self.files) == len(self.allocated_bytes):
            raise DataError(
                "an age curve needs as many counts and bytes as hours", code="curve-malformed"
            )
        if bool((np.diff(self.hours) <= 0).any()):
            raise DataError(
                "the hours of an age curve are not in ascending order", code="curve-malformed"
            )
        for noun, values in (("files", self.files), ("bytes", self.allocated_bytes)):
            if bool((values < 0).any()):
                raise DataError(
                    f"an age curve has a negative number of {noun}", code="curve-malformed"
                )
            if float(values.sum(dtype=np.float64)) > _SUM_MAXIMUM:
                raise DataError(
                    f"an age curve sums to more {noun} than possible", code="curve-malformed"
                )

    @classmethod
    def of(cls, hours: ArrayLike, files: ArrayLike, allocated_bytes: ArrayLike) -> AgeCurve:
        """Return the curve of values in any order; values of a repeated hour are summed.

        Parameters
        ----------
        hours
            Hours since 1970, shape (n,).
        files, allocated_bytes
            Files last used in each hour, and the bytes allocated to them; shape (n,).

        Raises
        ------
        DataError
            A value is negative, or the sum exceeds what a file system can hold.
        """
        import numpy as np

        order, where = np.unique(np.asarray(hours, np.int64), return_inverse=True)
        sums = []
        for values in (files, allocated_bytes):
            summed = np.zeros(len(order), np.int64)
            np.add.at(summed, where, np.asarray(values, np.int64))
            sums.append(summed)
        return cls(order, *sums)

    @classmethod
    def together(cls, curves: Sequence[AgeCurve]) -> AgeCurve:
        """Return the sum of curves; of none, an empty curve."""
        import numpy as np

        nothing, names = np.empty(0, np.int64), ("hours", "files", "allocated_bytes")
        return cls.of(
            *(np.concatenate([nothing, *(getattr(c, name) for c in curves)]) for name in names)
        )

    @classmethod
    def from_buffers(cls, hours: bytes, files: bytes, allocated_bytes: bytes) -> AgeCurve:
        """Return the curve from the core's buffers: i64 hours, ascending; u64 files; u64 bytes.

        Raises
        ------
        DataError
            A number exceeds int64, or as for the constructor.
        """
        import numpy as np

        ascending = np.frombuffer(hours, np.int64)
        return cls(ascending, _counts(files), _counts(allocated_bytes))

    @cached_property
    def _sums(self) -> tuple[Whole, Whole]:
        """Files and bytes of all hours before each hour."""
        return _summed(self.files), _summed(self.allocated_bytes)

    @property
    def total(self) -> Freed:
        """All eligible files and bytes."""
        files, allocated_bytes = self._sums
        return Freed(int(files[-1]), int(allocated_bytes[-1]))

    def freed_before(self, hour: int) -> Freed:
        """Return the files and bytes last used before the start of an hour since 1970."""
        import numpy as np

        at = int(np.searchsorted(self.hours, hour, side="left"))
        files, allocated_bytes = self._sums
        return Freed(int(files[at]), int(allocated_bytes[at]))

    def earliest_freeing(self, required_bytes: int) -> int | None:
        """Return the earliest hour before which at least ``required_bytes`` were last used.

        Returns
        -------
        int | None
            Hours since 1970: the hour after the one that reaches the sum, so that as little as
            possible is deleted. ``None`` if the whole curve does not suffice or is empty. For 0
            bytes the first hour, before which there is nothing.
        """
        import numpy as np

        sums = self._sums[1]
        if not len(self.hours) or required_bytes > int(sums[-1]):
            return None
        if required_bytes <= 0:
            return int(self.hours[0])
        at = int(np.searchsorted(sums, required_bytes, side="left"))
        return int(self.hours[at - 1]) + 1

    def before(self, hour: int) -> AgeCurve:
        """Return the part of the curve before an hour since 1970."""
        import numpy as np

        at = int(np.searchsorted(self.hours, hour, side="left"))
        return AgeCurve(self.hours[:at], self.files[:at], self.allocated_bytes[:at])


@dataclass(frozen=True, eq=False)
class OwnerDays:
    """Eligible files and bytes of each user or project by the day: whole days since 1970, UTC.

    The arrays of all owners are joined: a system has 10^4 users, and as many small arrays take
    seconds. For a cut-off within a day the freed share of that day is unknown; `freed_before`
    returns the least and the most.

    Attributes
    ----------
    owners
        Numbers of users or projects; int64, shape (k,).
    starts
        Where the days of each owner start, then the end of the last; int64, shape (k + 1,).
    days
        Ascending for each owner; int64, shape (n,).
    files, allocated_bytes
        Files last used on each day, and their bytes; int64, shape (n,).
    """

    owners: Whole
    starts: Whole
    days: Whole
    files: Whole
    allocated_bytes: Whole

    @classmethod
    def from_buffers(cls, each: Iterable[tuple[int, tuple[bytes, bytes, bytes]]]) -> OwnerDays:
        """Return the days from the core's buffers of each owner: i64 days, u64 files, u64 bytes.

        Raises
        ------
        DataError
            As `AgeCurve.from_buffers`.
        """
        import numpy as np

        owners, buffers = [], []
        for owner, arrays in each:
            owners.append(owner)
            buffers.append(arrays)
        lengths = [len(days) // 8 for days, _, _ in buffers]
        for buffer, length in zip(buffers, lengths, strict=True):
            if any(len(data) != length * 8 for data in buffer):
                raise DataError(
                    "an age curve needs as many counts and bytes as days", code="curve-malformed"
                )
        days, files, sizes = (b"".join(buffer[place] for buffer in buffers) for place in range(3))
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
        ascending = np.frombuffer(days, np.int64)
        steps = np.diff(ascending) > 0
        edges = starts[1:-1] - 1
        steps[edges[(edges >= 0) & (edges < len(steps))]] = True  # from one owner to the next
        if not bool(steps.all()):
            raise DataError(
                "the days of an age curve are not in ascending order", code="curve-malformed"
            )
        return cls(np.array(owners, np.int64), starts, ascending, _counts(files), _counts(sizes))

    def freed_before(self, hour: int) -> tuple[list[Freed], list[Freed]]:
        """Return, for each owner, the least and the most last used before an hour since 1970."""
        day, within = divmod(hour, HOURS_PER_DAY)
        least = self._before(day)
        return least, self._before(day + 1) if within else least

    @property
    def totals(self) -> list[Freed]:
        """All eligible files and bytes of each owner."""
        return self._until(self.starts[1:])

    def _before(self, day: int) -> list[Freed]:
        # An owner's days are ascending, so those before a day come first.
        passed = _summed(self.days < day)
        return self._until(self.starts[:-1] + passed[self.starts[1:]] - passed[self.starts[:-1]])

    def _until(self, ends: Whole) -> list[Freed]:
        """Return each owner's sums up to given positions in the joined arrays."""
        begins = self.starts[:-1]
        files, sizes = ((sums[ends] - sums[begins]).tolist() for sums in self._sums)
        return [Freed(*totals) for totals in zip(files, sizes, strict=True)]

    @cached_property
    def _sums(self) -> tuple[Whole, Whole]:
        return _summed(self.files), _summed(self.allocated_bytes)


def _summed(values: numpy.ndarray) -> Whole:
    """Return the sum of the values before each, then of all; shape (n + 1,)."""
    import numpy as np

    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


def _counts(data: bytes) -> Whole:
    """Return the core's u64 numbers as int64.

    Raises
    ------
    DataError
        A number or the sum exceeds int64.
    """
    import numpy as np

    values = np.frombuffer(data, np.uint64)
    if bool((values > np.uint64(2**63 - 1)).any()):
        raise DataError("an age curve has a number of more than 63 bits", code="curve-malformed")
    if float(values.sum(dtype=np.float64)) > _SUM_MAXIMUM:
        raise DataError("an age curve sums to more than possible", code="curve-malformed")
    return values.astype(np.int64)


def fullness_text(usage: Usage | None) -> str:
    """Return the fullness in per cent, a dash where it is not known."""
    return percent_or_dash(None if usage is None else usage.fullness, 2)
