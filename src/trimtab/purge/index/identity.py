"""The 16 bytes that identify an object whatever its names: an inode number or a Lustre FID."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

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
