r"""Incremental indexes: rows in unchanged directories are carried over from an earlier index.

::

    earlier index          walk                              new index
    kept-000000.parquet  ◀─ link ──  rows of files in unchanged directories, as they were read
    scan-000000.parquet  ◀─ written ─  all directories, and the contents of changed ones
    linked.parquet       ◀─ written ─  other names of the files that were read

Adding or removing a name always changes the directory's change time (ctime), which no user can set:
neither ``touch`` nor ``rsync -t``. Changes to a file in place (data, size, times, owner, mode,
project) do not touch the directory and are not detected.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from trimtab.base.error import UsageError, system_errors, visible
from trimtab.base.filesystem import Mount
from trimtab.base.trusted_file import synchronise
from trimtab.base.units import format_duration, plural
from trimtab.purge.index.index_view import path_bytes, readable, rows_in_force, without
from trimtab.purge.index.manifest import (
    ELSEWHERE,
    FileSystemIdentity,
    Incremental,
    IndexSource,
    Lack,
    Manifest,
    Shard,
    ShardPath,
    shard_paths,
)
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.index.shard import ShardWriter, columns

MARGIN_S: Final = 60
"""Minimum age of a directory's change time at the start of the scan that read it, in seconds.

Two changes within one kernel tick (4 ms at 250 Hz, 10 ms at 100 Hz) have the same time, on file
systems with whole seconds within one second; if the clocks of server and client differ, changes
within that difference may, too. The clock difference is the largest.
"""

GENERATIONS_MAX: Final = 30
"""Number of incremental scans in a row after which a full one is suggested."""

AGE_MAX_S: Final = 30 * 86_400
"""Age of the last full scan from which a full one is suggested, in seconds."""

KINDS: Final = frozenset(
    {"btrfs", "ceph", "ext2", "ext3", "ext4", "f2fs", "gpfs", "nfs", "nfs4", "tmpfs", "xfs", "zfs"}
)
"""File systems whose kernel code updates a directory's ctime on every change of its names."""

KEPT: Final = "kept"
_LINKED: Final = "linked"
_FULL: Final = "without --incremental every directory is read"
_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class ScanBase:
    """An earlier index of the same root from which a scan may start.

    Attributes
    ----------
    before_ns
        Only directories with an earlier change time are carried over, in ns since 1970.
    """

    directory: Path
    manifest: Manifest
    before_ns: int

    def for_the_core(self) -> tuple[str, list[ShardPath], int, bool]:
        """Return the base in the form of `trimtab._core.NamespaceScan`."""
        shards = shard_paths(self.directory, self.manifest)
        # A directory that moved away before it was read left no rows either.
        return self.manifest.index_id, shards, self.before_ns, self.manifest.vanished > 0


def starting_point(
    directory: Path,
    root: bytes,
    file_system: FileSystemIdentity,
    *,
    lacking: frozenset[Lack],
    mounts: Iterable[Mount],
    now_ns: int,
) -> ScanBase:
    """Return the index from which an incremental scan can start.

    Parameters
    ----------
    lacking
        Columns that this scan does not read.
    mounts
        All current mounts.

    Raises
    ------
    UsageError
        It cannot start from this index, because it would skip directories that must be read.
    DataError, UnreadableError
        The index does not exist or is damaged.
    """
    _check_kind(file_system)
    manifest = load_manifest(directory)
    for problem in _problems(manifest, root, file_system, lacking, now_ns):
        raise UsageError(
            f"no incremental scan can start from {visible(directory)}: {problem}",
            code="base-unsuitable",
            hint=_FULL,
        )
    within = root.rstrip(b"/") + b"/"
    beneath = [
        mount.mount_point for mount in mounts if os.fsencode(mount.mount_point).startswith(within)
    ]
    if beneath:
        raise UsageError(
            f"{visible(beneath[0])} is mounted beneath the root: names that it hides change "
            "without a trace in the directory",
            code="base-mounts",
            hint=_FULL,
        )
    assert manifest.started_ns is not None
    return ScanBase(directory, manifest, manifest.started_ns - MARGIN_S * _NS)


def _check_kind(file_system: FileSystemIdentity) -> None:
    if file_system.kind == "lustre":
        raise UsageError(
            "incremental scans of Lustre would miss changes: a client may answer from its cache",
            code="base-kind",
            hint="trimtab purge follow SITE --index DIR reads the changelogs and detects changes "
            "in place too",
        )
    if file_system.kind not in KINDS:
        raise UsageError(
            f"unknown whether {visible(file_system.kind)} updates a directory's ctime when its "
            "names change",
            code="base-kind",
            hint=f"{_FULL}; known: {', '.join(sorted(KINDS))}",
        )


def _problems(
    manifest: Manifest,
    root: bytes,
    file_system: FileSystemIdentity,
    lacking: frozenset[Lack],
    now_ns: int,
) -> Iterable[str]:
    known = manifest.filesystem
    if manifest.source is not IndexSource.SCAN or manifest.started_ns is None:
        yield "it is not from a scan"
    elif manifest.followed is not None:
        yield "it follows changelogs"
    elif manifest.root != root:
        yield f"its root is {visible(manifest.root)}"
    elif known is None or not known.is_same(file_system):
        yield "it is of another file system, or of one that cannot be identified"
    elif known.device != file_system.device:
        yield "the file system's device number has changed, and files are identified by it"
    elif not manifest.complete:
        yield "it is incomplete: some directories could not be read"
    elif any(note.endswith(ELSEWHERE) for note in manifest.notes):
        yield "mounts beneath the root hid files that may be visible now"
    elif manifest.started_ns > now_ns:
        yield "its scan began in the future: this host's clock was set back"
    elif (manifest.lacking - {Lack.IN_PLACE}) != lacking:
        different = ", ".join(sorted((manifest.lacking - {Lack.IN_PLACE}) ^ lacking))
        yield f"only one of the two scans reads {different}: use the same --with"


def carried_over(
    base: ScanBase, directory: Path, fresh: tuple[Shard, ...], *, unchanged: int
) -> tuple[tuple[Shard, ...], Incremental]:
    """Return all shards of a new index, and a summary of the rows carried over.

    Parameters
    ----------
    directory
        Directory of the new index.
    fresh
        Shards with the rows that the scan read, including all directories.
    unchanged
        Number of directories not read.

    Raises
    ------
    DataError, UnreadableError
        A shard cannot be read or written.
    """
    _remove_leftovers(directory)
    manifest = base.manifest
    with readable():
        looked = _rows(directory, fresh)
        parents = _unchanged(base, looked)
        several = (
            looked.filter(pl.col("type") != "d", pl.col("nlink") > 1)
            .unique(["device", "id"], keep="any")
            .collect(engine="streaming")
        )
        taken_over: list[Shard] = []
        writer = ShardWriter(directory, prefix=_LINKED, once=False)
        for shard in manifest.shards:
            rows, again = _taken(base.directory, shard, parents, several)
            writer.add(again)
            if rows.len():
                taken_over.append(_linked(base, directory, shard, len(taken_over), rows))
        again_rows = writer.finish() if writer.holds_rows else ()
    before = manifest.incremental
    assert manifest.started_ns is not None
    incremental = Incremental(
        base=manifest.index_id,
        generation=1 if before is None else before.generation + 1,
        read_since_ns=manifest.started_ns if before is None else before.read_since_ns,
        unchanged=unchanged,
        carried=sum(shard.rows_in_force for shard in taken_over),
    )
    return (*taken_over, *fresh, *again_rows), incremental


def words(incremental: Incremental, oldest_ns: int, ended_ns: int) -> Iterable[str]:
    """Yield sentences on the limits of an incremental index."""
    if incremental.carried:
        age = format_duration((ended_ns - oldest_ns) / _NS)
        yield (
            f"{plural(incremental.carried, 'name', ',')} in unchanged directories "
            f"({incremental.unchanged:,}) are from earlier scans, the oldest {age} before the end "
            "of this one; later changes in place of sizes, times, owners, modes, projects and link "
            "counts are unknown. Each file is checked again before deletion"
        )
    age_s = (ended_ns - incremental.read_since_ns) / _NS
    if incremental.generation >= GENERATIONS_MAX or age_s > AGE_MAX_S:
        yield (
            f"the last full scan was {format_duration(age_s)} and "
            f"{plural(incremental.generation, 'incremental scan')} ago: scan without --incremental"
        )


_STAMP: Final = ("id", "device", "mtime_ns", "ctime_ns", "btime_ns")


def _unchanged(base: ScanBase, looked: pl.LazyFrame) -> pl.LazyFrame:
    """Return the paths of directories whose names are unchanged since the earlier index.

    Must decide as the walk does (`crates/namespace/src/walk/base.rs`: change both).
    """
    keys = ("parent", "name", *_STAMP)
    directories = pl.col("type") == "d"
    listed = _rows(base.directory, base.manifest.shards).filter(directories).select(keys)
    trusted = listed.filter(
        pl.col("ctime_ns") < base.before_ns, pl.len().over("parent", "name") == 1
    )
    now = looked.filter(directories).select(keys)
    same = now.join(trusted, on=keys, how="semi", nulls_equal=True)
    # Listed twice because it changed during the scan: it was read as well.
    changed = now.join(trusted, on=keys, how="anti", nulls_equal=True)
    return (
        same.join(changed, on=["parent", "name"], how="anti")
        .select(parent=path_bytes())
        .unique()
        .collect(engine="streaming")
        .lazy()
    )


def _rows(directory: Path, shards: tuple[Shard, ...]) -> pl.LazyFrame:
    nothing = pl.LazyFrame(schema=columns())
    return pl.concat([nothing, *(rows_in_force(directory, shard) for shard in shards)])


def _taken(
    directory: Path, shard: Shard, parents: pl.LazyFrame, several: pl.DataFrame
) -> tuple[pl.Series, pl.DataFrame]:
    """Return the row numbers of a shard that stay valid, and rows that replace others.

    Other names of a file that was read get its current data: with different link counts on its
    names it would count as two files.
    """
    carried = (
        rows_in_force(directory, shard, numbered=True)
        .filter(pl.col("type") != "d")
        .join(parents, on="parent", how="semi")
    )
    if several.is_empty():
        return carried.select("row").collect(engine="streaming")["row"].sort(), several
    located = carried.select("row", "parent", "name", "device", "id").collect(engine="streaming")
    known = several.drop("parent", "name")
    again = located.drop("row").join(known, on=["device", "id"], how="inner")
    rest = located.join(known, on=["device", "id"], how="anti")
    return rest["row"].sort(), again.select(*columns())


def _linked(base: ScanBase, directory: Path, shard: Shard, number: int, rows: pl.Series) -> Shard:
    """Link a shard of the earlier index into the new one, and return it with its valid rows."""
    name = f"{KEPT}-{number:06}.parquet"
    shown = visible(directory / name)
    with system_errors(f"cannot write {shown}", code="index-unwritable"):
        try:
            (directory / name).hardlink_to(base.directory / shard.name)
        except OSError:
            # On another file system, or one without hard links.
            shutil.copyfile(base.directory / shard.name, directory / name)
            synchronise(directory / name)
        synchronise(directory)
    read_ns = base.manifest.started_ns if shard.read_ns is None else shard.read_ns
    taken = replace(shard, name=name, superseded=None, read_ns=read_ns)
    gone = np.ones(shard.rows, dtype=bool)
    gone[rows.to_numpy()] = False
    if not gone.any():
        return taken
    return without(directory, taken, [np.flatnonzero(gone).astype("<u4")], 0)


def _remove_leftovers(directory: Path) -> None:
    """Remove files left by an earlier attempt that was killed."""
    with system_errors(f"cannot write {visible(directory)}", code="index-unwritable"):
        for prefix in (KEPT, _LINKED):
            for file in directory.glob(f"{prefix}-*"):
                file.unlink()
