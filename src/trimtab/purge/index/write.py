"""Write frames as shards: bounded in rows and bytes, sorted by path, and renamed when complete."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from trimtab.errors import UnreadableError
from trimtab.purge.index.manifest import Shard
from trimtab.record.trusted import synchronise
from trimtab.visible import visible

SHARD_ROWS: Final = 500_000
SHARD_BYTES: Final = 128 * 1024**2
"""Limit of a shard's columns in memory: a path may have hundreds of kilobytes."""

GROUP_ROWS: Final = 131_072
"""Rows of a row group, as in scans, so that several threads can work on one shard."""


@dataclass(slots=True)
class ShardWriter:
    """Collects frames and writes a shard once there are enough rows.

    Attributes
    ----------
    directory
        Existing directory for the shards.
    shards
        Shards written so far, each on stable storage.
    repeated
        Number of rows omitted because the same shard already had the name: a directory that changes
        while it is read may be read twice in part.
    once
        Whether repeated names are omitted.
    prefix
        Prefix of the shards' file names.
    """

    directory: Path
    rows_maximum: int = SHARD_ROWS
    bytes_maximum: int = SHARD_BYTES
    shards: list[Shard] = field(default_factory=list)
    repeated: int = 0
    once: bool = True
    prefix: str = "part"
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _rows: int = 0
    _bytes: int = 0

    def add(self, frame: pl.DataFrame) -> None:
        """Add a frame with all columns of the index.

        Raises
        ------
        UnreadableError
            A shard could not be written.
        """
        for start in range(0, frame.height, self.rows_maximum):
            part = frame.slice(start, self.rows_maximum)
            self._frames.append(part)
            self._rows += part.height
            self._bytes += int(part.estimated_size())
            if self._rows >= self.rows_maximum or self._bytes >= self.bytes_maximum:
                self._write()

    @property
    def holds_rows(self) -> bool:
        """Whether any rows were added."""
        return self._rows > 0 or any(shard.rows for shard in self.shards)

    def finish(self) -> tuple[Shard, ...]:
        """Write the last shard and return all; an empty index has one without rows."""
        if self._frames or not self.shards:
            self._write()
        return tuple(self.shards)

    def _write(self) -> None:
        from trimtab.purge.index.schema import columns

        schema = pl.Schema(columns())
        whole = (
            pl.concat(self._frames, rechunk=True) if self._frames else pl.DataFrame(schema=schema)
        )
        self._frames, self._rows, self._bytes = [], 0, 0
        whole = whole.select(pl.col(name).cast(kind) for name, kind in schema.items())
        ordered = whole.sort(_rank(whole["parent"]), "name", maintain_order=True)
        again = pl.all_horizontal(pl.col(key) == pl.col(key).shift() for key in ("parent", "name"))
        written = ordered.filter(~again.fill_null(value=False)) if self.once else ordered
        self.repeated += ordered.height - written.height
        name = f"{self.prefix}-{len(self.shards):06}.parquet"
        self.shards.append(write_shard(written, self.directory / name))


def _rank(parents: pl.Series) -> pl.Series:
    """Return the rank of each directory in byte order.

    The rows of a directory are mostly adjacent, so only the first of each run is compared.
    """
    run = parents.rle_id()
    first = (run != run.shift()).fill_null(value=True)
    return parents.filter(first).rank("dense").gather(run).alias("rank")


def write_shard(frame: pl.DataFrame, file: Path) -> Shard:
    """Write a frame as a shard, atomically and to stable storage; return it with its hash.

    Raises
    ------
    UnreadableError
        Writing failed; no file has its name.
    """
    aside = file.with_name(f".{file.name}.part")
    try:
        descriptor = os.open(
            aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(descriptor, "w+b") as out:
            frame.write_parquet(
                out, compression="zstd", compression_level=1, row_group_size=GROUP_ROWS
            )
            out.flush()
            os.fsync(out.fileno())
            size_bytes = out.seek(0, os.SEEK_END)
            out.seek(0)
            sha256 = hashlib.file_digest(out, "sha256").hexdigest()
        aside.rename(file)
        synchronise(file.parent)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = error.strerror if isinstance(error, OSError) else visible(str(error))
        raise UnreadableError(
            f"cannot write {visible(file)}: {reason}",
            code="index-unwritable",
            hint="an index needs about 60 bytes per name",
        ) from error
    return Shard(file.name, frame.height, size_bytes, sha256)


def fill(writer: ShardWriter, frames: Iterable[pl.DataFrame]) -> tuple[Shard, ...]:
    """Write frames with a writer and return its shards."""
    from trimtab.purge.index.schema import completed

    rows = 0
    for frame in frames:
        writer.add(completed(frame, rows))
        rows += frame.height
    return writer.finish()
