"""Columns are chosen by names and contents together, named in the answer, and never guessed."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import polars as pl
import pytest
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.judge.command import judge_command
from trimtab.probe.imports.series_file import FileTerms, judge_file
from trimtab.probe.imports.table_column import NamedColumns, name_words, with_clock
from trimtab.probe.imports.text_table import read_table
from trimtab.probe.verdict.site_judgement import JudgedSite

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
        (
            "time,bw,iops",
            lambda at, rate: f"{at.isoformat()},{rate},{rate / 3}",
            "column-ambiguous",
        ),
        ("date,bw", lambda at, rate: f"{at:%d.%m.%y},{rate}", "column-missing"),
        ("date,bw", lambda at, rate: f"{at:%d/%m/%Y %H:%M},{rate}", "time-ambiguous"),
        ("date,time,bw", lambda at, rate: f"{at:%m/%d/%Y,%I:%M %p},{rate}", "time-ambiguous"),
        ("time;bw", lambda at, rate: f"{at.isoformat()};{rate:,.0f}", "number-ambiguous"),
        (
            "time,op,host,bw",
            lambda at, rate: "\n".join(
                f"{at.isoformat()},{op},{host},{rate}" for op in "wr" for host in "ab"
            ),
            "series-ambiguous",
        ),
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
        field = name[2:].replace("-", "_")
        chosen: dict[str, Any] = {field: value}
        columns = chosen if field in ("time", "by") else {}
        terms = FileTerms() if columns else FileTerms(**chosen)
        assert sum(frame.height for frame in judged(head, row, terms, **columns).frames.values())


@pytest.mark.parametrize(
    ("head", "row", "names"),
    [
        (
            "time,op,bw",
            lambda at, rate: f"{at},write,{rate}\n{at},read,{2 * rate}",
            ["write", "read"],
        ),
        (
            "time,op,bw",
            lambda at, rate: f"{at},write,{rate}\n{at + timedelta(minutes=3)},read,{2 * rate}",
            ["write", "read"],
        ),
        (
            "time,op,rep,bw",
            lambda at, rate: "\n".join(
                f"{at},{op},{rep},{rate * len(op)}" for op in ("write", "read") for rep in range(3)
            ),
            ["write", "read"],
        ),
        (
            "time,ost,bw",
            lambda at, rate: "\n".join(f"{at},{ost},{rate}" for ost in range(3)),
            list("012"),
        ),
        (
            "time,rep,bw",
            lambda at, rate: "\n".join(f"{at},{rep},{rate}" for rep in range(3)),
            ["FILE"],
        ),
        (
            "time,version,bw",
            lambda at, rate: (
                f"{at},{'a' if at < TIMES[9] else 'b'},{rate if at < TIMES[9] else 2 * rate}"
            ),
            ["FILE"],
        ),
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
    assert list(levels(judged(head, row, by=""))) == ["FILE"]
    assert not any("separates" in note for note in judged(head, row, by="").judgement.notes)


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


def test_the_same_runs_in_another_dress_are_the_same_series(
    judged: Callable[..., JudgedSite],
) -> None:
    def east(at: datetime) -> str:
        return (at + timedelta(hours=5)).isoformat().replace("+00:00", "+05:00")

    order = random.Random(3).sample(range(18), 18)
    dresses: list[tuple[str, Row]] = [
        (
            "time,bw",
            lambda at, rate: f"{at.isoformat()},{rate} MB/s\n{at.isoformat()},{rate / 2} MB/s",
        ),
        ("time,bw", lambda at, rate: f"{east(at)},{rate} MB/s\n{east(at)},{rate / 2} MB/s"),
        (
            "time,bw",
            lambda at, rate: (
                f"{at.isoformat()},{rate / 2} MB/s\ntime,bw\n{at.isoformat()},{rate} MB/s"
            ),
        ),
        (
            "time;bw",
            lambda at, rate: (
                f"{at:%d.%m.%Y %H:%M};{rate / 1000} GB/s\n{at:%F %T};{rate / 2000} GB/s"
            ),
        ),
        (
            "time,bw",
            lambda at, rate: "\n".join(
                f"{TIMES[n].isoformat()},{RATES[n] / part} MB/s"
                for part in (1, 2)
                for n in [order[TIMES.index(at)]]
            ),
        ),
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
