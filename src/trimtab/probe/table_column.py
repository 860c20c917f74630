"""Recognises a table's columns: times, values, and the one that separates its series.

Columns are chosen by names and contents together, and the answer always names them. If several
qualify, the user must choose.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trimtab.base.error import UsageError, visible
from trimtab.base.run import METRIC_UNITS
from trimtab.probe.text_table import TextTable, is_numeric
from trimtab.probe.written_time import EXAMPLES, hint_of, is_clock, joined, read_times, texts_of

if TYPE_CHECKING:
    import polars as pl

_TIME_WORDS: Final = (
    "at time timestamp datetime date when start started begin began day ts t epoch utc created "
    "datum zeit zeitpunkt zeitstempel tag fecha jour"
)
"""Words in names of columns of times, those of a run's start first."""
_LATER_WORDS: Final = (
    "end ended stop stopped finish finished completed submit submitted eligible last updated"
)
"""Words in names of times other than a run's start."""
_CLOCK_WORDS: Final = (
    f"time hour clock hh at start started begin uhrzeit zeit stunde hora heure {_LATER_WORDS}"
)
_DURATION_WORDS: Final = "elapsed duration runtime wall walltime took"
_NUMBER_WORDS: Final = "id ids job jobid number nr no num count pid index idx seq hash commit build"
_SIZE_WORDS: Final = "bytes byte size block blocks inode offset seed sectors objects files records"
_COUNT_WORDS: Final = f"{_NUMBER_WORDS} {_SIZE_WORDS} {_DURATION_WORDS} pipeline slurm task node"
"""Words in names of columns of large numbers that are not times."""
_REPETITION_WORDS: Final = (
    f"{_NUMBER_WORDS} {_DURATION_WORDS} rep repeat repetition iteration iter run trial sample"
)
_SETTING_WORDS: Final = (
    "ost osts mdt target nodes tasks ppn procs ranks threads clients hosts stripe stripes iodepth"
)
"""Names of columns of settings; with a number, as OST0003, a column holds measured values."""
_VALUE_NAMES: Final = frozenset(METRIC_UNITS) | {"value", "_value"}
_SAMPLE: Final = 1_000
SERIES_MAXIMUM: Final = 2000
_FEW_ROWS: Final = 2
_TURNS_MAXIMUM: Final = 20
JOIN: Final = "+"
"""Separator between the names of two columns that belong together."""


@dataclass(frozen=True, slots=True)
class NamedColumns:
    """Roles of the columns of a table.

    Attributes
    ----------
    time, value
        Names of columns; ``None``: recognised by their names and contents. ``date+time``: two
        columns that together are one time.
    by
        The column that separates the series of a table, or several as ``op+host``; ``None``: the
        one that distinguishes rows of the same time, if any; empty: none.
    wide
        Every column of numbers is a series of its own.
    """

    time: str | None = None
    value: str | None = None
    by: str | None = None
    wide: bool = False


def requested(table: TextTable, name: str, option: str, *, joins: bool = True) -> list[str]:
    """Return the columns that the user named, one or several joined.

    Raises
    ------
    UsageError
        There is no such column.
    """
    columns = table.frame.columns
    names = [name] if name in columns or not joins else name.split(JOIN)
    for part in names:
        if part not in columns:
            raise UsageError(
                f"there is no column {visible(part)!r}",
                code="column-missing",
                hint=f"{option}: one of {names_of(columns)}",
            )
    return names


def names_of(columns: Iterable[str]) -> str:
    """Return names of columns as an error shows them."""
    return ", ".join(visible(name) for name in list(columns)[:20])


def name_words(name: str) -> list[str]:
    """Return the words in the name of a column.

    >>> name_words("startTime"), name_words("ISO date"), name_words("bw_MiBs")
    (['start', 'time'], ['iso', 'date'], ['bw', 'mi', 'bs'])
    """
    return [part.lower() for part in re.findall("[A-Z]?[^\\W\\d_A-Z]+|[A-Z]+(?![a-z])|[A-Z]", name)]


def _has_word(name: str, known: str) -> bool:
    return not set(known.split()).isdisjoint(name_words(name))


def time_texts(table: TextTable, names: Sequence[str]) -> pl.Series:
    """Return the times of a column, or of several joined, as text."""
    texts = [texts_of(table.frame[name]) for name in names]
    return texts[0] if len(texts) == 1 else joined(texts)


def find_times(
    table: TextTable, timezone: str, shown: str, *, words: str | None = None
) -> tuple[str, str]:
    """Return the column of times, and a note if it was guessed.

    Parameters
    ----------
    words
        Form of the times; ``None``: any.

    Raises
    ------
    UsageError
        No column holds times.
    """
    texts = {column.name: texts_of(column) for column in _sample(table)}
    looks = {
        name: read_times(text, timezone, words=words, decide=False) for name, text in texts.items()
    }
    if words is not None and not any(times["at"].count() for times in looks.values()):
        return find_times(table, timezone, shown)  # the words are for a day and a time joined
    timely = [
        name
        for name, times in looks.items()
        if texts[name].count() and 2 * times["at"].count() >= len(times)
    ]
    written = [name for name in timely if not looks[name]["is_number"].all()]
    numbers = [
        name
        for name in timely
        if name not in written and all(_agree(looks[name], looks[other]) for other in written)
    ]
    chosen = [*written, *(name for name in numbers if _time_rank(name) < _NO_RANK)]
    if chosen:
        # A time of day counts more than a name: "date" may be next to "started_at".
        keys = {name: (_are_days(looks[name], timezone), _time_rank(name)) for name in chosen}
        best = min(chosen, key=keys.__getitem__)
        alike = [name for name in chosen if keys[name] == keys[best]]
        return best, _GUESS if len(alike) > 1 or keys[best][1] == _NO_RANK else ""
    large = [name for name in numbers if not _has_word(name, _COUNT_WORDS)]
    if len(large) == 1 and not any(map(_is_date_like, texts.values())):
        rising = texts_of(table.frame[large[0]]).cast(float, strict=False)
        if rising.is_sorted() and rising.n_unique() > 1:
            return large[0], _GUESS
    odd = next((text for text in texts.values() if _is_date_like(text)), None)
    hint = f"--time COL; {EXAMPLES}"
    if odd is not None:
        hint = f"--time {_quoted(odd.name)}; {hint_of(odd)}"
    elif timely:
        hint = f"--time {_quoted(timely[0])}, if these large numbers are seconds since 1970"
    elif clocks := [name for name, text in texts.items() if is_clock(text, by_name=False)]:
        hint = f"{clocks[0]!r} has times of day; a column of dates is needed beside it"
    raise UsageError(
        f"no column of {shown} holds times ({names_of(table.frame.columns)})",
        code="column-missing",
        hint=hint,
    )


_NO_RANK: Final = 1_000
_GUESS: Final = " (a guess; --time names another)"


def _quoted(name: str) -> str:
    return shlex.quote(visible(name))


def _is_date_like(text: pl.Series) -> bool:
    """Return whether most cells are dates, perhaps in an unknown form."""
    known = text.drop_nulls()
    pattern = "^[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}[^0-9.]|^[A-Z][a-z]{2} .*[0-9]:[0-9]{2}"
    return len(known) > 0 and 2 * int((known + " ").str.contains(pattern).sum()) > len(known)


def _sample(table: TextTable) -> pl.DataFrame:
    """Return rows for recognising columns: not every n-th, which may all be at midnight."""
    return table.frame.sample(min(_SAMPLE, table.frame.height), seed=0)


def _agree(times: pl.DataFrame, others: pl.DataFrame) -> bool:
    """Return whether large numbers may be times: times in the same rows are of the same days."""
    apart = (times["at"] - others["at"]).dt.total_hours().abs().max()
    return apart is None or int(apart) <= 48  # type: ignore[arg-type]


def _are_days(times: pl.DataFrame, timezone: str) -> bool:
    """Return whether times are only dates; some programs write them as midnight."""
    clocks = times["at"].drop_nulls().dt.convert_time_zone(timezone)
    return bool(
        (clocks.dt.date().cast(clocks.dtype.base_type()) == clocks.dt.replace_time_zone(None)).all()
    )


def _time_rank(name: str) -> int:
    """Return the rank of a column as the runs' times, by its name; the lowest is the likeliest."""
    known = _TIME_WORDS.split()
    ranks = [known.index(part) for part in name_words(name) if part in known]
    if not ranks or _has_word(name, _COUNT_WORDS):
        return _NO_RANK
    return min(ranks) + len(known) * _has_word(name, _LATER_WORDS)


def with_clock(
    table: TextTable, date: str, timezone: str, *, words: str | None = None
) -> list[str]:
    """Return a column of times; for one of only dates, also that of the times of day.

    Raises
    ------
    UsageError
        Several columns may have the times of day.
    """
    texts = {column.name: texts_of(column) for column in _sample(table)}
    times = read_times(texts[date], timezone, words=words, decide=False)
    if times["at"].count() and not _are_days(times, timezone):
        return [date]
    clocks = [
        name
        for name, text in texts.items()
        if name != date and not _has_word(name, _DURATION_WORDS)
        if is_clock(text, by_name=_has_word(name, _CLOCK_WORDS))
    ]
    named = [name for name in clocks if _has_word(name, _CLOCK_WORDS)]
    early = [name for name in named if not _has_word(name, _LATER_WORDS)] or named
    if len(early) == 1:
        return [date, early[0]]
    days = table.frame[date].drop_nulls()
    if not early and (not clocks or days.is_unique().all()):
        return [date]
    choices = early or clocks
    raise UsageError(
        f"{visible(date)!r} has dates; times of day may be in {names_of(choices)}",
        code="column-ambiguous",
        hint=" or ".join(f"--time {_quoted(f'{date}{JOIN}{name}')}" for name in choices[:3]),
    )


def find_values(table: TextTable, used: Sequence[str], shown: str, *, wide: bool) -> list[str]:
    """Return the column of values; with ``wide`` all columns of numbers.

    Parameters
    ----------
    used
        Columns with another role.

    Raises
    ------
    UsageError
        No column holds numbers, or several do.
    """
    frame, sample = table.frame, _sample(table)
    numeric = [name for name in frame.columns if name not in used and is_numeric(sample[name])]
    if not numeric:
        raise UsageError(
            f"no column of {shown} holds numbers ({names_of(frame.columns)})",
            code="column-missing",
            hint="--value COL; a usable number is 0, or 1e-100 to 1e100",
        )
    known = [name for name in numeric if name in _VALUE_NAMES]
    measured = [
        name
        for name in numeric
        if not _has_word(name, f"{_COUNT_WORDS} {_REPETITION_WORDS}")
        and name.lower() not in _SETTING_WORDS.split()
        and not (_time_rank(name) < _NO_RANK and _holds_times(texts_of(sample[name])))
    ]
    varying = [name for name in measured if _varies(frame[name])]
    if wide:
        return measured or numeric
    for names in (known, numeric, varying):
        if len(names) == 1:
            return names
    several = ", ".join(visible(name) for name in (varying or numeric)[:8])
    raise UsageError(
        f"several columns of {shown} hold numbers: {several}",
        code="column-ambiguous",
        hint="select one with --value COL, or judge each with --wide",
    )


def _holds_times(text: pl.Series) -> bool:
    return read_times(text, "UTC", decide=False)["at"].count() > 0


def _varies(column: pl.Series) -> bool:
    """Return whether a column may be measured: neither constant nor a count of rows."""
    import polars as pl

    if len(column) <= _FEW_ROWS:
        return True
    steps = column.cast(pl.String).cast(pl.Float64, strict=False).diff().drop_nulls()
    return column.n_unique() > 1 and not (len(steps) > _FEW_ROWS and (steps == 1).all())


def find_separator(
    table: TextTable, rows: pl.DataFrame, used: Sequence[str]
) -> tuple[list[str], str | None]:
    """Return the column that separates the series of a table, and why it does.

    Rows of the same time that differ by a column are of several series; so are rows that take
    turns, a write and then a read, if the column explains most of their spread. Numbers of
    repetitions separate nothing.

    Parameters
    ----------
    rows
        ``at`` and ``value`` of each row.

    Raises
    ------
    UsageError
        Several columns qualify.
    """
    texts = {
        name: texts_of(table.frame[name])
        for name in table.frame.columns
        if name not in used and not _has_word(name, _REPETITION_WORDS)
    }
    most = min(SERIES_MAXIMUM, table.frame.height // 2)
    labels = [name for name, text in texts.items() if 2 <= text.n_unique() <= most]
    sample = _sample(table)
    labels.sort(key=lambda name: is_numeric(sample[name]))  # words say more than their numbers
    rows = rows.select("at", "value").with_columns(texts[name].fill_null("") for name in labels)
    rows = rows.drop_nulls(["at", "value"])
    if rows.is_empty():
        return [], None
    reason, parts = "rows of the same time differ by column", _crosses
    if rows["at"].is_duplicated().mean() < 0.5:  # type: ignore[operator]
        reason, parts = "rows take turns by column", _takes_turns
    by: list[str] = []
    for name in labels:
        more = rows.select(*by, name).n_unique() > (rows.select(by).n_unique() if by else 1)
        if more and parts(rows, name):
            by.append(name)
    if not by:
        return [], None
    name = visible(JOIN.join(by))
    if len(by) > 1:
        raise UsageError(
            f"{reason}s {names_of(by)}",
            code="series-ambiguous",
            hint=f"--by {_quoted(name)} separates the series, or one of the columns does; "
            "--by '' judges them as one",
        )
    return by, f"{reason} {name!r}, which separates the series (--by '' judges them as one)"


def _crosses(rows: pl.DataFrame, name: str) -> bool:
    """Return whether rows of the same time differ in label, and most labels have most times."""
    import polars as pl

    times = rows.group_by("at").agg(pl.len().alias("rows"), pl.col(name).n_unique().alias("labels"))
    several = times.filter(pl.col("rows") > 1)["labels"]
    cells = times.height * rows[name].n_unique()
    return (
        5 * int((several > 1).sum()) >= 4 * len(several) and 2 * int(times["labels"].sum()) >= cells
    )


def _takes_turns(rows: pl.DataFrame, name: str) -> bool:
    """Return whether labels alternate in time, equally often, and explain most of the spread."""
    import polars as pl

    shares = rows[name].value_counts(normalize=True)["proportion"]
    if len(shares) > _TURNS_MAXIMUM or len(rows) < 4 * len(shares):
        return False
    alternate = (rows.sort("at")[name] != rows.sort("at")[name].shift()).mean()
    by_chance = 1 - float((shares**2).sum())
    spread = rows["value"].var()
    within = rows.select((pl.col("value") - pl.col("value").mean().over(name)).var()).item()
    return bool(
        spread
        and 2 * len(shares) * shares.min() >= 1  # type: ignore[operator]
        and alternate >= 0.8 * by_chance  # type: ignore[operator]
        and within <= 0.5 * spread
    )
