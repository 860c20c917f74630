"""Records of a list, whatever the chunks that it is read in."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.purge.index import reading as module
from trimtab.purge.index.manifest import EXAMPLES_MAXIMUM
from trimtab.purge.index.reading import Reading, records


def _read(content: bytes, chunk: int) -> tuple[list[tuple[int, int | None, bytes]], Reading]:
    reading = Reading(root=b"/")
    result = []
    firsts = []
    for first, some in records(io.BytesIO(content), b"\0", reading, chunk_bytes=chunk):
        firsts.append(first)
        result += [(*some.locate(at), text) for at, text in enumerate(some.texts)]
    assert firsts[1:] == [False] * len(firsts[1:])
    return result, reading


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


@given(lists, st.data())
def test_parts_and_choices_keep_their_places(texts: list[bytes], data: st.DataObject) -> None:
    content = b"".join(text + b"\0" for text in texts)
    whole = _slow(content)
    reading = Reading(root=b"/")
    for _, some in records(io.BytesIO(content), b"\0", reading):
        first = data.draw(st.integers(0, len(some)))
        part = some.part(first)
        chosen = data.draw(st.lists(st.integers(0, max(0, len(part) - 1)), max_size=len(part)))
        picked = part.at(chosen)
        assert [(*picked.locate(at), text) for at, text in enumerate(picked.texts)] == [
            whole[first + at] for at in chosen
        ]


def test_all_refusals_count_and_some_are_shown() -> None:
    reading = Reading(root=b"/")
    for number in range(EXAMPLES_MAXIMUM + 5):
        reading.refuse("why", record=number, text=b"\x1b" * 1000)
    assert reading.refused == EXAMPLES_MAXIMUM + 5
    assert len(reading.examples) == EXAMPLES_MAXIMUM
    assert reading.examples[0].text == "\\x1b" * 160
