"""Read, check and count the candidates of a plan, and compare them with the previous plan's.

They may be larger than memory, so they are read piece by piece.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from trimtab.base.error import DataError
from trimtab.purge.plan.deletion_plan import HOUR_S, Candidates, FilePart, UserTotals

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray


PIECE_ROWS: Final = 1 << 17
COLUMNS: Final = ("parent", "name", "id", "uid", "size_bytes", "allocated_bytes", "last_use_s")
"""Columns that a plan requires of each candidate."""
_EARLIEST_S: Final = -(2**63) // 10**9
"""The year 1677: an index has times in nanoseconds, in 64 bits."""


def pieces(
    path: Path, columns: Sequence[str] = COLUMNS, *, rows: int = PIECE_ROWS
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file of candidates in order, in pieces that fit in memory.

    Parameters
    ----------
    path
        The Parquet file.
    columns
        Columns to read; a missing one is an error.
    rows
        Highest number of rows of a piece.

    Raises
    ------
    DataError
        The file is not Parquet, lacks a column, or is damaged.
    """
    import polars as pl

    try:
        source = pl.scan_parquet(path, glob=False)
        missing = [name for name in columns if name not in source.collect_schema().names()]
        if missing:
            raise DataError(
                f"there is no column {', '.join(missing)}", code="column-missing", file=path.name
            )
        total = source.select(pl.len()).collect().item()
        for offset in range(0, total, rows):
            yield source.slice(offset, rows).select(columns).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"cannot be read as Parquet: {str(error)[:200]}",
            code="candidates-unreadable",
            file=path.name,
        ) from error


def summarise(path: Path, hashes: Hashes, *, before_s: int) -> Candidates:
    """Return the totals of a file of candidates after checking its order and times.

    A file with several names counts once per name, since each is listed, but its bytes count once.

    Parameters
    ----------
    path
        The Parquet file.
    hashes
        Hashes of the file.
    before_s
        The cut-off, in seconds since 1970. A row used since then is an error.

    Raises
    ------
    DataError
        A value is missing, rows are not in order of the hour of their last use, or one is too
        young.
    """
    import polars as pl

    partial: list[pl.DataFrame] = []
    last: int | None = None
    seen: set[bytes] = set()
    for piece in pieces(path, (*COLUMNS, "nlink")):
        _check_piece(piece, path.name, last, before_s)
        last = piece["last_use_s"][-1]
        once = _once(piece, seen).with_columns(files=pl.lit(1, pl.Int64))
        partial.append(_by_user([once], first=True))
        if len(partial) >= 64:
            partial = [_by_user(partial)]
    users = _totals(_by_user(partial)) if partial else ()
    return Candidates(
        files=sum(user.files for user in users),
        size_bytes=sum(user.size_bytes for user in users),
        allocated_bytes=sum(user.allocated_bytes for user in users),
        sha256=hashes.sha256,
        users=users,
        parts=hashes.parts,
    )


@dataclass(frozen=True, slots=True)
class Hashes:
    """The hash of a file of candidates, and those of its parts."""

    sha256: str
    parts: tuple[FilePart, ...]


def hashes_of(path: Path, descriptor: int) -> Hashes:
    """Return the hashes of an open file of candidates; the path is for messages.

    Raises
    ------
    DataError
        The file is not Parquet, or its row groups are not in order.
    """
    from trimtab._core import parts_of

    sha256, parts = parts_of(path, descriptor)
    of_parts = (FilePart(rows, length, bytes(part).hex()) for rows, length, part in parts)
    return Hashes(bytes(sha256).hex(), tuple(of_parts))


def sha256_of(descriptor: int) -> str:
    """Return the SHA-256 of an open file, from its beginning, in hexadecimal."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(descriptor, "rb", closefd=False) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check_piece(piece: pl.DataFrame, file: str, last: int | None, before_s: int) -> None:
    for name, nulls in zip(piece.columns, piece.null_count().row(0), strict=True):
        if nulls:
            raise DataError(f"{nulls} rows have no {name}", code="candidates-malformed", file=file)
    used = piece["last_use_s"]
    hours = used // HOUR_S
    if not hours.is_sorted() or (last is not None and hours[0] < last // HOUR_S):
        raise DataError(
            "rows are not in order of the hour of their last use",
            code="candidates-malformed",
            file=file,
        )
    oldest, newest = _bounds(used)
    if oldest < _EARLIEST_S:
        raise DataError("a time that no file can have", code="candidates-malformed", file=file)
    if newest >= before_s:
        raise DataError(
            "a file was used since the cut-off",
            code="candidates-malformed",
            file=file,
        )


def _bounds(times: pl.Series) -> tuple[int, int]:
    ordered = times.sort()
    return ordered[0], ordered[-1]


def _once(piece: pl.DataFrame, seen: set[bytes]) -> pl.DataFrame:
    """Return a piece with sizes of 0 for further names of objects already seen."""
    import polars as pl

    places = (piece["nlink"] > 1).arg_true()
    again: list[int] = []
    for place, identity in zip(places, piece["id"].gather(places), strict=True):
        if identity in seen:
            again.append(place)
        seen.add(identity)
    if not again:
        return piece
    zero = pl.Series(again, dtype=pl.UInt32)
    return piece.with_columns(
        piece[name].scatter(zero, 0) for name in ("size_bytes", "allocated_bytes")
    )


def _by_user(frames: list[pl.DataFrame], *, first: bool = False) -> pl.DataFrame:
    """Return one row per user; sums in Int128, since sizes of sparse files may exceed 64 bits."""
    import polars as pl

    frame = pl.concat(frames)
    if first:
        frame = frame.with_columns(oldest="last_use_s", newest="last_use_s")
    sums = ("files", "size_bytes", "allocated_bytes")
    return frame.group_by("uid").agg(
        *(pl.col(name).cast(pl.Int128).sum() for name in sums),
        pl.min("oldest"),
        pl.max("newest"),
    )


def _totals(frame: pl.DataFrame) -> tuple[UserTotals, ...]:
    names = ("uid", "files", "size_bytes", "allocated_bytes", "oldest", "newest")
    rows = frame.sort("uid").select(names).iter_rows()
    return tuple(UserTotals(*(int(value) for value in row), held_bytes=None) for row in rows)


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
class ListChange:
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


def changes(candidates: Path, before: Named) -> dict[int, ListChange]:
    """Return how each user's candidates changed since the previous plan.

    Parameters
    ----------
    candidates
        The Parquet file of the new plan.
    before
        The candidates of the previous one (`named`).

    Returns
    -------
    dict of int to ListChange
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
        uid: ListChange(
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
