"""Tables as their writers meant them: rows parted and named by their lines, numbers in any form."""

from __future__ import annotations

import csv
import gzip
import io
import math
from contextlib import suppress

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import DataError, TrimtabError, UsageError
from trimtab.probe.result_file import unpacked
from trimtab.probe.text_table import Numbers, TextTable, is_numeric, read_numbers, read_table

ROWS = [("2026-08-01T06:00:00Z", "12.5"), ("2026-08-01T07:00:00Z", "13"), ("2026-08-02", "")]
PLAIN = "time,bw\n" + "".join(f"{at},{value}\n" for at, value in ROWS)


def read(text: str | bytes) -> TextTable:
    return read_table(text.encode() if isinstance(text, str) else text, "FILE")


def cells(table: TextTable) -> list[tuple[str | None, ...]]:
    return table.frame.rows()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (PLAIN, [2, 3, 4]),
        (PLAIN.replace("\n", "\r\n"), [2, 3, 4]),
        (PLAIN.replace("\n", "\r"), [2, 3, 4]),
        (PLAIN.replace("\n", "\n\n"), [3, 5, 7]),
        (PLAIN.replace("\n", ",\n").replace("bw,", "bw"), [2, 3, 4]),
        (PLAIN.replace("\n", ",,\n"), [2, 3, 4]),
        (PLAIN.replace(",", ";"), [2, 3, 4]),
        (PLAIN.replace(",", "\t"), [2, 3, 4]),
        (PLAIN.replace(",", "|"), [2, 3, 4]),
        (PLAIN.replace(",", " , ").replace(" , \n", ",\n"), [2, 3, 4]),
        ("sep=;\n" + PLAIN.replace(",", ";"), [3, 4, 5]),
        ("\ufeff" + PLAIN, [2, 3, 4]),
        ("# made by cron, on oss1\n\n" + PLAIN, [4, 5, 6]),
        ("# time,bw\n" + PLAIN.split("\n", 1)[1], [2, 3, 4]),
        (PLAIN.replace("13\n", "13\n# a rebuild, here\ntime,bw\n"), [2, 3, 6]),
        ('"time","bw"\n' + PLAIN.split("\n", 1)[1].replace("13", '"13"'), [2, 3, 4]),
    ],
)
def test_the_same_table_in_any_dress(text: str, lines: list[int]) -> None:
    table = read(text)
    stripped = [tuple(cell and cell.strip() for cell in row) for row in cells(table)]
    assert stripped == [tuple(cell or None for cell in row) for row in ROWS]
    assert (table.frame.columns, list(table.lines)) == (["time", "bw"], lines)


def test_encodings_and_archives_are_undone() -> None:
    text = "Zeit;Größe\n2026-08-01;1\n"
    for encoding in ("utf-8", "utf-16", "latin-1"):
        assert read(text.encode(encoding)).frame.columns == ["Zeit", "Größe"]
    assert unpacked(gzip.compress(text.encode()), "FILE") == text.encode()
    frame, stream = pl.DataFrame({"at": [1, 2]}), io.BytesIO()
    frame.write_parquet(stream)
    assert read(stream.getvalue()).frame.equals(frame)


def test_columns_parted_by_blanks_are_columns() -> None:
    table = read("date        time    bw\n2026-08-01  06:00   12.5\n2026-08-01  07:00   9\n")
    assert cells(table) == [("2026-08-01", "06:00", "12.5"), ("2026-08-01", "07:00", "9")]


def test_quotes_that_are_not_doubled_are_text() -> None:
    command = '"elbencho" "--hosts" "n1,n2" "-t" "16" '
    table = read(f"ISO date,MiB/s,command\n2026-09-01,4900,{command}\n2026-09-02,5000,{command}\n")
    assert table.frame["MiB/s"].to_list() == ["4900", "5000"]
    assert '"n1,n2"' in table.frame["command"][0]


def test_annotations_of_influxdb_are_comments() -> None:
    marks = "#group,false,false\n#datatype,string,long\n#default,_result,\n"
    head = ",result,table,_time,_value\n"
    rows = ",,0,2026-08-01T06:00:00Z,12.5\n,,0,2026-08-01T07:00:00Z,13\n"
    table = read(f"{marks}{head}{rows}\n{marks}{head}{rows}")
    assert table.frame.columns == ["result", "table", "_time", "_value"]
    assert list(table.lines) == [5, 6, 12, 13]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (",time,bw,bw\n0,2026-08-01,1,2\n", ["column 1", "time", "bw", "bw 2"]),
        ("time,0,1\n2026-08-01,0,1\n2026-08-02,1,0\n", ["time", "0", "1"]),
    ],
)
def test_names_that_are_missing_the_same_or_numbers_are_a_head(
    text: str, columns: list[str]
) -> None:
    assert read(text).frame.columns == columns


@pytest.mark.parametrize(
    ("rows", "head"),
    [
        (PLAIN.split("\n", 1)[1], "time,value"),
        ("01.08.2026 06:00;12,5\n01.08.2026 07:00;9,5\n", "time;value"),
        ("2026-08-01,06:00,write,5\n2026-08-01,07:00,write,6\n", "date,time,label,value"),
        ("1785564000,12.5\n1785567600,12.6\n", "time,value"),
        ("2026-08-01,12.5\n", "date,value"),
    ],
)
def test_a_missing_head_is_told_with_the_line_to_add(rows: str, head: str) -> None:
    with raises(UsageError, "head-missing") as caught:
        read(rows)
    assert str(caught.value.hint).endswith(head)
    assert read(f"{head}\n{rows}").frame.height == rows.count("\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PLAIN + "2026-08-03,1,2\n", 5),
        ("IOR of scratch\n" + PLAIN, 2),
        (PLAIN + f'2026-08-03,"{"x" * 200_000}"\n', 5),
        (PLAIN + '2026-08-03,"1\n2026-08-04,2\n2026-08-05,3\n', 5),
        (PLAIN + '2026-08-03,"1\n2026-08-04,2\n2026-08-05,"3"\n', 5),
        (PLAIN + "bw,time\n1,2026-08-03\n", 5),
        (PLAIN + "# time,iops,bw\n", 5),
        ('"a",c\n"x\ny",1\n2026-08-02,2,3\n', 4),
    ],
)
def test_a_row_that_does_not_fit_is_told_with_its_line(text: str, line: int) -> None:
    with pytest.raises(DataError) as caught:
        read(text)
    assert (caught.value.file, caught.value.line) == ("FILE", line)
    assert str(caught.value).startswith(f"FILE:{line}: ")


WORD = st.text(st.sampled_from("abc 12.-:"), max_size=5)


@given(rows=st.lists(st.lists(WORD, min_size=2, max_size=2), min_size=1, max_size=12))
def test_the_fast_way_and_the_slow_one_read_the_same(rows: list[list[str]]) -> None:
    body = "".join(",".join(row) + "\n" for row in rows)
    parted = read(f"name,other\n{body}x,y\n")
    quoted = read(f'"name","other"\n{body}x,y\n')
    assert parted.frame.equals(quoted.frame)
    assert list(parted.lines) == list(quoted.lines)
    assert parted.frame.rows() == [
        tuple(cell or None for cell in row) for row in csv.reader(io.StringIO(f"{body}x,y\n"))
    ]


@given(text=st.text(st.sampled_from('ab,;\t"\n\r#1. |='), max_size=60))
def test_any_text_is_a_table_or_an_error(text: str) -> None:
    with suppress(TrimtabError):
        table = read(text)
        assert len(table.lines) == table.frame.height


@pytest.mark.parametrize("first", [0, 1])
def test_numbers_of_rows_need_no_name(first: int) -> None:
    """As R's ``write.table`` and some of pandas write them."""
    lines = [f'"{number}",{at},{value}' for number, (at, value) in enumerate(ROWS[:2], first)]
    table = read("\n".join(["time,bw", *lines]) + "\n")
    assert table.frame.columns[1:] == ["time", "bw"]
    assert [row[1:] for row in cells(table)] == ROWS[:2]


def test_one_cell_too_many_is_no_number_of_a_row() -> None:
    for text in ("time,bw\n2026-08-01,12,5\n2026-08-02,13,5\n", "run,bw\n1,12,5\n3,13,5\n"):
        with pytest.raises(DataError, match="3 fields, and the head has 2"):
            read(text)


def numbers_of(
    cells: list[str | None], decimal: str | None = None, separator: str | None = None
) -> Numbers:
    column = pl.Series("speed", cells, dtype=pl.String)
    lines = range(2, len(cells) + 2)
    return read_numbers(column, lines=lines, decimal=decimal, separator=separator)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "2.5", ".5", "3.", "1e3", "+7", " 8 "], [1, 2.5, 0.5, 3, 1000, 7, 8]),
        (["12014,71", "12,5", "3"], [12014.71, 12.5, 3]),
        (["12,014.7", "950.1"], [12014.7, 950.1]),
        (["12,014", "987"], [12014, 987]),
        (["1,234,567", "12,014"], [1234567, 12014]),
        (["1.234.567", "2.000,5"], [1234567, 2000.5]),
        (["0,125", "1,250"], [0.125, 1.25]),
        (["12.014", "13.250"], [12.014, 13.25]),
        (["5", "5.125", "5.25"], [5, 5.125, 5.25]),
        (
            ["12'014.5", "1\u2019234.5", "12 014.5", "12\u202f014.5"],
            [12014.5, 1234.5, 12014.5, 12014.5],
        ),
        (["\u22123", "-3", "-0", "4"], [None, None, 0, 4]),
        (["1", "", None, "x", "nan", "inf", "1e302", "2.15.3"], [1, *[None] * 7]),
        (["12014.7", "crashed", "12.5.1"], [12014.7, None, None]),
    ],
)
def test_a_column_tells_its_commas(cells: list[str | None], values: list[float | None]) -> None:
    numbers = numbers_of(cells)
    assert (numbers.values.to_list(), numbers.unit) == (values, "")
    assert is_numeric(pl.Series(cells, dtype=pl.String)) == (2 * values.count(None) <= len(values))


@pytest.mark.parametrize("cells", [["12,014", "13,000"], ["987", "1.012"], ["1200", "9,123"]])
def test_what_may_be_a_thousand_times_as_much_is_asked_for(cells: list[str | None]) -> None:
    with raises(UsageError, "number-ambiguous"):
        numbers_of(cells, separator=";")
    low, high = (numbers_of(cells, decimal=decimal).values for decimal in (",", "."))
    assert None not in (*low, *high)
    assert low.to_list() != high.to_list()


def test_thousands_in_quotes_between_commas_are_noted() -> None:
    numbers = numbers_of(["12,014", "13,000"], separator=",")
    assert numbers.values.to_list() == [12014, 13000]
    assert "--decimal ," in str(numbers.note)


@pytest.mark.parametrize(
    ("cells", "values", "unit"),
    [
        (["12.0 GB/s", "850 MB/s", "0", "1"], [12e9, 850e6, 0, None], "B/s"),
        (["1,5 GB/s", "980,2 MB/s"], [1.5e9, 980.2e6], "B/s"),
        (["8Gb/s", "1 GiB/s"], [1e9, 2**30], "B/s"),
        (["12 ms", "1.1 s", "3 µs", "2 min"], [0.012, 1.1, 3e-6, 120], "s"),
        (["1.5 kIOPS", "900 IOPS", "2 ops/s"], [1500, 900, 2], "1/s"),
        (["2 GiB", "3 MB"], [2 * 2**30, 3e6], "B"),
        (["12 G", "3 G"], [12, 3], "G"),
        (["50 %", "25%"], [0.5, 0.25], "1"),
    ],
)
def test_units_are_converted(cells: list[str | None], values: list[float], unit: str) -> None:
    numbers = numbers_of(cells)
    assert (numbers.values.to_list(), numbers.unit) == (pytest.approx(values), unit)
    assert is_numeric(pl.Series(cells))


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        (["12 G", "3 M"], "units-mixed"),
        (["12 GiB", "3 MB/s"], "units-mixed"),
        (["1.5", "2,5"], "numbers-mixed"),
        (["12.014", "12,014"], "numbers-mixed"),
    ],
)
def test_what_cannot_be_one_column_is_told_with_lines(cells: list[str | None], code: str) -> None:
    with raises(DataError, code) as caught:
        numbers_of(cells)
    assert "line 2" in str(caught.value)
    assert "line 3" in str(caught.value)


@pytest.mark.parametrize("cells", [["n01", "n02"], ["5a3f", "9b7d"], ["2.15.3"], ["v1", "3.0-30"]])
def test_names_and_versions_are_no_numbers(cells: list[str]) -> None:
    assert not is_numeric(pl.Series(cells))


FORMS = {
    "plain": (repr, None),
    "English": (lambda value: f"{value:,.2f}", None),
    "German": (lambda value: f"{value:,.2f}".translate(str.maketrans(".,", ",.")), None),
    "Swiss": (lambda value: f"{value:,.2f}".replace(",", "\u2019"), None),
    "French": (lambda value: f"{value:,.2f}".replace(",", "\u202f").replace(".", ","), None),
    "comma": (lambda value: f"{value:.2f}".replace(".", ","), None),
    "whole": (lambda value: f"{round(value):,}", "."),
}


@pytest.mark.parametrize("name", FORMS)
@given(values=st.lists(st.floats(0, 1e9).map(lambda value: round(value, 2)), max_size=8))
def test_numbers_are_read_as_they_were_written(name: str, values: list[float]) -> None:
    write, decimal = FORMS[name]
    numbers = numbers_of([write(value) for value in values], decimal=decimal).values.to_list()
    assert numbers == [float(round(value)) if decimal else value for value in values]


@given(
    cells=st.lists(st.text(st.sampled_from("0123456789.,' eEGMB/s%-x"), max_size=12), max_size=6)
)
def test_any_text_is_a_number_or_none(cells: list[str | None]) -> None:
    with suppress(TrimtabError):
        assert all(math.isfinite(value) for value in numbers_of(cells).values.drop_nulls())
