"""Columns are chosen by names and contents, times are the instants meant; nothing is guessed."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import DataError, TrimtabError, UsageError
from trimtab.judge.command import judge_command
from trimtab.probe import written_time
from trimtab.probe.series_file import FileTerms, judge_file
from trimtab.probe.site_judgement import JudgedSite
from trimtab.probe.table_column import NamedColumns, name_words, with_clock
from trimtab.probe.text_table import read_table
from trimtab.probe.written_time import FORMS, joined, read_times, texts_of

FIRST = datetime(2026, 8, 1, 6, tzinfo=UTC)
TIMES = [FIRST + timedelta(hours=hour) for hour in range(18)]
RATES = [12000 + 37 * number % 101 + number / 8 for number in range(18)]

Row = Callable[[datetime, float], str]


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., JudgedSite]:
    def judge(head: str, row: Row, terms: FileTerms | None = None, **columns: Any) -> JudgedSite:
        rows = [row(at, rate) for at, rate in zip(TIMES, RATES, strict=True)]
        path = tmp_path / "FILE"
        path.write_text("\n".join([head, *rows, ""]))
        return judge_file(str(path), replace(terms or FileTerms(), columns=NamedColumns(**columns)))

    return judge


def levels(judged: JudgedSite) -> dict[str, list[float | None]]:
    return {
        key.probe.rsplit("/", 1)[-1]: frame["value"].to_list()
        for key, frame in judged.frames.items()
    }


def source(judged: JudgedSite) -> str:
    return judged.judgement.notes[0]


def rows(at: datetime, cells: str, rate: float) -> str:
    """Return rows of one time which differ in what stands before the rate, and in the rate."""
    return "\n".join(f"{at},{cell},{rate * len(cell)}" for cell in cells.split())


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("date,time,bw", lambda at, rate: f"{at:%Y-%m-%d,%H:%M:%S},{rate}"),
        ("time,date,bw", lambda at, rate: f"{at:%H:%M:%S,%Y-%m-%d},{rate}"),
        (
            "Datum;Uhrzeit;bw",
            lambda at, rate: f"{at:%d.%m.%Y;%H:%M};{rate:.3f}".replace(".", ",").replace(
                ",", ".", 2
            ),
        ),
        ("day,hour,bw", lambda at, rate: f"{at:%Y%m%d},{at.hour},{rate}"),
        ("date,start,end,bw", lambda at, rate: f"{at:%Y-%m-%d,%H:%M},23:59,{rate}"),
        ("date,time,bw", lambda at, rate: f"{at:%Y-%m-%d 00:00:00,%I:%M %p},{rate}"),
        (
            "end,submitted,start,bw",
            lambda at, rate: f"2026-09-01T00:00,2026-07-01T00:00,{at:%FT%T},{rate}",
        ),
        (
            "jobid,bw,when",
            lambda at, rate: f"{1785564000 + 37 * at.hour},{rate},{at:%a %b %d %T %Y}",
        ),
        ("bytes,bw,when", lambda at, rate: f"1785564000000,{rate},{at:%d.%m.%Y %H:%M}"),
        ("date,timestamp,bw", lambda at, rate: f"{at:%F},{at.timestamp():.0f},{rate}"),
        ("time,date,bw", lambda at, rate: f"1234567890,{at:%FT%T},{rate}"),
        ("ts,time,bw", lambda at, rate: f"{at.timestamp():.0f},{at.isoformat()},{rate}"),
        ("x,bw", lambda at, rate: f"{at.timestamp():.0f},{rate}"),
        ("run,bw", lambda at, rate: f"{at:%Y.%m.%d-%H.%M.%S},{rate}"),
        (",time,bw,nodes", lambda at, rate: f"{TIMES.index(at)},{at.isoformat()},{rate},64"),
        ("time,table,_value", lambda at, rate: f"{at.isoformat()},{at.hour},{rate}"),
    ],
)
def test_times_and_values_are_found(judged: Callable[..., JudgedSite], head: str, row: Row) -> None:
    result = judged(head, row)
    (frame,) = result.frames.values()
    assert frame["at"].to_list() == TIMES
    assert frame["value"].to_list() == pytest.approx(RATES, abs=0.001)
    used = set(re.findall("'([^']+)'", source(result)))
    columns = {name or "column 1" for name in re.split("[,;]", head)}
    assert columns - used == {
        name for name in columns if name in source(result).partition("; not used: ")[2].split(", ")
    }
    assert ("(a guess" in source(result)) == (head in ("x,bw", "run,bw"))


@pytest.mark.parametrize(
    ("head", "row", "code"),
    [
        ("jobid,bw", lambda at, rate: f"{1785564000 + 37 * at.hour},{rate}", "column-missing"),
        ("bytes,bw", lambda at, rate: f"1785564000000,{rate}", "column-missing"),
        ("x,bw", lambda at, rate: f"{1785564000 + 37 * at.hour % 50},{rate}", "column-missing"),
        ("time,bw", lambda at, rate: f"{at:%H:%M},{rate}", "column-missing"),
        ("a,b,bw", lambda at, rate: f"{at:%F},{at:%H:%M},{rate}", "column-ambiguous"),
        ("date,hour,clock,bw", lambda at, rate: f"{at:%F,%H,%H:%M},{rate}", "column-ambiguous"),
        ("time,bw,iops", lambda at, rate: f"{at},{rate},{rate / 3}", "column-ambiguous"),
        ("date,bw", lambda at, rate: f"{at:%d.%m.%y},{rate}", "column-missing"),
        ("date,bw", lambda at, rate: f"{at:%d/%m/%Y %H:%M},{rate}", "time-ambiguous"),
        ("date,time,bw", lambda at, rate: f"{at:%m/%d/%Y,%I:%M %p},{rate}", "time-ambiguous"),
        ("time;bw", lambda at, rate: f"{at};{rate:,.0f}", "number-ambiguous"),
        ("time,op,host,bw", lambda at, rate: rows(at, "w,a w,b r,a r,b", rate), "series-ambiguous"),
    ],
)
def test_an_open_choice_is_refused_with_what_to_type(
    judged: Callable[..., JudgedSite], head: str, row: Row, code: str
) -> None:
    with raises(UsageError, code) as caught:
        judged(head, row)
    hint = str(caught.value.hint)
    assert "--" in hint or head == "time,bw"
    for option in re.findall("--(?:time-format|by|decimal|time) (?:'[^']+'|[^ ]+)", hint):
        name, value = shlex.split(option)
        if value in ("COL", "ZONE") or "years of two" in hint or "large numbers" in hint:
            continue
        chosen: dict[str, Any] = {name[2:].replace("-", "_"): value}
        columns = chosen if name in ("--time", "--by") else {}
        terms = FileTerms() if columns else FileTerms(**chosen)
        assert sum(frame.height for frame in judged(head, row, terms, **columns).frames.values())


def half(at: datetime) -> int:
    return 1 if at < TIMES[9] else 2


@pytest.mark.parametrize(
    ("head", "row", "names"),
    [
        ("time,op,bw", lambda at, rate: rows(at, "write read", rate), ["write", "read"]),
        (
            "time,op,bw",
            lambda at, rate: f"{at},write,{rate}\n{at + timedelta(minutes=3)},read,{2 * rate}",
            ["write", "read"],
        ),
        (
            "time,op,rep,bw",
            lambda at, rate: rows(at, "write,0 write,1 write,2 read,0 read,1 read,2", rate),
            ["write", "read"],
        ),
        ("time,ost,bw", lambda at, rate: rows(at, "0 1 2", rate), list("012")),
        ("time,rep,bw", lambda at, rate: rows(at, "0 1 2", rate), ["FILE"]),
        ("time,version,bw", lambda at, rate: f"{at},v{half(at)},{rate * half(at)}", ["FILE"]),
        ("time,host,bw", lambda at, rate: f"{at},n{TIMES.index(at) % 2},{rate}", ["FILE"]),
        (
            "_time,_field,table,_value",
            lambda at, rate: f"{at},write,0,{rate}\n{at},read,1,{2 * rate}",
            ["write", "read"],
        ),
    ],
)
def test_rows_of_a_time_that_differ_by_a_column_are_series(
    judged: Callable[..., JudgedSite], head: str, row: Row, names: list[str]
) -> None:
    result = judged(head, row)
    assert list(levels(result)) == names
    told = any("separates the series" in note for note in result.judgement.notes)
    assert told == (len(names) > 1)
    together = judged(head, row, by="")
    assert list(levels(together)) == ["FILE"]
    assert not any("separates" in note for note in together.judgement.notes)


def test_a_wide_table_is_a_series_for_each_column(judged: Callable[..., JudgedSite]) -> None:
    def wide(at: datetime, rate: float) -> str:
        return f"{at},{rate} MB/s,{'' if at == FIRST else f'{2 * rate} MB/s'},64,ok"

    result = judged("time,OST0000,OST0001,nodes,note", wide, value="write_bandwidth", wide=True)
    assert levels(result) == {
        "OST0000": pytest.approx([1e6 * rate for rate in RATES]),
        "OST0001": pytest.approx([2e6 * rate for rate in RATES[1:]]),
    }
    assert {(key.metric, key.unit) for key in result.frames} == {("write_bandwidth", "B/s")}
    assert "not used: nodes, note" in source(result)
    assert all(series.invalid == () for series in result.judgement.series)


def test_units_of_time_are_better_when_lower(judged: Callable[..., JudgedSite]) -> None:
    (key,) = judged("time,latency", lambda at, rate: f"{at},{rate} us").frames
    assert (key.unit, key.more_is_better) == ("s", False)


def test_the_same_runs_in_another_dress_are_one_series(judged: Callable[..., JudgedSite]) -> None:
    def east(at: datetime) -> str:
        return (at + timedelta(hours=5)).isoformat().replace("+00:00", "+05:00")

    def shuffled(at: datetime, rate: float) -> str:
        n = order[TIMES.index(at)]
        return "\n".join(f"{TIMES[n].isoformat()},{RATES[n] / part} MB/s" for part in (1, 2))

    def in_turn(at: datetime, rate: float) -> str:
        return f"{at.isoformat()},{rate / 2} MB/s\ntime,bw\n{at.isoformat()},{rate} MB/s"

    def german(at: datetime, rate: float) -> str:
        return f"{at:%d.%m.%Y %H:%M};{rate / 1000} GB/s\n{at:%F %T};{rate / 2000} GB/s"

    order = random.Random(3).sample(range(18), 18)
    dresses: list[tuple[str, Row]] = [
        ("time,bw", lambda at, rate: f"{at},{rate} MB/s\n{at},{rate / 2} MB/s"),
        ("time,bw", lambda at, rate: f"{east(at)},{rate} MB/s\n{east(at)},{rate / 2} MB/s"),
        ("time,bw", in_turn),
        ("time;bw", german),
        ("time,bw", shuffled),
    ]
    frames = [next(iter(judged(head, row).frames.values())).drop("run") for head, row in dresses]
    assert [frame.shape for frame in frames] == [(36, 3)] * len(dresses)
    for frame in frames[1:]:
        assert frame["at"].to_list() == frames[0]["at"].to_list()
        assert frame["value"].sort().to_list() == pytest.approx(frames[0]["value"].sort().to_list())
    for frame in (frames[1], frames[2], frames[4]):
        assert frame.equals(frames[0])


def test_many_hours_are_no_days(tmp_path: Path) -> None:
    rows = [f"{FIRST + timedelta(hours=hour)},06:30,{hour}" for hour in range(-6, 23_994)]
    table = read_table("\n".join(["date,time,bw", *rows]).encode(), "FILE")
    assert with_clock(table, "date", "UTC") == ["date"]


def test_nested_columns_and_options_that_exclude_one_another(tmp_path: Path) -> None:
    path = tmp_path / "FILE"
    lists = [[number, 1] for number in range(18)]
    pl.DataFrame({"at": TIMES, "value": RATES, "lists": lists}).write_parquet(path)
    (frame,) = judge_file(str(path)).frames.values()
    assert frame["value"].to_list() == RATES
    with pytest.raises(UsageError, match="exclude"):
        judge_file(str(path), FileTerms(NamedColumns(by="lists", wide=True)))


def test_words_in_names_are_told_apart() -> None:
    assert name_words("JobID") == ["job", "id"]
    assert name_words("write_time2") == ["write", "time"]
    assert name_words("@timestamp") == ["timestamp"]


def test_the_options_of_tables_are_the_terms_of_the_library() -> None:
    options = {option.name for option in judge_command.params if isinstance(option, click.Option)}
    fields = {*FileTerms.__dataclass_fields__, *NamedColumns.__dataclass_fields__} - {"columns"}
    assert fields <= options


PAGE = Path(__file__).parents[3] / "docs" / "judge.md"
SIX = datetime(2026, 8, 1, 6, tzinfo=UTC)
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]

Write = Callable[[datetime], str]


def read(
    cells: Sequence[str | None], zone: str = "UTC", words: str | None = None
) -> list[datetime | None]:
    column = texts_of(pl.Series("when", cells, dtype=pl.String))
    return read_times(column, zone, words=words)["at"].to_list()


def ctime(at: datetime) -> str:
    return f"{DAYS[at.weekday()]} {MONTHS[at.month - 1]} {at.day:2d} {at:%H:%M:%S} {at.year}"


def twelve(at: datetime) -> str:
    half = "PM" if at.hour >= 12 else "AM"
    return f"{(at.hour - 1) % 12 + 1}:{at.minute:02d}:{at.second:02d} {half}"


def epoch(at: datetime, digits: int) -> str:
    """Return the units of ten to the power of minus ``digits`` since 1970."""
    passed = at - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (passed.days * 86400 + passed.seconds) * 10**6 + passed.microseconds
    return str(microseconds * 10**digits // 10**6)


def ahead(hours: float, form: str) -> Write:
    zone = timezone(timedelta(hours=hours))
    return lambda at: at.astimezone(zone).strftime(form)


SECOND = timedelta(seconds=1)
MICROSECOND, MILLISECOND = timedelta(microseconds=1), timedelta(milliseconds=1)
FORMATS = {
    SECOND: (
        *("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S UTC"),
        *("%Y-%m-%d %H:%M:%S +0000 UTC", "%Y/%m/%d %H:%M:%S", "%Y.%m.%d-%H.%M.%S"),
        *("%Y-%m-%d_%H-%M-%S", "%Y%m%d%H%M%S", "%Y%m%dT%H%M%SZ", "%Y%m%d-%H%M%S"),
        *("%Y%m%d_%H%M%S", "%Y%m%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y, %H:%M:%S"),
        *("%a, %d %b %Y %H:%M:%S +0000", "%a, %d %b %Y %H:%M:%S GMT"),
        *("%d/%b/%Y:%H:%M:%S +0000", "%d-%b-%Y %H:%M:%S", "%d %B %Y %H:%M:%S"),
        *("%B %d, %Y %H:%M:%S", "%a %b %d %H:%M:%S UTC %Y", "%a %d %b %Y %I:%M:%S %p UTC"),
    ),
    timedelta(minutes=1): (
        *("%Y%m%d%H%M", "%Y-%m-%d %H:%M", "%Y%m%dT%H%M", "%d.%m.%Y %H:%M", "%Y%m%d %H:%M"),
    ),
    timedelta(days=1): ("%Y-%m-%d", "%Y%m%d"),
}
WRITERS: dict[str, tuple[Write, timedelta]] = {
    form: (lambda at, form=form: at.strftime(form), step)
    for step, forms in FORMATS.items()
    for form in forms
}
WRITERS |= {
    "ctime": (ctime, SECOND),
    "twelve hours": (lambda at: f"{at:%Y-%m-%d} {twelve(at)}", SECOND),
    "month by name": (lambda at: f"{at:%b} {at.day}, {at.year}, {twelve(at)}", SECOND),
    "east": (ahead(5.5, "%Y-%m-%d %H:%M:%S %z"), SECOND),
    "west": (ahead(-7, "%Y.%m.%d %H:%M:%S %z"), SECOND),
    "UTC and hours": (ahead(2, "%Y-%m-%dT%H:%M:%S UTC+02:00"), SECOND),
    "microseconds": (lambda at: at.strftime("%Y-%m-%d %H:%M:%S.%f"), MICROSECOND),
    "comma": (lambda at: at.strftime("%Y-%m-%d %H:%M:%S,%f")[:-3], MILLISECOND),
    "nanoseconds": (lambda at: f"{at:%Y-%m-%dT%H:%M:%S.%f}789Z", MICROSECOND),
    "s": (lambda at: epoch(at, 0), SECOND),
    "s with a fraction": (lambda at: f"{epoch(at, 0)}.{at:%f}", MICROSECOND),
    "ms": (lambda at: epoch(at, 3), MILLISECOND),
    "us": (lambda at: epoch(at, 6), MICROSECOND),
    "ns": (lambda at: epoch(at, 9), MICROSECOND),
}
"""What writes times, and the finest step that it writes."""


@pytest.mark.parametrize("name", WRITERS)
def test_every_form_is_read_as_it_was_written(name: str) -> None:
    write, step = WRITERS[name]
    chance, first = random.Random(name), datetime(2001, 9, 10, tzinfo=UTC)
    last = datetime(2033, 1, 1, tzinfo=UTC) - first
    exact = [first + chance.random() * last // step * step for _ in range(200)]
    exact = [at for at in exact if at >= first]
    assert read([write(at) for at in exact]) == exact


def test_forms_may_be_mixed_in_a_column() -> None:
    at = [SIX + timedelta(days=day) for day in range(len(WRITERS))]
    cells = [write(time) for time, (write, _) in zip(at, WRITERS.values(), strict=True)]
    steps = [step for _, step in WRITERS.values()]
    days = [time.replace(hour=0) for time in at]
    expected = [
        day if step == timedelta(days=1) else time
        for time, day, step in zip(at, days, steps, strict=True)
    ]
    assert read(cells) == expected


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_examples_of_a_form_are_read_and_documented(form) -> None:
    page = PAGE.read_text()
    assert f"| {form.name} | {', '.join(f'`{cell}`' for cell in form.examples)} |" in page
    for cell in form.examples:
        (at,) = read([cell])
        assert at is not None
        assert at.replace(day=1) in (SIX, SIX.replace(hour=0), SIX.replace(microsecond=250_000))


def test_a_clock_without_a_zone_is_in_the_zone_of_the_terms() -> None:
    assert read(["01.08.2026 08:00"], "Europe/Zurich") == [SIX]
    assert read(["2026-08-01 08:00 CEST"], "Europe/Zurich") == [SIX]
    # Of an hour that comes twice the abbreviation says which it is.
    twice = read(["2026-10-25 02:30 CEST", "2026-10-25 02:30 CET"], "Europe/Zurich")
    assert twice == [datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1)]
    assert read(["2026-08-01 08:00 CST", "2026-03-29 02:30"], "Europe/Zurich") == [None, None]


@pytest.mark.parametrize(
    ("cells", "months"),
    [
        (["01/08/2026", "13/08/2026"], [8, 8]),
        (["08/01/2026 6:00 AM", "08/13/2026 6:00 AM"], [8, 8]),
        (["01-08-2026", "31-08-2026"], [8, 8]),
        (["01.08.2026", "02.08.2026"], [8, 8]),
        (["08.01.2026", "08.31.2026"], [8, 8]),
        (["05/05/2026", "06/06/2026"], [5, 6]),
    ],
)
def test_the_column_shows_whether_the_day_comes_first(cells: list[str], months: list[int]) -> None:
    assert [at.month for at in read(cells) if at is not None] == months


@settings(max_examples=30)
@given(
    days=st.lists(st.dates(datetime(2020, 1, 1).date(), datetime(2030, 1, 1).date()), min_size=1),
    separator=st.sampled_from("/-"),
    day_first=st.booleans(),
)
def test_day_and_month_are_never_guessed(days, separator: str, day_first: bool) -> None:
    form = separator.join(("%d", "%m", "%Y") if day_first else ("%m", "%d", "%Y"))
    cells = [day.strftime(form) for day in days]
    hint = None
    try:
        times = read(cells)
    except UsageError as error:
        hint = (error.code, f"--time-format '{form}'" in str(error.hint))
        times = read(cells, words=form)
    assert hint in (None, ("time-ambiguous", True))
    assert [at.date() for at in times if at is not None] == days


def test_what_is_open_is_asked_for_with_words_that_work() -> None:
    for cell in ("01/08/2026 06:00", "08/01/2026 06:00 AM", "1-8-2026T6:00:00.25", "2034010106"):
        with raises(UsageError, "time-ambiguous") as caught:
            read([cell])
        suggested = re.findall("--time-format '([^']+)'", str(caught.value.hint))
        meant = [read([cell], words=words)[0] for words in suggested]
        assert len(meant) == len(set(meant)) == 2
        assert None not in meant
    with pytest.raises(DataError, match="day first"):
        read(["13/08/2026", "08/13/2026"])


@pytest.mark.parametrize(
    ("words", "cell"),
    [
        ("%d.%m.%y %H:%M", "01.08.26 06:00"),
        ("%Y%m%d%H", "2026080106"),
        ("[%d/%b/%Y:%T %z]", "[01/Aug/2026:06:00:00 +0000]"),
        ("run_%Y%m%d_%H%M.log", "run_20260801_0600.log"),
        ("%s", "1785564000"),
        ("%b %e %I:%M %p %Y", "Aug  1 6:00 AM 2026"),
        ("100%% %F %R", "100% 2026-08-01 06:00"),
    ],
)
def test_words_of_strptime_say_how_times_are_written(words: str, cell: str) -> None:
    assert read([cell, "else", None], words=words) == [SIX, None, None]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("%Q", "time-format-unknown"),
        ("%H:%M", "time-format-incomplete"),
        ("%d.%d.%m.%Y", "time-format-incomplete"),
        ("", "time-format-incomplete"),
        ("%", "time-format-unknown"),
        ("%Y-%m-%d%", "time-format-unknown"),
    ],
)
def test_words_that_are_none_are_told(words: str, code: str) -> None:
    with raises(UsageError, code):
        read(["2026-08-01"], words=words)


@pytest.mark.parametrize(
    "cell",
    [
        *("2026-13-01", "2026-02-30", "31.04.2026", "20261301", "2026-08-01 25:00", "0001-01-01"),
        *("2026-08-01 13:00 PM", "120000000", "137438953472", "4294967296", "1.7856e9", "12014.71"),
        *("20260801xyz", "06:00", "Foo 1 2026", "1e18", "-1785564000", "2026-08-01 06:00 XYZ"),
        *("202608010", "2026080", "20260801060", "9" * 30, "", " "),
    ],
)
def test_what_is_no_time_is_none(cell: str) -> None:
    assert read([cell]) == [None]


def test_columns_of_dates_and_of_times_of_day_are_joined() -> None:
    days = ["2026-08-01", "01.08.2026", "20260801", "Aug 1, 2026", "2026-08-01 00:00:00"]
    for clock in ("06:00", "6:00:00 AM", "6", "06", "0600", "060000"):
        column = joined([texts_of(pl.Series(days)), texts_of(pl.Series([clock] * len(days)))])
        assert read_times(column, "UTC")["at"].to_list() == [SIX] * len(days)
    assert written_time.is_clock(pl.Series(["06:00", "23:59:59.5"]), by_name=False)
    assert written_time.is_clock(pl.Series(["6", "23"]), by_name=True)
    assert not written_time.is_clock(pl.Series(["6", "23"]), by_name=False)
    assert not written_time.is_clock(pl.Series(["06:00", "x"]), by_name=True)


def test_typed_columns_are_times_as_well() -> None:
    zurich = [SIX.astimezone(ZoneInfo("Europe/Zurich"))]
    columns = [
        pl.Series([SIX]),
        pl.Series(zurich, dtype=pl.Datetime("ns", "Europe/Zurich")),
        pl.Series([SIX.replace(tzinfo=None)], dtype=pl.Datetime("ms")),
        pl.Series([1785564000]),
        pl.Series([1785564000.0]),
        pl.Series([1785564000 * 10**9]),
        pl.Series(["20260801060000"], dtype=pl.Categorical),
    ]
    for column in columns:
        assert read_times(texts_of(column), "UTC")["at"].to_list() == [SIX]
    assert texts_of(pl.Series([[1, 2]])).to_list() == [None]


@settings(max_examples=30)
@given(cells=st.lists(st.text(max_size=30), max_size=6))
def test_any_text_is_a_time_or_none(cells: list[str]) -> None:
    with suppress(TrimtabError):
        read(cells)
    assert all(isinstance(written_time.is_time(cell), bool) for cell in cells)
