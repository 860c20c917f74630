"""Whether objects that waited at one moment are destroyed by now, while users go on deleting.

On a busy file system there are always some objects being destroyed, and a wait for none at all
would never end. What matters is those that were there at its beginning. Changes go to an OST in
the order in which they were made, so these go first; of the count only the sum is seen::

    count     10   12    9   11    8   13    0        first look: 10 are old
    fell by         -    3    -    3    -   13
    old, at most   10    7    7    4    4    0

Whatever the count fell by between two looks has gone, and the old go first. What is made and gone
between two looks hides, so this errs to the safe side: it may call some old that are new, never the
other way.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from trimtab.drivers.lustre.destroys import Pair


class Drain:
    """How many of the objects that were there at a first look may still be there."""

    def __init__(self) -> None:
        self._seen: dict[Pair, int] = {}
        self._old: dict[Pair, int] | None = None

    def restart(self) -> None:
        """Take the next look for the first."""
        self._old = None

    @property
    def old(self) -> Mapping[Pair, int] | None:
        """As many as may be left of each pair; ``None`` before the first look."""
        return self._old

    def look(self, objects: Mapping[Pair, int], uncounted: Set[Pair] = frozenset()) -> int:
        """Return how many may be left, given what is there now.

        Parameters
        ----------
        objects
            Of each MDT and OST.
        uncounted
            Pairs with objects besides that nothing counts: there is at least one old one, and when
            they come to be counted, that is the first look at the pair.
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
