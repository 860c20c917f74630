"""Records of a list, whatever the chunks that it is read in."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.purge.index import list_reading as module
from trimtab.purge.index.list_reading import ListReading, RecordBlock, blocks
from trimtab.purge.index.manifest import EXAMPLES_MAXIMUM


def _read(content: bytes, chunk: int) -> tuple[list[tuple[int, int, bytes]], ListReading]:
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


def _slow(content: bytes) -> list[tuple[int, int, bytes]]:
    found, offset = [], 0
    for number, text in enumerate(content.split(b"\0")[:-1], start=1):
        found.append((number, offset, text))
        offset += len(text) + 1
    return found


lists = st.lists(st.binary(max_size=6).filter(lambda text: b"\0" not in text), max_size=8)


@given(lists, st.binary(max_size=3).filter(lambda text: b"\0" not in text), st.integers(1, 12))
def test_every_record_has_its_number_and_place(texts: list[bytes], rest: bytes, chunk: int) -> None:
    content = b"".join(text + b"\0" for text in texts) + rest
    found, reading = _read(content, chunk)
    assert found == _slow(content)
    assert reading.refused == bool(rest)
    if rest:
        (one,) = reading.examples
        assert (one.record, one.offset_bytes) == (len(texts) + 1, len(content) - len(rest))


@given(lists, st.integers(1, 7))
def test_what_is_too_long_is_passed_over(texts: list[bytes], chunk: int) -> None:
    content = b"".join(text + b"\0" for text in [*texts, b"x" * 100, *texts, b"y" * 50])[:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RECORD_MAX_BYTES", 20)
        found, reading = _read(content, chunk)
    assert found == [one for one in _slow(content) if len(one[2]) <= 6]
    assert reading.reasons == {"it has no end": 2}
    assert [example.record for example in reading.examples] == [len(texts) + 1, 2 * len(texts) + 2]


@given(lists)
def test_all_but_the_last_keep_their_places(texts: list[bytes]) -> None:
    content = b"".join(text + b"\0" for text in texts)
    for block in blocks(io.BytesIO(content), b"\0", ListReading(root=b"/")):
        assert block.count() == len(texts)
        assert _parted(block.without_last()) == _slow(content)[:-1]


def test_all_refusals_count_and_some_are_shown() -> None:
    reading = ListReading(root=b"/")
    for number in range(EXAMPLES_MAXIMUM + 5):
        reading.refuse("why", record=number, text=b"\x1b" * 1000)
    assert reading.refused == EXAMPLES_MAXIMUM + 5
    assert len(reading.examples) == EXAMPLES_MAXIMUM
    assert reading.examples[0].text == "\\x1b" * 160
