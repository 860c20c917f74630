"""Fullness of a file system or target, as ``df`` and ``lfs df`` report it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from trimtab.base.error import UsageError
from trimtab.show.encode import shape


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
