"""Identities: 16 bytes of each number."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from trimtab.purge.index import shard


@given(st.lists(st.none() | st.integers(0, 2**64 - 1), max_size=5))
def test_an_inode_number_is_the_lower_half(numbers: list[int | None]) -> None:
    ids = shard.of_inodes(pl.Series("id", numbers, dtype=pl.UInt64))
    assert (ids.name, ids.dtype) == ("id", pl.Binary)
    expected = [None if number is None else number.to_bytes(16, "big") for number in numbers]
    assert ids.to_list() == expected
