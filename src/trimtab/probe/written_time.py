"""Reads times as people write them: one table of forms, column by column.

A form is a pattern with the directives of ``strptime`` for its fields. A column is read as a whole
and decides what a cell cannot: whether 01/08 is in August. What the column leaves open is never
guessed: the user must say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from trimtab.base.error import DataError, UsageError, visible

if TYPE_CHECKING:
    import polars as pl

_MONTHS: Final = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DAYS: Final = "mon|tue|wed|thu|fri|sat|sun"
_FIELDS: Final = {
    "Y": r"(?P<Y>[0-9]{4})",
    "y": r"(?P<y>[0-9]{2})",
    "m": r"(?P<m>[0-9]{1,2})",
    "d": r"(?P<d>[0-9]{1,2})",
    "b": rf"(?P<b>(?i:{_MONTHS})[a-z]*)",
    "a": rf"(?i:{_DAYS})[a-z]*",
    "H": r"(?P<H>[0-9]{1,2})",
    "I": r"(?P<H>[0-9]{1,2})",
    "M": r"(?P<M>[0-9]{1,2})",
    "S": r"(?P<S>[0-9]{1,2})",
    "f": r"(?P<f>[0-9]{1,9})",
    "p": r"(?P<p>[AaPp])\.?[Mm]\.?",
    "z": r"(?P<z>(?:UTC|GMT)?[+-][0-9]{1,2}(?::?[0-9]{2})?|[A-Z]{2,5}|(?i:Z|UTC|GMT))"
    r"(?: \(?[A-Z]{3,5}\)?)?",
    "s": r"(?P<s>[0-9]{9,19})",
}
"""Pattern of each directive of ``strptime``; its groups are named for the computation."""
_SAME: Final = {"B": "b", "A": "a", "Z": "z", "e": "d"}
_WHOLE: Final = {"T": "%H:%M:%S", "R": "%H:%M", "F": "%Y-%m-%d", "D": "%m/%d/%y"}
_CLOCK: Final = r"%H:%M(?::%S(?:[.,]%f)?)?(?: *%p)?"
_GAP: Final = r"(?:T|,? +|[_-])"
_ZONE: Final = r"(?: *%z)?"


@dataclass(frozen=True, slots=True)
class TimeForm:
    """A way to write times.

    Attributes
    ----------
    name
        Name in the documentation.
    pattern
        A regular expression with directives of ``strptime``.
    examples
        Cells in this form; those with a time of day mean 2026-08-01 06:00.
    is_number
        The cells may be any large numbers: the name of their column must say that they are times.
    """

    name: str
    pattern: str
    examples: tuple[str, ...]
    is_number: bool = False


DAY_FIRST: Final = TimeForm(
    "day first",
    rf"%d[-/.]%m[-/.]%Y(?:{_GAP}{_CLOCK})?{_ZONE}",
    ("01.08.2026 06:00", "01.08.2026"),
)
MONTH_FIRST: Final = TimeForm(
    "month first",
    rf"%m[-/.]%d[-/.]%Y(?:{_GAP}{_CLOCK})?{_ZONE}",
    ("08/13/2026 06:00 AM",),
)
EPOCH: Final = TimeForm(
    "since 1970 in s, ms, us or ns",
    r"%s(?:[.,]%f)?",
    ("1785564000", "1785564000.25", "1785564000000", "1785564000000000", "1785564000000000000"),
    is_number=True,
)
FORMS: Final = (
    TimeForm(
        "ISO 8601, year first",
        rf"%Y[-/.]%m[-/.]%d(?:{_GAP}{_CLOCK})?{_ZONE}",
        (
            "2026-08-01T06:00:00Z",
            "2026-08-01 06:00:00.000000000 UTC",
            "2026-08-01 08:00+02:00",
            "2026.08.01 7:00:00 +0100",
            "2026/08/01 06:00",
            "2026-08-01",
        ),
    ),
    TimeForm(
        "stamps in names of files",
        rf"%Y[-_.]%m[-_.]%d[T _-]%H[-_.]%M(?:[-_.]%S)?{_ZONE}",
        ("2026.08.01-06.00.00", "2026-08-01_06-00-00"),
    ),
    TimeForm(
        "compact",
        rf"%Y%m%d[T _-]?%H%M(?:%S(?:[.,]?%f)?)?{_ZONE}",
        ("20260801060000", "202608010600", "20260801T060000Z", "20260801-0600"),
    ),
    TimeForm(
        "compact date, time of day",
        rf"%Y%m%d{_GAP}%H[-_.:]%M(?:[-_.:]%S(?:[.,]%f)?)?(?: *%p)?{_ZONE}",
        ("20260801 06:00", "20260801_06-00-00"),
    ),
    TimeForm("compact date", "%Y%m%d", ("20260801",), is_number=True),
    TimeForm(
        "ctime and date",
        rf"(?:%a,? +)?%b\.? +%d,? +{_CLOCK}{_ZONE} +%Y",
        ("Sat Aug  1 06:00:00 2026", "Sat Aug  1 06:00:00 AM UTC 2026"),
    ),
    TimeForm(
        "month by name, first",
        rf"(?:%a,? +)?%b\.? +%d,? +%Y(?:,? +(?:at +)?{_CLOCK})?{_ZONE}",
        ("Aug 1, 2026, 6:00:00 AM", "August 1, 2026"),
    ),
    TimeForm(
        "day first, month by name",
        rf"(?:%a,? +)?%d\.?[-/ ] *%b[-/ .,]+%Y(?:(?:,? +|[:T]){_CLOCK})?{_ZONE}",
        (
            "Sat, 01 Aug 2026 06:00:00 +0000",
            "01/Aug/2026:06:00:00 +0000",
            "Sat 01 Aug 2026 06:00:00 AM UTC",
        ),
    ),
    DAY_FIRST,
    MONTH_FIRST,
    EPOCH,
)
"""All forms. Except for days and months in numbers, no cell matches two of them."""
_CLOCK_FORM: Final = TimeForm("time of day", rf"{_CLOCK}{_ZONE}", ("06:00", "6:00:00 AM"))
_HOUR: Final = "[0-9]{1,2}|[0-9]{4}|[0-9]{6}"
"""A time of day without colons."""

_EPOCHS: Final = ((1, 1_000_000, 1), (1_000, 1_000, 1), (1_000_000, 1, 1), (10**9, 1, 1_000))
"""Units in a second, and the factor and divisor to microseconds."""
_FIRST_S, _LAST_S = 946_684_800, 4_102_444_800
"""The years 2000 to 2099: few job numbers and counts of bytes fall into this range."""
_YEARS: Final = (1970, 2099)
_GREENWICH: Final = ("Z", "UTC", "UT", "GMT")


def is_time(cell: str, *, or_number: bool = False) -> bool:
    """Return whether a cell is written as a time or a time of day.

    Parameters
    ----------
    or_number
        Seconds since 1970 and dates that are plain numbers are times as well.
    """
    forms = (form for form in (*FORMS, _CLOCK_FORM) if or_number or not form.is_number)
    return any(re.fullmatch(_expression(form.pattern), cell.strip()) for form in forms)


def texts_of(column: pl.Series) -> pl.Series:
    """Return a column as text to be read as times, with null where a cell is empty."""
    import polars as pl

    kind = column.dtype
    if isinstance(kind, pl.Datetime):
        suffix = "" if kind.time_zone is None else "Z"
        utc = column if kind.time_zone is None else column.dt.convert_time_zone("UTC")
        return utc.dt.to_string(f"%Y-%m-%dT%H:%M:%S%.6f{suffix}")
    if kind.is_float():  # as digits, not as 1.7856e9
        column = column.cast(pl.Decimal(38, 6), strict=False)
    try:
        text = column.cast(pl.String)
    except pl.exceptions.PolarsError:  # lists and the like are not times
        return pl.Series(column.name, [None] * len(column), dtype=pl.String)
    return text.str.strip_chars().replace("", None)


def joined(texts: Sequence[pl.Series]) -> pl.Series:
    """Return columns of days and of times of day as one of times; null where either is empty."""
    import polars as pl

    frame = pl.DataFrame([text.rename(str(number)) for number, text in enumerate(texts)])
    *days, last = frame.columns
    clock = pl.col(last)
    if len(days) == 1:
        frame = frame.with_columns(pl.col(days).str.replace(r"[T ]00:00(?::00(?:[.]0+)?)?$", ""))
        clock = clock.str.replace("^([0-9]{1,2})$", "${1}:00")
        clock = clock.str.replace("^([0-9]{2})([0-9]{2})$", "${1}:${2}")
        clock = clock.str.replace("^([0-9]{2})([0-9]{2})([0-9]{2})$", "${1}:${2}:${3}")
    return frame.select(pl.concat_str(*days, clock, separator=" ")).to_series()


def read_times(
    text: pl.Series, timezone: str, *, words: str | None = None, decide: bool = True
) -> pl.DataFrame:
    """Return the times of a column: in UTC, and whether a zone was written.

    Parameters
    ----------
    text
        Texts from `texts_of`.
    timezone
        Zone of times without one.
    words
        Form of all cells in directives of ``strptime``; ``None``: any of `FORMS`.
    decide
        False: whether the day or the month comes first does not matter yet.

    Returns
    -------
    polars.DataFrame
        ``at`` (null: no time), ``zoned``, ``is_number`` (a form that other numbers have too).

    Raises
    ------
    UsageError
        The words are not directives of ``strptime``, or they are missing and the form is ambiguous.
    DataError
        Some cells have the day first, and others the month.
    """
    import polars as pl

    pending = pl.DataFrame({"row": pl.int_range(len(text), eager=True), "text": text}).drop_nulls()
    parts = [
        pending.clear().select("row").hstack(_moments(pending["text"].clear(), EPOCH, timezone))
    ]
    forms = FORMS if words is None else (_form_of_words(words),)
    for form in forms:
        if not pending["text"].str.contains(f"^(?:{_expression(form.pattern)})$").any():
            continue
        dated = form
        if form is DAY_FIRST:
            dated = _order_of_days(pending["text"], timezone, decide=decide)
        times = pending.select("row").hstack(_moments(pending["text"], dated, timezone))
        parts.append(times.drop_nulls("at"))
        pending = pending.filter(times["at"].is_null())
        if pending.is_empty():
            break
    rows = pl.DataFrame({"row": pl.int_range(len(text), eager=True)})
    times = rows.join(pl.concat(parts), on="row", how="left", maintain_order="left").drop("row")
    if words is None and decide:
        _require_seconds(text, times, timezone)
    return times


def is_clock(text: pl.Series, *, by_name: bool) -> bool:
    """Return whether a column is times of day: with colons, or digits if its name says so."""
    pattern = f"^(?:{_expression(_CLOCK_FORM.pattern)}{f'|{_HOUR}' if by_name else ''})$"
    known = text.drop_nulls()
    return len(known) > 0 and bool(known.str.contains(pattern).all())


def hint_of(texts: pl.Series) -> str:
    """Return what to do about a column in which no times were read."""
    cells = texts.drop_nulls()
    for word in cells.head(1):
        if re.match(r"[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2}\b", word):
            return "years of two digits: --time-format '%d.%m.%y %H:%M', or as they are written"
        if re.search(r"[0-9] ?[A-Z]{3,5}\b", word):
            return f"{visible(word)!r}: --timezone ZONE says what its abbreviation means"
    return f"write {EXAMPLES}, or give the form: --time-format '%d.%m.%Y %H:%M'"


EXAMPLES: Final = "2026-11-20T20:00:00Z, 2026-11-20 20:00, or seconds since 1970"


@cache
def _expression(pattern: str) -> str:
    """Return a pattern as a regular expression; adjacent numbers must have all their digits."""
    parts = re.split("%(.)", pattern)
    words = [_SAME.get(word, word) for word in parts[1::2]]
    touches = [
        first in _NUMBERS and second in _NUMBERS and bool(_NOTHING.fullmatch(between))
        for first, second, between in zip(words, words[1:], parts[2::2], strict=False)
    ]
    for place, word in enumerate(words):
        field = "%" if word == "%" else _FIELDS[word]
        is_whole = any(touches[max(place - 1, 0) : place + 1])
        parts[2 * place + 1] = field.replace("{1,2}", "{2}") if is_whole else field
    return "".join(parts)


_NUMBERS: Final = frozenset("YymdHIMSfs")
_NOTHING: Final = re.compile(r"(?:\(\?:|\)\??|\[[^]]*\]\?)*")
"""Parts of a form that may be between two numbers without separating them."""


@cache
def _form_of_words(words: str) -> TimeForm:
    """Return the form that the user wrote in directives of strptime."""
    for short, long in _WHOLE.items():
        words = words.replace(f"%{short}", long)
    parts = re.split("%(.)", words)
    known = {**dict.fromkeys(_FIELDS), **_SAME}
    unknown = [word for word in parts[1::2] if word not in known and word != "%"]
    if unknown or parts[-1].endswith("%"):
        raise UsageError(
            f"%{visible(''.join(unknown[:1]))} is no word of --time-format",
            code="time-format-unknown",
            hint=f"words: {', '.join(f'%{word}' for word in sorted([*known, *_WHOLE]))}",
        )
    fields = [_SAME.get(word, word) for word in parts[1::2]]
    dated = {"d", "m", "Y"} <= {{"b": "m", "y": "Y"}.get(word, word) for word in fields}
    doubled = [word for word in fields if word not in "a%" and fields.count(word) > 1]
    if doubled or not (dated or fields == ["s"]):
        raise UsageError(
            f"--time-format {visible(words)!r} does not name a day, a month and a year once each",
            code="time-format-incomplete",
            hint="--time-format '%d/%m/%Y %H:%M', or '%s' of seconds since 1970",
        )
    literals = (re.sub(r"(?:\\ |\s)+", " +", re.escape(literal)) for literal in parts[::2])
    pattern = next(literals)
    for word, literal in zip(parts[1::2], literals, strict=True):
        pattern += f"%{word}{literal}"
    if not {"H", "I", "s"}.intersection(fields):
        pattern += f"(?:{_GAP}{_CLOCK})?{_ZONE}"  # of the column beside it
    return TimeForm(words, pattern, ())


def _moments(text: pl.Series, form: TimeForm, timezone: str) -> pl.DataFrame:
    """Return the times of a column that are written in one form; null where they are not."""
    import polars as pl

    fields = text.str.extract_groups(f"^(?:{_expression(form.pattern)})$").struct.unnest()
    if "s" in fields.columns:
        at, zoned = _since_1970(fields), pl.lit(value=True)
    else:
        offsets = _offsets(fields, timezone)
        at = pl.when("zoned").then(_in_utc(pl.col("naive"), "UTC") - pl.col("offset"))
        at = at.otherwise(_in_utc(pl.col("naive"), timezone))
        fields = fields.with_columns(_naive(fields).alias("naive"), *offsets)
        zoned = pl.col("zoned")
    return fields.select(
        at.alias("at"),
        zoned.alias("zoned"),
        pl.lit(form.is_number).alias("is_number"),
    )


def _in_utc(naive: pl.Expr, timezone: str) -> pl.Expr:
    """Return times without a zone as UTC; null for one that a clock set forward skips."""
    aware = naive.dt.replace_time_zone(timezone, ambiguous="earliest", non_existent="null")
    return aware.dt.convert_time_zone("UTC")


def _naive(fields: pl.DataFrame) -> pl.Expr:
    """Return the clock time from the fields; null where there is no such day or hour."""
    import polars as pl

    def number(name: str) -> pl.Expr:
        value = pl.col(name) if name in fields.columns else pl.lit(None, pl.String)
        return value.cast(pl.Int32, strict=False)

    months = {name: number for number, name in enumerate(_MONTHS.split("|"), start=1)}
    year, month, hour = number("Y"), number("m"), number("H").fill_null(0)
    if "y" in fields.columns:
        year = number("y") + pl.when(number("y") < 69).then(2000).otherwise(1900)
    if "b" in fields.columns:
        short = pl.col("b").str.to_lowercase().str.slice(0, 3)
        month = short.replace_strict(months, default=None, return_dtype=pl.Int32)
    fits = hour <= 23
    if "p" in fields.columns:
        half = pl.col("p").str.to_lowercase()
        fits = pl.when(half.is_null()).then(fits).otherwise(hour.is_between(1, 12))
        later = hour % 12 + pl.when(half == "p").then(12).otherwise(0)
        hour = pl.when(half.is_null()).then(hour).otherwise(later)
    minute, second = number("M").fill_null(0), number("S").fill_null(0)
    fits &= year.is_between(*_YEARS) & month.is_between(1, 12) & (minute <= 59) & (second <= 59)
    first = pl.date(pl.when(fits).then(year), pl.when(fits).then(month), 1)
    day = number("d")
    fits &= (day >= 1) & (day <= first.dt.month_end().dt.day())
    micro = pl.lit(0)
    if "f" in fields.columns:
        micro = pl.col("f").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int32).fill_null(0)
    clock = pl.duration(hours=hour, minutes=minute, seconds=second, microseconds=micro)
    at = first.cast(pl.Datetime("us")) + pl.duration(days=day - 1) + clock
    return pl.when(fits).then(at)


def _offsets(fields: pl.DataFrame, timezone: str) -> Iterator[pl.Expr]:
    """Yield whether times have a zone, and its offset from UTC; null if unknown."""
    import polars as pl

    none = pl.lit(None, pl.Duration("us"))
    if "z" not in fields.columns:
        yield from (pl.lit(value=False).alias("zoned"), none.alias("offset"))
        return
    known = {zone: _offset(zone, timezone) for zone in fields["z"].unique().drop_nulls()}
    yield pl.col("z").is_not_null().alias("zoned")
    offsets = pl.col("z").replace_strict(known, default=None, return_dtype=pl.Duration("us"))
    yield (offsets if known else none).alias("offset")


def _offset(zone: str, timezone: str) -> timedelta | None:
    if zone.upper() in _GREENWICH:
        return timedelta(0)
    if match := re.fullmatch("(?:UTC|GMT)?([+-])([0-9]{1,2}):?([0-9]{2})?", zone):
        hours, minutes = int(match[2]), int(match[3] or 0)
        ahead = timedelta(hours=hours, minutes=minutes)
        return None if hours > 15 or minutes > 59 else -ahead if match[1] == "-" else ahead
    # CST is used in America, Cuba and China: an abbreviation means that of the times' own zone.
    months = (datetime(2026, month, 1, tzinfo=ZoneInfo(timezone)) for month in range(1, 13))
    return {at.tzname(): at.utcoffset() for at in months}.get(zone)


def _since_1970(fields: pl.DataFrame) -> pl.Expr:
    """Return numbers as times by their size: seconds, or successive thousandths."""
    import polars as pl

    number = pl.col("s").cast(pl.Int64, strict=False)
    digits = pl.col("f") if "f" in fields.columns else pl.lit(None, pl.String)
    after = digits.str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64, strict=False).fill_null(0)
    microseconds = pl.lit(None, pl.Int64)
    for per_second, factor, divisor in _EPOCHS:
        within = number.is_between(_FIRST_S * per_second, _LAST_S * per_second, closed="left")
        whole = number * factor // divisor + after * factor // 1_000_000
        microseconds = pl.when(within).then(whole).otherwise(microseconds)
    return microseconds.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _order_of_days(text: pl.Series, timezone: str, *, decide: bool) -> TimeForm:
    """Return whether all numeric dates together show the day or the month first."""
    import polars as pl

    orders = (DAY_FIRST, MONTH_FIRST)
    frame = pl.DataFrame(
        {"text": text, **{form.name: _moments(text, form, timezone)["at"] for form in orders}}
    ).filter(pl.col(DAY_FIRST.name).is_not_null() | pl.col(MONTH_FIRST.name).is_not_null())
    of_days, of_months = (frame.filter(pl.col(form.name).is_not_null()) for form in orders)
    only_days = frame.filter(pl.col(MONTH_FIRST.name).is_null())
    only_months = frame.filter(pl.col(DAY_FIRST.name).is_null())
    if not decide:
        return MONTH_FIRST if len(of_months) > len(of_days) else DAY_FIRST
    if len(only_days) and len(only_months):
        raise DataError(
            f"{visible(only_days['text'][0])!r} has the day first, "
            f"{visible(only_months['text'][0])!r} the month",
            code="time-forms-mixed",
            hint="write all times in one form, as 2026-11-20 20:00",
        )
    if len(only_days) or len(only_months):
        return DAY_FIRST if len(only_days) else MONTH_FIRST
    # With dots the day always comes first.
    open_ = frame.filter(
        (pl.col(DAY_FIRST.name) != pl.col(MONTH_FIRST.name))
        & ~pl.col("text").str.contains(r"^[0-9]+\.")
    )
    if len(open_):
        cell = open_["text"][0]
        raise _ambiguous(cell, [words_of(form.pattern, cell) for form in orders])
    return DAY_FIRST


def _require_seconds(text: pl.Series, times: pl.DataFrame, timezone: str) -> None:
    """Raise an error if seconds since 1970 may also be days with an hour."""
    if not times["is_number"].any():
        return
    hourly = TimeForm("", "%Y%m%d%H", ())
    if (hours := _moments(text, hourly, timezone)["at"]).is_not_null().any():
        other = times["at"].is_not_null() & hours.is_null()
        if not other.any():
            raise _ambiguous(text.filter(hours.is_not_null())[0], ["%Y%m%d%H", "%s"])


def _ambiguous(cell: str, forms: Sequence[str]) -> UsageError:
    return UsageError(
        f"the time {visible(cell)!r} may mean {' or '.join(forms)}",
        code="time-ambiguous",
        hint=" or ".join(f"--time-format '{words}'" for words in forms),
    )


def words_of(pattern: str, cell: str) -> str:
    """Return a matched cell with its fields replaced by directives of strptime."""
    match = re.fullmatch(_expression(pattern), cell)
    groups = {} if match is None else match.groupdict()
    words, end = "", 0
    for name in (name for name, value in groups.items() if value is not None):
        start, stop = match.span(name)  # type: ignore[union-attr]
        word = "I" if name == "H" and groups.get("p") else name
        words += cell[end:start].replace("%", "%%") + f"%{word}"
        end = stop + (1 if name == "p" and cell[stop : stop + 1] in "mM" else 0)
    return words + cell[end:].replace("%", "%%")
