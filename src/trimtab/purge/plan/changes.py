"""Compare the candidates of a plan with those of the previous one: known, new and gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from trimtab.purge.plan.candidates import pieces

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

_COLUMNS: Final = ("id", "parent", "name", "uid")
_OBJECT: Final = ("id", "parent", "name")
"""The same object under the same name; its device number may change at the next boot."""


@dataclass(frozen=True, slots=True)
class Named:
    """The candidates of a plan as hashes of eight bytes.

    When 10^6 files are compared with 10^6, one is mistaken for another in one of 10^7 comparisons;
    its list then says "known" instead of "new".

    Attributes
    ----------
    hashes
        Hashes of its candidates, ascending; shape (n,).
    users
        Number of candidates by uid.
    """

    hashes: NDArray[np.uint64]
    users: Mapping[int, int]

    def known(self, frame: pl.DataFrame) -> NDArray[np.bool_]:
        """Return whether the plan has each row.

        Parameters
        ----------
        frame
            Columns ``id``, ``parent`` and ``name``; n rows.

        Returns
        -------
        NDArray of bool
            Shape (n,).
        """
        import numpy as np

        if not len(self.hashes):
            return np.zeros(len(frame), np.bool_)
        hashes = _hashes(frame)
        places = np.searchsorted(self.hashes, hashes)
        places[places == len(self.hashes)] = 0
        return self.hashes[places] == hashes


@dataclass(frozen=True, slots=True)
class Change:
    """How one user's candidates changed from one plan to the next.

    Attributes
    ----------
    new
        Not named before.
    known
        Named before and again.
    gone
        Named before and no longer: used since, deleted, or given to another user.
    """

    new: int
    known: int
    gone: int


def named(candidates: Path) -> Named:
    """Return the candidates that a plan named, as hashes.

    Parameters
    ----------
    candidates
        Its Parquet file of candidates.

    Raises
    ------
    DataError
        The file cannot be read.
    """
    import numpy as np

    parts: list[NDArray[np.uint64]] = []
    users: Counter[int] = Counter()
    for piece in pieces(candidates, _COLUMNS):
        parts.append(_hashes(piece))
        users.update(_counted(piece["uid"]))
    hashes = np.empty(sum(map(len, parts)), np.uint64)
    at = len(hashes)
    while parts:  # never holds them twice: they are eight bytes per file
        part = parts.pop()
        hashes[at - len(part) : at] = part
        at -= len(part)
    hashes.sort()
    return Named(hashes, MappingProxyType(dict(users)))


def changes(candidates: Path, before: Named) -> dict[int, Change]:
    """Return how each user's candidates changed since the previous plan.

    Parameters
    ----------
    candidates
        The Parquet file of the new plan.
    before
        The candidates of the previous one (`named`).

    Returns
    -------
    dict of int to Change
        By uid, for every user of either plan.

    Raises
    ------
    DataError
        The candidates cannot be read.
    """
    import polars as pl

    total: Counter[int] = Counter()
    known: Counter[int] = Counter()
    for piece in pieces(candidates, _COLUMNS):
        total.update(_counted(piece["uid"]))
        named_before = pl.Series("known", before.known(piece), dtype=pl.Boolean)
        known.update(_counted(piece["uid"].filter(named_before)))
    return {
        uid: Change(
            new=total[uid] - known[uid],
            known=known[uid],
            gone=max(0, before.users.get(uid, 0) - known[uid]),
        )
        for uid in sorted({*total, *before.users})
    }


def _counted(uids: pl.Series) -> dict[int, int]:
    return dict(uids.value_counts().iter_rows())


def _hashes(frame: pl.DataFrame) -> NDArray[np.uint64]:
    return frame.select(_OBJECT).hash_rows(seed=0).to_numpy()
