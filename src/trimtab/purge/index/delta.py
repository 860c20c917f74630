r"""Changes beside an index: new shards, and which rows of the others they replace.

::

    part-000000.parquet   part-000000.superseded-000007   delta-000007-000000.parquet
    rows of the scan      which of them count no more      rows of now
                     \______________ manifest.json ______________/

What is new has names of its own; the manifest is replaced last. So a kill at any moment leaves the
index of before or the index of after, and files that no manifest names.
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

from trimtab.purge.index.manifest import Followed, Manifest, Shard, Superseded
from trimtab.purge.index.manifest_file import save_manifest
from trimtab.purge.index.schema import columns
from trimtab.purge.index.views import readable, rows_in_force, superseded_rows
from trimtab.purge.index.write import ShardWriter, write_shard
from trimtab.record.system_errors import system_errors
from trimtab.record.trusted import synchronise
from trimtab.visible import visible

RETIRED_S: Final = 6 * 3600
"""So long a file stays that is replaced: who began to read the index before reads on in it."""
DELTA: Final = "delta"
MERGED: Final = "merged"
_AGAIN: Final = "again"
_OURS: Final = re.compile(
    r"(scan|delta|merged|again)-[0-9-]+\.parquet|(scan|delta|merged)-[0-9-]+\.superseded-[0-9]+"
)
"""What a scan and a follower call their files; others in the directory are somebody's."""
_WORN: Final = 0.05
"""From this share of replaced rows on a shard is written anew when an index is merged."""


@dataclass(slots=True)
class Delta:
    """What changes in an index.

    Attributes
    ----------
    rows
        Frames with the columns of the index.
    superseded
        Numbers of rows that count no more, by the number of the shard.
    """

    rows: list[pl.DataFrame] = field(default_factory=list)
    superseded: dict[int, list[NDArray[np.uint32]]] = field(default_factory=dict)

    def supersede(self, located: pl.DataFrame) -> None:
        """Take out rows, which `find` or `beneath` located."""
        for (shard,), rows in located.group_by("shard"):
            numbers = rows["row"].to_numpy().astype("<u4")
            self.superseded.setdefault(int(str(shard)), []).append(numbers)

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not self.superseded and not any(frame.height for frame in self.rows)


@dataclass(frozen=True, slots=True)
class Again:
    """What could not be looked at, or may have changed since.

    Attributes
    ----------
    tried
        Files, and how often each was looked at again in vain.
    beneath
        Those of them that are directories of which everything is to be looked at.
    """

    tried: Mapping[bytes, int]
    beneath: frozenset[bytes] = frozenset()

    def without_hopeless(self, tries: int) -> Again:
        """Return the same without what was tried so often."""
        tried = {file: count for file, count in self.tried.items() if count < tries}
        return Again(tried, self.beneath & tried.keys())


def find(
    directory: Path, manifest: Manifest, ids: Collection[bytes], names: pl.DataFrame
) -> pl.DataFrame:
    """Return the rows of some files, and the rows that have one of some names.

    Parameters
    ----------
    names
        ``parent`` and ``name``.

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
    """Yield the rows beneath directories that were moved, as they are and as they are to be.

    Parameters
    ----------
    moved
        Old to new path; of two that hold a row the longer counts. A path may stay what it was.
    but
        Files that are left out.
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
    """Return where a directory is after others were moved."""
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
    """Return the manifest of an index with changes; it is on stable storage, and they are.

    Parameters
    ----------
    manifest
        As it is to be, but for its shards and for `followed`.
    followed
        Up to where changes are known; its generation is counted on here.
    again
        What to look at once more.

    Raises
    ------
    UnreadableError
        Something could not be written: the index is what it was.
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
    """Return the manifest of the same rows in fewer shards.

    Parameters
    ----------
    whole
        Also write shards anew of which many rows count no more; else only merge small changes.

    Raises
    ------
    UnreadableError
        Something could not be written: the index is what it was.
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
    """Return how many shards hold changes that are not merged."""
    return sum(shard.name.startswith(f"{DELTA}-") for shard in manifest.shards)


def _is_worn(shard: Shard) -> bool:
    return shard.superseded is not None and shard.superseded.rows >= _WORN * shard.rows


def files_of(manifest: Manifest) -> set[str]:
    """Return the files that a manifest names."""
    names = {shard.name for shard in manifest.shards}
    names.update(shard.superseded.name for shard in manifest.shards if shard.superseded)
    if manifest.followed is not None and manifest.followed.again is not None:
        names.add(manifest.followed.again.name)
    return names


def without(
    directory: Path, shard: Shard, more: Sequence[NDArray[np.uint32]], generation: int
) -> Shard:
    """Return a shard of which further rows count no more."""
    gone = list(more)
    if shard.superseded is not None:
        gone.append(superseded_rows(directory, shard.superseded))
    rows = np.unique(np.concatenate(gone)).astype("<u4")
    name = f"{shard.name.removesuffix('.parquet')}.superseded-{generation:06}"
    content = rows.tobytes()
    _write(directory / name, content)
    sha256 = hashlib.sha256(content).hexdigest()
    return replace(shard, superseded=Superseded(name, int(rows.size), sha256))


def _write(file: Path, content: bytes) -> None:
    with system_errors(f"cannot write {visible(file)}", code="index-unwritable"):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())


def _write_again(directory: Path, again: Again, generation: int) -> Shard | None:
    if not again.tried:
        return None
    kinds = {"id": pl.Binary, "tried": pl.UInt32, "beneath": pl.Boolean}
    rows = [(file, count, file in again.beneath) for file, count in again.tried.items()]
    frame = pl.DataFrame(rows, schema=kinds, orient="row")
    return write_shard(frame.sort("id"), directory / f"{_AGAIN}-{generation:06}.parquet")


def read_again(directory: Path, followed: Followed) -> Again:
    """Return what to look at once more."""
    if followed.again is None:
        return Again({})
    with readable():
        frame = pl.read_parquet(directory / followed.again.name, glob=False)
        if "beneath" not in frame.columns:  # written before directories were among them
            frame = frame.with_columns(beneath=False)
        tried = dict(frame.select("id", "tried").iter_rows())
        return Again(tried, frozenset(frame.filter("beneath")["id"].to_list()))


def _save(directory: Path, manifest: Manifest, before: set[str], now_s: int) -> Manifest:
    """Replace the manifest, and remove what nobody reads any more."""
    synchronise(directory)
    for name in before - files_of(manifest):
        # Replaced now, whenever it was written: `remove_replaced` goes by that.
        os.utime(directory / name, (now_s, now_s))
    save_manifest(manifest, directory)
    remove_replaced(directory, manifest, now_s)
    return manifest


def remove_replaced(directory: Path, manifest: Manifest, now_s: int) -> None:
    """Remove what was replaced long ago, or left by a round that was killed."""
    named = files_of(manifest)
    for file in directory.iterdir():
        if (
            file.name not in named
            and _OURS.fullmatch(file.name)
            and file.stat().st_mtime + RETIRED_S <= now_s
        ):
            file.unlink(missing_ok=True)
