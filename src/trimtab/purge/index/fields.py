"""Text and other outside values to exact columns: no value is ever rounded, wrapped or guessed.

Each function takes a column and returns one; its value is null where the text is not what it should
be, and the record is refused then (`trimtab.purge.index.reading`). They work in steps, a column at
a time: one large expression would work out its parts again and again.
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
"""9,223,372,036 s, in the year 2262: later times do not fit into 64 bits of nanoseconds."""


def text_of(name: str, values: pl.Series | Sequence[bytes | None]) -> pl.Series:
    """Return bytes as text; null for what is no UTF-8."""
    series = pl.Series(name, values, dtype=pl.Binary)
    try:
        return series.cast(pl.String)
    except pl.exceptions.ComputeError:  # something in it is no UTF-8: rare, and looked for
        return pl.Series(name, [_decoded(value) for value in values], dtype=pl.String)


def names_of(name: str, values: Sequence[bytes | None]) -> pl.Series:
    """Return names as the bytes that they are; null where there is none."""
    return pl.Series(name, [value or None for value in values], dtype=pl.Binary)


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def whole(text: pl.Series, kind: type[pl.DataType]) -> pl.Series:
    """Return decimal digits as an unsigned number; null for anything else and what does not fit.

    Parameters
    ----------
    text
        Or whole numbers.
    """
    return _digits(text, kind, ("+", "-"))


def signed(text: pl.Series) -> pl.Series:
    """Return decimal digits, with ``-`` before them or not, as Int64; null for anything else.

    Parameters
    ----------
    text
        Or whole numbers.
    """
    return _digits(text, pl.Int64, ("+",))


def _digits(text: pl.Series, kind: type[pl.DataType], but: Sequence[str]) -> pl.Series:
    """Return whole numbers, or text that Polars takes for one and that begins with no such sign."""
    if text.dtype.is_integer():
        return text.cast(kind, strict=False)
    column = pl.col(text.name)
    # What Polars takes beside digits is a sign: checked against digit by digit in the tests.
    odd = pl.any_horizontal(column.str.starts_with(sign) for sign in but)
    return text.to_frame().select(pl.when(~odd).then(column).cast(kind, strict=False)).to_series()


def multiples(text: pl.Series, unit_bytes: int) -> pl.Series:
    """Return a number of units as bytes; null where that is no number or too many."""
    number = whole(text, pl.UInt64)
    column = pl.col(text.name)
    fits = column <= (2**64 - 1) // unit_bytes
    return number.to_frame().select(pl.when(fits).then(column) * unit_bytes).to_series()


def seconds(text: pl.Series) -> pl.Series:
    """Return seconds since 1970 with up to nine places as whole nanoseconds.

    Further places have to be zeros (GNU find prints ten). A time that does not fit is the last that
    does.

    Parameters
    ----------
    text
        Or whole numbers.
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
    """Return seconds and nanoseconds, both Int64, as nanoseconds; what does not fit is the last.

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
    # Both rooms are computed without overflow, and one of them is all of 64 bits.
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
    """Return a birth time; null where it is 0: so it is printed where it is not known.

    No file system that tells it is as old as 1970.
    """
    column = pl.col(value_ns.name)
    return value_ns.to_frame().select(pl.when(column != 0).then(column)).to_series()


def indices(text: pl.Series) -> pl.Series:
    """Return all numbers in a text, in order; null where there is none, or one is too large."""
    col = pl.col("all")
    numbers = text.str.extract_all("[0-9]+").cast(pl.List(pl.UInt32), strict=False).alias("all")
    known = (col.list.len() > 0) & ~col.list.eval(pl.element().is_null()).list.any()
    return numbers.to_frame().select(pl.when(known).then(col).alias(text.name)).to_series()


def type_of_mode(mode: pl.Series) -> pl.Series:
    """Return the letter of the type that ``st_mode`` tells; ``?`` where it tells none.

    Parameters
    ----------
    mode
        Whole numbers without a sign.
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
