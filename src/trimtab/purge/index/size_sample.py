"""Draw a random sample of an index with lazy sizes, and read its exact sizes.

Strata are owner, age and size: files of one stratum were written alike and have similar sizes, so
the difference between listed and exact size varies little. The number drawn from a stratum is
proportional to the bytes by which it may be wrong, but at least `LEAST`, or all.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import polars as pl

from trimtab.purge.horizon.size_bias import AGES_DAYS
from trimtab.purge.index.exact_size import Asked, Look
from trimtab.purge.index.manifest import Manifest, Shard
from trimtab.purge.index.views import readable, scanned
from trimtab.purge.index.write import write_shard

SAMPLE_FILE: Final = "sizes.parquet"
BUDGET: Final = 20_000
"""Number of sampled files beyond the minimum of each stratum."""
LEAST: Final = 4
USERS_MAXIMUM: Final = 500
"""Number of users with strata of their own, those with the largest possible error.

The rest share one.
"""
_DAY_NS: Final = 86_400 * 10**9
_SIZE_STEP: Final = 4.0
_STRATUM: Final = ("owner", "age_class", "size_class")


def take_sample(
    directory: Path, manifest: Manifest, look: Look, *, seed: int, budget: int = BUDGET
) -> Shard:
    """Draw a sample of an index, read its exact sizes, and return its file beside the shards.

    It has the columns of the index, and for each file ``exact_size_bytes``,
    ``exact_allocated_bytes`` (null if it could not be read), ``stratum``, ``stratum_files`` and
    ``stratum_drawn``, which excludes files deleted by now.

    Raises
    ------
    UnreadableError
        The sample could not be written.
    DataError
        The index cannot be read.
    """
    drawn = draw(directory, manifest, seed=seed, budget=budget)
    questions = [Asked(*row) for row in drawn.select("id", "parent", "name").iter_rows()]
    seen = look(questions) if questions else ()
    for name, values in (
        ("exact_size_bytes", [exact.size_bytes if exact.known else None for exact in seen]),
        (
            "exact_allocated_bytes",
            [exact.allocated_bytes if exact.known else None for exact in seen],
        ),
    ):
        drawn = drawn.with_columns(pl.Series(name, values, pl.UInt64))
    known = pl.col("exact_size_bytes").is_not_null()
    drawn = drawn.with_columns(stratum_drawn=known.sum().over("stratum"))
    return write_shard(drawn, directory / SAMPLE_FILE)


def draw(directory: Path, manifest: Manifest, *, seed: int, budget: int = BUDGET) -> pl.DataFrame:
    """Return a stratified random sample of the files of an index with a single name.

    Two passes over the index in bounded memory: the first counts the strata, the second takes the
    smallest hashes of each.
    """
    with readable():
        files = _strata(scanned(directory, manifest), manifest)
        counts = files.group_by(_STRATUM).agg(stratum_files=pl.len(), weight=pl.sum("size"))
        strata = _owners_pooled(counts.collect(engine="streaming")).with_columns(
            budget=pl.lit(budget, pl.Float64)
        )
        if not strata.height:
            return _empty(files)
        share = pl.col("budget") * pl.col("weight") / pl.sum("weight").clip(1.0)
        strata = (
            strata.with_columns(
                to_draw=pl.min_horizontal(
                    pl.col("stratum_files"), pl.max_horizontal(pl.lit(LEAST), share.ceil())
                ).cast(pl.UInt32)
            )
            .sort(_STRATUM)
            .with_row_index("stratum")
        )
        known = strata["owner"].unique().implode()
        owner = pl.when(pl.col("owner").is_in(known)).then("owner").otherwise(pl.lit(-1, pl.Int64))
        # A few more than needed pass; the exact number is taken from these.
        many = pl.col("to_draw") + 6 * pl.col("to_draw").sqrt() + 10
        limit = pl.min_horizontal(pl.lit(1.0), many / pl.col("stratum_files"))
        chosen = (
            files.with_columns(owner, _hashed(seed))
            .join(strata.lazy(), on=_STRATUM, how="inner")
            .filter(pl.col("hash") < limit)
            .collect(engine="streaming")
        )
    ranked = chosen.with_columns(rank=pl.col("hash").rank("ordinal").over("stratum")).filter(
        pl.col("rank") <= pl.col("to_draw")
    )
    return ranked.sort("stratum", "rank").select(*_index_columns(), "stratum", "stratum_files")


def _strata(files: pl.LazyFrame, manifest: Manifest) -> pl.LazyFrame:
    used = pl.max_horizontal("atime_ns", "mtime_ns", "ctime_ns").fill_null(0)
    age = (pl.lit(manifest.ended_ns, pl.Int64) - used) / _DAY_NS
    age_class = pl.sum_horizontal(*((age >= days).cast(pl.Int64) for days in AGES_DAYS))
    size = pl.max_horizontal("size_bytes", "allocated_bytes").cast(pl.Float64)
    # A file listed without blocks or length has no usable size, and may have any.
    empty = (pl.col("allocated_bytes") == 0).cast(pl.Int64)
    step = (size.clip(1.0).log(_SIZE_STEP).floor().cast(pl.Int64)) * 2 + empty
    return files.filter((pl.col("type") == "f") & (pl.col("nlink") == 1)).with_columns(
        owner=pl.col("uid").cast(pl.Int64),
        age_class=age_class,
        size_class=step,
        size=size.clip(4096.0),
    )


def _owners_pooled(strata: pl.DataFrame) -> pl.DataFrame:
    """Return the strata with all but the largest owners merged as owner -1."""
    by_owner = strata.group_by("owner").agg(pl.sum("weight")).sort("weight", "owner")
    largest = by_owner.tail(USERS_MAXIMUM)["owner"].implode()
    owner = pl.when(pl.col("owner").is_in(largest)).then("owner").otherwise(pl.lit(-1, pl.Int64))
    return (
        strata.with_columns(owner).group_by(_STRATUM).agg(pl.sum("stratum_files"), pl.sum("weight"))
    )


def _hashed(seed: int) -> pl.Expr:
    return (pl.struct("id", "parent", "name").hash(seed) / 2.0**64).alias("hash")


def _index_columns() -> list[str]:
    from trimtab.purge.index.schema import columns

    return list(columns())


def _empty(files: pl.LazyFrame) -> pl.DataFrame:
    frame = files.head(0).select(_index_columns()).collect()
    return frame.with_columns(
        pl.Series("stratum", [], pl.UInt32), pl.Series("stratum_files", [], pl.UInt32)
    )


def random_seed() -> int:
    """Return an unpredictable seed, because users who could predict it could avoid the sample."""
    return int.from_bytes(os.urandom(7), "big")
