"""Format candidates as list lines, user by user. Pure, frames in, bytes out."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trimtab.purge.plan.names import escape
from trimtab.units import format_bytes

if TYPE_CHECKING:
    import polars as pl

COLUMNS: Final = ("parent", "name", "id", "uid", "size_bytes", "allocated_bytes", "last_use_s")
DIRECTORY_DEPTH: Final = 2
"""Components beneath the root by which files are counted: a user's directory and its entries."""
_BEFORE, _NEW, _UNKNOWN = "before", "new   ", "-     "
_NOT_PLAIN: Final = r"[^ -\[\]-~]|\A | \z"
"""The complement of `trimtab.purge.plan.names.PLAIN`, in Polars' syntax."""
_SCALE: Final = 1024.0 * 0.9995
_POWER_MAX: Final = 6
"""As in `format_bytes`: the largest unit, EiB; `_SCALE` is where the next unit begins."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Some candidates of one user, in plan order, in three formats.

    Attributes
    ----------
    uid
        Their owner.
    files, new_files
        Number of files, and of those in no previous list (0 if there was none).
    text
        Human-readable lines.
    lines
        JSON lines.
    names
        Absolute paths in bytes, NUL-terminated.
    """

    uid: int
    files: int
    new_files: int
    text: bytes
    lines: bytes
    names: bytes


def lines_of(piece: pl.DataFrame, prefix: bytes) -> Iterator[Lines]:
    """Yield the lines of each user in a piece of the candidates.

    Parameters
    ----------
    piece
        Columns ``parent``, ``name`` (bytes), ``uid``, ``size_bytes``, ``allocated_bytes``,
        ``last_use_s``, and ``known`` (Boolean; null without a previous list).
    prefix
        The root with a trailing slash.
    """
    import polars as pl

    lines = _with_lines(piece, prefix)
    by_user = lines.group_by("uid", maintain_order=True).agg(
        pl.len(),
        (~pl.col("known")).sum().alias("new"),
        pl.col("text").str.join("\n"),
        pl.col("line").str.join("\n"),
        pl.col("path"),
    )
    for uid, files, new, text, line, paths in by_user.iter_rows():
        yield Lines(
            uid=uid,
            files=files,
            new_files=new,
            text=f"{text}\n".encode(),
            lines=f"{line}\n".encode(),
            names=b"\0".join(paths) + b"\0",
        )


def counts_of(piece: pl.DataFrame) -> pl.DataFrame:
    """Return the totals of each user and directory in a piece of the candidates.

    Parameters
    ----------
    piece
        As for `lines_of`.

    Returns
    -------
    polars.DataFrame
        ``uid``, ``directory`` (bytes, `DIRECTORY_DEPTH` components beneath the root), ``files``,
        ``new_files``, ``size_bytes``, ``allocated_bytes``, ``oldest_use_s``, ``newest_use_s``.
    """
    import polars as pl

    parents = piece["parent"].unique()
    tops = [b"/".join(parent.split(b"/")[:DIRECTORY_DEPTH]) for parent in parents.to_list()]
    directories = pl.DataFrame([parents, pl.Series("directory", tops, dtype=pl.Binary)])
    rows = piece.join(directories, on="parent", how="left").with_columns(
        files=pl.lit(1, pl.Int64),
        new_files=(~pl.col("known")).fill_null(value=False).cast(pl.Int64),
        oldest_use_s="last_use_s",
        newest_use_s="last_use_s",
    )
    return added_counts([rows])


def added_counts(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the sum of several `counts_of`, by user and directory."""
    import polars as pl

    sums = ("files", "new_files", "size_bytes", "allocated_bytes")
    return (
        pl.concat(frames)
        .group_by("uid", "directory")
        .agg(
            *(pl.col(name).cast(pl.Int128).sum() for name in sums),
            pl.min("oldest_use_s"),
            pl.max("newest_use_s"),
        )
        .sort("uid", "directory")
    )


def count_lines(uid: int, counts: pl.DataFrame, prefix: bytes) -> Lines:
    """Return the lines of a user whose files are counted by directory, without names.

    Parameters
    ----------
    counts
        Rows of `added_counts`, of this user.
    prefix
        The root with a trailing slash.
    """
    text, lines = [], []
    for row in counts.iter_rows(named=True):
        path = (prefix + row["directory"]).rstrip(b"/") or b"/"
        oldest, newest = (
            datetime.fromtimestamp(row[name], UTC) for name in ("oldest_use_s", "newest_use_s")
        )
        size = format_bytes(int(row["allocated_bytes"]))
        text.append(
            f"{oldest:%Y-%m-%d}  {row['files']:>10,}  {size:>8}  {row['new_files']:>12,}  "
            f"{escape(path)}\n"
        )
        values = {
            "directory": escape(path),
            "directory_base64": b64encode(path).decode() if escape(path).encode() != path else None,
            "files": int(row["files"]),
            "new_files": int(row["new_files"]),
            "size_bytes": int(row["size_bytes"]),
            "allocated_bytes": int(row["allocated_bytes"]),
            "oldest_use": f"{oldest:%Y-%m-%dT%H:%M:%SZ}",
            "newest_use": f"{newest:%Y-%m-%dT%H:%M:%SZ}",
        }
        lines.append(json.dumps(values) + "\n")
    return Lines(
        uid=uid,
        files=int(counts["files"].sum()),
        new_files=int(counts["new_files"].sum()),
        text="".join(text).encode(),
        lines="".join(lines).encode(),
        names=b"",
    )


def shown(paths: pl.Series) -> pl.Series:
    """Return `escape` of every path; most need no escaping, which is checked for all at once."""
    import polars as pl

    try:
        text = paths.cast(pl.String)
    except pl.exceptions.PolarsError:  # one of them is not UTF-8
        return pl.Series(paths.name, [escape(path) for path in paths.to_list()], dtype=pl.String)
    odd = text.str.contains(_NOT_PLAIN).arg_true()
    if len(odd):
        text = text.scatter(odd, [escape(path) for path in paths.gather(odd).to_list()])
    return text


def size_texts(sizes: pl.Series) -> pl.Series:
    """Return `format_bytes` of every size; three digits leave few texts, each formatted once."""
    import numpy as np
    import polars as pl

    value = sizes.to_numpy().astype(np.float64)
    power = np.zeros(len(value), np.int64)
    for _ in range(_POWER_MAX):
        large = value >= _SCALE
        value[large] /= 1024.0
        power[large] += 1
    digits = np.where(power == 0, 0, np.where(value < 9.995, 2, np.where(value < 99.95, 1, 0)))
    scaled = value * 10.0**digits
    # Close to a tie the product may round the wrong way: format these individually.
    tied = np.flatnonzero(np.abs(scaled - np.floor(scaled) - 0.5) < 1e-6)
    figures = np.rint(scaled).astype(np.int64)
    codes = (figures * (_POWER_MAX + 1) + power) * 3 + digits
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    made = [format_bytes(int(sizes[int(place_of)])) for place_of in first]
    texts = pl.Series(made, dtype=pl.String).gather(place)
    if len(tied):
        exact = [format_bytes(int(sizes[int(place_of)])) for place_of in tied]
        texts = texts.scatter(tied, exact)
    return texts


def _with_lines(piece: pl.DataFrame, prefix: bytes) -> pl.DataFrame:
    """Return the rows with ``path`` (bytes), ``text`` (human-readable) and ``line`` (JSON)."""
    import polars as pl

    slash = pl.when(pl.col("parent").bin.size() == 0).then(pl.lit(b"")).otherwise(pl.lit(b"/"))
    rows = piece.with_columns(path=pl.lit(prefix) + pl.col("parent") + slash + pl.col("name"))
    rows = rows.with_columns(shown=shown(rows["path"]), size=size_texts(rows["size_bytes"]))
    used = pl.from_epoch("last_use_s", time_unit="s")
    listed = pl.when("known").then(pl.lit(_BEFORE)).otherwise(pl.lit(_NEW))
    escaped = pl.col("shown").cast(pl.Binary) != pl.col("path")
    fields = pl.struct(
        path="shown",
        path_base64=pl.when(escaped).then(pl.col("path").bin.encode("base64")),
        size_bytes="size_bytes",
        allocated_bytes="allocated_bytes",
        last_use_s="last_use_s",
        last_use=used.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        listed_before="known",
    )
    return rows.select(
        "uid",
        "known",
        "path",
        text=pl.concat_str(
            used.dt.strftime("%Y-%m-%d  "),
            pl.col("size").str.pad_start(8),
            pl.lit("  "),
            pl.when(pl.col("known").is_null()).then(pl.lit(_UNKNOWN)).otherwise(listed),
            pl.lit("  "),
            "shown",
        ),
        line=fields.struct.json_encode(),
    )
