"""Text and other outside values to exact columns: no value is ever rounded, wrapped or guessed.

Each function returns an expression over a column; its value is null where the text is not what it
should be, and the record is refused then (`trimtab.purge.index.records`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    import polars as pl

NS_PER_S: Final = 10**9
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
_SECONDS_MAX: Final = INT64_MAX // NS_PER_S
"""9,223,372,036 s, in the year 2262: later times do not fit into 64 bits of nanoseconds."""

Fraction = Literal["decimal", "timespec"]
"""What ``-2.5`` means: two and a half seconds before 1970, or ``-2 + 0.5`` seconds (GNU find, which
prints ``tv_sec`` and ``tv_nsec`` of a negative time side by side)."""


def whole(text: pl.Expr, kind: type[pl.DataType]) -> pl.Expr:
    """Return decimal digits as an unsigned number; null for anything else and what does not fit."""
    import polars as pl

    plain = text.str.contains(r"\A[0-9]{1,20}\z")
    return pl.when(plain).then(text).cast(kind, strict=False)


def blocks(text: pl.Expr) -> pl.Expr:
    """Return a number of blocks of 512 bytes as bytes; null where that is no number or too many."""
    import polars as pl

    number = whole(text, pl.UInt64)
    return pl.when(number <= (2**64 - 1) // 512).then(number) * 512


def seconds(text: pl.Expr, fraction: Fraction = "decimal") -> pl.Expr:
    """Return seconds since 1970 with up to nine places as whole nanoseconds.

    Further places have to be zeros (GNU find prints ten). A time that does not fit is the last that
    does.
    """
    import polars as pl

    plain = text.str.contains(r"\A-?[0-9]{1,18}(\.[0-9]{1,9}0*)?\z")
    text = pl.when(plain).then(text)
    parts = text.str.split_exact(".", 1)
    whole_s = parts.struct.field("field_0").cast(pl.Int64, strict=False)
    places = parts.struct.field("field_1").fill_null("0").str.head(9).str.pad_end(9, "0")
    rest_ns = places.cast(pl.Int64, strict=False)
    if fraction == "decimal":
        negative = text.str.starts_with("-")
        rest_ns = pl.when(negative).then(-rest_ns).otherwise(rest_ns)
    return nanoseconds(whole_s, rest_ns)


def nanoseconds(whole_s: pl.Expr, rest_ns: pl.Expr) -> pl.Expr:
    """Return seconds and nanoseconds, both Int64, as nanoseconds; what does not fit is the last.

    Parameters
    ----------
    rest_ns
        Between -999,999,999 and 999,999,999.
    """
    import polars as pl

    near_ns = whole_s.clip(-_SECONDS_MAX, _SECONDS_MAX) * NS_PER_S
    # Both rooms are computed without overflow, and one of them is 0 or more.
    above_ns = INT64_MAX - near_ns.clip(lower_bound=0)
    below_ns = INT64_MIN - near_ns.clip(upper_bound=0)
    sum_ns = near_ns + pl.max_horizontal(pl.min_horizontal(rest_ns, above_ns), below_ns)
    known = whole_s.is_not_null() & rest_ns.is_not_null()
    return (
        pl.when(known & (whole_s > _SECONDS_MAX))
        .then(pl.lit(INT64_MAX, pl.Int64))
        .when(known & (whole_s < -_SECONDS_MAX))
        .then(pl.lit(INT64_MIN, pl.Int64))
        .when(known)
        .then(sum_ns)
    )


def birth(nanoseconds_: pl.Expr) -> pl.Expr:
    """Return a birth time; null where it is 0: so it is printed where it is not known.

    No file system that tells it is as old as 1970.
    """
    import polars as pl

    return pl.when(nanoseconds_ != 0).then(nanoseconds_)
