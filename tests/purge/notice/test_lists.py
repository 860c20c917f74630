"""What stands in lists, against a slow writer that takes one row at a time."""

import base64
import json
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.plan.making import Row, frame_of

from trimtab.base.units import format_bytes
from trimtab.purge.plan.deletion_plan import escape, unescape
from trimtab.purge.plan.notice_text import ListLines, lines_of, shown, size_texts

component = st.binary(min_size=1, max_size=6).map(
    lambda name: name.replace(b"/", b"_").replace(b"\0", b"_")
)
rows = st.lists(
    st.builds(
        Row,
        path=st.lists(component, min_size=1, max_size=3).map(b"/".join),
        uid=st.sampled_from([0, 1000, 2**32 - 2]),
        last_use_s=st.integers(-(2**33), 2**33),
        size_bytes=st.integers(0, 2**63),
        allocated_bytes=st.integers(0, 2**63),
    ),
    max_size=12,
)


def slowly(row: dict[str, object], prefix: bytes) -> tuple[str, dict[str, object], bytes]:
    """Return the three forms of one candidate."""
    parent, name = row["parent"], row["name"]
    assert isinstance(parent, bytes)
    assert isinstance(name, bytes)
    assert isinstance(row["size_bytes"], int)
    assert isinstance(row["last_use_s"], int)
    path = prefix + (parent + b"/" if parent else b"") + name
    at = datetime.fromtimestamp(0, UTC).timestamp() + row["last_use_s"]
    used = datetime.fromtimestamp(at, UTC)
    text = escape(path)
    known = row["known"]
    listed = {True: "before", False: "new", None: "-"}[known]  # pyrefly: ignore[bad-index]
    line = f"{used:%Y-%m-%d}  {format_bytes(row['size_bytes']):>8}  {listed:<6}  {text}"
    plain = text.encode() == path
    fields = {
        "path": text,
        "path_base64": None if plain else base64.b64encode(path).decode(),
        "size_bytes": row["size_bytes"],
        "allocated_bytes": row["allocated_bytes"],
        "last_use_s": row["last_use_s"],
        "last_use": f"{used:%Y-%m-%dT%H:%M:%SZ}",
        "listed_before": known,
    }
    return line, fields, path


@pytest.mark.system
@given(
    rows,
    st.sampled_from([None, True, False]),
    st.sampled_from([b"/", b"/scratch/", "/ü/".encode()]),
)
def test_lists_are_those_of_a_slow_writer(
    candidates: list[Row], known: bool | None, prefix: bytes
) -> None:
    frame = frame_of(candidates).with_columns(known=pl.lit(known, pl.Boolean))
    result = {one.uid: one for one in lines_of(frame, prefix)}
    assert sorted(result) == sorted({row.uid for row in candidates})
    for uid, lines in result.items():
        wanted = [slowly(row, prefix) for row in frame.to_dicts() if row["uid"] == uid]
        assert lines.files == len(wanted)
        assert lines.new_files == (len(wanted) if known is False else 0)
        assert lines.text.decode() == "".join(f"{line}\n" for line, _, _ in wanted)
        assert read_lines(lines) == [fields for _, fields, _ in wanted]
        assert lines.names == b"".join(path + b"\0" for _, _, path in wanted)
        for line, fields, path in wanted:
            assert unescape(line[30:]) == path
            exact = fields["path_base64"]
            text = fields["path"]
            assert isinstance(text, str)
            taken = base64.b64decode(str(exact)) if exact is not None else text.encode()
            assert taken == path


def read_lines(lines: ListLines) -> list[dict[str, object]]:
    assert lines.lines.endswith(b"\n")
    return [json.loads(line) for line in lines.lines.decode().split("\n")[:-1]]


def test_a_list_is_in_order_of_age_and_marks_what_is_new() -> None:
    frame = frame_of([Row(b"b", 1, 200), Row(b"a", 1, 100), Row(b"c", 2, 50), Row(b"d/e", 1, 300)])
    known = frame.with_columns(known=pl.col("last_use_s") > 150)
    ada, bob = sorted(lines_of(known, b"/s/"), key=lambda lines: lines.uid)
    assert [line[-4:].strip() for line in ada.text.decode().splitlines()] == [
        "/s/a",
        "/s/b",
        "/d/e",
    ]
    assert [line[22:28] for line in ada.text.decode().splitlines()] == [
        "new   ",
        "before",
        "before",
    ]
    assert ada.names == b"/s/a\0/s/b\0/s/d/e\0"
    assert (ada.new_files, bob.new_files) == (1, 1)


def test_hostile_names_keep_one_line_each() -> None:
    names = [b"a\nb", b"\x1b[2J", b"\xff", b"<b>", b"-rf", b'"quoted"', b"a,b", "\u202ea".encode()]
    frame = frame_of([Row(name, 1, number) for number, name in enumerate(names)])
    (lines,) = lines_of(frame.with_columns(known=pl.lit(None, pl.Boolean)), b"/s/")
    assert len(lines.text.splitlines()) == len(lines.lines.splitlines()) == len(names)
    assert b"\x1b" not in lines.text + lines.lines
    assert lines.names.split(b"\0")[:-1] == [b"/s/" + name for name in names]
    for line in lines.text.decode().splitlines():
        assert line.isprintable()


near = st.sampled_from([1024**n * k for n in range(6) for k in (1, 1000, 1023, 9.995, 99.95)])


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 2**20) | near.map(int), min_size=1))
def test_sizes_are_those_of_one_at_a_time(sizes: list[int]) -> None:
    sizes = [min(2**64 - 1, size + step) for size in sizes for step in range(3)]
    result = size_texts(pl.Series(sizes, dtype=pl.UInt64))
    assert result.to_list() == [format_bytes(size) for size in sizes]


def test_so_are_those_where_rounding_is_a_tie() -> None:
    ties = [k * 1024**n // 1000 + d for n in (1, 2, 3) for k in range(1000, 9995) for d in (0, 1)]
    # Times ten the second is a tie, which rounds to the first; by itself it lies above.
    ties += [int(15.8 * 1024**6), 18_273_805_848_018_526_208]
    result = size_texts(pl.Series(ties, dtype=pl.UInt64))
    assert result.to_list() == [format_bytes(size) for size in ties]


@given(st.lists(st.binary(max_size=8), max_size=8))
def test_names_are_escaped_as_one_at_a_time(paths: list[bytes]) -> None:
    result = shown(pl.Series(paths, dtype=pl.Binary))
    assert result.to_list() == [escape(path) for path in paths]
    utf8 = [path for path in paths if path.isascii()] + [b"", b" ", b"a b", "ä".encode()]
    result = shown(pl.Series(utf8, dtype=pl.Binary))
    assert result.to_list() == [escape(path) for path in utf8]


@pytest.mark.parametrize("size", [0, 1023, 1024, 2**40, 2**64 - 1])
def test_every_size_keeps_its_column(size: int) -> None:
    frame = frame_of([Row(b"x", 1, 0, size_bytes=size)])
    (lines,) = lines_of(frame.with_columns(known=pl.lit(None, pl.Boolean)), b"/s/")
    assert lines.text.decode()[30:] == "/s/x\n"
