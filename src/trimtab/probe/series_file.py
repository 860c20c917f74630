"""``trimtab judge --csv FILE``: any time series from CSV or Parquet, judged as Trimtab's own."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.error import DataError, Message, UsageError, system_errors, visible
from trimtab.base.run import METRIC_UNITS, higher_is_better
from trimtab.base.schedule import find_zone
from trimtab.base.series import InvalidRun, SeriesJudgement, SeriesKey, SiteJudgement
from trimtab.base.site import SiteLimits
from trimtab.base.units import enumerated, parse_moment
from trimtab.judge.series_analysis import judge_series
from trimtab.judge.series_frame import between
from trimtab.probe.site_judgement import JudgedSite, Progress
from trimtab.probe.table_column import (
    SERIES_MAXIMUM,
    NamedColumns,
    find_separator,
    find_times,
    find_values,
    names_of,
    requested,
    time_texts,
    with_clock,
)
from trimtab.probe.text_table import Numbers, TextTable, read_numbers, read_table
from trimtab.probe.written_time import hint_of, read_times, texts_of

if TYPE_CHECKING:
    import polars as pl

STANDARD_INPUT: Final = "-"
_NAMED_FEW: Final = 3
_NAMED_MANY: Final = 8


@dataclass(frozen=True, slots=True)
class FileTerms:
    """Options for reading a table.

    Attributes
    ----------
    since, until
        Times as the user wrote them, in ``timezone``.
    timezone
        IANA name of the zone of times written without one.
    less_is_better
        True for times and latencies; not needed for metrics that Trimtab knows by name, nor for
        values with a unit of time.
    time_format
        Form of the times, in directives of ``strptime``; ``None``: recognised.
    decimal
        The decimal mark, ``.`` or ``,``; ``None``: recognised.
    """

    columns: NamedColumns = field(default_factory=NamedColumns)
    since: str | None = None
    until: str | None = None
    timezone: str = "UTC"
    less_is_better: bool = False
    time_format: str | None = None
    decimal: str | None = None

    def moment(self, text: str | None, *, end: bool = False) -> datetime | None:
        """Return a time that the user wrote; for a date, its beginning or end."""
        return None if text is None else parse_moment(text, self.timezone, end=end)


def judge_file(
    name: str,
    terms: FileTerms | None = None,
    *,
    goal: float | None = None,
    window_s: float | None = None,
    progress: Progress = lambda text, fraction: None,
) -> JudgedSite:
    """Return the judgement of the series in a file.

    Parameters
    ----------
    name
        A CSV or Parquet file, recognised by its content; ``-`` is standard input.
    goal, window_s
        ``None``: those of `trimtab.base.site.SiteLimits`.

    Raises
    ------
    UsageError
        A column is missing, or it is not clear which is meant.
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
    table = read_table(_content(name, shown), shown)
    rows = _rows(table, terms, shown)
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
    parts = _split(rows, shown)
    for number, (label, part) in enumerate(parts):
        progress(f"judging {visible(label or shown)}", (number + 0.1) / (len(parts) + 0.1))
        key = _key(rows, shown, label, less_is_better=terms.less_is_better)
        frames[key], invalid = _series(part, more_is_better=key.more_is_better)
        judged.append(judge(frames[key], key, invalid=invalid))
    stretches = [between(frame, since, until)["at"] for frame in frames.values()]
    ends = [times[place] for times in stretches if len(times) for place in (0, -1)]
    judgement = SiteJudgement(
        site=shown,
        from_=min(ends, default=None),
        to=max(ends, default=None),
        series=tuple(judged),
        notes=(*rows.notes, *_of_zeros(frames.values())),
    )
    return JudgedSite(judgement, lambda: frames, file=shown)


def _content(name: str, shown: str) -> bytes:
    from trimtab.probe.result_file import unpacked

    with system_errors(f"{visible(name)} cannot be read", code="cannot-read"):
        if name == STANDARD_INPUT:
            return unpacked(sys.stdin.buffer.read(), shown)
        return unpacked(Path(name).read_bytes(), shown)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The readable rows of a table.

    Attributes
    ----------
    frame
        ``line``, ``at``, ``value`` and ``series`` of each.
    metric, unit
        Metric and unit of the values.
    by
        The columns that separate the series; empty if there is only one.
    notes
        Which columns were read, and what was left out.
    """

    frame: pl.DataFrame
    metric: str
    unit: str
    by: Sequence[str]
    notes: tuple[str, ...]


def _rows(table: TextTable, terms: FileTerms, shown: str) -> _Rows:
    """Return the rows of a table as times and numbers, after choosing its columns."""
    import polars as pl

    columns = terms.columns
    if columns.wide and columns.by:
        raise UsageError("--wide and --by exclude one another", code="options-exclude")
    by = requested(table, columns.by, "--by") if columns.by else []
    time, guess, times = _times(table, terms, shown)
    if columns.wide or columns.value is None:
        value = find_values(table, [*time, *by], shown, wide=columns.wide)
    else:
        value = requested(table, columns.value, "--value", joins=False)
    numbers = [
        read_numbers(
            table.frame[name], lines=table.lines, decimal=terms.decimal, separator=table.separator
        )
        for name in value
    ]
    if all(column.values.is_null().all() for column in numbers):
        raise DataError(
            f"column {visible(value[0])!r} of {shown} holds no number",
            code="column-without-numbers",
        )
    lines = pl.Series("line", table.lines, dtype=pl.Int64)
    frame = times.select("at").with_columns(lines, numbers[0].values.alias("value"))
    reason = None
    if columns.by is None and not columns.wide:
        by, reason = find_separator(table, frame, [*time, *value])
    if columns.wide:
        frame, by = _stacked(frame, table, value, numbers), ["column"]
    else:
        names = [texts_of(table.frame[name]).fill_null("") for name in by]
        label = pl.concat_str(names, separator=" ") if by else pl.lit("")
        frame = frame.with_columns(label.alias("series"))
    units = {column.unit for column in numbers}
    metric = value[0] if not columns.wide else columns.value or "value"
    notes = [
        _source(table, time, guess, value, by),
        *_left_out(frame),
        reason,
        *(column.note for column in numbers),
        _zone_note(times.drop_nulls("at"), terms.timezone),
    ]
    unit = units.pop() if len(units) == 1 else ""
    unit = unit or METRIC_UNITS.get(metric, "")
    return _Rows(frame, metric, unit, by, tuple(filter(None, notes)))


def _times(table: TextTable, terms: FileTerms, shown: str) -> tuple[list[str], str, pl.DataFrame]:
    """Return the columns of times, how they were guessed, and the times."""
    requested_time, words = terms.columns.time, terms.time_format
    if requested_time is not None:
        time, guess = requested(table, requested_time, "--time"), ""
    else:
        name, guess = find_times(table, terms.timezone, shown, words=words)
        time = [name]
    if len(time) == 1:
        time = with_clock(table, time[0], terms.timezone, words=words)
    text = time_texts(table, time)
    times = read_times(text, terms.timezone, words=words)
    if times["at"].is_null().all():
        raise DataError(
            f"column {names_of(time)!r} of {shown} holds no time",
            code="column-without-times",
            hint=hint_of(text),
        )
    return time, guess, times


def _stacked(
    frame: pl.DataFrame, table: TextTable, names: Sequence[str], numbers: Sequence[Numbers]
) -> pl.DataFrame:
    """Return a wide table as a long one: a row for each cell that is not empty."""
    import polars as pl

    return pl.concat(
        frame.with_columns(column.values.alias("value"), series=pl.lit(name)).filter(
            table.frame[name].is_not_null()
        )
        for name, column in zip(names, numbers, strict=True)
    )


def _source(
    table: TextTable, time: Sequence[str], guess: str, value: Sequence[str], by: Sequence[str]
) -> str:
    """Return which columns were read, and which were not."""
    times = " and ".join(repr(visible(name)) for name in time)
    values = enumerated((repr(visible(name)) for name in value), _NAMED_FEW)
    used = {*time, *value, *by}
    unused = [visible(name) for name in table.frame.columns if name not in used]
    left = f"; not used: {enumerated(unused, _NAMED_MANY)}" if unused else ""
    return f"times from column{'s' * (len(time) > 1)} {times}{guess}, values from {values}{left}"


def _zone_note(times: pl.DataFrame, timezone: str) -> str | None:
    """Return a note on the assumed zone; times in a repeated hour are taken as the first."""
    import polars as pl

    at = times.filter(~pl.col("zoned"))["at"]
    if at.is_empty():
        return None
    clock, later = (
        moments.dt.convert_time_zone(timezone).dt.replace_time_zone(None)
        for moments in (at, at.dt.offset_by("1h"))
    )
    twice = int((clock == later).sum())
    first = f", {twice:,} of them in an hour that comes twice for the first" if twice else ""
    return f"times without a zone were taken for {timezone}{first}"


def _left_out(rows: pl.DataFrame) -> Iterator[str]:
    import polars as pl

    for column, meaning in (("at", "time"), ("value", "usable number")):
        lines = rows.filter(pl.col(column).is_null())["line"].unique().sort().to_list()
        if lines:
            named = enumerated(map(str, lines), _NAMED_FEW)
            alone = len(lines) == 1
            noun = f"row without a {meaning} is" if alone else f"rows without a {meaning} are"
            yield f"{len(lines):,} {noun} not judged: line {named}"


def _split(rows: _Rows, shown: str) -> list[tuple[str | None, pl.DataFrame]]:
    if not rows.by:
        return [(None, rows.frame)]
    parts = rows.frame.partition_by("series", as_dict=True, maintain_order=True)
    if len(parts) > SERIES_MAXIMUM:
        raise UsageError(
            f"column {names_of(rows.by)!r} of {shown} separates {len(parts)} series",
            code="too-many-series",
            hint=f"more than {SERIES_MAXIMUM}; is it the right column?",
        )
    return [(str(label), part) for (label,), part in parts.items()]


def _key(rows: _Rows, shown: str, label: str | None, *, less_is_better: bool) -> SeriesKey:
    rises = higher_is_better(rows.metric) if rows.metric in METRIC_UNITS else rows.unit != "s"
    return SeriesKey(
        site=shown,
        probe=shown if label is None else label or "(empty)",
        kind="file",
        metric=rows.metric,
        unit=rows.unit,
        more_is_better=not less_is_better and rises,
    )


def _series(
    rows: pl.DataFrame, *, more_is_better: bool
) -> tuple[pl.DataFrame, tuple[InvalidRun, ...]]:
    """Return the frame of a series, and the rows left out with the reason."""
    import polars as pl

    readable = rows.filter(pl.col("at").is_not_null() & pl.col("value").is_not_null())
    # A 0 among rates is how an unfinished run is written down (S1, figure 6).
    is_zero = (pl.col("value") == 0) & more_is_better
    # Runs of one time have a fixed order, whatever the order of the rows.
    frame = readable.sort("at", pl.col("value").hash(), maintain_order=True).select(
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


def _of_zeros(frames: Iterable[pl.DataFrame]) -> Iterator[str]:
    zeros = sum(int(frame["unfinished"].sum()) for frame in frames)
    if zeros:
        of_zero = "value of 0 counts as a run" if zeros == 1 else "values of 0 count as runs"
        yield f"{zeros:,} {of_zero} that did not finish"
