"""An index as tables that can be asked: ``names``, one row a name, and ``files``, one row a file.

A regular file that has several names is one row of ``files``, with the first of its names beneath
the root; its bytes count once. Columns that an index lacks are null there, not the stand-ins of the
shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trimtab.errors import DataError
from trimtab.purge.index import identity
from trimtab.purge.index.manifest import Lack, Manifest, Shard, Superseded
from trimtab.purge.index.owners import group_name, user_name
from trimtab.purge.index.reading import joined
from trimtab.purge.index.schema import columns
from trimtab.visible import visible

DAY_S: Final = 86400

_LACKING: Final = {
    Lack.IDENTITY: ("id",),
    Lack.DEVICE: ("device",),
    Lack.LINKS: ("nlink",),
    Lack.BLOCKS: ("allocated_bytes",),
    Lack.TYPE: ("type",),
    Lack.GROUP: ("gid", "group"),
}
"""The columns that hold stand-ins where an index lacks something."""


@contextmanager
def readable() -> Iterator[None]:
    """Raise what goes wrong while the shards of an index are read as an error of Trimtab.

    Raises
    ------
    DataError
        A shard is gone by now, or is not what it should be.
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
    """Return one row for each name of an index, with what people ask for beside its columns.

    Returns
    -------
    polars.LazyFrame
        The columns of the index, and ``path`` (visible text), ``directory`` (likewise), ``user``,
        ``group`` (their number as text where they have no name), ``age_days`` (Float64, at the end
        of the scan; 0 for a time in the future), ``last_use`` and ``read_at`` (UTC; when the scan
        that read the row began); ``pool`` as visible text.
        They are worked out only where a question has them.
    """
    rows = scanned(directory, manifest, dated=True)
    return described(rows, manifest)


def described(rows: pl.LazyFrame, manifest: Manifest) -> pl.LazyFrame:
    """Return rows of an index with what `names` has beside their columns."""
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
    """Return the rows of all shards, in the columns of the index; what a shard lacks is null.

    Parameters
    ----------
    dated
        Also ``read_at``: when the scan that read the row began, or where that is not known, ended.
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
    """Return the rows of a shard that count, in the columns of the index.

    Parameters
    ----------
    numbered
        Also ``row``: the number of each within the shard.
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
    """Return the numbers of the rows of a shard that count no more.

    Raises
    ------
    DataError
        The file is not what was written.
    """
    file = directory / superseded.name
    with readable():
        rows = np.fromfile(file, "<u4")
    if rows.size != superseded.rows:
        raise DataError(
            f"{visible(file)} names {rows.size} rows instead of {superseded.rows}",
            code="index-unreadable",
            hint="the index was damaged or changed: scan or import again",
        )
    return rows


def tells(directory: Path, manifest: Manifest, column: str) -> bool:
    """Whether every shard of an index has a column, be it null in every row."""
    return all(
        column in pl.read_parquet_schema(directory / shard.name) for shard in manifest.shards
    )


def files(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return one row for each regular file, from one row for each name.

    The rows of files with several names are sorted, of all others nothing is kept in memory.
    """
    return pl.concat([single_named(rows), first_names(several_named(rows))])


def single_named(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows of regular files that have one name, or as far as is known one."""
    # Null where links or identities are not known: each name is a file then.
    return rows.filter(pl.col("type") == "f", ~_several().fill_null(value=False))


def several_named(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows of regular files that have several names."""
    return rows.filter(pl.col("type") == "f", _several())


def first_names(several: pl.LazyFrame) -> pl.LazyFrame:
    """Return one row for each file with several names: the first of them beneath the root."""
    return several.sort("parent", "name").unique(
        ["device", "id"], keep="first", maintain_order=True
    )


def path_bytes() -> pl.Expr:
    """Return the path of each name beneath the root, as it is."""
    parent, name = pl.col("parent"), pl.col("name")
    return pl.when(parent == b"").then(name).otherwise(parent + b"/" + name)


def _several() -> pl.Expr:
    return (pl.col("nlink") > 1) & pl.col("id").is_not_null()


def age_days(manifest: Manifest) -> pl.Expr:
    """Return how long a file had not been used when the scan ended, in days."""
    age_s = (manifest.as_of_s - pl.col("last_use_s")).clip(lower_bound=0)
    return age_s / DAY_S


def visible_text(column: pl.Expr) -> pl.Expr:
    """Return bytes as text that can be shown: what cannot be seen is an escape."""

    def of(series: pl.Series) -> pl.Series:
        return pl.Series(series.name, _shown(series.to_list()), dtype=pl.String)

    return column.map_batches(of, return_dtype=pl.String, is_elementwise=True)


def shown_identity(ids: pl.Series, kinds: pl.Series) -> pl.Series:
    """Return identities as people write them."""
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
    """Return the names of pools as visible text: a few of them, however many files."""

    def of(series: pl.Series) -> pl.Series:
        names = series.unique().drop_nulls().to_list()
        shown = dict(zip(names, _shown(names), strict=True))
        return pl.Series(series.name, [shown.get(name) for name in series], dtype=pl.String)

    return pl.col("pool").map_batches(of, return_dtype=pl.String, is_elementwise=True)


def _shown(values: Iterable[bytes | None]) -> list[str | None]:
    return [None if value is None else visible(value) for value in values]


def named(number: str, name: str, naming: Callable[[int], str | None]) -> pl.Expr:
    """Return the name of each number of a column as visible text; its number where it has none.

    What was asked for once is remembered.
    """
    known: dict[int, str] = {}

    def of(series: pl.Series) -> pl.Series:
        # Others add to what is known meanwhile: each thread goes by its own numbers alone.
        numbers = series.unique().drop_nulls().to_list()
        for owner in numbers:
            if owner not in known:
                known[owner] = visible(naming(owner) or str(owner))
        names = [known[owner] for owner in numbers]
        return series.replace_strict(numbers, names, default=None, return_dtype=pl.String).alias(
            name
        )

    return pl.col(number).map_batches(of, return_dtype=pl.String, is_elementwise=True).alias(name)
