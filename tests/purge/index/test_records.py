"""Lists of find against a slow twin: what they say in a few lines, record by record."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.index.slow_readers import blocks, time_ns
from tests.purge.index.slow_readers import number as digits

from trimtab.purge.index import printf_list
from trimtab.purge.index.list_reading import ROOT_ITSELF, ListReading, split_paths
from trimtab.purge.index.printf_list import GNU, LFS, PATTERNS, ListFormat, parse_format

TOKEN = b"0123456789abcdef"
Row = dict[str, Any]


class Pieces(io.BytesIO):
    """A list that is read in pieces of some lengths, over and over."""

    def __init__(self, content: bytes, lengths: list[int]) -> None:
        super().__init__(content)
        self._lengths = lengths

    def read(self, size: int | None = -1, /) -> bytes:
        del size
        length = self._lengths[0]
        self._lengths = [*self._lengths[1:], length]
        return super().read(length)


def _fid(text: bytes) -> bytes | None:
    digits = ":".join(f"0x([0-9a-fA-F]{{1,{most}}})" for most in (16, 8, 8))
    match = re.fullmatch(rf"\[?{digits}\]?".encode(), text)
    if match is None or not int(match[1], 16):
        return None
    widths = zip(match.groups(), (8, 4, 4), strict=True)
    return b"".join(int(part, 16).to_bytes(width, "big") for part, width in widths)


def _letter(text: bytes) -> str | None:
    letter = text.decode(errors="surrogateescape")
    if not re.fullmatch(r"[^\n\udc80-\udcff]", letter):
        return None
    return letter if letter in "fdlpsbc" else "?"


def _indices(text: bytes) -> list[int] | None:
    numbers = [int(digits) for digits in re.findall(rb"[0-9]+", text)]
    return numbers if numbers and max(numbers) < 2**32 else None


READERS: Mapping[str, Callable[[bytes], Any]] = {
    "small": partial(digits, bits=32),
    "unsigned": partial(digits, bits=64),
    "blocks": blocks,
    "fid": _fid,
    "inode": lambda text: None if (n := digits(text, 64)) is None else n.to_bytes(16, "big"),
    "seconds": partial(time_ns, side_by_side=False),
    "timespec": partial(time_ns, side_by_side=True),
    "birth-seconds": lambda text: time_ns(text, side_by_side=False) or None,
    "birth-timespec": lambda text: time_ns(text, side_by_side=True) or None,
    "letter": _letter,
    "name": lambda text: text or None,
    "stripes": partial(digits, bits=32),
    "indices": _indices,
}
LOOSE = ("birth-seconds", "birth-timespec", "stripes", "indices", "passed")


def twin_row(  # noqa: C901 (as the record is read, step by step)
    text: bytes, form: ListFormat, foreign: bytes, kinds: list[bool]
) -> Row | str | None:
    """Return the row of a record, why it is refused, or ``None`` where it is passed over.

    Parameters
    ----------
    foreign
        What no path may hold.
    kinds
        Whether the paths so far were absolute; it is added to.
    """
    directives = form.directives
    *values, path = parts = text.split(b"\t", len(directives))
    gone = directives[0].reader == "fid" and text.startswith(b"\t")
    if gone and not form.closed:
        return None
    path, closing, last = path.rpartition(b"\t") if form.closed else (path, b"", b"")
    if len(parts) <= len(directives) or (form.closed and not closing):
        return f"it has {len(parts)} fields instead of {len(directives) + 1 + form.closed}"
    if form.closed and last != values[0]:
        return "it ends with another identity than it begins with: parts of two records, or of one"
    if foreign and foreign in path:
        return "the path goes on with another record: the end between them is lost"
    if gone:
        return None
    row: Row = {}
    for directive, value in zip(directives, values, strict=True):
        word = value.decode(errors="replace")
        shaped = re.fullmatch(directive.pattern, word) and word.encode() == value
        if (directive.reader in LOOSE and not shaped) or (
            directive.reader == "name" and b"/" in value
        ):
            return "a field is not what the format prints"
        if directive.column is not None:
            row[directive.column] = READERS[directive.reader](value)
    kinds += [path.startswith(b"/")] if path else []
    (row["parent"],), (row["name"],), reasons = split_paths(
        [path], b"/scratch", absolute=kinds[0] if kinds else None
    )
    if reasons:
        return reasons[0] if reasons[0] != ROOT_ITSELF else None
    wrong = [
        str(directive.column)
        for directive in directives
        if directive.reader not in (*LOOSE, "name") and row[str(directive.column)] is None
    ]
    if row.get("type", "f") != "f":
        row.update({name: None for name in ("osts", "stripe_count", "pool") if name in row})
    return f"{', '.join(wrong)}: not what it should be" if wrong else row


# Values that a field may or may not have, parted by spaces.
ODD = {
    "number": [
        *b"-1 +1 01 4294967296 18446744073709551616 36028797018963968 1.0 \xff".split(),
        *(b"", b"1" + b"0" * 30, b" 1", "٣".encode()),
    ],
    "time": [
        *b"-2.5000000000 2.00000000001 .5 1. 9223372037 -9223372037.5 9223372036854775808".split(),
        *b"+1.5 1.-5 -0.5 1600000000.1234567890 - 1.x 1,5 now".split(),
    ],
    "birth": [b"", *b"0 -1.-000000010 1.5 x 0.0000000000".split()],
    "letter": [*b"d l D ff \xff 7".split(), b"", b"\n", "é".encode()],
    "fid": [
        *b"[0x1:0xF:0x0] 0x0:0x1:0x0 0x1:0x2 0x1:0x2:0x3:0x4 0x1:0x123456789:0x0".split(),
        *(b"", b"0x1:0x15z:0x0"),
    ],
    "indices": [b"", b"[0][2,1]", b"[?]", b"[4294967296]", b"1 2"],
    "digits": [b"", b"1152921504606846978", b"x"],
    "signed": [b"", b"-1", b"--1"],
    "octal": [b"8", b""],
    "words": [b"", b"a b", b"\xff"],
    "name": [b"", b"a/b", b"\xff", b"a\tb"],
}
FITTING = {
    "time": b"1600000000.5000000000",
    "birth": b"5",
    "letter": b"f",
    "words": b"-rw-",
    "fid": b"0x200000402:0x1:0x0",
    "indices": b"[3]",
    "name": b"flash",
}
PATHS = [
    *b"/scratch/a/b /scratch/a/c /scratch/a/.c /scratch/a/.. /scratch/./a /scratch//a".split(),
    *b"/scratch/a/ /scratch /etc/a ./x a/b /scratch/\xff /scratch/a/...".split(),
    *(b"", b"/scratch/t\tab", b"/scratch/" + b"long" * 9 + b"/" + b"name" * 9),
]


def values(form: ListFormat, paths: list[bytes]) -> st.SearchStrategy[bytes]:
    """Return records: most fields fit."""
    fields = [
        st.one_of(*[st.just(FITTING.get(one.shape, b"7"))] * 3, st.sampled_from(ODD[one.shape]))
        for one in form.directives
    ]
    parts = st.tuples(*fields, st.sampled_from(paths))
    whole = parts.map(lambda fields: b"\t".join([*fields, *fields[: form.closed]]))
    return st.one_of(whole, whole, whole, whole.map(lambda text: text[: len(text) // 2]))


pieces = st.lists(st.integers(1, 90), min_size=1, max_size=4)
CUSTOM = r"%y\t%U\t%m\t%M\t%k\t%d\t%s\t%B@\t%p\0"
LAYOUT = r"%LF\t%U\t%i\t%Li\t%LS\t%s\t%Lc\t%Lp\t%W@\t%p\n"


def _checked(
    reader: Callable[..., Any],
    content: bytes,
    lengths: list[int],
    form: str,
    texts: list[tuple[int, int, bytes]],
    twin: Callable[[bytes], Row | str | None],
) -> ListReading:
    reading = ListReading(root=b"/scratch")
    read = [
        row
        for frame in reader(Pieces(content, lengths), reading, format_text=form)
        for row in frame.to_dicts()
    ]
    expected = [(number, at, twin(text)) for number, at, text in texts]
    rows = [row for _, _, row in expected if isinstance(row, dict)]
    assert [{name: row[name] for name in rows[0]} for row in read] == rows
    refused = [(number, at, why) for number, at, why in expected if isinstance(why, str)]
    assert reading.refused == len(refused)
    found = [(one.record, one.offset_bytes, one.reason) for one in reading.examples]
    assert set(found) <= set(refused)
    assert len(found) == min(20, len(refused))
    return reading


@pytest.mark.parametrize("form", [printf_list.GNU_FULL, CUSTOM])
@given(st.data())
def test_lists_of_find_are_read_as_the_twin_reads_them(form: str, data: st.DataObject) -> None:
    parsed = parse_format(form, GNU)
    foreign = b"" if parsed.closed else b"\t/scratch/"
    twin = partial(twin_row, form=parsed, foreign=foreign, kinds=[])
    paths = [*PATHS, b"/scratch/n\nl", b"/scratch/a7\t/scratch/b"]
    records = data.draw(st.lists(values(parsed, paths), max_size=12))
    content, texts = b"trimtab-list 1 started=5\0", []
    for number, text in enumerate(records, start=2):
        texts.append((number, len(content), text))
        content += text + b"\0"
    content += b"trimtab-end ended=6\0"
    reading = _checked(printf_list.read_gnu_list, content, data.draw(pieces), form, texts, twin)
    assert reading.ended_well


@pytest.mark.parametrize("form", [printf_list.LFS_FULL, LAYOUT])
@given(st.data())
def test_lists_of_lfs_find_are_read_as_the_twin_reads_them(form: str, data: st.DataObject) -> None:
    parsed = parse_format(form, LFS)
    directives = parsed.directives
    twin = partial(twin_row, form=parsed, foreign=TOKEN, kinds=[])
    forged = TOKEN[:-1] + b"\t" + b"7\t" * len(directives) + b"/scratch/victim"
    inside = [
        b"/scratch/n\nl",
        b"/scratch/\n\n",
        b"/scratch/e\ntrimtab-end ended=9",
        b"/scratch/a\n" + forged,
        b"/scratch/m" + TOKEN + b"\tx",
        *([] if parsed.closed else [b"/scratch/a\n" + TOKEN]),  # else: two records, both torn
    ]
    records = data.draw(st.lists(values(parsed, [*PATHS, *inside]), max_size=12))
    content, texts, number = b"trimtab-list 1 started=5 token=%s\n" % TOKEN, [], 2
    for text in records:
        texts.append((number, len(content), text))
        content += TOKEN + b"\t" + text + b"\n"
        number += text.count(b"\n") + 1
    content += TOKEN + b"\ttrimtab-end ended=6\n"
    reading = _checked(printf_list.read_lfs_list, content, data.draw(pieces), form, texts, twin)
    assert reading.ended_well


@pytest.mark.parametrize("lustre", [False, True], ids=["find", "lfs find"])
def test_no_split_of_a_list_changes_what_is_read(lustre: bool) -> None:
    known, full = (LFS, printf_list.LFS_FULL) if lustre else (GNU, printf_list.GNU_FULL)
    read = printf_list.read_lfs_list if lustre else printf_list.read_gnu_list
    directives = parse_format(full, known).directives
    fields = [FITTING.get(one.shape, b"7") for one in directives]
    text = b"\t".join([*fields, b"/scratch/a\nb", fields[0]])
    end = b"\n" if lustre else b"\0"
    token, before = (b" token=" + TOKEN, TOKEN + b"\t") if lustre else (b"", b"")
    content = b"trimtab-list 2 started=5" + token + end + (before + text + end) * 2
    content += before + b"x" + end + before + b"trimtab-end ended=6" + end
    for cut in range(1, len(content)):
        reading = ListReading(root=b"/scratch")
        frames = read(Pieces(content, [cut, len(content)]), reading)
        assert [name for frame in frames for name in frame["name"]] == [b"a\nb"] * 2
        (torn,) = reading.examples
        assert torn.offset_bytes == content.index(before + b"x" + end)
        assert reading.ended_well


def test_every_shape_has_its_odd_values() -> None:
    assert set(ODD) == set(PATTERNS)
