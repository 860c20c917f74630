"""Shards: every row once, sorted, bounded, readable by whoever reads Parquet."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import UnreadableError
from trimtab.purge.index import shard as schema
from trimtab.purge.index.shard import ShardWriter, fill, write_shard


def _frame(names: list[bytes], **more: object) -> pl.DataFrame:
    many = len(names)
    columns = {"parent": [b"d"] * many, "name": names, "uid": [1] * many, "size_bytes": [5] * many}
    columns |= more
    kinds = schema.columns()
    return pl.DataFrame(columns, schema={name: kinds[name] for name in columns})


def _read(directory: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(file) for file in sorted(directory.glob("*.parquet"))])


@pytest.mark.system
@given(st.lists(st.lists(st.binary(max_size=3), max_size=9), max_size=5), st.integers(1, 10))
def test_every_row_is_in_one_shard(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[bytes]], limit: int
) -> None:
    directory = tmp_path_factory.mktemp("index")
    writer = ShardWriter(directory, rows_maximum=limit)
    for names in parts:
        writer.add(schema.completed(_frame(names)))
    shards = writer.finish()
    everything = [name for names in parts for name in names]
    written = _read(directory)["name"].to_list()
    assert set(written) == set(everything)
    assert len(written) + writer.repeated == len(everything)
    for one in shards:
        in_one = pl.read_parquet(directory / one.name)["name"].to_list()
        assert in_one == sorted(in_one)
        assert one.rows == len(in_one) < 2 * limit
    if limit > len(everything):
        assert written == sorted(set(everything))


@given(st.lists(st.lists(st.tuples(st.binary(max_size=2), st.binary(max_size=2)), max_size=8)))
def test_a_shard_is_in_the_order_of_bytes_wherever_a_directory_stands(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[tuple[bytes, bytes]]]
) -> None:
    directory = tmp_path_factory.mktemp("index")
    writer = ShardWriter(directory)
    numbers = iter(range(1000))
    first: dict[tuple[bytes, bytes], int] = {}
    for part in parts:
        uids = [next(numbers) for _ in part]
        for path, uid in zip(part, uids, strict=True):
            first.setdefault(path, uid)
        frame = _frame([name for _, name in part], parent=[parent for parent, _ in part], uid=uids)
        writer.add(schema.completed(frame))
    writer.finish()
    written = _read(directory).select("parent", "name", "uid").rows()
    assert written == [(*path, first[path]) for path in sorted(first)]
    assert writer.repeated == sum(map(len, parts)) - len(first)


@pytest.mark.parametrize("shared", [False, True])
def test_long_paths_make_small_shards_even_where_files_share_them(
    tmp_path: Path, *, shared: bool
) -> None:
    names = _frame([b"%d" % number for number in range(10)], parent=[b"x" * 60_000] * 10)
    if shared:
        names = names.with_columns(pl.Series("parent", [b"x" * 60_000]).gather([0] * 10))
    writer = ShardWriter(tmp_path, bytes_maximum=100_000)
    for number in range(10):
        writer.add(schema.completed(names[number]))
    assert len(writer.finish()) == 5


def test_what_is_lacking_has_its_stand_in() -> None:
    row, other = schema.completed(_frame([b"a", b"b"]), first=5).to_dicts()
    assert (row["id"], other["id"]) == tuple((2**127 + at).to_bytes(16, "big") for at in (5, 6))
    assert (row["device"], row["nlink"], row["gid"]) == (0, 1, 2**32 - 1)
    assert row["allocated_bytes"] == row["size_bytes"]
    assert (row["type"], row["last_use_s"]) == ("f", None)


nanoseconds = st.none() | st.integers(-(2**63), 2**63 - 1)


@given(nanoseconds, nanoseconds, nanoseconds)
def test_the_last_use_is_the_latest_of_three_known_times(
    access: int | None, modification: int | None, change: int | None
) -> None:
    times = {"atime_ns": [access], "mtime_ns": [modification], "ctime_ns": [change]}
    last = schema.completed(_frame([b"a"], **times))["last_use_s"].item()
    known = [value[0] for value in times.values() if value[0] is not None]
    assert last == (max(known) // 10**9 if len(known) == 3 else None)


def test_the_columns_are_those_of_the_schema_in_parquet(tmp_path: Path) -> None:
    fill(ShardWriter(tmp_path), [_frame([b"a"])])
    assert pl.read_parquet_schema(tmp_path / "part-000000.parquet") == dict(schema.columns())


def test_nothing_is_left_of_a_shard_that_could_not_be_written(tmp_path: Path) -> None:
    with (
        mock.patch.object(schema.os, "fsync", side_effect=OSError(28, "No space left on device")),
        raises(UnreadableError, "index-unwritable"),
    ):
        write_shard(schema.completed(_frame([b"a"])), tmp_path / "a.parquet")
    assert not (tmp_path / "a.parquet").exists()


def test_a_shard_is_ones_own(tmp_path: Path) -> None:
    shard = write_shard(schema.completed(_frame([b"a"])), tmp_path / "a.parquet")
    status = (tmp_path / "a.parquet").stat()
    assert (status.st_mode & 0o777, status.st_size) == (0o600, shard.size_bytes)


@given(st.lists(st.none() | st.integers(0, 2**64 - 1), max_size=5))
def test_an_inode_number_is_the_lower_half(numbers: list[int | None]) -> None:
    ids = schema.of_inodes(pl.Series("id", numbers, dtype=pl.UInt64))
    assert (ids.name, ids.dtype) == ("id", pl.Binary)
    expected = [None if number is None else number.to_bytes(16, "big") for number in numbers]
    assert ids.to_list() == expected
