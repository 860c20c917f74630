"""Rows of a real Parquet file, a stretch at a time."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.errors import DataError, UsageError
from trimtab.purge.run import listing as listing_module
from trimtab.purge.run.listing import CandidatesListing
from trimtab.purge.run.state import Rows


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
    return CandidatesListing(path, rows)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write(tmp_path_factory.mktemp("plan") / "candidates.parquet", 1000)


@given(st.integers(0, 999), st.integers(1, 300), st.sampled_from([1, 7, 128, 10_000]))
def test_any_rows_are_those_of_the_file(table, first, count, stretch):
    rows = Rows(first, min(count, 1000 - first))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing_module, "STRETCH_ROWS", stretch)
        result = table.listed(rows)
    assert result.rows == rows
    assert result.uids.tolist() == [row % 5 for row in range(rows.first, rows.end)]
    assert result.allocated_bytes.tolist() == [row * 512 for row in range(rows.first, rows.end)]


def test_rows_in_order_are_read_a_stretch_at_a_time(tmp_path, monkeypatch):
    table = write(tmp_path / "candidates.parquet", 1000)
    monkeypatch.setattr(listing_module, "STRETCH_ROWS", 400)
    reads = []
    real = table._read
    monkeypatch.setattr(table, "_read", lambda rows: reads.append(rows) or real(rows))
    for first in range(0, 1000, 50):
        table.listed(Rows(first, 50))
    assert reads == [Rows(0, 400), Rows(400, 400), Rows(800, 200)]


def test_rows_that_there_are_not_are_refused(table):
    with raises(UsageError, "rows-out-of-range"):
        table.listed(Rows(990, 11))


def test_a_file_that_is_not_the_plans_is_an_error(tmp_path):
    path = tmp_path / "candidates.parquet"
    write(path, 10)
    with raises(DataError, "candidates-changed"):
        CandidatesListing(path, 11).listed(Rows(0, 11))
    write(path, 2, uid=pl.Series([1, None], dtype=pl.UInt32))
    with raises(DataError, "candidates-changed"):
        CandidatesListing(path, 2).listed(Rows(0, 2))
    write(path, 2, uid=pl.Series([1, -1], dtype=pl.Int64))
    with pytest.raises(DataError):
        CandidatesListing(path, 2).listed(Rows(0, 2))
    path.write_bytes(path.read_bytes()[:-20])
    with raises(DataError, "candidates-unreadable"):
        CandidatesListing(path, 2).listed(Rows(0, 2))
    with pytest.raises(DataError):
        CandidatesListing(tmp_path / "none", 2).listed(Rows(0, 2))
