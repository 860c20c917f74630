"""GUFI traces, written here field by field as its documentation has them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.purge.index.imports import imported, only
from tests.purge.index.trees import NS, hostile_tree, path_of, true_rows
from tests.support.codes import raises

from trimtab.errors import DataError
from trimtab.purge.index.manifest import Lack, Source, TimeTrust

RECORDED = Path(__file__).parents[2] / "fixtures" / "gufi_trace" / "09109d1b"


def trace_line(path: bytes, status: Any, delimiter: bytes = b"\x1e", **more: Any) -> bytes:
    """Return one record: the slow, obvious writer."""

    def text(value: bytes) -> bytes:
        return b"%04x" % len(value) + value

    pairs = more.get("xattrs", [])
    packed = b"".join(name + b"\x1f" + value + b"\x1f" for name, value in pairs)
    kind = {stat.S_IFDIR: b"d", stat.S_IFLNK: b"l"}.get(stat.S_IFMT(status.st_mode), b"f")
    numbers = (
        status.st_ino, status.st_mode, status.st_nlink, status.st_uid, status.st_gid,
        status.st_size, 4096, status.st_blocks, status.st_atime_ns // NS,
        status.st_mtime_ns // NS, status.st_ctime_ns // NS,
    )  # fmt: skip
    fields = [
        text(path),
        kind,
        *(b"%d" % number for number in numbers),
        text(more.get("link", b"")),
        b"%04x%04x" % (len(packed) + 4, len(pairs)) + packed,
        b"%d" % more.get("birth", 0),
        *(b"0" for _ in range(4)),
        text(more.get("text", b"")),
        text(b""),
        b"%d" % more.get("parent", 0),
    ]
    return delimiter.join(fields) + delimiter + b"\n"


def _status(**changed: int) -> Any:
    values = {
        "st_ino": 5, "st_mode": 0o100644, "st_nlink": 1, "st_uid": 3, "st_gid": 4, "st_size": 10,
        "st_blocks": 8, "st_atime_ns": 3 * NS, "st_mtime_ns": 2 * NS, "st_ctime_ns": NS,
    }  # fmt: skip
    return type("Status", (), {**values, **changed})


TOP = trace_line(b"scratch", _status(st_mode=0o40755))


def test_a_real_tree_becomes_what_lstat_says(tmp_path: Path) -> None:
    root = hostile_tree(tmp_path / "tree")
    content = trace_line(b"tree", os.lstat(root))
    for row in true_rows(root):
        path = path_of(row)
        status = os.lstat(root + b"/" + path)
        is_link = row["type"] == "l"
        link = os.readlink(root + b"/" + path) if is_link else b""  # noqa: PTH115 (bytes)
        xattrs = [(b"user.\n", b"\n0004\x1ed\x1e"), (b"user.b", b"")]
        content += trace_line(b"tree/" + path, status, link=link, xattrs=xattrs, text=b"\n")
    manifest, rows = imported(tmp_path, content, Source.GUFI_TRACE, root=root)
    twin = true_rows(root)
    same = ("parent", "name", "id", "uid", "gid", "size_bytes", "allocated_bytes", "nlink", "type")
    assert only(rows, *same) == only(twin, *same)
    assert [row["mtime_ns"] for row in rows] == [_seconds(row["mtime_ns"]) for row in twin]
    assert manifest.times is TimeTrust.SECONDS
    assert manifest.refused == 0
    assert not manifest.complete  # GUFI passes over what it cannot read
    assert Lack.DEVICE in manifest.lacking
    assert Lack.BIRTH in manifest.lacking


def _seconds(value_ns: int) -> int:
    return value_ns if value_ns == 2**63 - 1 else value_ns // NS * NS


@pytest.mark.parametrize("delimiter", [b"|", b"\x01", b"."])
def test_another_delimiter_is_found_out(tmp_path: Path, delimiter: bytes) -> None:
    content = trace_line(b"scratch", _status(st_mode=0o40755), delimiter)
    content += trace_line(b"scratch/a" + delimiter + b"b", _status(), delimiter, birth=9)
    _, rows = imported(tmp_path, content, Source.GUFI_TRACE)
    assert only(rows, "name", "btime_ns") == [(b"a" + delimiter + b"b", 9 * NS)]


def test_external_databases_are_no_files(tmp_path: Path) -> None:
    content = TOP + b"0004x.db\x1ee\x1e\n" + trace_line(b"scratch/a", _status())
    manifest, rows = imported(tmp_path, content, Source.GUFI_TRACE)
    assert only(rows, "name") == [(b"a",)]
    assert manifest.refused == 0


def test_negative_times_are_read(tmp_path: Path) -> None:
    content = TOP + trace_line(b"scratch/a", _status(st_mtime_ns=-5 * NS))
    _, rows = imported(tmp_path, content, Source.GUFI_TRACE)
    assert rows[0]["mtime_ns"] == -5 * NS


@pytest.mark.parametrize(
    "bad",
    [
        trace_line(b"scratch/bad", _status()).replace(b"000b", b"000a", 1),
        trace_line(b"scratch/bad", _status()).replace(b"000b", b"00zz", 1),
        trace_line(b"scratch/bad", _status()).replace(b"000b", b"ffff", 1),
        trace_line(b"scratch/bad", _status(st_size=-1)),
        trace_line(b"scratch/bad", _status(st_uid=2**32)),
        trace_line(b"scratch/bad", _status(st_blocks=2**63)),
        trace_line(b"scratch/bad", _status()).replace(b"\x1ef\x1e", b"\x1ex\x1e", 1),
        trace_line(b"elsewhere/bad", _status()),
        b"\n",
        b"rubbish\n",
    ],
)
def test_a_record_that_is_not_what_it_should_be_is_refused(tmp_path: Path, bad: bytes) -> None:
    before = TOP + trace_line(b"scratch/a", _status())
    content = before + bad + trace_line(b"scratch/b", _status())
    manifest, rows = imported(tmp_path, content, Source.GUFI_TRACE)
    assert only(rows, "name") == [(b"a",), (b"b",)]
    assert manifest.refused >= 1
    assert manifest.refused_examples[0].record == 3
    assert manifest.refused_examples[0].offset_bytes == len(before)


@pytest.mark.calibration
def test_a_trace_that_was_cut_off_anywhere_says_so(tmp_path: Path) -> None:
    whole = TOP + trace_line(b"scratch/a", _status()) + trace_line(b"scratch/b", _status())
    for length in range(len(TOP) + 1, len(whole), 5):
        place = tmp_path / str(length)
        place.mkdir()
        manifest, rows = imported(place, whole[:length], Source.GUFI_TRACE)
        assert set(only(rows, "name")) <= {(b"a",), (b"b",)}
        ends = {len(TOP) + len(trace_line(b"scratch/a", _status()))}
        assert (manifest.refused == 0) == (length in ends)


@pytest.mark.parametrize(
    "content",
    [b"", b"scratch\x1ed\x1e5\x1e\n", b"0007scratch\x1ef\x1e", b"ffff", b"x" * 100, b"\0" * 50],
)
def test_what_is_no_trace_is_refused_as_a_whole(tmp_path: Path, content: bytes) -> None:
    if not content:
        manifest, _ = imported(tmp_path, content, Source.GUFI_TRACE)
        assert not manifest.complete
        return
    with raises(DataError, "format-unknown"):
        imported(tmp_path, content, Source.GUFI_TRACE)


names = st.binary(min_size=1, max_size=8).filter(
    lambda n: b"\0" not in n and b"/" not in n and n not in (b".", b"..")
)


@pytest.mark.calibration
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(names, names, st.binary(max_size=5)),
        min_size=1,
        max_size=5,
        unique_by=lambda entry: entry[0],
    ),
    st.integers(1, 60),
)
def test_any_text_comes_back_whatever_the_chunks(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[bytes, bytes, bytes]], chunk: int
) -> None:
    from trimtab.purge.index.importers import gufi_trace

    content = TOP + b"".join(
        trace_line(b"scratch/" + name, _status(), link=link, xattrs=[(b"user.x", value)])
        for name, link, value in entries
    )
    place = tmp_path_factory.mktemp("t")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gufi_trace, "CHUNK_BYTES", 40 + chunk)
        manifest, rows = imported(place, content, Source.GUFI_TRACE)
    assert manifest.refused == 0
    assert sorted(only(rows, "name")) == sorted((name,) for name, _, _ in entries)


def test_what_gufi_wrote_is_what_lstat_said(tmp_path: Path) -> None:
    content = (RECORDED / "scratch.trace").read_bytes()
    twin = json.loads((RECORDED / "lstat.json").read_text())
    manifest, rows = imported(tmp_path, content, Source.GUFI_TRACE)
    assert manifest.refused == 0
    same = ("uid", "gid", "size_bytes", "allocated_bytes", "nlink", "type")
    assert only(rows, *same) == only(twin, *same)
    for row, true in zip(rows, twin, strict=True):
        for name in ("parent", "name", "id"):
            assert row[name].hex() == true[name]
        for name in ("atime_ns", "mtime_ns", "ctime_ns"):
            assert row[name] == true[name] // NS * NS
        assert row["btime_ns"] is not None  # GUFI asked statx
