"""Read exact sizes where a source has lazy ones: of a sample of an index, and of a plan's files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from trimtab.base.error import DataError
from trimtab.base.units import format_bytes, plural
from trimtab.purge.core_call import AskedFile, Look, core_errors
from trimtab.purge.horizon.horizon_estimate import AGES_DAYS, SizeBias, SizeSample
from trimtab.purge.index.index_view import readable, scanned
from trimtab.purge.index.manifest import Manifest, Shard
from trimtab.purge.index.shard import write_shard
from trimtab.purge.plan.candidate import PIECE_ROWS
from trimtab.purge.rules_in_force import RulesInForce

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
    questions = [AskedFile(*row) for row in drawn.select("id", "parent", "name").iter_rows()]
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

    Strata are owner, age and size: files of one stratum were written alike and have similar sizes,
    so the difference between listed and exact size varies little. The number drawn from a stratum
    is proportional to the bytes by which it may be wrong, but at least `LEAST`, or all.

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
    from trimtab.purge.index.shard import columns

    return list(columns())


def _empty(files: pl.LazyFrame) -> pl.DataFrame:
    frame = files.head(0).select(_index_columns()).collect()
    return frame.with_columns(
        pl.Series("stratum", [], pl.UInt32), pl.Series("stratum_files", [], pl.UInt32)
    )


def random_seed() -> int:
    """Return an unpredictable seed, because users who could predict it could avoid the sample."""
    return int.from_bytes(os.urandom(7), "big")


_HOUR_S = 3600
_HOUR_NS = _HOUR_S * 10**9


def size_bias(directory: Path, manifest: Manifest, rules: RulesInForce) -> SizeBias | None:
    """Return the estimate from an index's sample under the rules in force; ``None`` without one.

    Raises
    ------
    DataError
        The sample does not match the manifest.
    """
    import hashlib

    sample = None if manifest.sizes is None else manifest.sizes.sample
    if sample is None:
        return None
    path = directory / sample.name
    with readable():
        with path.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != sample.sha256:
                raise DataError(
                    "the sample of sizes is not what was written",
                    code="shard-changed",
                    file=str(path),
                )
        frame = pl.read_parquet(path, glob=False)
    frame = frame.join(
        _eligible(path, rules), on=("parent", "name"), how="left", maintain_order="left"
    )
    known = frame.filter(pl.col("exact_size_bytes").is_not_null())
    scale = pl.max_horizontal("size_bytes", "exact_allocated_bytes", pl.lit(4096))
    strata = frame.group_by("stratum").agg(
        pl.col("stratum_files").first(),
        pl.col("stratum_drawn").first(),
        scale.mean().alias("scale"),
    ).sort("stratum")  # fmt: skip
    of_stratum = known["stratum"].replace_strict(
        strata["stratum"], range(strata.height), return_dtype=pl.Int64
    )
    exact, listed = (
        known[name].cast(pl.Float64).to_numpy()
        for name in ("exact_allocated_bytes", "allocated_bytes")
    )
    last_use = pl.max_horizontal("atime_ns", "mtime_ns", "ctime_ns").fill_null(0) // _HOUR_NS
    hours = known.select(pl.coalesce(pl.col("used_s") // _HOUR_S, last_use))
    return SizeBias(
        SizeSample(
            stratum=of_stratum.to_numpy(),
            difference=exact - listed,
            uids=known["uid"].cast(pl.Int64).to_numpy(),
            hours=hours.to_series().cast(pl.Int64).to_numpy(),
            eligible=known["used_s"].is_not_null().to_numpy(),
            files=strata["stratum_files"].cast(pl.Int64).to_numpy(),
            drawn=strata["stratum_drawn"].cast(pl.Int64).to_numpy(),
            scales=np.asarray(strata["scale"].to_numpy(), float),
        ),
        as_of_hour=rules.as_of_s // _HOUR_S,
    )


def _eligible(sample: Path, rules: RulesInForce) -> pl.DataFrame:
    """Return the files of a sample that the rules allow to be deleted, with their last use."""
    from trimtab._core import select

    with tempfile.TemporaryDirectory(prefix="trimtab-") as directory:
        out = Path(directory) / "eligible.parquet"
        with core_errors("reading the sample of sizes"):
            select([str(sample)], rules.core(), before_s=rules.old_enough_before_s, out=str(out))
        with readable():
            frame = pl.read_parquet(out, columns=["parent", "name", "last_use_s"], glob=False)
    return frame.rename({"last_use_s": "used_s"})


@dataclass(frozen=True, slots=True)
class ExactCandidates:
    """Result of determining the exact size of every candidate of a plan.

    Attributes
    ----------
    listed_bytes, exact_bytes
        Bytes of the files that stay in the plan, by the index and now.
    gone
        Files that no longer exist.
    unknown
        Files whose servers did not all answer: their size is unknown, and they are not planned.
    kept
        Files that the rules keep now that size and project are known.
    """

    files: int = 0
    listed_bytes: int = 0
    exact_bytes: int = 0
    gone: int = 0
    unknown: int = 0
    kept: int = 0

    @property
    def sentences(self) -> Iterator[str]:
        """Yield the result as sentences for people."""
        yield (
            f"Sizes were looked at when the plan was made: {plural(self.files, 'file', ',')} take "
            f"up {format_bytes(self.exact_bytes)}; the index listed "
            f"{format_bytes(self.listed_bytes)}."
        )
        for count, why in (
            (self.gone, "gone since the scan"),
            (self.unknown, "size unknown: not all of their servers answered"),
            (self.kept, "kept by their current size or project"),
        ):
            if count:
                yield f"Left out, {why}: {plural(count, 'file', ',')}."


def look_at_candidates(path: Path, look: Look, rules: RulesInForce) -> ExactCandidates:
    """Give every candidate its current size and project; return the result.

    A file of unknown size is left out: what it frees is not known, and its size could not show
    whether it was used since.

    Raises
    ------
    DataError
        The candidates cannot be read.
    """
    parts: list[Path] = []
    total = ExactCandidates()
    rules_exempt = [int(project) for project in rules.exempt_projects]
    with readable():
        source = pl.scan_parquet(path, glob=False)
        rows = int(source.select(pl.len()).collect().item())
        for offset in range(0, rows, PIECE_ROWS):
            piece = source.slice(offset, PIECE_ROWS).collect()
            seen, counts = _looked_at(piece, look, rules_exempt, rules.minimum_size_bytes)
            pairs = zip(astuple(total), astuple(counts), strict=True)
            total = ExactCandidates(*(before + now for before, now in pairs))
            parts.append(path.with_name(f".{path.name}.{len(parts)}"))
            seen.write_parquet(parts[-1], compression="lz4")
        if parts:
            aside = path.with_name(f".{path.name}.exact")
            pl.scan_parquet(parts, glob=False).sink_parquet(
                aside, compression="lz4", maintain_order=True, row_group_size=PIECE_ROWS
            )
            for part in parts:
                part.unlink()
            aside.replace(path)
    return total


def _looked_at(
    piece: pl.DataFrame, look: Look, exempt_projects: list[int], minimum_size_bytes: int
) -> tuple[pl.DataFrame, ExactCandidates]:
    answers = look([AskedFile(*row) for row in piece.select("id", "parent", "name").iter_rows()])
    seen = piece.with_columns(
        pl.Series("listed", piece["allocated_bytes"]),
        pl.Series("known", [answer.known for answer in answers], pl.Boolean),
        pl.Series("gone", [answer.gone for answer in answers], pl.Boolean),
        pl.Series("size_bytes", [answer.size_bytes for answer in answers], pl.UInt64),
        pl.Series("allocated_bytes", [answer.allocated_bytes for answer in answers], pl.UInt64),
        pl.coalesce(
            pl.Series("project", [answer.project for answer in answers], pl.UInt32), "project"
        ).alias("project"),
    )
    known = pl.col("known")
    # Where projects are exempt, a file of unknown project may belong to one of them.
    is_exempt = pl.col("project").is_in(exempt_projects).fill_null(value=bool(exempt_projects))
    retained = known & (is_exempt | (pl.col("size_bytes") < minimum_size_bytes))
    planned = seen.filter(known & ~retained)
    one_name = planned.unique("id", maintain_order=True)
    counts = ExactCandidates(
        files=planned.height,
        listed_bytes=int(one_name["listed"].cast(pl.Int128).sum()),
        exact_bytes=int(one_name["allocated_bytes"].cast(pl.Int128).sum()),
        gone=int(seen["gone"].sum()),
        unknown=int(seen.select((~known & ~pl.col("gone")).sum()).item()),
        kept=int(seen.select(retained.sum()).item()),
    )
    return planned.select(piece.columns), counts
