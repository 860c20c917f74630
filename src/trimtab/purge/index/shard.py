"""The shards of an index: their columns, the identities of files, and how shards are written.

==================  ==========================  ==================================================
column              Polars; in Parquet          what
==================  ==========================  ==================================================
``parent``          Binary; BYTE_ARRAY          directory, relative to the root; empty: the root
``name``            Binary; BYTE_ARRAY          last component
``id``              Binary; BYTE_ARRAY          16 bytes: inode number or FID, big-endian
``id_kind``         String; BYTE_ARRAY          ``inode`` or ``fid``
``device``          UInt64; INT64               ``st_dev``
``uid``, ``gid``    UInt32; INT32               owner and group
``project``         UInt32?; INT32              project
``size_bytes``      UInt64; INT64               length
``allocated_bytes`` UInt64; INT64               what it takes up: 512 times ``st_blocks``
``nlink``           UInt32; INT32               how many names it has
``atime_ns`` ...    Int64?; INT64               access, modification, change, birth, since 1970
``type``            String; BYTE_ARRAY          letter of ``find -printf %y``
``stripe_count``    UInt32?; INT32              stripes of a Lustre file
``osts``            List(UInt32)?; INT32        index of each OST that holds an object of it
``pool``            Binary?; BYTE_ARRAY         the pool of OSTs that its layout names, never empty
``last_use_s``      Int64?; INT64               latest of the first three times, rounded down to
                                                seconds; null where one of them is
==================  ==========================  ==================================================

The core declares the columns (`crates/namespace/src/index/schema.rs`); names, order, types and
nullability are read from it. Nullable columns have a question mark; Polars writes all columns as
optional, but the others have no nulls. Times out of range (after 2262) are clamped, as in the scan.

A shard is bounded in rows and bytes, sorted by path, and renamed when complete.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from trimtab.base.error import UnreadableError, visible
from trimtab.base.trusted_file import synchronise
from trimtab.purge.index.manifest import Lack, Shard

_FID_TEXT: Final = r"\A\[?0x([0-9a-fA-F]{1,16}):0x([0-9a-fA-F]{1,8}):0x([0-9a-fA-F]{1,8})\]?\z"


def of_inodes(inodes: pl.Series) -> pl.Series:
    """Return the identities of inode numbers, big-endian in the last 8 of 16 bytes; null for null.

    Parameters
    ----------
    inodes
        UInt64.
    """
    ids = of_halves(0, inodes.fill_null(0).to_numpy()).alias(inodes.name)
    if not inodes.null_count():
        return ids
    return pl.select(pl.when(inodes.is_not_null()).then(ids)).to_series().alias(inodes.name)


def of_halves(upper: int, lower: npt.NDArray[np.uint64]) -> pl.Series:
    """Return 16-byte big-endian numbers with the same upper half."""
    pairs = np.empty((len(lower), 2), dtype=">u8")
    pairs[:, 0] = upper
    pairs[:, 1] = lower
    # Columnar: one Python object per value takes twenty times as long.
    octets = pl.Series("id", pairs.view(np.uint8), dtype=pl.Array(pl.UInt8, 16))
    return octets.cast(pl.List(pl.UInt8)).cast(pl.Binary)


def of_fids(texts: pl.Series) -> pl.Series:
    """Return the identities of FIDs in text form; null for other text."""
    parts = texts.alias("fid").str.extract_groups(_FID_TEXT).struct.unnest()
    digits = pl.concat_str(
        *(pl.col(part).str.zfill(width) for part, width in zip("123", (16, 8, 8), strict=True))
    )
    known = ~pl.col("1").str.contains(r"\A0+\z")
    ids = pl.when(known).then(digits).str.decode("hex", strict=False)
    return parts.select(ids.alias(texts.name)).to_series()


def shown(identity: bytes, kind: str) -> str:
    r"""Return an identity as text: ``12345`` or ``[0x200000402:0x158:0x0]``.

    Examples
    --------
    >>> shown(bytes(14) + b"\x01\x00", "inode")
    '256'
    """
    if kind != "fid":
        return str(int.from_bytes(identity, "big"))
    sequence, number, version = identity[:8], identity[8:12], identity[12:]
    return (
        "["
        + ":".join(hex(int.from_bytes(part, "big")) for part in (sequence, number, version))
        + "]"
    )


TIMES: Final = ("atime_ns", "mtime_ns", "ctime_ns")
"""Times that may determine an age, in the order of the rules."""

NO_GROUP: Final = 2**32 - 1
"""``(gid_t)-1``, which no file can have: used if a source lacks the group."""

_NO_IDENTITY_UPPER: Final = 2**63
"""Upper half of an unknown identity: no inode number has one, and no FID has such a sequence."""


def columns() -> Mapping[str, pl.DataType | type[pl.DataType]]:
    """Return the Polars type of each column, in the order of the shards."""
    from trimtab._core import INDEX_COLUMNS

    kinds = {
        "binary": pl.Binary,
        "string": pl.String,
        "uint32": pl.UInt32,
        "uint64": pl.UInt64,
        "int64": pl.Int64,
        "list[uint32]": pl.List(pl.UInt32),
    }
    return {name: kinds[kind] for name, kind, _ in INDEX_COLUMNS}


def required() -> tuple[str, ...]:
    """Return the columns without nulls."""
    from trimtab._core import INDEX_COLUMNS

    return tuple(name for name, _, nullable in INDEX_COLUMNS if not nullable)


def lacking_of(names: set[str]) -> frozenset[Lack]:
    """Return the data that a source with these columns lacks."""
    lacks = {
        "id": Lack.IDENTITY,
        "device": Lack.DEVICE,
        "nlink": Lack.LINKS,
        "allocated_bytes": Lack.BLOCKS,
        "type": Lack.TYPE,
        "atime_ns": Lack.ACCESS,
        "mtime_ns": Lack.MODIFICATION,
        "ctime_ns": Lack.CHANGE,
        "btime_ns": Lack.BIRTH,
        "project": Lack.PROJECT,
        "stripe_count": Lack.LAYOUT,
        "pool": Lack.POOL,
        "gid": Lack.GROUP,
    }
    return frozenset(lack for name, lack in lacks.items() if name not in names)


def completed(frame: pl.DataFrame, first: int = 0) -> pl.DataFrame:
    """Return a frame with all columns, from one that may lack some.

    Parameters
    ----------
    frame
        ``parent``, ``name``, ``uid``, ``size_bytes`` and any others except ``last_use_s``, in their
        types.
    first
        Number of its first row in the index.

    Notes
    -----
    `trimtab.purge.index.manifest.Lack` lists the stand-ins for missing columns.
    """
    stand_ins: dict[str, pl.Expr] = {
        "id_kind": pl.lit("inode"),
        "device": pl.lit(0),
        "gid": pl.lit(NO_GROUP),
        "allocated_bytes": pl.col("size_bytes"),
        "nlink": pl.lit(1),
        "type": pl.lit("f"),
    }
    kinds = {name: kind for name, kind in columns().items() if name != "last_use_s"}
    present = set(frame.columns)
    if "id" not in frame.columns:
        frame = frame.with_columns(_no_identities(first, frame.height))
        present.add("id")
    whole = frame.select(
        pl.col(name)
        if name in present
        else stand_ins.get(name, pl.lit(None)).cast(kind).alias(name)
        for name, kind in kinds.items()
    )
    return whole.with_columns(last_use_s=last_use_s())


def _no_identities(first: int, many: int) -> pl.Series:
    """Return stand-ins for unknown identities, distinct for each row.

    With a common one, all files with several names would pass for one file.
    """
    return of_halves(_NO_IDENTITY_UPPER, np.arange(first, first + many, dtype=np.uint64))


def last_use_s() -> pl.Expr:
    """Return the latest of the three times in whole seconds, rounded down; null if any is null."""
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in TIMES)
    latest_ns = pl.max_horizontal(TIMES)
    return pl.when(known).then(latest_ns.floordiv(10**9))


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
    rows = 0
    for frame in frames:
        writer.add(completed(frame, rows))
        rows += frame.height
    return writer.finish()
