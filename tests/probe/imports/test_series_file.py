"""Any series of anybody's: columns found, times and numbers read, what cannot be read told."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.formats.recorded import REAL_DATA
from tests.support.codes import raises
from tests.support.command import TRIMTAB, trimtab
from tests.support.narrow import present
from tests.support.real_year import tables, tokio_abc

from trimtab.base.error import DataError, TrimtabError, UnreadableError, UsageError
from trimtab.base.series import SeriesJudgement
from trimtab.explain.headline import headline, of_judgement
from trimtab.probe.series_file import FileTerms, judge_file
from trimtab.probe.table_column import NamedColumns
from trimtab.probe.text_table import read_numbers, read_table
from trimtab.probe.written_time import read_times, texts_of

FIRST = datetime(2026, 9, 1, tzinfo=UTC)
HOURS, HOUR = 240, timedelta(hours=1)


def values(step_at: int = 10**9) -> list[float]:
    chance = random.Random(4)
    return [100 * chance.gauss(1, 0.03) * (0.8 if n >= step_at else 1) for n in range(HOURS)]


def times() -> list[datetime]:
    return [FIRST + timedelta(hours=n) for n in range(HOURS)]


def table(
    place: Path,
    numbers: Iterable[object] = (),
    name: Callable[[datetime], str] = datetime.isoformat,
    separator: str = ",",
    head: str = "time,speed",
) -> str:
    """Write a table with a row of each hour, of `values` unless told otherwise."""
    rows = zip(times(), numbers or [f"{value:.4f}" for value in values()], strict=False)
    lines = [f"{name(at)}{separator}{number}" for at, number in rows]
    (place / "s.csv").write_text("\n".join([head.replace(",", separator), *lines, ""]))
    return str(place / "s.csv")


def series_of(file: object, **terms: Any) -> SeriesJudgement:
    """Return the only series of a file."""
    (series,) = judge_file(str(file), FileTerms(**terms)).judgement.series
    return series


@pytest.mark.parametrize(
    ("name", "timezone"),
    [
        (lambda at: at.isoformat(), "UTC"),
        (lambda at: at.strftime("%Y-%m-%dT%H:%M:%SZ"), "Europe/Zurich"),
        (lambda at: at.strftime("%Y-%m-%dT%H:%M:%S.%f+0000"), "Europe/Zurich"),
        (lambda at: at.strftime("%Y-%m-%d %H:%M"), "UTC"),
        (lambda at: (at + timedelta(hours=2)).strftime("%Y-%m-%d %H:%M:%S"), "Europe/Zurich"),
        (lambda at: (at - timedelta(hours=7)).strftime("%Y-%m-%dT%H:%M-0700"), "UTC"),
        (lambda at: str(int(at.timestamp())), "Europe/Zurich"),
        (lambda at: str(at.timestamp()), "UTC"),
        (lambda at: str(int(at.timestamp() * 1000)), "UTC"),
        (lambda at: str(int(at.timestamp() * 1_000_000)), "UTC"),
    ],
)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_times_are_read_as_they_were_meant(
    tmp_path: Path, name: Callable[[datetime], str], timezone: str, separator: str
) -> None:
    file = table(tmp_path, name=name, separator=separator)
    judged = judge_file(file, FileTerms(timezone=timezone))
    (series,) = judged.judgement.series
    assert (series.key.metric, series.overall.n) == ("speed", HOURS)
    assert (judged.judgement.from_, judged.judgement.to) == (times()[0], times()[-1])
    assert series.invalid == ()


def test_dates_alone_are_days(tmp_path: Path) -> None:
    days = iter([f"2026-{1 + n // 28:02d}-{1 + n % 28:02d}" for n in range(HOURS)])
    file = table(tmp_path, values()[:200], lambda at: next(days), head="date,bw")
    assert series_of(file).overall.n == 200


def test_parquet_is_told_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "anything"
    frame = pl.DataFrame({"at": times(), "write_bandwidth": values()})
    frame.write_parquet(path)
    key = series_of(path).key
    assert (key.metric, key.unit) == ("write_bandwidth", "B/s")
    frame.with_columns(pl.col("at").dt.replace_time_zone(None)).write_parquet(path)
    judged = judge_file(str(path), FileTerms(timezone="Asia/Tokyo"))
    assert judged.judgement.from_ == FIRST - timedelta(hours=9)


@pytest.mark.cli
def test_standard_input_is_read(tmp_path: Path) -> None:
    words = [str(TRIMTAB), "judge", "--csv", "-", "--json"]
    content = Path(table(tmp_path)).read_bytes()
    ended = subprocess.run(words, input=content, capture_output=True, check=True)
    document = json.loads(ended.stdout)
    assert (document["file"], document["series"][0]["runs"]) == ("standard input", HOURS)


def test_rows_that_cannot_be_read_are_told_with_their_line(tmp_path: Path) -> None:
    numbers: list[object] = list(values())
    numbers[8], numbers[10], numbers[19] = "nan", "crashed", 0
    names = {4: "no time"}
    file = table(tmp_path, numbers, lambda at: names.get((at - FIRST) // HOUR, at.isoformat()))
    judged = judge_file(file)
    (series,) = judged.judgement.series
    assert {one.run for one in series.invalid} == {"line 6", "line 10", "line 12"}
    assert (series.overall.n, series.overall.unfinished) == (HOURS - 3, 1)
    notes = " ".join(judged.judgement.notes)
    assert "line 6" in notes
    assert "line 10, 12" in notes
    assert "1 values of 0" in notes or "1 value of 0" in notes


def test_less_may_be_better(tmp_path: Path) -> None:
    file = table(tmp_path, values(120), head="at,latency")
    assert not series_of(file, less_is_better=True).key.more_is_better
    (change,) = [one for one in series_of(file).changes if one.status.value == "confirmed"]
    assert abs(change.at - times()[120]) <= timedelta(hours=12)
    assert change.effect == pytest.approx(0.8, abs=0.02)
    assert change.effect_interval is not None


def test_one_table_may_hold_several_series(tmp_path: Path) -> None:
    rows = [
        f"{at.isoformat()},{ost},{value * (1 + ost / 10)}"
        for at, value in zip(times(), values(), strict=True)
        for ost in range(3)
    ]
    path = tmp_path / "s.csv"
    path.write_text("\n".join(["at,ost,bw", *rows]))
    terms = FileTerms(columns=NamedColumns(value="bw", by="ost"))
    series = judge_file(str(path), terms).judgement.series
    assert [(one.key.probe, one.overall.n) for one in series] == [(ost, HOURS) for ost in "012"]


@pytest.mark.parametrize(
    ("content", "columns", "kind", "code"),
    [
        (b"", NamedColumns(), DataError, "file-empty"),
        (b"   \n ", NamedColumns(), DataError, "file-empty"),
        (b"a,b\n1,2\n", NamedColumns(), UsageError, "column-missing"),
        (b"at,x,y\n2026-01-01,1,2\n", NamedColumns(), UsageError, "column-ambiguous"),
        (b"at,x\n2026-01-01,one\n", NamedColumns(), UsageError, "column-missing"),
        (b"at,x\n2026-01-01,1\n", NamedColumns(time="when"), UsageError, "column-missing"),
        (b"at,x\n2026-01-01,1\n", NamedColumns(time="x"), DataError, "column-without-times"),
        (b"at,x\n2026-01-01,one\n", NamedColumns(value="x"), DataError, "column-without-numbers"),
        (b"at,x\n2026-01-01,1\n", NamedColumns(by="z"), UsageError, "column-missing"),
        (b"PAR1rubbish", NamedColumns(), DataError, "table-unreadable"),
        (b"at,x\n2026-01-01,1,2,3\n", NamedColumns(), DataError, "table-unreadable"),
    ],
)
def test_what_is_no_series_is_told(
    tmp_path: Path, content: bytes, columns: NamedColumns, kind: type[TrimtabError], code: str
) -> None:
    path = tmp_path / "s.csv"
    path.write_bytes(content)
    with raises(kind, code):
        judge_file(str(path), FileTerms(columns=columns))


@pytest.mark.cli
def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="No such file"):
        judge_file(str(tmp_path / "none.csv"))
    with pytest.raises(UnreadableError, match="directory"):
        judge_file(str(tmp_path))
    assert trimtab("judge", "--csv", tmp_path / "none.csv", store=tmp_path / "t.db").code == 5


@pytest.mark.cli
def test_site_and_file_exclude_one_another(tmp_path: Path) -> None:
    for arguments in ((), ("scratch", "--csv", "x.csv"), ("scratch", "--value", "bw")):
        assert trimtab("judge", *arguments, store=tmp_path / "t.db").code == 2


@given(content=st.binary(max_size=400))
def test_rubbish_raises_errors_of_ours(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("rubbish") / "s.csv"
    path.write_bytes(content)
    with suppress(TrimtabError):
        judge_file(str(path))


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["2026-01-01", "1700000000", "x", "", "9" * 30, "2026-13-99T00:00Z"]),
            st.sampled_from(["1", "0", "-3", "1e400", "inf", "", "x", "1,5", '"']),
        ),
        max_size=30,
    )
)
@example(rows=[("2026-01-01", "0")] * 3)  # no time passes, and the mean is 0
def test_odd_cells_never_raise_but_errors_of_ours(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("odd") / "s.csv"
    path.write_text("at,x\n" + "".join(f"{at},{value}\n" for at, value in rows))
    with suppress(TrimtabError):
        judge_file(str(path))


@pytest.mark.parametrize("size", ["1e302", "1e-310", "inf", "nan"])
def test_numbers_that_no_spread_can_be_made_of_are_left_out(tmp_path: Path, size: str) -> None:
    numbers = [size if n % 9 == 0 else value for n, value in enumerate(values())]
    series = series_of(table(tmp_path, numbers))
    assert len(series.invalid) == len(range(0, HOURS, 9))
    assert series.overall.cov == pytest.approx(0.03, abs=0.01)
    with raises(UsageError, "column-missing"):
        judge_file(table(tmp_path, [size] * HOURS))


@pytest.mark.parametrize(
    ("name", "is_noted"),
    [
        (lambda at: at.strftime("%Y-%m-%d %H:%M:%S"), True),
        (lambda at: at.strftime("%Y-%m-%d %H:%M:%S+00:00"), False),
        (lambda at: at.strftime("%Y-%m-%dT%H:%M:%SZ"), False),
        (lambda at: str(at.timestamp()), False),
    ],
)
def test_an_assumed_zone_is_told(
    tmp_path: Path, name: Callable[[datetime], str], is_noted: bool
) -> None:
    file = table(tmp_path, name=name)
    notes = judge_file(file, FileTerms(timezone="Europe/Zurich")).judgement.notes
    assert any("were taken for Europe/Zurich" in note for note in notes) == is_noted


def test_a_time_of_zero_did_finish(tmp_path: Path) -> None:
    file = table(tmp_path, [0, *values()[1:]])
    assert any("1 value of 0 counts" in note for note in judge_file(file).judgement.notes)
    of_times = judge_file(file, FileTerms(less_is_better=True)).judgement
    assert not any("of 0" in note for note in of_times.notes)


def test_a_stretch_of_a_table_is_told_as_a_stretch(tmp_path: Path) -> None:
    since, until = FIRST + 50 * HOUR, FIRST + 100 * HOUR
    terms = FileTerms(since=since.isoformat(), until=until.isoformat())
    judgement = judge_file(table(tmp_path), terms).judgement
    assert (judgement.from_, judgement.to) == (since, until)


def test_dates_of_a_stretch_are_whole_days_of_its_zone(tmp_path: Path) -> None:
    day = f"{FIRST + timedelta(days=2):%Y-%m-%d}"
    terms = FileTerms(since=day, until=day, timezone="UTC")
    judgement = judge_file(table(tmp_path), terms).judgement
    begin, end = present(judgement.from_), present(judgement.to)
    assert {f"{at:%Y-%m-%d}" for at in (begin, end)} == {day}
    assert end > begin


def test_an_hour_that_comes_twice_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    clocks = [f"2026-10-25 {hour:02d}:30,{hour + 1}" for hour in (1, 2, 2, 3)]
    path.write_text("\n".join(["time,bw", *clocks]))
    notes = judge_file(str(path), FileTerms(timezone="Europe/Zurich")).judgement.notes
    assert "2 of them in an hour that comes twice for the first" in notes[-1]


CASES = REAL_DATA / "cases"
with_cases = pytest.mark.skipif(not CASES.is_dir(), reason="no cases (set TRIMTAB_REAL_DATA)")

ANSWERS = {
    "judge-few-runs-steady/few.csv": "too few runs to look for a change (6 of 24)",
    "judge-few-runs-steady/one.csv": "too few runs to look for a change (1 of 24)",
    "judge-runs-close-together/nights.csv": "bw -20 % since 2026-07-01",
    "judge-runs-close-together/same_stamp.csv": "bw -20 % since 2026-07-01",
    "judge-two-stages/two1.csv": "bw -17 % since 2026-05-10, -20 % from its best level",
    "gap-onset/s0.csv": "between 24 January and 19 February 2026",
    "gap-onset/s1.csv": "between 24 January and 19 February 2026",
    "gap-onset/s2.csv": "between 24 January and 19 February 2026",
    "gap-onset/s3.csv": "between 24 January and 19 February 2026",
    "bimodal-step/s3.csv": "value -12 % since 2026-02-11",
    "bimodal-step/s4.csv": "value -9.8 % since 2026-02-11",
    "bimodal-step/s5.csv": "value -12 % since 2026-02-11",
    "csv-compact-time/c14.csv": "bw -20 % since 2026-08-26",
    "csv-date-and-time-columns/twocol_datetime.csv": "bw_MiBs -20 % since 2026-08-26",
    "csv-number-taken-for-time/jobid_date.csv": "bw -20 % since 2026-08-26",
    "csv-two-operations/mixed_op.csv": "write bw -20 % since 2026-08-26",
    "csv-small/comment.csv": "bw -20 % since 2026-07-31",
    "csv-small/trail2.csv": "bw -20 % since 2026-07-31",
    "csv-small/h.csv.gz": "bw -20 % since 2026-07-31",
    "csv-time-formats/german.csv": "1 series steady",
    "csv-time-formats/grafana.csv": "1 series steady",
    "csv-time-formats/slurmdir.csv": "1 series steady",
    "csv-time-formats/otava.csv": "too few runs to look for a change (2 of 24)",
}


@with_cases
@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_right_of_a_file_is_its_answer(name: str) -> None:
    judgement = judge_file(str(CASES / name), FileTerms()).judgement
    assert ANSWERS[name] in headline(of_judgement(judgement))


@with_cases
@pytest.mark.parametrize("name", ["eu_slash.csv", "us.csv"])
def test_day_and_month_are_asked_for(name: str) -> None:
    with pytest.raises(UsageError, match="may mean"):
        judge_file(str(CASES / "csv-time-formats" / name), FileTerms())


@with_cases
def test_a_missing_head_is_told_with_the_line_to_add() -> None:
    with pytest.raises(UsageError) as refused:
        judge_file(str(CASES / "csv-no-header/noheader.csv"), FileTerms())
    assert "time,value" in str(refused.value.hint)


@with_cases
def test_operations_of_elbencho_are_series() -> None:
    terms = FileTerms(NamedColumns("ISO date", "MiB/s [last]", by="operation"))
    series = judge_file(str(CASES / "elbencho-csv/elbencho.csv"), terms).judgement.series
    levels = {entry.key.probe: entry.regimes[-1].median or 0.0 for entry in series}
    assert sorted(round(level, -2) for level in levels.values()) == [4900, 8900]


@pytest.mark.system
@pytest.mark.parametrize("number", [0, 1])
def test_a_column_map_reads_times_and_values(number: int) -> None:
    """Of the public year of daily probes; Edison's rows begin with an index without a name."""
    path, year = tables()[number], tokio_abc()
    runs, _ = year.read(path)
    read = read_table(gzip.decompress(path.read_bytes()), path.name)
    at = read_times(texts_of(read.frame[year.TIME]), "UTC")["at"].to_list()
    assert at == [run.at for run in runs]
    column = read.frame[year.VALUE]
    found = read_numbers(column, lines=read.lines, separator=read.separator).values.to_list()
    assert found == [None if run.value is None else run.value / 2**20 for run in runs]
    sites = zip(read.frame[year.SITE], runs, strict=True)
    assert all(run.site.endswith(site) for site, run in sites if site)
