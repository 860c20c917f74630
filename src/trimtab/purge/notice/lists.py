"""Candidates as the lines of lists, user by user: pure, frames in, bytes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trimtab.purge.plan.names import escape
from trimtab.units import format_bytes

if TYPE_CHECKING:
    import polars as pl

COLUMNS: Final = ("parent", "name", "id", "uid", "size_bytes", "allocated_bytes", "last_use_s")
_LISTED: Final = {True: "before", False: "new", None: "-"}


@dataclass(frozen=True, slots=True)
class Lines:
    """Some candidates of one user, in the order of the plan, in each of three forms.

    Attributes
    ----------
    uid
        Whose.
    files, new_files
        How many, and how many that no list named before (0 where there was none).
    text
        Lines for people.
    lines
        JSON lines.
    names
        Absolute paths as they are, each ended by a NUL.
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
        ``last_use_s``, and ``known`` (Boolean; null where there was no list before).
    prefix
        The root with a slash at its end.
    """
    ordered = piece.sort("uid", maintain_order=True)
    paths = _paths(ordered, prefix)
    shown = [escape(path) for path in paths]
    text = _text(ordered, shown)
    encoded = _json(ordered, paths, shown)
    known = ordered["known"].to_list()
    start = 0
    for uid, count in _runs(ordered["uid"]):
        part = slice(start, start + count)
        start += count
        yield Lines(
            uid=uid,
            files=count,
            new_files=known[part].count(False),
            text="".join(text[part]).encode("utf-8"),
            lines=("\n".join(encoded[part]) + "\n").encode("utf-8"),
            names=b"\0".join(paths[part]) + b"\0",
        )


def _paths(frame: pl.DataFrame, prefix: bytes) -> list[bytes]:
    pairs = zip(frame["parent"].to_list(), frame["name"].to_list(), strict=True)
    return [
        b"%b%b/%b" % (prefix, parent, name) if parent else prefix + name for parent, name in pairs
    ]


def _text(frame: pl.DataFrame, shown: list[str]) -> list[str]:
    rows = zip(
        _days(frame), frame["size_bytes"].to_list(), frame["known"].to_list(), shown, strict=True
    )
    return [
        f"{day}  {format_bytes(size):>8}  {_LISTED[known]:6}  {path}\n"
        for day, size, known, path in rows
    ]


def _json(frame: pl.DataFrame, paths: list[bytes], shown: list[str]) -> list[str]:
    """Return one JSON object a row; ``path_base64`` stands only where ``path`` is not the bytes."""
    import base64

    import polars as pl

    exact = [
        None if text.encode() == path else base64.b64encode(path).decode()
        for path, text in zip(paths, shown, strict=True)
    ]
    fields = frame.select(
        path=pl.Series(shown, dtype=pl.String),
        path_base64=pl.Series(exact, dtype=pl.String),
        size_bytes="size_bytes",
        allocated_bytes="allocated_bytes",
        last_use_s="last_use_s",
        last_use=pl.from_epoch("last_use_s", time_unit="s").dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        listed_before="known",
    )
    return fields.select(pl.struct(pl.all()).struct.json_encode()).to_series().to_list()


def _days(frame: pl.DataFrame) -> list[str]:
    import polars as pl

    days = pl.from_epoch("last_use_s", time_unit="s").dt.strftime("%Y-%m-%d")
    return frame.select(days).to_series().to_list()


def _runs(uids: pl.Series) -> Iterator[tuple[int, int]]:
    """Yield each number of a sorted column with how often it stands there."""
    runs = uids.rle().struct.unnest()
    yield from zip(runs["value"].to_list(), runs["len"].to_list(), strict=True)
