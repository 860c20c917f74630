"""Reading a list: records whatever the chunks, text to exact numbers, paths beneath the root."""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Callable
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.purge.index.trees import NS, clamped
from tests.support.each import for_each

from trimtab.purge.index import list_reading
from trimtab.purge.index import list_reading as module
from trimtab.purge.index.list_reading import (
    ROOT_ITSELF,
    ListReading,
    RecordBlock,
    blocks,
    split_paths,
)
from trimtab.purge.index.manifest import EXAMPLES_MAXIMUM


def _read_in_chunks(content: bytes, chunk: int) -> tuple[list[tuple[int, int, bytes]], ListReading]:
    reading = ListReading(root=b"/")
    result = []
    for block in blocks(io.BytesIO(content), b"\0", reading, chunk_bytes=chunk):
        assert block
        assert block.last() == block.first(block.count())[-1]
        result += _parted(block)
    return result, reading


def _parted(block: RecordBlock | None) -> list[tuple[int, int, bytes]]:
    """Return the records of a block, taken off one by one."""
    result = []
    while block:
        (text,) = block.first(1)
        result.append((block.number, block.offset, text))
        block = block.without_first()
    return result


def _slow_records(content: bytes) -> list[tuple[int, int, bytes]]:
    found, offset = [], 0
    for number, text in enumerate(content.split(b"\0")[:-1], start=1):
        found.append((number, offset, text))
        offset += len(text) + 1
    return found


record_lists = st.lists(st.binary(max_size=6).filter(lambda text: b"\0" not in text), max_size=8)


@given(
    record_lists, st.binary(max_size=3).filter(lambda text: b"\0" not in text), st.integers(1, 12)
)
def test_every_record_has_its_number_and_place(texts: list[bytes], rest: bytes, chunk: int) -> None:
    content = b"".join(text + b"\0" for text in texts) + rest
    found, reading = _read_in_chunks(content, chunk)
    assert found == _slow_records(content)
    assert reading.refused == bool(rest)
    if rest:
        (one,) = reading.examples
        assert (one.record, one.offset_bytes) == (len(texts) + 1, len(content) - len(rest))


@given(record_lists, st.integers(1, 7))
def test_what_is_too_long_is_passed_over(texts: list[bytes], chunk: int) -> None:
    content = b"".join(text + b"\0" for text in [*texts, b"x" * 100, *texts, b"y" * 50])[:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RECORD_MAX_BYTES", 20)
        found, reading = _read_in_chunks(content, chunk)
    assert found == [one for one in _slow_records(content) if len(one[2]) <= 6]
    assert reading.reasons == {"it has no end": 2}
    assert [example.record for example in reading.examples] == [len(texts) + 1, 2 * len(texts) + 2]


@given(record_lists)
def test_all_but_the_last_keep_their_places(texts: list[bytes]) -> None:
    content = b"".join(text + b"\0" for text in texts)
    for block in blocks(io.BytesIO(content), b"\0", ListReading(root=b"/")):
        assert block.count() == len(texts)
        assert _parted(block.without_last()) == _slow_records(content)[:-1]


def test_all_refusals_count_and_some_are_shown() -> None:
    reading = ListReading(root=b"/")
    for number in range(EXAMPLES_MAXIMUM + 5):
        reading.refuse("why", record=number, text=b"\x1b" * 1000)
    assert reading.refused == EXAMPLES_MAXIMUM + 5
    assert len(reading.examples) == EXAMPLES_MAXIMUM
    assert reading.examples[0].text == "\\x1b" * 160


def _read(reader, texts: list[str | None]) -> list[int | None]:
    return reader(pl.Series("text", texts, dtype=pl.String)).to_list()


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

    for kind, most in ((pl.UInt64, 2**64 - 1), (pl.UInt32, 2**32 - 1)):
        read = _read(lambda text, kind=kind: list_reading.whole(text, kind), list(texts))
        assert read == [slow(text, most) for text in texts]


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
    read = _read(
        lambda text: list_reading.multiples(text, 512),
        ["8", str(most), str(most + 1), str(2**64 - 1), None],
    )
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
        return clamped(int(value)) if value == int(value) else None

    assert _read(list_reading.seconds, list(texts)) == [slow(text) for text in texts]


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-NS + 1, NS - 1)), min_size=1)
)
def test_nanoseconds_never_wrap(pairs: list[tuple[int, int]]) -> None:
    whole_s, rest_ns = (pl.Series([pair[at] for pair in pairs], dtype=pl.Int64) for at in (0, 1))
    read = list_reading.nanoseconds(whole_s, rest_ns).to_list()
    far = 9223372036
    assert read == [
        2**63 - 1 if s > far else -(2**63) if s < -far else clamped(s * NS + ns) for s, ns in pairs
    ]


@pytest.mark.parametrize(("text", "value"), [("0", None), ("0.0000000000", None), ("5", 5 * NS)])
def test_a_birth_in_1970_is_not_known(text: str, value: int | None) -> None:
    assert _read(lambda one: list_reading.birth(list_reading.seconds(one)), [text]) == [value]


ROOT = b"/scratch"


def _one(path: bytes, root: bytes = ROOT, beneath: bytes = b"") -> tuple[bytes, bytes] | str:
    parents, names, reasons = split_paths([path], root, beneath=beneath)
    return reasons.get(0, (parents[0], names[0]))


@for_each(
    "path, found",
    [
        (b"/scratch/a/b", (b"a", b"b")),
        (b"/scratch/a", (b"", b"a")),
        (b"a/b/c", (b"a/b", b"c")),
        (b"./a/b", (b"a", b"b")),
        (b"/scratch//a///b", (b"a", b"b")),
        (b"/scratch/./a/.", (b"", b"a")),
        (b"/scratch/a/", (b"", b"a")),
        (b"/scratch/...", (b"", b"...")),
        (b"/scratch/.a/.b", (b".a", b".b")),
        (b"..a", (b"", b"..a")),
        (b"-rf/\xff\n", (b"-rf", b"\xff\n")),
        (b"/scratch", ROOT_ITSELF),
        (b"/scratch/", ROOT_ITSELF),
        (b".", ROOT_ITSELF),
        (b"./", ROOT_ITSELF),
        (b"/scratch2/a", "it is not beneath the root"),
        (b"/etc/passwd", "it is not beneath the root"),
        (b"/scratch/../etc/passwd", "its path goes through .., which may lead anywhere"),
        (b"../etc", "its path goes through .., which may lead anywhere"),
        (b"a/..", "its path goes through .., which may lead anywhere"),
        (b"", "it has no path"),
        (b"a/b\0c", "there is a NUL in its path"),
    ],
)
def test_a_path_is_beneath_the_root(path: bytes, found: object) -> None:
    assert _one(path) == found


def test_the_root_of_all_is_a_root() -> None:
    assert _one(b"/a/b", b"/") == (b"a", b"b")
    assert _one(b"/", b"/") == ROOT_ITSELF


def test_what_relative_paths_begin_with_is_taken_off() -> None:
    assert _one(b"proj/a/b", beneath=b"proj") == (b"a", b"b")
    assert _one(b"proj", beneath=b"proj") == ROOT_ITSELF
    assert _one(b"other/a", beneath=b"proj") == "it is not beneath the root"
    assert _one(b"/scratch/a", beneath=b"proj") == (b"", b"a")
    assert _one(b"project/a", beneath=b"proj") == "it is not beneath the root"


@given(st.lists(st.lists(st.sampled_from([b"", b".", b"..", b"a", b"b\xff", b"\0"]), max_size=4)))
def test_many_paths_are_parted_as_each_of_them(parted: list[list[bytes]]) -> None:
    paths = [before + b"/".join(parts) for parts in parted for before in (b"/scratch/", b"")]
    parents, names, reasons = split_paths(paths, ROOT)
    assert len(parents) == len(names) == len(paths)
    for at, path in enumerate(paths):
        assert reasons.get(at, (parents[at], names[at])) == _one(path)


component = st.binary(min_size=1, max_size=4).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)


@given(st.lists(component, min_size=1, max_size=6), st.sampled_from([b"/scratch/", b"./", b""]))
def test_the_parts_make_the_path_again(parts: list[bytes], before: bytes) -> None:
    path = b"/".join(parts)
    result = _one(before + path)
    assert not isinstance(result, str)
    assert posixpath.join(*result) == path


@given(st.binary(max_size=12))
def test_no_path_leaves_the_root(path: bytes) -> None:
    result = _one(path)
    if not isinstance(result, str):
        parts = posixpath.join(*result).split(b"/")
        assert all(part not in (b"", b".", b"..") for part in parts)
