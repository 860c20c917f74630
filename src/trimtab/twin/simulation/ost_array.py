"""Arrays over OSTs: their columns, their random streams, and their text in a diary.

Most arrays of the twin have one value per column, and each column represents one or more real OSTs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray

from trimtab.base.error import UsageError

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OstRates:
    """Writes and reads of each OST, bytes/s: its own capability, or users' demand."""

    write: Array
    read: Array


class _Key(ISeedSequence):
    """A raw key for Philox; given a plain key, NumPy would first read system entropy."""

    def __init__(self, digest: bytes) -> None:
        self._words = np.frombuffer(digest, "<u8")

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        """Return the two words that Philox requests."""
        return self._words


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the reproducible generator of a seed and names.

    Parameters
    ----------
    seed
        Seed of the scenario.
    names
        Subject of the draws: a noun, then an epoch or an entity. An additional fault has its own
        names and so does not change users' draws.
    """
    text = "\0".join([str(seed), *map(str, names)])
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    # Philox accepts any raw key; generators that hash a seed first take longer than the draws.
    # NumPy accepts any ISeedSequence; its stubs know only its own.
    return np.random.Generator(np.random.Philox(_Key(digest)))  # pyrefly: ignore[bad-argument-type]


def folded(values: Array) -> list[tuple[float, str]]:
    """Return each nonzero value with its OSTs, for actions of guests and the diary.

    A value occurs once, with the ranges of its OSTs: a job writes equally to most.

    Examples
    --------
    >>> folded(np.array([8.0, 8.0, 0.0, 7.0]))
    [(8.0, '0-1'), (7.0, '3')]
    """
    distinct = sorted(set(values[values != 0.0].tolist()), reverse=True)
    return [(value, _ranges(np.flatnonzero(values == value))) for value in distinct]


def unfolded(folded: Sequence[tuple[float, str]], osts: int) -> Array:
    """Return a value for each real OST: that of its range, or 0.

    Raises
    ------
    UsageError
        A range is invalid or goes beyond the last OST.

    Examples
    --------
    >>> unfolded([(8.0, "0-1"), (7.0, "3")], 5).tolist()
    [8.0, 8.0, 0.0, 7.0, 0.0]
    """
    values = np.zeros(osts)
    for value, ranges in folded:
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            whole = first.isdecimal() and (last or first).isdecimal()
            if not whole or not int(first) <= int(last or first) < osts:
                raise UsageError(f"{part!r} is not a range of {osts} OSTs", code="ost-unknown")
            values[int(first) : int(last or first) + 1] = value
    return values


def _ranges(numbers: Integers) -> str:
    """Return ascending numbers as ranges: ``0-3,7``."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    parts = np.split(numbers, breaks)
    return ",".join(f"{part[0]}" if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


@dataclass(frozen=True, slots=True)
class OstColumns:
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


def columns_of(count: int, classes: int | None, apart: Collection[int] = ()) -> OstColumns:
    """Return the columns of ``count`` OSTs.

    Parameters
    ----------
    classes
        Number of columns for all OSTs; ``None``: one per OST.
    apart
        Numbers of OSTs that always get their own column, because of events of their own.
    """
    return _joined(_members(0, count, classes, apart))


def with_more(
    columns: OstColumns, count: int, classes: int | None, apart: Collection[int]
) -> OstColumns:
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


def _joined(*parts: Integers) -> OstColumns:
    member = np.concatenate(parts)
    _, first = np.unique(member, return_index=True)
    return OstColumns(member, np.bincount(member).astype(float), first.astype(np.int64))
