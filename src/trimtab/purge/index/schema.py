"""The columns of an index, and frames with them.

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
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from trimtab.purge.index.identity import of_halves
from trimtab.purge.index.manifest import Lack

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
