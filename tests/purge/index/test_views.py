from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

from trimtab.purge.index.index_view import named


@pytest.fixture
def restless() -> Iterator[None]:
    """Have threads take turns far more often than they do by themselves."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.calibration
@pytest.mark.usefixtures("restless")
def test_threads_that_ask_for_names_at_once_do_not_mix_them_up() -> None:
    names = named("uid", "user", lambda number: f"user{number}")

    def ask(part: int) -> bool:
        numbers = [None, *range(300 * part, 300 * part + 300)]
        frame = pl.LazyFrame({"uid": numbers}, schema={"uid": pl.UInt32}).select(names)
        asked = frame.collect()["user"].to_list()
        return asked == [None, *(f"user{number}" for number in numbers[1:])]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(200)))


def test_numbers_that_are_not_known_have_no_name() -> None:
    frame = pl.LazyFrame({"uid": [None, None]}, schema={"uid": pl.UInt32})
    assert frame.select(named("uid", "user", str)).collect()["user"].to_list() == [None, None]
