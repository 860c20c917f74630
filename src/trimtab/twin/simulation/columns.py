"""Assignment of real OSTs to simulated columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from trimtab.twin.arrays import Array, Integers


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a simulation.

    Attributes
    ----------
    member
        Column of each real OST.
    weight
        Number of real OSTs of each column.
    first
        The lowest-numbered real OST of each column.
    """

    member: Integers
    weight: Array
    first: Integers

    @property
    def count(self) -> int:
        """Number of columns."""
        return len(self.weight)

    @property
    def osts(self) -> int:
        """Number of real OSTs."""
        return len(self.member)

    def means(self, values: Array) -> Array:
        """Return the mean over each column's real OSTs."""
        return np.bincount(self.member, values, minlength=self.count) / self.weight


def columns_of(count: int, classes: int | None, apart: Collection[int] = ()) -> Columns:
    """Return the columns of ``count`` OSTs.

    Parameters
    ----------
    classes
        Number of columns for all OSTs; ``None``: one per OST.
    apart
        Numbers of OSTs that always get their own column, because of events of their own.
    """
    return _joined(_members(0, count, classes, apart))


def with_more(columns: Columns, count: int, classes: int | None, apart: Collection[int]) -> Columns:
    """Return the columns after OSTs were added: the old ones unchanged, then the new ones.

    Parameters
    ----------
    count
        Number of all OSTs, old and new. New ones are empty and so share no column with old ones;
        they get classes in proportion to their number, at least one.
    """
    old = columns.osts
    share = None if classes is None else max(1, round(classes * (count - old) / count))
    return _joined(columns.member, _members(old, count, share, apart) + columns.count)


def _members(start: int, stop: int, classes: int | None, apart: Collection[int]) -> Integers:
    alone = [ost for ost in range(start, stop) if ost in apart]
    together = [ost for ost in range(start, stop) if ost not in apart]
    kinds = len(together) if classes is None else min(classes, len(together))
    if classes is None:
        return np.arange(stop - start)
    member = np.empty(stop - start, np.int64)
    for place, ost in enumerate(together):
        member[ost - start] = place % kinds
    for place, ost in enumerate(alone):
        member[ost - start] = kinds + place
    return member


def _joined(*parts: Integers) -> Columns:
    member = np.concatenate(parts)
    _, first = np.unique(member, return_index=True)
    return Columns(member, np.bincount(member).astype(float), first.astype(np.int64))
