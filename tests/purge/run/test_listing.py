"""Rows of a real Parquet file, up to the end of a row group."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab import _core
from trimtab.base.error import DataError, UsageError
from trimtab.purge.run.exchange import CandidatesListing
from trimtab.purge.run.rows import Rows


def write(path, rows, **columns):
    frame = pl.DataFrame(
        {
            "uid": pl.Series([row % 5 for row in range(rows)], dtype=pl.UInt32),
            "allocated_bytes": pl.Series([row * 512 for row in range(rows)], dtype=pl.UInt64),
            "name": pl.Series([b"\xff\n"] * rows, dtype=pl.Binary),
            **columns,
        }
    )
    frame.write_parquet(path, row_group_size=100)
    return CandidatesListing(_core.Candidates(path), rows)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write(tmp_path_factory.mktemp("plan") / "candidates.parquet", 950)


@given(st.integers(0, 949), st.integers(0, 300))
def test_any_rows_are_those_of_the_file(table, first, count):
    rows = Rows(first, min(count, 950 - first))
    result = table.listed(rows)
    assert result.rows == rows
    assert result.uids.tolist() == [row % 5 for row in range(rows.first, rows.end)]
    assert result.allocated_bytes.tolist() == [row * 512 for row in range(rows.first, rows.end)]


def test_rows_in_order_are_read_up_to_the_end_of_a_group(tmp_path, monkeypatch):
    table = write(tmp_path / "candidates.parquet", 950)
    reads = []
    real = table._read
    monkeypatch.setattr(table, "_read", lambda rows: reads.append(rows) or real(rows))
    for first in range(0, 950, 50):
        table.listed(Rows(first, 50))
    assert reads == [Rows(first, 50) for first in range(0, 950, 100)]
    table.listed(Rows(130, 100))
    table.listed(Rows(250, 50))
    assert reads[10:] == [Rows(130, 100)]


def test_the_largest_numbers_are_read_as_they_are(tmp_path):
    table = write(
        tmp_path / "candidates.parquet",
        1,
        uid=pl.Series([2**32 - 2], dtype=pl.UInt32),
        allocated_bytes=pl.Series([2**64 - 512], dtype=pl.UInt64),
    )
    result = table.listed(Rows(0, 1))
    assert result.uids.tolist() == [2**32 - 2]
    assert result.allocated_bytes.tolist() == [2**64 - 512]


def test_rows_that_there_are_not_are_refused(table):
    with raises(UsageError, "rows-out-of-range"):
        table.listed(Rows(940, 11))


def test_a_file_that_is_not_the_plans_is_an_error(tmp_path):
    path = tmp_path / "candidates.parquet"
    write(path, 10)
    with raises(DataError, "candidates-changed"):
        CandidatesListing(_core.Candidates(path), 11)
    table = write(path, 2, uid=pl.Series([1, None], dtype=pl.UInt32))
    with pytest.raises(DataError):
        table.listed(Rows(0, 2))
    table = write(path, 2, uid=pl.Series([1, -1], dtype=pl.Int64))
    with pytest.raises(DataError):
        table.listed(Rows(0, 2))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError):
        _core.Candidates(path)
    with pytest.raises(FileNotFoundError):
        _core.Candidates(tmp_path / "none")
