"""Exact sizes where a source has lazy ones: the sample of an index, the candidates of a plan."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import polars as pl

from trimtab.errors import DataError
from trimtab.loop.purging.core_errors import core_errors
from trimtab.purge.horizon.size_bias import SizeBias, SizeSample
from trimtab.purge.index.exact_size import Asked, Look
from trimtab.purge.index.manifest import Manifest
from trimtab.purge.index.views import readable
from trimtab.purge.plan.candidates import PIECE_ROWS
from trimtab.purge.rules import RulesInForce
from trimtab.units import format_bytes, plural

_HOUR_S = 3600
_HOUR_NS = _HOUR_S * 10**9


def size_bias(directory: Path, manifest: Manifest, rules: RulesInForce) -> SizeBias | None:
    """Return what the sample of an index says under the rules in force; ``None`` without one.

    Raises
    ------
    DataError
        The sample is not what the manifest says.
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
    """Return which files of a sample the rules let go, and when each was last used."""
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
    """What an exact look at every candidate of a plan came to.

    Attributes
    ----------
    listed_bytes, exact_bytes
        What the files that stay in the plan take up, by the index and now.
    gone
        Files that are not there any more.
    unknown
        Files of which not all servers answered: their size is unknown, and they are not planned.
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
        """Return what people should know of it."""
        yield (
            f"Sizes were looked at when the plan was made: {plural(self.files, 'file', ',')} take "
            f"up {format_bytes(self.exact_bytes)}; the index listed "
            f"{format_bytes(self.listed_bytes)}."
        )
        for count, why in (
            (self.gone, "gone since the scan"),
            (self.unknown, "size unknown: not all of their servers answered"),
            (self.kept, "kept by their size or project of now"),
        ):
            if count:
                yield f"Left out, {why}: {plural(count, 'file', ',')}."


def look_at_candidates(path: Path, look: Look, rules: RulesInForce) -> ExactCandidates:
    """Give every candidate its size and project of now; return what came of it.

    A file whose size nobody can say is left out: what it frees is not known, and whether it was
    used since could not be told by its size.

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
    answers = look([Asked(*row) for row in piece.select("id", "parent", "name").iter_rows()])
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
    # Where projects are exempt, a file whose project nobody knows may be of one.
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
