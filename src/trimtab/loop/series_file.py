"""``trimtab judge --csv FILE``: a series of anybody's, from CSV or Parquet, judged as ours are."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.config.schedule import find_zone
from trimtab.errors import DataError, UnreadableError, UsageError
from trimtab.judge.series import judge_series
from trimtab.judge.variability import higher_is_better
from trimtab.loop.site_judgement import Judged, Progress, edge
from trimtab.message import Message
from trimtab.model.run import METRIC_UNITS
from trimtab.model.series import InvalidRun, SeriesJudgement, SeriesKey, SiteJudgement
from trimtab.model.site import SiteLimits
from trimtab.units import enumerated, parse_moment
from trimtab.visible import visible

if TYPE_CHECKING:
    import polars as pl

STANDARD_INPUT: Final = "-"
_PARQUET: Final = b"PAR1"
_TIME_NAMES: Final = ("at", "time", "timestamp", "datetime", "date", "start", "start_time", "begin")
_NAMED_FEW: Final = 3
_SERIES_MAXIMUM: Final = 2000
_EPOCHS: Final = ((1e8, 1e11, 1_000_000), (1e11, 1e14, 1_000), (1e14, 1e17, 1))
"""Bounds between which a number is taken for a time (1973 on), and the microseconds of its unit."""
_SIZES: Final = (1e-100, 1e100)
"""Between these the squares and sums of squares of a spread neither overflow nor vanish."""
_ISO: Final = (
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M%#z",
    "%Y-%m-%d %H:%M%#z",
)
_ZONE: Final = "[zZ] *$|[+-][0-9]{2}:?[0-9]{2} *$"
_NO_ZONE: Final = (
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y-%m-%d",
)


@dataclass(frozen=True, slots=True)
class Columns:
    """What is what in a table.

    Attributes
    ----------
    time, value
        Names of columns; ``None``: found by their names and contents.
    by
        The column that tells several series in one table apart.
    """

    time: str | None = None
    value: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class FileTerms:
    """How a table is to be read.

    Attributes
    ----------
    since, until
        As a person writes them, in ``timezone``.
    timezone
        IANA name of the zone of times that are written without one.
    less_is_better
        Of times and latencies; metrics that Trimtab knows by name need no telling.
    """

    columns: Columns = Columns()
    since: str | None = None
    until: str | None = None
    timezone: str = "UTC"
    less_is_better: bool = False

    def moment(self, text: str | None, *, end: bool = False) -> datetime | None:
        """Return a time that a person wrote; of a date its begin or end."""
        return None if text is None else parse_moment(text, self.timezone, end=end)


def judge_file(
    name: str,
    terms: FileTerms | None = None,
    *,
    goal: float | None = None,
    window_s: float | None = None,
    progress: Progress = lambda text, fraction: None,
) -> Judged:
    """Return what is said of the series in a file.

    Parameters
    ----------
    name
        A CSV or Parquet file, told apart by its content; ``-`` is standard input.
    goal, window_s
        Those of `trimtab.model.site.SiteLimits` where ``None``.

    Raises
    ------
    UsageError
        A column is not there, or it is not clear which is meant.
    DataError
        The table cannot be read, or holds no series.
    UnreadableError
        The file cannot be opened.
    """
    terms, limits = terms or FileTerms(), SiteLimits()
    timezone = terms.timezone
    find_zone(timezone)
    since, until = terms.moment(terms.since), terms.moment(terms.until, end=True)
    shown = "standard input" if name == STANDARD_INPUT else visible(name)
    progress(f"reading {shown}", 0.0)
    table = _table(_content(name), shown)
    time = _time_column(table, terms.columns.time, timezone, shown)
    value = _value_column(table, terms.columns, time, shown)
    rows = _rows(table, time, value, timezone, terms.columns.by)
    judge = partial(
        judge_series,
        goal=limits.cov if goal is None else goal,
        window_s=limits.window_s if window_s is None else window_s,
        timezone=timezone,
        since=since,
        until=until,
    )
    frames: dict[SeriesKey, pl.DataFrame] = {}
    judged: list[SeriesJudgement] = []
    parts = _split(rows, shown, terms.columns.by)
    for number, (label, part) in enumerate(parts):
        progress(f"judging {visible(label or shown)}", (number + 0.1) / (len(parts) + 0.1))
        key = _key(value, shown, label, less_is_better=terms.less_is_better)
        frames[key], invalid = _series(part, more_is_better=key.more_is_better)
        judged.append(judge(frames[key], key, invalid=invalid))
    judgement = SiteJudgement(
        site=shown,
        from_=edge(frames, min, since, until),
        to=edge(frames, max, since, until),
        series=tuple(judged),
        notes=(*_notes(table, time, value, rows, timezone), *_of_zeros(frames.values())),
    )
    return Judged(judgement, frames, file=shown)


def _content(name: str) -> bytes:
    try:
        if name == STANDARD_INPUT:
            return sys.stdin.buffer.read()
        return Path(name).read_bytes()
    except OSError as error:
        raise UnreadableError(
            f"{visible(name)} cannot be read: {error.strerror}", code="cannot-read"
        ) from error


def _table(content: bytes, shown: str) -> pl.DataFrame:
    """Return the table as it is written: text in all cells of a CSV, types as Parquet has them."""
    if not content.strip():
        raise DataError(f"{shown} is empty", code="file-empty")
    table = _parsed(content, shown)
    if table.is_empty():
        raise DataError(f"{shown} has columns and no row ({_names(table)})", code="file-empty")
    return table


def _parsed(content: bytes, shown: str) -> pl.DataFrame:
    import polars as pl

    try:
        if content[: len(_PARQUET)] == _PARQUET:
            return pl.read_parquet(io.BytesIO(content))
        text = content.decode("utf-8-sig", "replace").encode()
        head = text.split(b"\n", 1)[0]
        separator = max((",", ";", "\t"), key=lambda separator_: head.count(separator_.encode()))
        return pl.read_csv(
            text, separator=separator, infer_schema=False, truncate_ragged_lines=False
        )
    except (pl.exceptions.PolarsError, ValueError, OSError) as error:
        first = str(error).splitlines()[0]
        raise DataError(
            f"{shown} is not a readable table: {first}", code="table-unreadable"
        ) from error


def _time_column(table: pl.DataFrame, requested: str | None, timezone: str, shown: str) -> str:
    if requested is not None:
        _check_column(table, requested, "--time")
        if _times(table, requested, timezone).is_null().all():
            raise DataError(
                f"column {visible(requested)!r} of {shown} holds no time: {_HINT_TIME}",
                code="column-without-times",
            )
        return requested
    by_name = [column for column in table.columns if column.strip().lower() in _TIME_NAMES]
    for name in (*by_name, *(column for column in table.columns if column not in by_name)):
        times = _times(table, name, timezone)
        if times.len() and times.is_not_null().mean() >= 0.5:  # type: ignore[operator]
            return name
    raise UsageError(
        f"no column of {shown} holds times ({_names(table)})",
        code="column-missing",
        hint=f"--time COL; {_HINT_TIME}",
    )


_HINT_TIME: Final = "2026-11-20T20:00:00Z, 2026-11-20 20:00, or seconds since 1970"


def _value_column(table: pl.DataFrame, columns: Columns, time: str, shown: str) -> str:
    if columns.by is not None:
        _check_column(table, columns.by, "--by")
    if columns.value is not None:
        _check_column(table, columns.value, "--value")
        if _numbers(table, columns.value).is_null().all():
            raise DataError(
                f"column {visible(columns.value)!r} of {shown} holds no number",
                code="column-without-numbers",
            )
        return columns.value
    numeric = [
        name
        for name in table.columns
        if name not in (time, columns.by) and _numbers(table, name).is_not_null().mean() >= 0.5  # type: ignore[operator]
    ]
    known = [name for name in numeric if name in METRIC_UNITS]
    if len(known) == 1 or len(numeric) == 1:
        return (known or numeric)[0]
    if not numeric:
        raise UsageError(
            f"no column of {shown} holds numbers ({_names(table)})",
            code="column-missing",
            hint="--value COL; a number is written with a point, and is 1e-100 to 1e100 in size",
        )
    several = ", ".join(visible(name) for name in numeric[:8])
    raise UsageError(
        f"several columns of {shown} hold numbers: {several}",
        code="column-ambiguous",
        hint="select one with --value COL",
    )


def _check_column(table: pl.DataFrame, name: str, option: str) -> None:
    if name not in table.columns:
        raise UsageError(
            f"there is no column {visible(name)!r}",
            code="column-missing",
            hint=f"{option}: one of {_names(table)}",
        )


def _names(table: pl.DataFrame) -> str:
    return ", ".join(visible(name) for name in table.columns[:20])


def _times(table: pl.DataFrame, name: str, timezone: str) -> pl.Series:
    """Return a column as times in UTC; null where a cell is none."""
    import polars as pl

    column = table[name]
    utc = pl.Datetime("us", "UTC")
    if column.dtype == pl.Date:
        column = column.cast(pl.Datetime("us"))
    if isinstance(column.dtype, pl.Datetime):
        if column.dtype.time_zone is not None:
            return column.dt.convert_time_zone("UTC").cast(utc)
        return _in_zone(column.cast(pl.Datetime("us")), timezone)
    if column.dtype.is_numeric():
        return _since_epoch(column.cast(pl.Float64))
    if column.dtype != pl.String:
        return pl.Series(name, [None] * table.height, dtype=utc)
    text = column.str.strip_chars().str.replace("[zZ]$", "+00:00")
    moments = _since_epoch(text.cast(pl.Float64, strict=False))
    for form in (*_ISO, *_NO_ZONE):
        if not moments.null_count():
            break
        parsed = _parsed_times(text, form, timezone)
        moments = moments.zip_with(moments.is_not_null(), parsed)
    return moments


def _parsed_times(text: pl.Series, form: str, timezone: str) -> pl.Series:
    """Return the times of a column that are written in one form; null where they are not."""
    import polars as pl

    if form in _ISO:
        return text.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False)
    if form == "%Y-%m-%d":
        naive = text.str.to_date(form, strict=False).cast(pl.Datetime("us"))
    else:
        naive = text.str.to_datetime(form, time_unit="us", strict=False)
    return _in_zone(naive, timezone)


def _in_zone(naive: pl.Series, timezone: str) -> pl.Series:
    """Return times without a zone as UTC; one that a clock set forward skips is none."""
    import polars as pl

    aware = naive.dt.replace_time_zone(timezone, ambiguous="earliest", non_existent="null")
    return aware.dt.convert_time_zone("UTC").cast(pl.Datetime("us", "UTC"))


def _since_epoch(numbers: pl.Series) -> pl.Series:
    import polars as pl

    utc = pl.Datetime("us", "UTC")
    frame = pl.DataFrame({"n": numbers})
    microseconds = pl.lit(None, pl.Float64)
    for low, high, factor in _EPOCHS:
        within = (pl.col("n") >= low) & (pl.col("n") < high)
        microseconds = pl.when(within).then(pl.col("n") * factor).otherwise(microseconds)
    return frame.select(microseconds.round().cast(pl.Int64).cast(utc)).to_series()


def _numbers(table: pl.DataFrame, name: str) -> pl.Series:
    """Return a column as finite numbers; null where a cell is none."""
    import polars as pl

    column = table[name]
    if column.dtype == pl.String:
        column = column.str.strip_chars()
    elif not column.dtype.is_numeric():
        return pl.Series(name, [None] * table.height, dtype=pl.Float64)
    numbers = column.cast(pl.Float64, strict=False)
    size = numbers.abs()
    usable = (size == 0) | size.is_between(*_SIZES)
    return numbers.zip_with(usable.fill_null(value=False), numbers.clear(len(numbers)))


def _rows(
    table: pl.DataFrame, time: str, value: str, timezone: str, by: str | None
) -> pl.DataFrame:
    """Return line, time, value and series of each row as far as it can be read."""
    import polars as pl

    label = table[by].cast(pl.String) if by is not None else pl.repeat("", table.height, eager=True)
    return pl.DataFrame(
        {
            "line": pl.int_range(2, table.height + 2, eager=True),
            "at": _times(table, time, timezone),
            "value": _numbers(table, value),
            "series": label.fill_null(""),
        }
    )


def _split(rows: pl.DataFrame, shown: str, by: str | None) -> list[tuple[str | None, pl.DataFrame]]:
    if by is None:
        return [(None, rows)]
    parts = rows.partition_by("series", as_dict=True, maintain_order=True)
    if len(parts) > _SERIES_MAXIMUM:
        raise UsageError(
            f"column {visible(by)!r} of {shown} separates {len(parts)} series",
            code="too-many-series",
            hint=f"more than {_SERIES_MAXIMUM}; is it the right column?",
        )
    return [(str(label), part) for (label,), part in parts.items()]


def _key(value: str, shown: str, label: str | None, *, less_is_better: bool) -> SeriesKey:
    known = value in METRIC_UNITS
    return SeriesKey(
        site=shown,
        probe=shown if label is None else label or "(empty)",
        kind="file",
        metric=value,
        unit=METRIC_UNITS.get(value, ""),
        more_is_better=not less_is_better and (not known or higher_is_better(value)),
    )


def _series(
    rows: pl.DataFrame, *, more_is_better: bool
) -> tuple[pl.DataFrame, tuple[InvalidRun, ...]]:
    """Return the frame of a series, and the rows that are no part of it with the reason."""
    import polars as pl

    readable = rows.filter(pl.col("at").is_not_null() & pl.col("value").is_not_null())
    # A 0 among rates is how an unfinished run is written down (seed 000, figure 6).
    is_zero = (pl.col("value") == 0) & more_is_better
    frame = readable.sort("at", maintain_order=True).select(
        "at",
        pl.when(is_zero).then(None).otherwise("value").alias("value"),
        is_zero.alias("unfinished"),
        pl.format("line {}", "line").alias("run"),
    )
    left = rows.filter(pl.col("at").is_null() | pl.col("value").is_null())
    no_time = Message("time-missing", "no time")
    no_value = Message("value-missing", "no usable number")
    invalid = tuple(
        InvalidRun(f"line {line}", at, no_time if at is None else no_value)
        for line, at in left.select("line", "at").iter_rows()
    )
    return frame, invalid


def _notes(
    table: pl.DataFrame, time: str, value: str, rows: pl.DataFrame, timezone: str
) -> tuple[str, ...]:
    import polars as pl

    notes = [f"times from column {visible(time)!r}, values from {visible(value)!r}"]
    if _without_zone(table[time]):
        notes.append(f"times without a zone were taken for {timezone}")
    for column, meaning in (("at", "time"), ("value", "number")):
        lines = rows.filter(pl.col(column).is_null())["line"].to_list()
        if lines:
            named = enumerated(map(str, lines), _NAMED_FEW)
            alone = len(lines) == 1
            noun = f"row without a {meaning} is" if alone else f"rows without a {meaning} are"
            notes.append(f"{len(lines):,} {noun} not judged: line {named}")
    return tuple(notes)


def _of_zeros(frames: Iterable[pl.DataFrame]) -> Iterator[str]:
    zeros = sum(int(frame["unfinished"].sum()) for frame in frames)
    if zeros:
        of_zero = "value of 0 counts as a run" if zeros == 1 else "values of 0 count as runs"
        yield f"{zeros:,} {of_zero} that did not finish"


def _without_zone(times: pl.Series) -> bool:
    """Return whether any time is written as a clock shows it: with no zone, and no count."""
    import polars as pl

    kind = times.dtype
    if kind != pl.String:
        return kind == pl.Date or (isinstance(kind, pl.Datetime) and kind.time_zone is None)
    text = times.str.strip_chars().drop_nulls()
    counted = text.cast(pl.Float64, strict=False).is_not_null()
    return bool((text.str.contains(_ZONE) | counted).not_().any())
