"""Which real OSTs a simulated column stands for."""

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
        Real OSTs of each column.
    first
        A real OST of each column: the one with the lowest number.
    """

    member: Integers
    weight: Array
    first: Integers

    @property
    def count(self) -> int:
        """How many columns there are."""
        return len(self.weight)

    @property
    def osts(self) -> int:
        """How many real OSTs there are."""
        return len(self.member)

    def means(self, values: Array) -> Array:
        """Return the mean of each column's real OSTs."""
        return np.bincount(self.member, values, minlength=self.count) / self.weight


def columns_of(count: int, classes: int | None, apart: Collection[int] = ()) -> Columns:
    """Return the columns of ``count`` OSTs.

    Parameters
    ----------
    classes
        Columns that stand for all; ``None``: one for each OST.
    apart
        Numbers of OSTs that get a column of their own in any case: something happens to them alone.
    """
    return _joined(_members(0, count, classes, apart))


def with_more(columns: Columns, count: int, classes: int | None, apart: Collection[int]) -> Columns:
    """Return the columns after OSTs were added: the old ones as they were, then the new ones.

    Parameters
    ----------
    count
        Of all OSTs, old and new. New ones are empty, so they share no column with old ones; they
        get classes by their part of the whole, at least one.
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
