"""Repair an index after some MDTs lost records, by looking only at what these may have changed.

::

    clear ──▶ directories, all ──▶ which were touched? ──▶ what is in them ───┐
      │       files on these MDTs ────────────────────────────────────────────┴▶ look ──▶ commit
      └▶ the new mark                                                            again, in batches

The MDT of a record limits what it may have been about:

- A change of a file's attributes, and its removal, are recorded on the file's MDT, so every row
  whose FID is on such an MDT is looked at. So is each file with several names: removing one of them
  changes the others, which may be in directories that were not touched.
- Creating, linking, renaming or migrating changes a directory, on whichever MDT, so all directories
  are looked at. If one is not exactly as the scan found it, or does not hold the names and files
  that the index has, everything in it is looked at, what is new too. So is what the index has in
  it: a file that was migrated and removed has no name there any more, and no other MDT recorded its
  removal.

Every other row is of a file whose MDT lost nothing, in a directory where nothing happened. Files
are looked at as in a round of following, with the same tolerance for changes meanwhile; renames of
this time are looked at with everything beneath, as those of the scan are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

import polars as pl

from trimtab.base.error import RefusedError, ToolError
from trimtab.base.units import enumerated, plural
from trimtab.purge.follow_decision import Clear
from trimtab.purge.index.index_view import (
    Again,
    Delta,
    path_bytes,
    read_again,
    readable,
    rows_in_force,
)
from trimtab.purge.index.manifest import Followed, FollowedMdt, Manifest
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.lustre_changes import ChangeSearch, LiveChangelogs, committed, stale_by
from trimtab.reach.lustre.changelog import NEEDED, ChangelogUser, ChangelogUsers
from trimtab.reach.lustre.write_table import CHANGELOG_USER

BATCH: Final = 1_000_000
"""Files looked at per commit; each commit reads the index once and keeps its files in memory."""
LISTED: Final = 10_000
"""Directories whose names are in memory at once."""
SETTLED_NS: Final = 3600 * 10**9
"""A directory that changed less than this before the scan may have changed again without a new
time: times have whole seconds, and clocks differ."""
_SCANNED: Final = "scan-"
"""Rows in other shards were looked at after the scan: their directory may have been touched before
that, by what was lost."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Rows of the index for directories and for the MDTs whose records were lost.

    Attributes
    ----------
    directories
        ``id``, ``path``, ``mtime_ns``, ``ctime_ns``, and ``quiet``: the directory is as the scan
        found it, and had not changed for long before that.
    held
        By path, how many names a directory holds and a sum over them and their files.
    files
        All other files on these MDTs, and every file with several names.
    """

    directories: pl.DataFrame
    held: Mapping[bytes, tuple[int, int]]
    files: frozenset[bytes]


def rescan(directory: Path, changelogs: LiveChangelogs, clock: Callable[[], datetime]) -> Manifest:
    """Return the manifest of an index that no longer misses changes of any MDT.

    The caller holds the index alone. The process may be killed at any moment: repairs so far stay,
    and the MDTs stay to be scanned again until everything was.

    Raises
    ------
    RefusedError
        An MDT has no changelog user, or does not record all that is needed.
    ToolError, DataError, UnreadableError
        A server, the file system or the index cannot be read, or the index cannot be written.
    """
    manifest = load_manifest(directory)
    assert manifest.followed is not None
    lost = [mdt.mdt for mdt in manifest.followed.mdts if mdt.stale]
    if not lost:
        return manifest
    users = changelogs.users()
    fresh = {mdt: _begun_anew(mdt, changelogs, users) for mdt in lost}
    work = _Work(directory, changelogs, clock)
    root = changelogs.look([]).root
    known = _known(directory, manifest, changelogs, frozenset(lost))
    touched = work.look_at_directories(known, root)
    touched |= _differing(changelogs, known, root, touched)
    work.look_at(known.files | work.listed(touched, root) | work.children(touched))
    after = changelogs.users()
    silent = [mdt.mdt for mdt in manifest.followed.mdts if mdt.mdt not in after]
    if silent:
        raise _incomplete(f"the server of {enumerated(silent, 3)} does not answer")
    return work.finish(fresh, after)


def _begun_anew(
    mdt: str, changelogs: LiveChangelogs, users: Mapping[str, ChangelogUsers]
) -> FollowedMdt:
    """Return the point from which an MDT is followed, once everything before it was looked at.

    Earlier records are cleared at once: from then on a change of a file is recorded even though it
    had a record before.
    """
    served = users.get(mdt)
    if served is None:
        raise _incomplete(f"the server of {mdt} does not answer")
    user = _user(mdt, served)
    if unwritten := sorted(NEEDED - served.mask):
        raise RefusedError(
            f"records of {', '.join(unwritten)} are not written on {mdt}",
            code="changelog-mask-short",
            hint="trimtab purge follow SITE --deregister, then --register",
        )
    if served.index > 0:
        changelogs.clear(Clear(mdt, user.number, served.index))
    return FollowedMdt(mdt, user.name, served.index, served.index)


def _user(mdt: str, users: ChangelogUsers) -> ChangelogUser:
    ours = users.of(CHANGELOG_USER)
    if len(ours) != 1:
        raise RefusedError(
            f"{mdt} has no changelog user named {CHANGELOG_USER}",
            code="changelog-user-missing",
            hint="trimtab purge follow SITE --register; then this command again",
        )
    return ours[0]


def _incomplete(why: str) -> ToolError:
    return ToolError(
        f"not everything could be looked at: {why}",
        code="rescan-incomplete",
        hint="repairs so far are kept; the same command starts again",
    )


@dataclass(slots=True)
class _Work:
    """Files looked at in batches, each committed by itself."""

    _directory: Path
    _changelogs: LiveChangelogs
    _clock: Callable[[], datetime]
    _directories: set[bytes] = field(default_factory=set)
    _files: set[bytes] = field(default_factory=set)

    def look_at_directories(self, known: _Known, root: bytes) -> set[bytes]:
        """Look at all directories of the index; return those in which something happened."""
        ids = known.directories["id"].to_list()
        self._directories = {root, *ids}
        self._files = set(known.files)
        before = known.directories.filter("quiet").select("id", "mtime_ns", "ctime_ns")
        quiet = set(before.iter_rows())
        touched = {root, *ids}
        for batch in _batches(ids):
            search = self._commit(batch)
            now = search.rows()
            times = now.filter(now["type"] == "d").select("id", "mtime_ns", "ctime_ns")
            touched -= {row[0] for row in times.iter_rows() if row in quiet}
            touched |= self._new(search)
        return touched

    def look_at(self, files: Collection[bytes]) -> None:
        """Look at files, and at the contents of directories among them that were not known."""
        todo = set(files)
        while todo:
            following: set[bytes] = set()
            for batch in _batches(sorted(todo)):
                following |= self._new(self._commit(batch))
            todo = self.children(following)

    def listed(self, directories: Collection[bytes], root: bytes) -> set[bytes]:
        """Return what the index has in directories, wherever that is now."""
        inside, files = _listed(self._directory, load_manifest(self._directory), directories, root)
        self._files |= files
        return inside

    def children(self, directories: Iterable[bytes]) -> set[bytes]:
        """Return the current contents of directories."""
        contents, failed = self._changelogs.children(sorted(directories))
        if failed:
            raise _incomplete(f"{plural(len(failed), 'directory')} cannot be read")
        return contents

    def _new(self, search: ChangeSearch) -> set[bytes]:
        """Return the directories looked at that were not known, and add them to the known ones.

        A file that could not be looked at may be one: listing it fails then, or finds its contents.
        """
        rows = search.rows()
        directories = set(rows.filter(rows["type"] == "d")["id"].to_list())
        new = (directories | (search.failed.keys() - self._files)) - self._directories
        self._directories |= new
        return new

    def _commit(self, files: Sequence[bytes]) -> ChangeSearch:
        """Look at files and commit their current rows; return the search."""
        manifest = load_manifest(self._directory)
        followed = manifest.followed
        assert followed is not None
        before = read_again(self._directory, followed)
        search = ChangeSearch(self._changelogs, self._directory, manifest)
        delta = search.changes(frozenset(files), {})
        unknown = {fid: before.tried.get(fid, 0) + 1 for fid in search.unknown}
        again = Again({**before.tried, **unknown}, before.beneath)
        followed = replace(followed, stale=stale_by(followed, search, again))
        self._save(manifest, delta, followed, again)
        return search

    def finish(
        self, fresh: Mapping[str, FollowedMdt], users: Mapping[str, ChangelogUsers]
    ) -> Manifest:
        """Commit that nothing is missing, and the point from which each MDT is followed."""
        manifest = load_manifest(self._directory)
        followed = manifest.followed
        assert followed is not None
        mdts = tuple(
            # Renames meanwhile may have moved unlisted files into directories listed before.
            replace(mdt, scanned=max(mdt.scanned, users[mdt.mdt].index))
            for mdt in (fresh.get(each.mdt, each) for each in followed.mdts)
        )
        again = read_again(self._directory, followed)
        return self._save(manifest, Delta(), replace(followed, mdts=mdts), again)

    def _save(self, manifest: Manifest, delta: Delta, followed: Followed, again: Again) -> Manifest:
        return committed(self._directory, manifest, delta, followed, again=again, now=self._clock())


def _batches(files: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(files), BATCH):
        yield files[start : start + BATCH]


# What the index has ------------------------------------------------------------------------------


def _known(
    directory: Path, manifest: Manifest, changelogs: LiveChangelogs, lost: frozenset[str]
) -> _Known:
    assert manifest.started_ns is not None
    settled_ns = manifest.started_ns - SETTLED_NS
    directories, held, ids = [], [], []
    with readable():
        for shard in manifest.shards:
            rows = rows_in_force(directory, shard)
            quiet = (
                pl.lit(shard.name.startswith(_SCANNED))
                & (pl.col("ctime_ns") < settled_ns)
                & (pl.col("mtime_ns") < settled_ns)
            )
            chosen = rows.filter(pl.col("type") == "d").select(
                "id", path_bytes().alias("path"), "mtime_ns", "ctime_ns", quiet.alias("quiet")
            )
            directories.append(chosen.collect(engine="streaming"))
            names = rows.with_columns(inode=_inode()).group_by("parent").agg(*_sums())
            held.append(names.collect(engine="streaming"))
            others = rows.filter(pl.col("type") != "d").select("id", "nlink").unique()
            files = others.collect(engine="streaming")
            ids.append(_on(files["id"], changelogs, lost))
            ids.append(set(files.filter(pl.col("nlink") > 1)["id"].to_list()))
    summed = pl.concat(held).group_by("parent").agg(pl.col("count", "sum").sum())
    return _Known(
        pl.concat(directories).unique("id", keep="any"),
        {parent: (count, total) for parent, count, total in summed.iter_rows()},
        frozenset().union(*ids),
    )


def _listed(
    directory: Path, manifest: Manifest, directories: Collection[bytes], root: bytes
) -> tuple[set[bytes], set[bytes]]:
    """Return what an index has in directories, and which of that are no directories."""
    wanted = pl.DataFrame({"id": list(directories)}, schema={"id": pl.Binary}).lazy()
    paths = [pl.DataFrame({"path": [b""] * (root in directories)}, schema={"path": pl.Binary})]
    with readable():
        for shard in manifest.shards:
            rows = rows_in_force(directory, shard).filter(pl.col("type") == "d")
            chosen = rows.join(wanted, on="id", how="semi").select(path=path_bytes())
            paths.append(chosen.collect(engine="streaming"))
        at = pl.concat(paths).unique().lazy()
        frames = []
        for shard in manifest.shards:
            rows = rows_in_force(directory, shard).select("id", "parent", "type")
            inside = rows.join(at, left_on="parent", right_on="path", how="semi")
            frames.append(inside.select("id", "type").collect(engine="streaming"))
    held = pl.concat(frames)
    files = held.filter(pl.col("type") != "d")
    return set(held["id"].to_list()), set(files["id"].to_list())


def _on(ids: pl.Series, changelogs: LiveChangelogs, lost: frozenset[str]) -> set[bytes]:
    """Return the files that are on one of some MDTs, or of which Lustre does not tell."""
    frame = ids.to_frame("id").with_columns(sequence=pl.col("id").bin.slice(0, 8))
    one_each = frame.group_by("sequence").agg(pl.col("id").first())
    mdts = changelogs.mdts_of(one_each["id"].to_list())
    on_lost = [
        sequence
        for sequence, file in one_each.iter_rows()
        if mdts[file] is None or mdts[file] in lost
    ]
    wanted = pl.Series(on_lost, dtype=pl.Binary).implode()
    return set(frame.filter(pl.col("sequence").is_in(wanted))["id"].to_list())


def _inode() -> pl.Expr:
    """Return the inode number of an identifier, as `trimtab.reach.lustre.changelog` does."""

    def part(start: int, size: int, kind: type[pl.DataType]) -> pl.Expr:
        return pl.col("id").bin.slice(start, size).bin.reinterpret(dtype=kind, endianness="big")

    sequence, number = part(0, 8, pl.UInt64), part(8, 4, pl.UInt32).cast(pl.UInt64)
    flat = sequence * 2**24 + ((sequence // 2**24) & 0xFFFFFF0000) + number
    return pl.when(sequence.is_between(12, 2**32 - 1)).then(sequence).otherwise(flat)


def _sums() -> tuple[pl.Expr, pl.Expr]:
    """Return how many names there are, and a sum over names and inode numbers in any order."""
    each = (pl.col("name").hash(1) ^ pl.col("inode").hash(2)).hash(3) % 2**40
    return pl.len().cast(pl.UInt64).alias("count"), each.sum().alias("sum")


def _differing(
    changelogs: LiveChangelogs, known: _Known, root: bytes, touched: Collection[bytes]
) -> set[bytes]:
    """Return the directories that hold something else than the index has, but those touched."""
    paths = dict(known.directories.select("id", "path").iter_rows())
    differing = set()
    quiet = [file for file in paths if file not in touched and file != root]
    for start in range(0, len(quiet), LISTED):
        batch = quiet[start : start + LISTED]
        listed, failed = changelogs.list(batch)
        if failed:
            raise _incomplete(f"{plural(len(failed), 'directory')} cannot be read")
        sums = listed.group_by("directory").agg(*_sums()) if listed.height else listed
        now = {row[0]: (row[1], row[2]) for row in sums.iter_rows()}
        nothing = (0, 0)
        differing |= {
            file for file in batch if now.get(file, nothing) != known.held.get(paths[file], nothing)
        }
    return differing
