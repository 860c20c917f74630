"""Detects when the objects pending at one moment are destroyed, while users keep deleting.

On a busy file system some objects are always being destroyed, so a wait for zero would never end.
What matters is the objects that were pending at its start. An OST gets changes in the order in
which they were made, so these go first; only the total count is visible::

    count     10   12    9   11    8   13    0        first look: 10 are old
    fell by         -    3    -    3    -   13
    old, at most   10    7    7    4    4    0

Whatever the count fell by between two looks is destroyed, oldest first. Objects that come and go
between two looks are invisible, so this errs on the safe side: it may count new objects as old,
never the reverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from trimtab.drivers.lustre.destroys import Pair


class Drain:
    """Upper bound on the objects of a first look that still exist."""

    def __init__(self) -> None:
        self._seen: dict[Pair, int] = {}
        self._old: dict[Pair, int] | None = None

    def restart(self) -> None:
        """Make the next look the first."""
        self._old = None

    @property
    def old(self) -> Mapping[Pair, int] | None:
        """Upper bound for each pair; ``None`` before the first look."""
        return self._old

    def look(self, objects: Mapping[Pair, int], uncounted: Set[Pair] = frozenset()) -> int:
        """Return how many may be left, given the current counts.

        Parameters
        ----------
        objects
            Current count of each MDT and OST.
        uncounted
            Pairs with further objects that nothing counts: at least one is old. Once they are
            counted, that is the first look at the pair.
        """
        before = self._old or {}
        self._old = {
            pair: max(1, count) if pair in uncounted else self._left(pair, count, before.get(pair))
            for pair, count in objects.items()
        }
        self._seen = {pair: count for pair, count in objects.items() if pair not in uncounted}
        return sum(self._old.values())

    def _left(self, pair: Pair, count: int, old: int | None) -> int:
        if old is None or pair not in self._seen:
            return count
        return max(0, old - max(0, self._seen[pair] - count))
