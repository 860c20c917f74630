"""GNU find: a real tree, through its real output, into the rows that lstat gives."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.purge.index.imports import SYSTEM, imported, only, page_script, reasons
from tests.purge.index.trees import hostile_tree, true_rows
from tests.support.codes import raises

from trimtab.base.error import DataError, UsageError
from trimtab.purge.index import find_list
from trimtab.purge.index.manifest import IndexSource, Lack, TimeTrust

pytestmark = pytest.mark.skipif(shutil.which("find") is None, reason="find is not on PATH")
RECORD = b"1\t2\tf\t1\t3\t4\t5\t8\t1.5000000000\t2.0000000000\t3.0000000000\t\t/scratch/%b\0"


def _printed(root: bytes, *options: str) -> bytes:
    argv = [b"find", root, *(os.fsencode(option) for option in options)]
    return subprocess.run(argv, check=True, capture_output=True).stdout


@pytest.mark.system
def test_a_real_tree_becomes_what_lstat_says(tmp_path: Path) -> None:
    root = hostile_tree(tmp_path / "tree")
    script = page_script("find", root)
    content = subprocess.run(["sh", "-c", script], check=True, capture_output=True).stdout
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND, root=root)
    twin = true_rows(root)
    assert len(twin) > 100
    assert [{key: row[key] for key in twin[0]} for row in rows] == twin
    assert manifest.complete
    assert manifest.refused == 0
    assert manifest.times is TimeTrust.EXACT_NS
    assert manifest.started_ns is not None
    assert manifest.obstacles == ("its file system is unknown",)


def test_a_complete_list_of_a_known_file_system_can_delete(tmp_path: Path) -> None:
    content = b"trimtab-list 1 started=5\0" + RECORD % b"a" + b"trimtab-end ended=6\0"
    manifest, _ = imported(tmp_path, content, IndexSource.GNU_FIND, told=dict(filesystem=SYSTEM))
    assert manifest.can_delete
    assert (manifest.started_ns, manifest.ended_ns) == (5 * 10**9, 7 * 10**9 - 1)


@pytest.mark.system
def test_the_short_format_of_regular_files_is_known(tmp_path: Path) -> None:
    root = hostile_tree(tmp_path / "tree")
    content = _printed(root, "-xdev", "-type", "f", "-printf", find_list.GNU_SHORT)
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND, root=root)
    regular = [row for row in true_rows(root) if row["type"] == "f"]
    # Nothing shows that a record is whole: a time that a user set to the year 2400 may be damage.
    twin = [row for row in regular if max(row["atime_ns"], row["mtime_ns"]) < 2**62]
    assert manifest.refused == len(regular) - len(twin) > 0
    assert [{**row, "device": None} for row in twin] == [
        {**{key: row[key] for key in twin[0]}, "device": None} for row in rows
    ]
    assert Lack.TYPE in manifest.lacking
    assert Lack.DEVICE in manifest.lacking
    assert not manifest.complete  # the list does not say how find ended
    assert not manifest.can_delete


@pytest.mark.system
def test_directories_without_types_are_found_out(tmp_path: Path) -> None:
    root = hostile_tree(tmp_path / "tree")
    content = _printed(root, "-mindepth", "1", "-printf", find_list.GNU_SHORT)
    with raises(DataError, "types-ambiguous"):
        imported(tmp_path, content, IndexSource.GNU_FIND, root=root)
    assert not (tmp_path / "index").exists()


@pytest.mark.system
def test_relative_paths_are_beneath_the_root(tmp_path: Path) -> None:
    root = hostile_tree(tmp_path / "tree")
    argv = ["find", ".", "-printf", find_list.GNU_FULL]  # without a head: its form is recognised
    content = subprocess.run(argv, check=True, capture_output=True, cwd=root).stdout
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND, root=root)
    assert only(rows, "parent", "name") == only(true_rows(root), "parent", "name")
    assert manifest.refused == 0  # the root itself is no trouble


@pytest.mark.system
def test_a_format_of_ones_own_is_read(tmp_path: Path) -> None:
    form = r"%U\t%m\t%s\t%T@\t%p\0"
    root = hostile_tree(tmp_path / "tree")
    content = _printed(root, "-type", "f", "-printf", form)
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND, root=root, format_text=form)
    regular = [row for row in true_rows(root) if row["type"] == "f"]
    twin = [row for row in regular if row["mtime_ns"] < 2**62]  # as of the short format
    assert manifest.refused == len(regular) - len(twin) > 0
    columns = ("parent", "name", "uid", "size_bytes", "mtime_ns")
    assert only(rows, *columns) == only(twin, *columns)
    assert {row["allocated_bytes"] == row["size_bytes"] for row in rows} == {True}
    assert {row["last_use_s"] for row in rows} == {None}
    assert manifest.lacking >= {Lack.IDENTITY, Lack.BLOCKS, Lack.LINKS, Lack.ACCESS, Lack.CHANGE}
    assert "only by name" in manifest.obstacles[0]


def test_a_line_feed_in_a_list_of_lines_costs_the_record(tmp_path: Path) -> None:
    form = r"%i\t%U\t%s\t%p\n"
    content = b"1\t2\t3\t/scratch/a\n1\t2\t3\t/scratch/b\nc\n1\t2\t3\t/scratch/d\n"
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND, format_text=form)
    assert only(rows, "name") == [(b"a",), (b"d",)]
    assert manifest.refused == 1
    assert Lack.PLAIN_NAMES in manifest.lacking


@pytest.mark.parametrize(
    "form",
    ["", r"%p\0", r"%U\t%s", r"%U\t%s\t%p", r"%s\t%p\0", r"%U\t%U\t%s\t%p\0", r"%p\t%U\t%s\0",
     r"%U %s %p\0", r"%u\t%U\t%s\t%p\0", r"%U\t%s\t%f\0"],
)  # fmt: skip
def test_a_format_that_cannot_be_is_refused(tmp_path: Path, form: str) -> None:
    with pytest.raises(UsageError):
        imported(tmp_path, RECORD % b"a", IndexSource.GNU_FIND, format_text=form)


@pytest.mark.system
def test_a_list_that_was_cut_off_anywhere_is_incomplete(tmp_path: Path) -> None:
    head, body = b"trimtab-list 1 started=5\0", RECORD % b"a" + RECORD % b"b"
    whole = head + body + b"trimtab-end ended=6\0"
    for length in range(len(head), len(whole)):
        place = tmp_path / str(length)
        place.mkdir()
        manifest, rows = imported(place, whole[:length], IndexSource.GNU_FIND)
        assert not manifest.complete
        assert manifest.refused
        whole_records = (length - len(head)) // len(RECORD % b"a")
        assert only(rows, "name") == [(b"a",), (b"b",)][:whole_records]


def test_what_comes_after_the_end_is_refused(tmp_path: Path) -> None:
    content = (
        b"trimtab-list 1 started=5\0" + RECORD % b"a" + b"trimtab-end ended=6\0" + RECORD % b"b"
    )
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND)
    assert not manifest.complete
    assert only(rows, "name")[0] == (b"a",)


BAD = {
    b"\tf\t1\t": (b"\tf\t-1\t", "nlink"),
    b"\t3\t4\t5\t": (b"\t3\t4\t-5\t", "size_bytes"),
    b"\t5\t8\t": (b"\t5\t99999999999999999999\t", "allocated_bytes"),
    b"\t1.5000000000\t": (b"\t1,5\t", "atime_ns"),
    b"\t2.0000000000\t": (b"\t2.00000000001\t", "mtime_ns"),
    b"\t3.0000000000\t": (b"\tnow\t", "ctime_ns"),
    b"1\t2\t": (b"1\t18446744073709551616\t", "id"),
    b"\t3\t4\t": (b"\t4294967296\t4\t", "uid"),
    b"/scratch/": (b"/etc/", "beneath"),
}


@pytest.mark.parametrize("part", list(BAD))
def test_a_record_that_is_not_what_it_should_be_is_refused_with_its_place(
    tmp_path: Path, part: bytes
) -> None:
    wrong, said = BAD[part]
    good = RECORD % b"good"
    content = good + (RECORD % b"bad").replace(part, wrong, 1) + RECORD % b"best"
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND)
    assert only(rows, "name") == [(b"best",), (b"good",)]
    assert manifest.refused == 1
    (one,) = manifest.refused_examples
    assert (one.record, one.offset_bytes) == (2, len(good))
    assert said in one.reason
    assert not manifest.complete
    assert any("refused 1" in note for note in manifest.notes)


def test_refused_records_are_all_counted_and_some_are_shown(tmp_path: Path) -> None:
    content = RECORD % b"a" + b"rubbish \x1b[2J\0" * 1000
    manifest, _ = imported(tmp_path, content, IndexSource.GNU_FIND)
    assert manifest.refused == 1000
    assert len(manifest.refused_examples) == 20
    assert manifest.refused_examples[0].text == "rubbish \\x1b[2J"


@pytest.mark.parametrize("content", [b"hello\0world\0", b"\0\0", bytes(range(256)) * 10, b"PAR1\0"])
def test_what_is_no_list_of_find_is_refused_as_a_whole(tmp_path: Path, content: bytes) -> None:
    with raises(DataError, "format-unknown"):
        imported(tmp_path, content, IndexSource.GNU_FIND)
    assert not (tmp_path / "index").exists()
    assert not list(tmp_path.glob(".index*"))


def test_an_empty_list_with_an_end_is_an_empty_index(tmp_path: Path) -> None:
    content = b"trimtab-list 1 started=5\0trimtab-end ended=6\0"
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND)
    assert rows == []
    assert manifest.complete


def test_an_empty_file_is_no_complete_list(tmp_path: Path) -> None:
    manifest, rows = imported(tmp_path, b"", IndexSource.GNU_FIND)
    assert rows == []
    assert not manifest.complete


@pytest.mark.system
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(damage=[(57599, b"\x00")], cut=0)
@given(
    damage=st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=3)), max_size=4),
    cut=st.integers(0, 10**6),
)
def test_a_damaged_list_never_gives_a_row_that_the_whole_one_does_not_have(
    tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, bytes]], cut: int
) -> None:
    names = [b"a", b"b/c", b"b/d\te", b"f\ng"]
    content = bytearray(b"".join(RECORD % name for name in names))
    for at, put in damage:  # only what no name or number can look like
        start = at % len(content)
        content[start : start + len(put)] = b"\xff" * len(put)
    del content[max(0, len(content) - cut % 40) :]
    try:
        _, rows = imported(tmp_path_factory.mktemp("t"), bytes(content), IndexSource.GNU_FIND)
    except DataError:
        return
    whole = {b"/scratch/" + name for name in names}
    for row in rows:
        path = b"/scratch/" + (row["parent"] + b"/" if row["parent"] else b"") + row["name"]
        assert path in whole or b"\xff" in path
        assert (row["uid"], row["gid"], row["size_bytes"]) == (3, 4, 5)
        assert row["mtime_ns"] == 2 * 10**9


def test_a_name_that_stands_there_twice_counts_once(tmp_path: Path) -> None:
    manifest, rows = imported(tmp_path, (RECORD % b"a") * 2 + RECORD % b"b", IndexSource.GNU_FIND)
    assert only(rows, "name") == [(b"a",), (b"b",)]
    assert "1 names were in the list twice and were imported once" in manifest.notes


def test_reasons_are_told(tmp_path: Path) -> None:
    manifest, _ = imported(tmp_path, RECORD % b"a" + b"x\0", IndexSource.GNU_FIND)
    assert reasons(manifest) == ["it has 1 fields instead of 13"]
