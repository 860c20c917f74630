r"""An index as query tables, one row per name or per file, and the changes made to it.

In ``files`` a regular file with several names is one row, with the first of its names beneath the
root; its bytes count once. Columns that an index lacks are null, without the shards' stand-ins.

Changes are new shards, and the rows of others that they replace::

    part-000000.parquet   part-000000.superseded-000007   delta-000007-000000.parquet
    rows of the scan      which of them are superseded     current rows
                     \______________ manifest.json ______________/

New files have new names, and the manifest is replaced last. A kill at any moment therefore leaves
either the old or the new index, plus files that no manifest lists.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trimtab.base.error import DataError, system_errors, visible
from trimtab.base.trusted_file import synchronise
from trimtab.purge.index import shard as identity
from trimtab.purge.index.list_reading import joined
from trimtab.purge.index.manifest import Followed, Lack, Manifest, Shard, Superseded
from trimtab.purge.index.manifest_file import save_manifest, write_synchronised
from trimtab.purge.index.shard import ShardWriter, columns, write_shard
from trimtab.purge.owner import group_name, user_name

DAY_S: Final = 86400

_LACKING: Final = {
    Lack.IDENTITY: ("id",),
    Lack.DEVICE: ("device",),
    Lack.LINKS: ("nlink",),
    Lack.BLOCKS: ("allocated_bytes",),
    Lack.TYPE: ("type",),
    Lack.GROUP: ("gid", "group"),
}
"""Columns with stand-ins, by what an index lacks."""


@contextmanager
def readable() -> Iterator[None]:
    """Convert errors of reading the shards of an index to an error of Trimtab.

    Raises
    ------
    DataError
        A shard is missing or invalid.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = visible(str(error).strip().partition("\n")[0][:300])
        raise DataError(
            f"the index cannot be read: {reason}",
            code="index-unreadable",
            hint="a shard was changed or damaged since it was written: scan or import again",
        ) from error


def names(directory: Path, manifest: Manifest) -> pl.LazyFrame:
    """Return one row for each name of an index, with derived columns for queries.

    Returns
    -------
    polars.LazyFrame
        The columns of the index, and ``path`` (visible text), ``directory`` (likewise), ``user``,
        ``group`` (the number as text if there is no name), ``age_days`` (Float64, at the end of the
        scan; 0 for a future time), ``last_use`` and ``read_at`` (UTC; start of the scan that read
        the row); ``pool`` as visible text. They are computed only if a query uses them.
    """
    rows = scanned(directory, manifest, dated=True)
    return described(rows, manifest)


def described(rows: pl.LazyFrame, manifest: Manifest) -> pl.LazyFrame:
    """Return rows of an index with the derived columns of `names`."""
    frame = rows.with_columns(
        _path(),
        visible_text(pl.col("parent")).alias("directory"),
        _pool(),
        named("uid", "user", user_name),
        named("gid", "group", group_name),
        age_days=age_days(manifest),
        last_use=pl.from_epoch("last_use_s", time_unit="s").dt.replace_time_zone("UTC"),
    )
    return frame.with_columns(
        pl.lit(None).cast(frame.collect_schema()[name]).alias(name)
        for lack, lacking in _LACKING.items()
        if lack in manifest.lacking and lack is not Lack.TYPE
        for name in lacking
    )


def scanned(directory: Path, manifest: Manifest, *, dated: bool = False) -> pl.LazyFrame:
    """Return the rows of all shards, in the columns of the index; missing columns are null.

    Parameters
    ----------
    dated
        Also ``read_at``: start of the scan that read the row, or its end if the start is unknown.
    """
    if not manifest.shards:
        schema = {**columns(), **({"read_at": pl.Datetime("us", "UTC")} if dated else {})}
        return pl.LazyFrame(schema=schema)
    frames = (rows_in_force(directory, shard) for shard in manifest.shards)
    if dated:
        frames = (
            frame.with_columns(_read_at(shard, manifest))
            for frame, shard in zip(frames, manifest.shards, strict=True)
        )
    return pl.concat(list(frames))


def _read_at(shard: Shard, manifest: Manifest) -> pl.Expr:
    known = (shard.read_ns, manifest.started_ns, manifest.ended_ns)
    read_ns = next(at for at in known if at is not None)
    seconds = pl.lit(read_ns // 10**9, pl.Int64)
    return pl.from_epoch(seconds, time_unit="s").dt.replace_time_zone("UTC").alias("read_at")


def rows_in_force(directory: Path, shard: Shard, *, numbered: bool = False) -> pl.LazyFrame:
    """Return the rows of a shard that were not replaced, in the columns of the index.

    Parameters
    ----------
    numbered
        Also ``row``: the row number within the shard.
    """
    frame = pl.scan_parquet(directory / shard.name, glob=False)
    present = set(frame.collect_schema().names())
    chosen = [
        (pl.col(name) if name in present else pl.lit(None)).cast(kind).alias(name)
        for name, kind in columns().items()
    ]
    if shard.superseded is None and not numbered:
        return frame.select(chosen)
    frame = frame.with_row_index("row")
    if shard.superseded is not None:
        gone = pl.Series("row", superseded_rows(directory, shard.superseded), pl.UInt32)
        frame = frame.join(gone.to_frame().lazy(), on="row", how="anti")
    return frame.select(*(["row"] if numbered else []), *chosen)


def superseded_rows(directory: Path, superseded: Superseded) -> NDArray[np.uint32]:
    """Return the numbers of the replaced rows of a shard.

    Raises
    ------
    DataError
        The file has changed since it was written.
    """
    file = directory / superseded.name
    with readable():
        rows = np.fromfile(file, "<u4")
    if rows.size != superseded.rows:
        raise DataError(
            f"{visible(file)} has {rows.size} rows instead of {superseded.rows}",
            code="index-unreadable",
            hint="the index was damaged or changed: scan or import again",
        )
    return rows


def tells(directory: Path, manifest: Manifest, column: str) -> bool:
    """Whether every shard of an index has a column, even if it is null in all rows."""
    return all(
        column in pl.read_parquet_schema(directory / shard.name) for shard in manifest.shards
    )


def files(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return one row per regular file, from one row per name.

    Only rows of files with several names are sorted; all others are streamed.
    """
    return pl.concat([single_named(rows), first_names(several_named(rows))])


def single_named(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows of regular files with one name, as far as known."""
    # Null if links or identities are unknown: then each name counts as a file.
    return rows.filter(pl.col("type") == "f", ~_several().fill_null(value=False))


def several_named(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows of regular files with several names."""
    return rows.filter(pl.col("type") == "f", _several())


def first_names(several: pl.LazyFrame) -> pl.LazyFrame:
    """Return one row per file with several names: the first of them beneath the root."""
    return several.sort("parent", "name").unique(
        ["device", "id"], keep="first", maintain_order=True
    )


def path_bytes() -> pl.Expr:
    """Return the path of each name, relative to the root, in bytes."""
    parent, name = pl.col("parent"), pl.col("name")
    return pl.when(parent == b"").then(name).otherwise(parent + b"/" + name)


def _several() -> pl.Expr:
    return (pl.col("nlink") > 1) & pl.col("id").is_not_null()


def age_days(manifest: Manifest) -> pl.Expr:
    """Return the time since a file's last use at the end of the scan, in days."""
    age_s = (manifest.as_of_s - pl.col("last_use_s")).clip(lower_bound=0)
    return age_s / DAY_S


def visible_text(column: pl.Expr) -> pl.Expr:
    """Return bytes as printable text; invisible characters are escaped."""

    def of(series: pl.Series) -> pl.Series:
        return pl.Series(series.name, _shown(series.to_list()), dtype=pl.String)

    return column.map_batches(of, return_dtype=pl.String, is_elementwise=True)


def shown_identity(ids: pl.Series, kinds: pl.Series) -> pl.Series:
    """Return identities in the usual notation."""
    values = [
        None if value is None else identity.shown(value, kind or "inode")
        for value, kind in zip(ids, kinds, strict=True)
    ]
    return pl.Series(ids.name, values, dtype=pl.String)


def _path() -> pl.Expr:
    def of(both: pl.Series) -> pl.Series:
        parents, names = both.struct.field("parent"), both.struct.field("name")
        return pl.Series("path", _shown(list(map(joined, parents, names))), dtype=pl.String)

    return (
        pl.struct("parent", "name")
        .map_batches(of, return_dtype=pl.String, is_elementwise=True)
        .alias("path")
    )


def _pool() -> pl.Expr:
    """Return the names of pools as visible text; few distinct names cover all files."""

    def of(series: pl.Series) -> pl.Series:
        names = series.unique().drop_nulls().to_list()
        shown = dict(zip(names, _shown(names), strict=True))
        return pl.Series(series.name, [shown.get(name) for name in series], dtype=pl.String)

    return pl.col("pool").map_batches(of, return_dtype=pl.String, is_elementwise=True)


def _shown(values: Iterable[bytes | None]) -> list[str | None]:
    return [None if value is None else visible(value) for value in values]


def named(number: str, name: str, naming: Callable[[int], str | None]) -> pl.Expr:
    """Return the name of each number of a column as visible text, or the number if it has none.

    Names are cached.
    """
    known: dict[int, str] = {}

    def of(series: pl.Series) -> pl.Series:
        # Other threads add to the cache meanwhile: each uses only its own numbers.
        numbers = series.unique().drop_nulls().to_list()
        for owner in numbers:
            if owner not in known:
                known[owner] = visible(naming(owner) or str(owner))
        names = [known[owner] for owner in numbers]
        return series.replace_strict(numbers, names, default=None, return_dtype=pl.String).alias(
            name
        )

    return pl.col(number).map_batches(of, return_dtype=pl.String, is_elementwise=True).alias(name)


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
