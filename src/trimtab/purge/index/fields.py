"""Convert text and other external values to exact columns: no value is rounded, wrapped or guessed.

Each function takes a column and returns one, with null for malformed text; such records are
rejected (`trimtab.purge.index.reading`). They work in steps, a column at a time, because one large
expression would compute its parts repeatedly.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from typing import Final

import polars as pl

NS_PER_S: Final = 10**9
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
_SECONDS_MAX: Final = INT64_MAX // NS_PER_S
"""9,223,372,036 s, in the year 2262: later times exceed 64 bits of nanoseconds."""


def text_of(name: str, values: pl.Series | Sequence[bytes | None]) -> pl.Series:
    """Return bytes as text; null if not UTF-8."""
    series = pl.Series(name, values, dtype=pl.Binary)
    try:
        return series.cast(pl.String)
    except pl.exceptions.ComputeError:  # some value is not UTF-8: rare, so check each
        return pl.Series(name, [_decoded(value) for value in values], dtype=pl.String)


def names_of(name: str, values: Sequence[bytes | None]) -> pl.Series:
    """Return names as bytes; null if empty."""
    return pl.Series(name, [value or None for value in values], dtype=pl.Binary)


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def whole(text: pl.Series, kind: type[pl.DataType]) -> pl.Series:
    """Return decimal digits as an unsigned number; null for anything else or on overflow.

    Parameters
    ----------
    text
        Digits, or integers.
    """
    return _digits(text, kind, ("+", "-"))


def signed(text: pl.Series) -> pl.Series:
    """Return decimal digits with an optional ``-`` as Int64; null for anything else.

    Parameters
    ----------
    text
        Digits, or integers.
    """
    return _digits(text, pl.Int64, ("+",))


def _digits(text: pl.Series, kind: type[pl.DataType], but: Sequence[str]) -> pl.Series:
    """Return integers, from text that Polars accepts as one without any of the signs ``but``."""
    if text.dtype.is_integer():
        return text.cast(kind, strict=False)
    column = pl.col(text.name)
    # Besides digits Polars accepts only a sign: tests check this digit by digit.
    odd = pl.any_horizontal(column.str.starts_with(sign) for sign in but)
    return text.to_frame().select(pl.when(~odd).then(column).cast(kind, strict=False)).to_series()


def multiples(text: pl.Series, unit_bytes: int) -> pl.Series:
    """Return a number of units as bytes; null if not a number, or on overflow."""
    number = whole(text, pl.UInt64)
    column = pl.col(text.name)
    fits = column <= (2**64 - 1) // unit_bytes
    return number.to_frame().select(pl.when(fits).then(column) * unit_bytes).to_series()


def seconds(text: pl.Series) -> pl.Series:
    """Return seconds since 1970 with up to nine decimals as nanoseconds.

    Further decimals must be zeros (GNU find prints ten). Times out of range are clamped.

    Parameters
    ----------
    text
        Digits, or integers.
    """
    col = pl.col
    if text.dtype.is_integer() or not text.str.contains(".", literal=True).any():
        whole_s = signed(text)  # faster by a half
        return nanoseconds(whole_s, pl.zeros(len(whole_s), dtype=pl.Int64, eager=True))
    parts = text.alias("text").to_frame().select(
        negative=col("text").str.starts_with("-"),
        odd=col("text").str.starts_with("+"),
        parts=col("text").str.splitn(".", 2).struct.rename_fields(["whole", "places"]),
    ).unnest("parts")  # fmt: skip
    numbers = parts.select(
        "negative",
        whole_s=pl.when(~col("odd")).then("whole").cast(pl.Int64, strict=False),
        nine=col("places").str.head(9).str.pad_end(9, "0"),
        finer=col("places").str.slice(9).str.contains(r"[^0]").fill_null(value=False),
        digits=col("places").str.contains(r"\A[0-9]").fill_null(value=True),
    ).select(
        "negative",
        "whole_s",
        rest_ns=col("nine").fill_null("0").cast(pl.UInt64, strict=False).cast(pl.Int64),
        plain=col("digits") & ~col("finer"),
    )
    rest_ns = pl.when("negative").then(-col("rest_ns")).otherwise("rest_ns")
    both = numbers.select("whole_s", rest_ns=pl.when("plain").then(rest_ns))
    return nanoseconds(both["whole_s"], both["rest_ns"]).alias(text.name)


def nanoseconds(whole_s: pl.Series, rest_ns: pl.Series) -> pl.Series:
    """Return seconds and nanoseconds, both Int64, as nanoseconds; out of range values are clamped.

    Parameters
    ----------
    rest_ns
        Between -999,999,999 and 999,999,999.
    """
    col = pl.col
    frame = pl.DataFrame({"s": whole_s, "rest_ns": rest_ns}).select(
        "s",
        "rest_ns",
        near_ns=col("s").clip(-_SECONDS_MAX, _SECONDS_MAX) * NS_PER_S,
    )
    # Neither margin overflows, and one of them always spans the full 64 bits.
    above_ns = INT64_MAX - col("near_ns").clip(lower_bound=0)
    below_ns = INT64_MIN - col("near_ns").clip(upper_bound=0)
    fitting_ns = pl.max_horizontal(pl.min_horizontal("rest_ns", above_ns), below_ns)
    known = col("s").is_not_null() & col("rest_ns").is_not_null()
    value = (
        pl.when(~known)
        .then(None)
        .when(col("s") > _SECONDS_MAX)
        .then(pl.lit(INT64_MAX, pl.Int64))
        .when(col("s") < -_SECONDS_MAX)
        .then(pl.lit(INT64_MIN, pl.Int64))
        .otherwise(col("near_ns") + fitting_ns)
    )
    return frame.select(value.alias(whole_s.name)).to_series()


def birth(value_ns: pl.Series) -> pl.Series:
    """Return a birth time; null for 0, which tools print for an unknown one.

    No file system with birth times is as old as 1970.
    """
    column = pl.col(value_ns.name)
    return value_ns.to_frame().select(pl.when(column != 0).then(column)).to_series()


def indices(text: pl.Series) -> pl.Series:
    """Return all numbers in a text, in order; null if there is none or one is too large."""
    col = pl.col("all")
    numbers = text.str.extract_all("[0-9]+").cast(pl.List(pl.UInt32), strict=False).alias("all")
    known = (col.list.len() > 0) & ~col.list.eval(pl.element().is_null()).list.any()
    return numbers.to_frame().select(pl.when(known).then(col).alias(text.name)).to_series()


def type_of_mode(mode: pl.Series) -> pl.Series:
    """Return the type letter for ``st_mode``; ``?`` if it has no known type.

    Parameters
    ----------
    mode
        Unsigned integers.
    """
    letters = {
        stat.S_IFREG: "f",
        stat.S_IFDIR: "d",
        stat.S_IFLNK: "l",
        stat.S_IFIFO: "p",
        stat.S_IFSOCK: "s",
        stat.S_IFBLK: "b",
        stat.S_IFCHR: "c",
    }
    kind = (mode.cast(pl.UInt64) // 0o10000 % 0o20 * 0o10000).cast(pl.Int64)
    letter = kind.replace_strict(
        list(letters), list(letters.values()), default="?", return_dtype=pl.String
    )
    known = pl.when(mode.is_not_null()).then(letter)
    return pl.select(known.alias(mode.name)).to_series()
