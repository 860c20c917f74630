"""Find what changed on a mounted Lustre, and commit the rows of the index that differ.

Files are looked at by FID, and their paths are built from the directories above them (`place`).
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from trimtab.base.event import new_identifier
from trimtab.base.units import enumerated, plural
from trimtab.purge.core_call import core_errors
from trimtab.purge.follow_decision import TRIES_MAX, Clear
from trimtab.purge.index.index_view import (
    Again,
    Delta,
    beneath,
    commit,
    deltas,
    find,
    merge,
    readable,
)
from trimtab.purge.index.list_reading import joined
from trimtab.purge.index.manifest import Followed, Lack, Manifest, SizesMode
from trimtab.purge.index.shard import columns
from trimtab.reach.bounded import ask_child
from trimtab.reach.fleet import FanOut
from trimtab.reach.fleet import fan_out as reach
from trimtab.reach.lustre.changelog import (
    DEVICES,
    ask_users,
    clear_records,
    list_directories,
    mdts_of_client,
    mdts_of_fids,
    read_records,
)

if TYPE_CHECKING:
    from trimtab.base.site import Servers
    from trimtab.reach.lustre.changelog import ChangelogUsers


_DEPTH_MAX: Final = 10_000

Name = tuple[bytes, bytes]
"""The FID of a directory, and a name in it."""


@dataclass(frozen=True, slots=True)
class Places:
    """Paths of directories, and files without a path.

    Attributes
    ----------
    directories
        Path of each directory that contains rows, relative to the root.
    missing
        Directories that must be looked at to build paths.
    nowhere
        Files below no known directory, because a directory above them is changing; they must be
        looked at again.
    """

    directories: Mapping[bytes, bytes]
    missing: frozenset[bytes]
    nowhere: frozenset[bytes]


def place(
    names: Mapping[bytes, Sequence[Name]],
    gone: Collection[bytes],
    root: bytes,
    stripes: Collection[bytes] = (),
) -> Places:
    """Return the paths of the directories that contain files.

    Parameters
    ----------
    names
        Names of every file and directory looked at.
    gone
        Files and directories that no longer have a name.
    root
        The root's FID.
    stripes
        Stripes of striped directories: their entries belong to the parent directory.
    """
    known: dict[bytes, bytes] = {root: b""}
    missing: set[bytes] = set()
    lost: set[bytes] = set()
    for file in names:
        for parent, _ in names[file]:
            _climb(parent, names, known, missing, lost, gone, stripes)
    nowhere = {file for file in names if any(parent in lost for parent, _ in names[file])}
    return Places(known, frozenset(missing), frozenset(nowhere))


def _climb(  # noqa: PLR0917 (state passed through the recursion)
    directory: bytes,
    names: Mapping[bytes, Sequence[Name]],
    known: dict[bytes, bytes],
    missing: set[bytes],
    lost: set[bytes],
    gone: Collection[bytes],
    stripes: Collection[bytes],
) -> None:
    """Find the path of a directory by going up to a known one."""
    way = [directory]
    while way[-1] not in known and way[-1] not in lost and way[-1] not in missing:
        above = names.get(way[-1])
        if above is None and way[-1] not in gone:
            missing.add(way[-1])
        elif not above or len(above) > 1 or above[0][0] in way or len(way) > _DEPTH_MAX:
            # Looked at during a move: it is inside itself, inside a deleted one, or in two places.
            lost.add(way[-1])
        else:
            way.append(above[0][0])
    top = way.pop()
    while way:
        below = way.pop()
        if top in known:
            is_part = below in stripes
            known[below] = known[top] if is_part else joined(known[top], names[below][0][1])
        elif top in lost:
            lost.add(below)
        top = below


DELTAS_MAX: Final = 32
"""More small shards are merged into one: each costs every reader a file."""
_IN_THE_WAY_MAX: Final = 10
_LEVELS_MAX: Final = 10_000
_KEY: Final = ("id", "parent", "name")
"""No two rows in force have the same."""
_NOW: Final = "_now"


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Result of looking at files.

    Attributes
    ----------
    root
        The FID of the file system's root.
    rows
        A row for each name, in the columns of an index; ``parent`` is the directory's FID.
    gone
        Files that no longer have a name.
    failed
        Files that could not be looked at, with the error number.
    overflowed
        Files that may have more names than Lustre keeps with a file.
    stripes
        Directory of each stripe. Stripes are the parts of a directory, one per MDT, which users do
        not see; Lustre keeps with a file in which stripe a name is.
    """

    root: bytes
    rows: pl.DataFrame
    gone: frozenset[bytes] = frozenset()
    failed: Mapping[bytes, int] = field(default_factory=dict)
    overflowed: frozenset[bytes] = frozenset()
    stripes: Mapping[bytes, bytes] = field(default_factory=dict)


class ChangeSearch:
    """Files looked at, and the rows of an index that change by that.

    Attributes
    ----------
    looked
        Everything that was looked at.
    unknown
        Files that could not be, or are in a directory that could not be.
    failed, overflowed
        As in `LookedUp`.
    unread
        Directories whose contents could not be read, with the error number.
    """

    def __init__(self, changelogs: LiveChangelogs, directory: Path, manifest: Manifest) -> None:
        self._changelogs, self._directory, self._manifest = changelogs, directory, manifest
        self._names: dict[bytes, list[Name]] = {}
        self._frames: list[pl.DataFrame] = []
        self._root = b""
        self._gone: set[bytes] = set()
        self._stripes: set[bytes] = set()
        self.looked: set[bytes] = set()
        self.failed: dict[bytes, int] = {}
        self.overflowed: set[bytes] = set()
        self.unknown: frozenset[bytes] = frozenset()
        self.unread: dict[bytes, int] = {}

    def rows(self) -> pl.DataFrame:
        """Return a row for each name of the files looked at; ``parent`` is the directory's FID."""
        return pl.concat(self._frames) if self._frames else pl.DataFrame(schema=columns())

    def beneath(self, directories: frozenset[bytes]) -> frozenset[bytes]:
        """Return everything that is now beneath some directories."""
        below: set[bytes] = set()
        todo = set(directories)
        while todo:
            children, failed = self._changelogs.children(sorted(todo))
            self.unread.update(failed)
            todo = children - below
            below |= children
        return frozenset(below)

    def changes(self, files: frozenset[bytes], migrated: Mapping[bytes, bytes]) -> Delta:
        """Return the changes of the index for files that may have changed."""
        delta = Delta()
        if not files:
            return delta
        now, before = self._both(files, migrated)
        known = self.looked - self.unknown
        _compare(delta, before.filter(_is_one_of(known)), now)
        moved = _moved(before, now, migrated)
        if any(old != new for old, new in moved.items()):
            for rows, renamed in beneath(self._directory, self._manifest, moved, known):
                delta.supersede(rows)
                delta.rows.append(renamed)
        return delta

    def _both(
        self, files: frozenset[bytes], migrated: Mapping[bytes, bytes]
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows that files have now, and those that the index has of them.

        A file that the index lists under a name that another file has now was renamed or removed
        too, whether or not its record was read: it is looked at as well. So are files that it lists
        beneath a directory that is gone: they were removed, or moved with a directory of another
        FID.
        """
        now, before, todo = self._compared(set(files), migrated)
        for _ in range(_IN_THE_WAY_MAX):
            if not todo:
                break
            now, before, todo = self._compared(todo, migrated)
        self.unknown |= todo
        return now, before

    def _compared(
        self, todo: set[bytes], migrated: Mapping[bytes, bytes]
    ) -> tuple[pl.DataFrame, pl.DataFrame, set[bytes]]:
        """Look at files; return the rows of all, now and before, and further files to look at."""
        now = self._placed(self._look_up(todo))
        before = find(self._directory, self._manifest, self.looked, now)
        more = set(before["id"].to_list()) - self.looked
        if doubtful := self._doubtful(before, now, migrated):
            nowhere = dict.fromkeys(doubtful, b"\0")
            for rows, _ in beneath(self._directory, self._manifest, nowhere, self.looked):
                more.update(rows["id"].to_list())
        return now, before, more

    def _doubtful(
        self, before: pl.DataFrame, now: pl.DataFrame, migrated: Mapping[bytes, bytes]
    ) -> set[bytes]:
        """Return the paths of directories in the index whose contents moved to an unknown place."""
        placed = _paths(now)
        followed = {old for new, old in migrated.items() if new in placed}
        # A directory in the index that is a stripe now has a successor.
        elsewhere = self._gone | self._stripes
        listed = _paths(before)
        count = Counter(listed.values())
        return {
            path
            for directory, path in listed.items()
            if count[path] > 1 or (directory in elsewhere and directory not in followed)
        }

    def _look_up(self, todo: set[bytes]) -> Places:
        """Look at files, and at the directories above them."""
        places = self._look(todo)
        for _ in range(_LEVELS_MAX):
            todo = set(places.missing) - self.looked
            if not todo:
                break
            places = self._look(todo)
        self.unknown = frozenset(self.failed) | places.nowhere | todo
        return places

    def _look(self, todo: set[bytes]) -> Places:
        self._add(self._changelogs.look(sorted(todo)), todo)
        return place(self._names, self._gone | self.failed.keys(), self._root, self._stripes)

    def _add(self, answer: LookedUp, files: set[bytes]) -> None:
        self._root = answer.root
        self.looked |= files
        self._gone |= answer.gone
        self._stripes |= answer.stripes.keys()
        self._names.update((stripe, [(whole, b"")]) for stripe, whole in answer.stripes.items())
        self.failed.update(answer.failed)
        rows = answer.rows.filter(pl.col("id") != answer.root)
        self._frames.append(rows)
        for file, parent, name in rows.select("id", "parent", "name").iter_rows():
            self._names.setdefault(file, []).append((parent, name))
        many = rows.group_by("id").agg(pl.len(), pl.col("nlink").first())
        short = many.filter(pl.col("len") < pl.col("nlink"))["id"].to_list()
        self.overflowed |= answer.overflowed & set(short)

    def _placed(self, places: Places) -> pl.DataFrame:
        """Return rows under the paths of their directories."""
        paths = pl.DataFrame(
            {"parent": list(places.directories), "path": list(places.directories.values())},
            schema={"parent": pl.Binary, "path": pl.Binary},
        )
        rows = pl.concat(self._frames).filter(~_is_one_of(self.unknown))
        placed = rows.join(paths, on="parent", how="inner", maintain_order="left")
        return placed.with_columns(parent=pl.col("path")).select(*columns())


def _is_one_of(values: Set[bytes]) -> pl.Expr:
    return pl.col("id").is_in(pl.Series(list(values), dtype=pl.Binary).implode())


def _compare(delta: Delta, before: pl.DataFrame, now: pl.DataFrame) -> None:
    """Add the differences between two sets of rows to a delta."""
    of_now = now.unique(_KEY, keep="any")
    both = before.with_row_index("at").join(of_now, on=_KEY, suffix=_NOW)
    alike = [pl.col(name).eq_missing(pl.col(name + _NOW)) for name in columns() if name not in _KEY]
    # A duplicate row is retained once.
    stay = both.filter(pl.all_horizontal(alike)).sort("at").unique(_KEY, keep="first")
    rows = before.with_row_index("at").join(stay, on="at", how="anti").drop("at")
    delta.supersede(rows)
    delta.rows.append(now.join(stay, on=_KEY, how="anti", maintain_order="left"))


def _moved(
    before: pl.DataFrame, now: pl.DataFrame, migrated: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    """Return where each directory was and is; the same, for those that only changed."""
    old, new = _paths(before), _paths(now)
    moved = {}
    for directory, path in new.items():
        known = directory
        while known not in old and known in migrated:
            known = migrated[known]
        if known in old:
            moved[old[known]] = path
    return moved


def _paths(rows: pl.DataFrame) -> dict[bytes, bytes]:
    directories = rows.filter(pl.col("type") == "d").select("id", "parent", "name")
    return {file: joined(parent, name) for file, parent, name in directories.iter_rows()}


def committed(
    directory: Path,
    manifest: Manifest,
    delta: Delta,
    followed: Followed,
    *,
    again: Again,
    now: datetime,
) -> Manifest:
    """Return the manifest of an index with changes, under a new identifier; see `commit`.

    Files that could not be looked at too often are given up, and many small shards become one.
    """
    now_s = int(now.timestamp())
    after = commit(
        directory,
        replace(manifest, index_id=new_identifier(now)),
        delta,
        followed,
        again=again.without_hopeless(TRIES_MAX),
        now_s=now_s,
    )
    if deltas(after) > DELTAS_MAX:
        after = merge(directory, after, whole=False, now_s=now_s)
    return after


def stale_by(followed: Followed, search: ChangeSearch, again: Again) -> tuple[str, ...]:
    """Return why an index may be wrong after a search, including earlier reasons."""
    return tuple(dict.fromkeys((*followed.stale, *_stale_reasons(search, again))))


def _stale_reasons(search: ChangeSearch, again: Again) -> Iterator[str]:
    """Yield why an index may be wrong after a search, whatever the MDT."""
    if search.overflowed:
        files = plural(len(search.overflowed), "file", ",")
        yield f"Lustre does not keep all names of {files}"
    lost = [file for file, count in again.tried.items() if count >= TRIES_MAX]
    if lost:
        failed = {**search.failed, **search.unread}
        reasons = sorted({os.strerror(failed[file]) for file in lost if file in failed})
        why = f": {enumerated(reasons, 3)}" if reasons else ""
        yield f"{plural(len(lost), 'file', ',')} could not be looked at{why}"


@dataclass(frozen=True, slots=True)
class LiveChangelogs:
    """The changelogs of a mounted Lustre.

    Attributes
    ----------
    root
        Where it is mounted.
    manifest
        Manifest of the index: files are asked for the attributes that the scan asked for.
    """

    root: str
    file_system: str
    servers: Servers
    manifest: Manifest
    fan_out: FanOut = reach
    devices: Path = DEVICES
    threads: int = 0

    def mdts(self) -> Sequence[str]:
        """Return every MDT that this client knows."""
        return mdts_of_client(self.file_system, self.devices)

    def users(self) -> Mapping[str, ChangelogUsers]:
        """Return who reads the changelog of each MDT whose server answers."""
        return ask_users(self.servers, self.file_system, fan_out=self.fan_out)

    def read(self, mdt: str, after: int) -> tuple[bytes, bool]:
        """Return the records after one, and whether these are all."""
        return read_records(self.file_system, mdt, after, devices=self.devices)

    def clear(self, order: Clear) -> None:
        """Clear records of an MDT that are no longer needed."""
        clear_records(self.file_system, order.mdt, order.user, order.index, devices=self.devices)

    def look(self, files: Sequence[bytes]) -> LookedUp:
        """Look at files by their FIDs."""
        from trimtab._core import look_up

        lacking, sizes = self.manifest.lacking, self.manifest.sizes
        known = self.manifest.filesystem
        with (
            tempfile.TemporaryDirectory(prefix="trimtab-") as directory,
            core_errors("looking at what changed"),
        ):
            out = Path(directory, "rows.parquet")
            question = partial(
                look_up, self.root, files, out=out, project=Lack.PROJECT not in lacking,
                layout=Lack.LAYOUT not in lacking,
                exact_sizes=sizes is not None and sizes.mode is SizesMode.EXACT,
                device=None if known is None else known.device, threads=self.threads,
            )  # fmt: skip
            root, gone, failed, overflowed, stripes = ask_child(question, self.root)
            with readable():
                kinds = columns().items()
                listed = pl.read_parquet(out, glob=False)
                rows = listed.select(pl.col(name).cast(kind) for name, kind in kinds)
        return LookedUp(
            root, rows, frozenset(gone), dict(failed), frozenset(overflowed), dict(stripes)
        )

    def children(self, directories: Sequence[bytes]) -> tuple[set[bytes], Mapping[bytes, int]]:
        """Return the contents of directories, and those that could not be read; a file has none."""
        from trimtab._core import children

        question = partial(children, self.root, directories, threads=self.threads)
        with core_errors("reading directories that were renamed"):
            names, failed = ask_child(question, self.root)
        return set(names), dict(failed)

    def list(self, directories: Sequence[bytes]) -> tuple[pl.DataFrame, Mapping[bytes, int]]:
        """Return the contents of directories, and those that could not be read; opens no file.

        Returns
        -------
        polars.DataFrame
            ``directory`` (its FID), ``name`` and ``inode``, the number that the directory has of
            the file; nothing of a directory that is gone.
        """
        held: dict[str, list[object]] = {"directory": [], "name": [], "inode": []}
        failed = {}
        for directory, names, number in list_directories(self.root, directories):
            if number:
                failed[directory] = number
            for inode, name in names:
                held["directory"].append(directory)
                held["name"].append(name)
                held["inode"].append(inode)
        kinds = {"directory": pl.Binary, "name": pl.Binary, "inode": pl.UInt64}
        return pl.DataFrame(held, schema=kinds), failed

    def mdts_of(self, files: Sequence[bytes]) -> Mapping[bytes, str | None]:
        """Return the MDT of each file by its FID; ``None``: Lustre does not tell."""
        return mdts_of_fids(self.root, files)
