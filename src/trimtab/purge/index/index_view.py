"""An index as query tables: ``names``, one row per name, and ``files``, one row per file.

A regular file with several names is one row of ``files``, with the first of its names beneath the
root; its bytes count once. Columns that an index lacks are null, without the shards' stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trimtab.base.error import DataError
from trimtab.base.visible import visible
from trimtab.purge.index import shard as identity
from trimtab.purge.index.list_reading import joined
from trimtab.purge.index.manifest import Lack, Manifest, Shard, Superseded
from trimtab.purge.index.shard import columns
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
