r"""Changes to an index: new shards, and the rows of others that they replace.

::

    part-000000.parquet   part-000000.superseded-000007   delta-000007-000000.parquet
    rows of the scan      which of them count no more      rows of now
                     \______________ manifest.json ______________/

New files have new names, and the manifest is replaced last. A kill at any moment therefore leaves
either the old or the new index, plus files that no manifest lists.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trimtab.base.error import system_errors
from trimtab.base.visible import visible
from trimtab.purge.index.index_view import readable, rows_in_force, superseded_rows
from trimtab.purge.index.manifest import Followed, Manifest, Shard, Superseded
from trimtab.purge.index.manifest_file import save_manifest, write_synchronised
from trimtab.purge.index.shard import ShardWriter, columns, write_shard
from trimtab.store.trusted_file import synchronise

RETIRED_S: Final = 6 * 3600
"""How long a replaced file is kept, for readers that opened the index before; seconds."""
DELTA: Final = "delta"
MERGED: Final = "merged"
_AGAIN: Final = "again"
_OURS: Final = re.compile(
    r"(scan|delta|merged|again)-[0-9-]+\.parquet|(scan|delta|merged)-[0-9-]+\.superseded-[0-9]+"
)
"""Names of files made by scans and followers; all others in the directory are left alone."""
_WORN: Final = 0.05
"""Fraction of replaced rows from which a merge rewrites a shard."""


@dataclass(slots=True)
class Delta:
    """Changes to an index.

    Attributes
    ----------
    rows
        New rows, as frames with the columns of the index.
    superseded
        Numbers of replaced rows by shard number.
    """

    rows: list[pl.DataFrame] = field(default_factory=list)
    superseded: dict[int, list[NDArray[np.uint32]]] = field(default_factory=dict)

    def supersede(self, located: pl.DataFrame) -> None:
        """Mark rows as replaced; `find` or `beneath` located them."""
        for (shard,), rows in located.group_by("shard"):
            numbers = rows["row"].to_numpy().astype("<u4")
            self.superseded.setdefault(int(str(shard)), []).append(numbers)

    @property
    def is_empty(self) -> bool:
        """Whether there are no changes."""
        return not self.superseded and not any(frame.height for frame in self.rows)


@dataclass(frozen=True, slots=True)
class Again:
    """Files to look at again: they could not be looked at, or may have changed since.

    Attributes
    ----------
    tried
        Files, each with its number of failed attempts.
    beneath
        The directories among them below which everything must be looked at.
    """

    tried: Mapping[bytes, int]
    beneath: frozenset[bytes] = frozenset()

    def without_hopeless(self, tries: int) -> Again:
        """Return the files with fewer attempts than ``tries``."""
        tried = {file: count for file, count in self.tried.items() if count < tries}
        return Again(tried, self.beneath & tried.keys())


def find(
    directory: Path, manifest: Manifest, ids: Collection[bytes], names: pl.DataFrame
) -> pl.DataFrame:
    """Return the rows of given files and the rows with given names.

    Parameters
    ----------
    names
        Columns ``parent`` and ``name``.

    Returns
    -------
    polars.DataFrame
        ``shard`` (its number), ``row``, and the columns of the index.
    """
    wanted = pl.DataFrame({"id": list(ids)}, schema={"id": pl.Binary}).with_columns(by_id=True)
    named = names.select("parent", "name").unique().with_columns(by_name=True)
    frames = []
    with readable():
        for number, shard in enumerate(manifest.shards):
            rows = rows_in_force(directory, shard, numbered=True)
            located = (
                rows.join(wanted.lazy(), on="id", how="left")
                .join(named.lazy(), on=["parent", "name"], how="left")
                .filter(pl.col("by_id").is_not_null() | pl.col("by_name").is_not_null())
                .select(pl.lit(number, pl.UInt32).alias("shard"), "row", *columns())
            )
            frames.append(located.collect(engine="streaming"))
    return pl.concat(frames) if frames else _located_nothing()


def _located_nothing() -> pl.DataFrame:
    return pl.DataFrame(schema={"shard": pl.UInt32, "row": pl.UInt32, **columns()})


def beneath(
    directory: Path, manifest: Manifest, moved: Mapping[bytes, bytes], but: Collection[bytes]
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield the rows beneath moved directories, as they are and as they must become.

    Parameters
    ----------
    moved
        Old to new path; if two apply to a row, the longer one counts. A path may stay the same.
    but
        Files to leave out.
    """
    left_out = pl.DataFrame({"id": list(but)}, schema={"id": pl.Binary})
    with readable():
        for number, shard in enumerate(manifest.shards):
            rows = rows_in_force(directory, shard, numbered=True)
            parents = rows.select(pl.col("parent").unique()).collect(engine="streaming")
            changed = {
                parent: after
                for parent in parents["parent"].to_list()
                if (after := path_after(parent, moved)) != parent
            }
            if not changed:
                continue
            after = pl.DataFrame(
                {"parent": list(changed), "after": list(changed.values())},
                schema={"parent": pl.Binary, "after": pl.Binary},
            )
            before = (
                rows.join(after.lazy(), on="parent")
                .join(left_out.lazy(), on="id", how="anti")
                .with_columns(shard=pl.lit(number, pl.UInt32))
                .collect(engine="streaming")
            )
            now = before.with_columns(parent=pl.col("after")).select(*columns())
            yield before.select("shard", "row", *columns()), now


def path_after(path: bytes, moved: Mapping[bytes, bytes]) -> bytes:
    """Return the path of a directory after moves."""
    end = len(path)
    while end > 0:
        if path[:end] in moved:
            return moved[path[:end]] + path[end:]
        end = path.rfind(b"/", 0, end)
    return path


def commit(
    directory: Path,
    manifest: Manifest,
    delta: Delta,
    followed: Followed,
    *,
    again: Again,
    now_s: int,
) -> Manifest:
    """Store changes and the new manifest of an index on stable storage; return the manifest.

    Parameters
    ----------
    manifest
        The new manifest except for its shards and `followed`.
    followed
        How far changes are known; its generation is incremented here.
    again
        Files to look at again.

    Raises
    ------
    UnreadableError
        A write failed; the index is unchanged.
    """
    generation = followed.generation + 1
    before = files_of(manifest)
    writer = ShardWriter(directory, prefix=f"{DELTA}-{generation:06}", once=False)
    for frame in delta.rows:
        writer.add(frame)
    new = writer.finish() if any(frame.height for frame in delta.rows) else ()
    shards = [
        without(directory, shard, delta.superseded[number], generation)
        if number in delta.superseded
        else shard
        for number, shard in enumerate(manifest.shards)
    ]
    followed = replace(
        followed, generation=generation, again=_write_again(directory, again, generation)
    )
    after = replace(manifest, shards=(*shards, *new), followed=followed)
    return _save(directory, after, before, now_s)


def merge(directory: Path, manifest: Manifest, *, whole: bool, now_s: int) -> Manifest:
    """Merge the rows of an index into fewer shards, and return the new manifest.

    Parameters
    ----------
    whole
        Also rewrite shards with many replaced rows; otherwise only merge small changes.

    Raises
    ------
    UnreadableError
        A write failed; the index is unchanged.
    """
    assert manifest.followed is not None
    generation = manifest.followed.generation + 1
    merged = [
        shard
        for shard in manifest.shards
        if shard.name.startswith(f"{DELTA}-") or (whole and _is_worn(shard))
    ]
    writer = ShardWriter(
        directory, prefix=f"{MERGED if whole else DELTA}-{generation:06}", once=False
    )
    with readable():
        for shard in merged:
            writer.add(rows_in_force(directory, shard).collect(engine="streaming"))
    new = writer.finish() if merged else ()
    others = [shard for shard in manifest.shards if shard not in merged]
    after = replace(
        manifest,
        shards=(*others, *new),
        followed=replace(manifest.followed, generation=generation),
    )
    return _save(directory, after, files_of(manifest), now_s)


def deltas(manifest: Manifest) -> int:
    """Return the number of shards with unmerged changes."""
    return sum(shard.name.startswith(f"{DELTA}-") for shard in manifest.shards)


def _is_worn(shard: Shard) -> bool:
    return shard.superseded is not None and shard.superseded.rows >= _WORN * shard.rows


def files_of(manifest: Manifest) -> set[str]:
    """Return the file names that a manifest lists."""
    names = {shard.name for shard in manifest.shards}
    names.update(shard.superseded.name for shard in manifest.shards if shard.superseded)
    if manifest.followed is not None and manifest.followed.again is not None:
        names.add(manifest.followed.again.name)
    return names


def without(
    directory: Path, shard: Shard, more: Sequence[NDArray[np.uint32]], generation: int
) -> Shard:
    """Return a shard with further rows marked as replaced."""
    gone = list(more)
    if shard.superseded is not None:
        gone.append(superseded_rows(directory, shard.superseded))
    rows = np.unique(np.concatenate(gone)).astype("<u4")
    name = f"{shard.name.removesuffix('.parquet')}.superseded-{generation:06}"
    content = rows.tobytes()
    with system_errors(f"cannot write {visible(directory / name)}", code="index-unwritable"):
        write_synchronised(directory / name, content)
    sha256 = hashlib.sha256(content).hexdigest()
    return replace(shard, superseded=Superseded(name, int(rows.size), sha256))


def _write_again(directory: Path, again: Again, generation: int) -> Shard | None:
    if not again.tried:
        return None
    kinds = {"id": pl.Binary, "tried": pl.UInt32, "beneath": pl.Boolean}
    rows = [(file, count, file in again.beneath) for file, count in again.tried.items()]
    frame = pl.DataFrame(rows, schema=kinds, orient="row")
    return write_shard(frame.sort("id"), directory / f"{_AGAIN}-{generation:06}.parquet")


def read_again(directory: Path, followed: Followed) -> Again:
    """Return the files to look at again."""
    if followed.again is None:
        return Again({})
    with readable():
        frame = pl.read_parquet(directory / followed.again.name, glob=False)
        if "beneath" not in frame.columns:  # format before directories were included
            frame = frame.with_columns(beneath=False)
        tried = dict(frame.select("id", "tried").iter_rows())
        return Again(tried, frozenset(frame.filter("beneath")["id"].to_list()))


def _save(directory: Path, manifest: Manifest, before: set[str], now_s: int) -> Manifest:
    """Replace the manifest, and remove files no longer read."""
    synchronise(directory)
    for name in before - files_of(manifest):
        # `remove_replaced` goes by this time, when the file was replaced, not written.
        os.utime(directory / name, (now_s, now_s))
    save_manifest(manifest, directory)
    remove_replaced(directory, manifest, now_s)
    return manifest


def remove_replaced(directory: Path, manifest: Manifest, now_s: int) -> None:
    """Remove files replaced long ago or left by a killed round."""
    named = files_of(manifest)
    for file in directory.iterdir():
        if (
            file.name not in named
            and _OURS.fullmatch(file.name)
            and file.stat().st_mtime + RETIRED_S <= now_s
        ):
            file.unlink(missing_ok=True)
