"""Text to numbers: exact, or nothing at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trimtab.purge.index import list_reading

NS = 10**9


def _read(reader, texts: list[str | None]) -> list[int | None]:
    return reader(pl.Series("text", texts, dtype=pl.String)).to_list()


def _clamped(value: int) -> int:
    return min(max(value, -(2**63)), 2**63 - 1)


numbers = st.one_of(
    st.integers(0, 2**64 + 5).map(str),
    st.text("0123456789-+. _eE\n", max_size=22),
    st.sampled_from(["", "-0", "+1", "1_000", " 1", "1 ", "1\n", "٣", "0x10", "1e3", "nan", "007"]),
)


@given(st.lists(numbers, min_size=1, max_size=20))
def test_a_whole_number_is_digits_that_fit(texts: list[str]) -> None:
    def slow(text: str, limit: int) -> int | None:
        if not re.fullmatch("[0-9]+", text, re.ASCII):
            return None
        return int(text) if int(text) <= limit else None

    read = _read(lambda text: list_reading.whole(text, pl.UInt64), list(texts))
    assert read == [slow(text, 2**64 - 1) for text in texts]
    read = _read(lambda text: list_reading.whole(text, pl.UInt32), list(texts))
    assert read == [slow(text, 2**32 - 1) for text in texts]


@pytest.mark.parametrize(
    "reader",
    [
        lambda text: list_reading.whole(text, pl.UInt64),
        lambda text: list_reading.whole(text, pl.UInt32),
        lambda text: list_reading.multiples(text, 512),
        list_reading.signed,
        list_reading.seconds,
    ],
)
@given(
    st.sampled_from([(-(2**63), 2**63 - 1, pl.Int64), (0, 2**64 - 1, pl.UInt64)]).flatmap(
        lambda kind: st.tuples(st.lists(st.none() | st.integers(*kind[:2])), st.just(kind[2]))
    )
)
def test_a_number_is_read_as_its_text(
    reader: Callable[[pl.Series], pl.Series], column: tuple[list[int | None], type[pl.DataType]]
) -> None:
    whole = pl.Series("text", column[0], dtype=column[1])
    assert reader(whole).equals(reader(whole.cast(pl.String)), check_dtypes=True)


def test_blocks_that_do_not_fit_are_no_number() -> None:
    most = (2**64 - 1) // 512
    texts = ["8", str(most), str(most + 1), str(2**64 - 1), None]
    read = _read(lambda text: list_reading.multiples(text, 512), texts)
    assert read == [4096, most * 512, None, None, None]


times = st.one_of(
    st.tuples(st.integers(-(10**18), 10**18), st.integers(0, NS - 1)).map(
        lambda pair: f"{pair[0]}.{pair[1]:09}0"
    ),
    st.decimals(-(10**11), 10**11, places=9).map(lambda value: f"{value:f}"),
    st.integers(-(10**12), 10**12).map(str),
    st.text("0123456789-.", max_size=24),
)
PLAIN = re.compile(r"-?([0-9]+)(?:\.([0-9]{1,9})0*)?", re.ASCII)


@given(st.lists(times, min_size=1, max_size=20))
@example(["9223372036.854775807", "9223372036.854775808", "-9223372036.854775808", "-9223372037.5"])
@example(["-2.5000000000", "-1.-000000010", "0.0000000010", "-0.5"])
def test_a_time_is_exact_to_the_nanosecond(texts: list[str]) -> None:
    def slow(text: str) -> int | None:
        result = PLAIN.fullmatch(text)
        if result is None or not -(2**63) <= int(text.partition(".")[0]) < 2**63:
            return None
        value = Decimal(text) * NS
        return _clamped(int(value)) if value == int(value) else None

    assert _read(list_reading.seconds, list(texts)) == [slow(text) for text in texts]


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-NS + 1, NS - 1)), min_size=1)
)
def test_nanoseconds_never_wrap(pairs: list[tuple[int, int]]) -> None:
    whole_s = pl.Series("s", [pair[0] for pair in pairs], dtype=pl.Int64)
    rest_ns = pl.Series("ns", [pair[1] for pair in pairs], dtype=pl.Int64)
    read = list_reading.nanoseconds(whole_s, rest_ns).to_list()
    far = 9223372036
    slow = [
        2**63 - 1 if s > far else -(2**63) if s < -far else _clamped(s * NS + ns) for s, ns in pairs
    ]
    assert read == slow


@pytest.mark.parametrize(("text", "value"), [("0", None), ("0.0000000000", None), ("5", 5 * NS)])
def test_a_birth_in_1970_is_not_known(text: str, value: int | None) -> None:
    assert _read(lambda one: list_reading.birth(list_reading.seconds(one)), [text]) == [value]
