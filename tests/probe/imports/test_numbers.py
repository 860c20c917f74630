"""Numbers with commas, thousands and units are what was meant; what is open is asked for."""

from __future__ import annotations

import math
from contextlib import suppress

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import DataError, TrimtabError, UsageError
from trimtab.probe.imports.text_table import Numbers, is_numeric, read_numbers


def read(
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
def test_a_column_shows_what_its_commas_mean(
    cells: list[str | None], values: list[float | None]
) -> None:
    numbers = read(cells)
    assert (numbers.values.to_list(), numbers.unit) == (values, "")
    assert is_numeric(pl.Series(cells, dtype=pl.String)) == (2 * values.count(None) <= len(values))


@pytest.mark.parametrize("cells", [["12,014", "13,000"], ["987", "1.012"], ["1200", "9,123"]])
def test_what_may_be_a_thousand_times_as_much_is_asked_for(cells: list[str | None]) -> None:
    with raises(UsageError, "number-ambiguous"):
        read(cells, separator=";")
    low, high = (read(cells, decimal=decimal).values for decimal in (",", "."))
    assert None not in (*low, *high)
    assert low.to_list() != high.to_list()


def test_thousands_in_quotes_between_commas_are_noted() -> None:
    numbers = read(["12,014", "13,000"], separator=",")
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
    numbers = read(cells)
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
        read(cells)
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
    numbers = read([write(value) for value in values], decimal=decimal).values.to_list()
    assert numbers == [float(round(value)) if decimal else value for value in values]


@given(
    cells=st.lists(st.text(st.sampled_from("0123456789.,' eEGMB/s%-x"), max_size=12), max_size=6)
)
def test_any_text_is_a_number_or_none(cells: list[str | None]) -> None:
    with suppress(TrimtabError):
        assert all(math.isfinite(value) for value in read(cells).values.drop_nulls())
