"""Lists of find and lfs find: a real tree through their output, damage, and lines that lie."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.purge.index.imports import SYSTEM, imported, only, page_script, reasons
from tests.purge.index.trees import hostile_tree, true_rows
from tests.support.codes import raises

from trimtab.base.error import DataError, UsageError
from trimtab.purge.index import printf_list
from trimtab.purge.index.manifest import IndexSource, Lack, TimeTrust

RECORD = b"1\t2\tf\t1\t3\t4\t5\t8\t1.5000000000\t2.0000000000\t3.0000000000\t\t/scratch/%b\0"


@pytest.fixture
def root(tmp_path: Path) -> bytes:
    """A tree with hostile names, in a directory with a space."""
    return hostile_tree(tmp_path / "my tree")


def _printed(root: bytes, *options: str) -> bytes:
    return subprocess.run(["find", root, *options], check=True, capture_output=True).stdout


def _regular(root: bytes, *times: str) -> tuple[list[dict[str, Any]], int]:
    """Return regular files but those whose times may be damage, and how many those are.

    Nothing shows that a record is whole: a user may have set a time to the year 2400.
    """
    regular = [row for row in true_rows(root) if row["type"] == "f"]
    plausible = [row for row in regular if max(row[time] for time in times) < 2**62]
    return plausible, len(regular) - len(plausible)


@pytest.mark.system
def test_a_real_tree_becomes_what_lstat_says(root: bytes, tmp_path: Path) -> None:
    script = page_script("find", root)
    content = subprocess.run(["sh", "-c", script], check=True, capture_output=True).stdout
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND, root=root)
    twin = true_rows(root)
    assert len(twin) > 100
    assert [{key: row[key] for key in twin[0]} for row in rows] == twin
    assert (manifest.complete, manifest.refused) == (True, 0)
    assert manifest.times is TimeTrust.EXACT_NS
    assert manifest.started_ns is not None
    assert manifest.obstacles == ("its file system is unknown",)


def test_a_complete_list_of_a_known_file_system_can_delete(tmp_path: Path) -> None:
    content = b"trimtab-list 1 started=5\0" + RECORD % b"a" + b"trimtab-end ended=6\0"
    manifest, _ = imported(tmp_path, content, IndexSource.GNU_FIND, told=dict(filesystem=SYSTEM))
    assert manifest.can_delete
    assert (manifest.started_ns, manifest.ended_ns) == (5 * 10**9, 7 * 10**9 - 1)


@pytest.mark.system
def test_the_short_format_of_regular_files_is_known(root: bytes, tmp_path: Path) -> None:
    content = _printed(root, "-xdev", "-type", "f", "-printf", printf_list.GNU_SHORT)
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND, root=root)
    twin, damaged = _regular(root, "atime_ns", "mtime_ns")
    assert manifest.refused == damaged > 0
    assert [{**row, "device": None} for row in twin] == [
        {**{key: row[key] for key in twin[0]}, "device": None} for row in rows
    ]
    assert manifest.lacking >= {Lack.TYPE, Lack.DEVICE}
    assert not manifest.complete  # the list does not say how find ended
    assert not manifest.can_delete


@pytest.mark.system
def test_directories_without_types_are_found_out(root: bytes, tmp_path: Path) -> None:
    content = _printed(root, "-mindepth", "1", "-printf", printf_list.GNU_SHORT)
    with raises(DataError, "types-ambiguous"):
        imported(tmp_path, content, IndexSource.GNU_FIND, root=root)
    assert not (tmp_path / "index").exists()


@pytest.mark.system
def test_relative_paths_are_beneath_the_root(root: bytes, tmp_path: Path) -> None:
    argv = ["find", ".", "-printf", printf_list.GNU_FULL]  # without a head: its form is recognised
    content = subprocess.run(argv, check=True, capture_output=True, cwd=root).stdout
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND, root=root)
    assert only(rows, "parent", "name") == only(true_rows(root), "parent", "name")
    assert manifest.refused == 0  # the root itself is no trouble


@pytest.mark.system
def test_a_format_of_ones_own_is_read(root: bytes, tmp_path: Path) -> None:
    form = r"%U\t%m\t%s\t%T@\t%p\0"
    content = _printed(root, "-type", "f", "-printf", form)
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND, root=root, format_text=form)
    twin, damaged = _regular(root, "mtime_ns")
    assert manifest.refused == damaged > 0
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
    head, one = b"trimtab-list 1 started=5\0", len(RECORD % b"a")
    whole = head + RECORD % b"a" + RECORD % b"b" + b"trimtab-end ended=6\0"
    for length in range(len(head), len(whole)):
        manifest, rows = imported(_new(tmp_path, length), whole[:length], IndexSource.GNU_FIND)
        assert not manifest.complete
        assert manifest.refused
        assert only(rows, "name") == [(b"a",), (b"b",)][: (length - len(head)) // one]


def test_what_comes_after_the_end_is_refused(tmp_path: Path) -> None:
    whole = b"trimtab-list 1 started=5\0" + RECORD % b"a" + b"trimtab-end ended=6\0"
    manifest, rows = imported(tmp_path, whole + RECORD % b"b", IndexSource.GNU_FIND)
    assert not manifest.complete
    assert only(rows, "name")[0] == (b"a",)


@pytest.mark.parametrize(
    ("source", "content"),
    [
        *(
            (IndexSource.GNU_FIND, content)
            for content in (b"hello\0world\0", b"\0\0", bytes(range(256)) * 10, b"PAR1\0")
        ),
        *(
            (IndexSource.LFS_FIND, content)
            for content in (b"hello\n", b"\n\n", b"\xff" * 100 + b"\n", b"/scratch/a\n")
        ),
    ],
)
def test_what_is_no_list_of_find_is_refused_as_a_whole(
    tmp_path: Path, source: IndexSource, content: bytes
) -> None:
    with raises(DataError, "format-unknown"):
        imported(tmp_path, content, source)
    assert not (tmp_path / "index").exists()
    assert not list(tmp_path.glob(".index*"))


@pytest.mark.parametrize("content", [b"trimtab-list 1 started=5\0trimtab-end ended=6\0", b""])
def test_an_empty_list_is_complete_if_it_has_an_end(tmp_path: Path, content: bytes) -> None:
    manifest, rows = imported(tmp_path, content, IndexSource.GNU_FIND)
    assert (rows, manifest.complete) == ([], bool(content))


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


def test_what_is_refused_is_told_with_its_reason(tmp_path: Path) -> None:
    content = RECORD % b"a" + b"rubbish \x1b[2J\0" * 2
    manifest, _ = imported(tmp_path, content, IndexSource.GNU_FIND)
    assert reasons(manifest) == ["it has 1 fields instead of 13"] * 2
    assert manifest.refused_examples[0].text == "rubbish \\x1b[2J"
    assert any("refused 2" in note for note in manifest.notes)


TOKEN = b"0123456789abcdef0123456789abcdef"


def lfs_record(path: bytes, head: str, times_s: tuple[int, ...], tail: str) -> bytes:
    """Return one record of the full format, as it was before pools were asked for."""
    times = [str(1795190700 + time_s) for time_s in times_s]
    fields = ["0x200000402:" + head.split(" ")[0], *head.split(" ")[1:], *times, *tail.split(" ")]
    return b"\t".join([*(field.encode() for field in fields), b"/scratch/t/" + path]) + b"\n"


# What Lustre 2.17 printed for these directives of these files, put together.
PFL = lfs_record(b"pfl", "0x153:0x0 f 2 0 0 0 73400320 143360", (88, 89, 90, 88), "4 [0][2,3,1,0]")
DOM = lfs_record(b"dom", "0x155:0x0 f 1 0 0 0 262144 512", (89,) * 4, "1152921504606846978 ")
LINK = lfs_record(b"lnk", "0x15c:0x0 l 1 0 0 0 3 0", (90,) * 4, "4 [0][2,3,1,0]")
STRIPED = lfs_record(b"striped", "0x160:0x0 d 2 0 0 0 4096 8", (90,) * 4, "2 [0,1]")
NAME = lfs_record(b"nl\nname", "0x161:0x0 f 1 0 0 0 0 0", (90,) * 4, "1 [?]")


def _with_token(records: list[bytes], token: bytes = TOKEN) -> bytes:
    body = b"".join(token + b"\t" + record for record in records)
    head = b"trimtab-list 1 started=5 token=" + token + b"\n"
    return head + body + token + b"\ttrimtab-end ended=1795190800\n"


def test_recorded_values_are_read(tmp_path: Path) -> None:
    manifest, rows = imported(tmp_path, PFL + DOM + LINK + STRIPED, IndexSource.LFS_FIND)
    dom, link, pfl, striped = rows
    assert pfl["id"].hex() == "00000002000004020000015300000000"
    assert (pfl["id_kind"], pfl["parent"], pfl["name"]) == ("fid", b"t", b"pfl")
    assert (pfl["nlink"], pfl["size_bytes"], pfl["allocated_bytes"]) == (2, 73400320, 143360 * 512)
    assert (pfl["project"], pfl["btime_ns"]) == (0, 1795190788 * 10**9)
    assert pfl["last_use_s"] == 1795190790
    assert (pfl["stripe_count"], pfl["osts"]) == (4, [0, 2, 3, 1, 0])
    assert (dom["stripe_count"], dom["osts"]) == (None, None)
    assert (link["type"], link["osts"]) == ("l", None)  # that would be its target's
    assert (striped["type"], striped["osts"]) == ("d", None)  # those would be MDTs
    assert (manifest.times, manifest.time_resolution_ns) == (TimeTrust.SECONDS, 10**9)
    assert manifest.lacking == {Lack.DEVICE, Lack.POOL, Lack.PLAIN_NAMES}
    assert any("line feed" in obstacle for obstacle in manifest.obstacles)


def pooled(old: bytes, pool: bytes) -> bytes:
    """Return a record in the format of now."""
    fid, rest = old.split(b"\t", 1)
    return fid + b"\t" + pool + b"\t" + rest


def test_pools_are_read_where_they_are_told(tmp_path: Path) -> None:
    records = [pooled(PFL, b"flash"), pooled(DOM, b""), pooled(LINK, b"disk")]
    records += [pooled(STRIPED, b"flash"), pooled(NAME, b"fl\xffash\x1b[2J")]
    manifest, rows = imported(tmp_path, _with_token(records), IndexSource.LFS_FIND)
    assert only(rows, "name", "pool", "osts") == [
        (b"dom", None, None),
        (b"lnk", None, None),  # that of its target
        (b"nl\nname", b"fl\xffash\x1b[2J", None),
        (b"pfl", b"flash", [0, 2, 3, 1, 0]),
        (b"striped", None, None),
    ]
    assert manifest.lacking == {Lack.DEVICE}
    assert manifest.refused == 0


@pytest.mark.parametrize("pool", [b"", b"f", b"4", b"flash"])
def test_a_list_of_now_and_one_of_before_are_told_apart(tmp_path: Path, pool: bytes) -> None:
    content = pooled(PFL, pool) + pooled(DOM, pool)
    manifest, rows = imported(tmp_path, content, IndexSource.LFS_FIND)
    assert only(rows, "name", "nlink", "stripe_count", "osts", "pool") == [
        (b"dom", 1, None, None, pool or None),
        (b"pfl", 2, 4, [0, 2, 3, 1, 0], pool or None),
    ]
    assert Lack.POOL not in manifest.lacking


@pytest.mark.parametrize(
    "pool",
    [
        *(b"a\tb", b"a\tf", b"\tf\t1", b"\tf\t1\t1\t1", b"\tf\t1\t1\t1\t1\t1\t1"),
        *(b"\t\t", b"\t" * 15, b"a\t\t/scratch/x"),
    ],
)
def test_a_tab_in_the_name_of_a_pool_costs_the_record(tmp_path: Path, pool: bytes) -> None:
    content = _with_token([pooled(DOM, b"flash"), pooled(PFL, pool)])
    manifest, rows = imported(tmp_path, content, IndexSource.LFS_FIND)
    assert only(rows, "name") == [(b"dom",)]
    assert manifest.refused == 1


@pytest.mark.parametrize("pool", [b"a\nb", b"\n", b"a\n" + TOKEN[:9]])
def test_a_line_feed_in_the_name_of_a_pool_makes_no_other_record(
    tmp_path: Path, pool: bytes
) -> None:
    content = _with_token([pooled(DOM, b"flash"), pooled(PFL, pool), pooled(NAME, b"")])
    _, rows = imported(tmp_path, content, IndexSource.LFS_FIND)
    assert {b"dom", b"nl\nname"} <= {row["name"] for row in rows} <= {b"dom", b"pfl", b"nl\nname"}
    assert all(row["pool"] in (None, b"flash", pool) for row in rows)


def test_without_a_token_a_line_feed_costs_the_record(tmp_path: Path) -> None:
    manifest, rows = imported(tmp_path, PFL + NAME + DOM, IndexSource.LFS_FIND)
    assert only(rows, "name") == [(b"dom",), (b"pfl",)]
    assert (manifest.refused, manifest.complete) == (1, False)
    assert manifest.refused_examples[0].record == 2
    assert "line feed" in reasons(manifest)[0]


def test_a_name_that_ends_with_a_line_feed_costs_the_record(tmp_path: Path) -> None:
    content = PFL + DOM.replace(b"/dom", b"/dom\n") + LINK
    _, rows = imported(tmp_path, content, IndexSource.LFS_FIND)
    assert only(rows, "name") == [(b"lnk",), (b"pfl",)]


def test_with_a_token_every_name_is_read(tmp_path: Path) -> None:
    forged = PFL.replace(b"/t/pfl", b"/victim")[:-1]
    hostile = DOM.replace(b"/t/dom", b"/t/a\n" + forged)
    ending = LINK.replace(b"/lnk", b"/b\ntrimtab-end ended=9\n")
    content = _with_token([PFL, NAME, hostile, ending])
    manifest, rows = imported(tmp_path, content, IndexSource.LFS_FIND, told=dict(filesystem=SYSTEM))
    parent, name = (b"t/a\n" + forged).removeprefix(b"/").rsplit(b"/", 1)
    assert only(rows, "parent", "name") == [
        (b"t", b"b\ntrimtab-end ended=9\n"),
        (b"t", b"nl\nname"),
        (b"t", b"pfl"),
        (parent.replace(b"//", b"/"), name),
    ]
    assert (manifest.refused, manifest.complete, manifest.can_delete) == (0, True, True)
    assert manifest.ended_ns == 1795190801 * 10**9 - 1


def test_a_forged_record_without_a_token_bars_the_deletion(tmp_path: Path) -> None:
    hostile = DOM.replace(b"/t/dom", b"/t/a\n" + PFL.replace(b"/t/pfl", b"/victim")[:-1])
    told = dict(filesystem=SYSTEM, started_ns=1, complete=True)
    manifest, rows = imported(tmp_path, hostile, IndexSource.LFS_FIND, told=told)
    assert (b"victim",) in only(rows, "name")  # it cannot be told from a real one
    assert not manifest.can_delete


def test_a_file_that_was_gone_is_no_trouble(tmp_path: Path) -> None:
    content = _with_token([PFL, DOM[DOM.index(b"\t") :]])
    manifest, rows = imported(tmp_path, content, IndexSource.LFS_FIND)
    assert only(rows, "name") == [(b"pfl",)]
    assert (manifest.vanished, manifest.complete) == (1, True)


def test_the_suggested_format_of_files_is_known(tmp_path: Path) -> None:
    line = b"0x200000402:0x153:0x0\t7\t8\t9\t10\t16\t1\t2\t3\t4\t1\t2\t[2,0]\t/scratch/f\n"
    manifest, rows = imported(tmp_path, line, IndexSource.LFS_FIND)
    columns = ("uid", "gid", "project", "size_bytes", "allocated_bytes", "nlink", "osts", "type")
    assert only(rows, *columns) == [(7, 8, 9, 10, 8192, 1, [2, 0], "f")]
    assert Lack.TYPE in manifest.lacking


@pytest.mark.system
def test_a_list_of_lfs_that_was_cut_off_anywhere_is_incomplete(tmp_path: Path) -> None:
    whole = _with_token([PFL, NAME, DOM])
    for length in range(whole.index(b"\n") + 1, len(whole), 7):
        try:
            manifest, rows = imported(_new(tmp_path, length), whole[:length], IndexSource.LFS_FIND)
        except DataError:
            continue
        assert not manifest.complete
        assert set(only(rows, "name")) <= {(b"pfl",), (b"nl\nname",), (b"nl",), (b"dom",)}


def _new(above: Path, number: int) -> Path:
    (above / str(number)).mkdir()
    return above / str(number)


LFS = """#!{python}
import os, stat, sys
_, find, root, option, form = sys.argv
assert (find, option) == ("find", "--printf")
letters = {{0o10: "f", 0o4: "d", 0o12: "l", 0o1: "p", 0o14: "s", 0o6: "b", 0o2: "c"}}
top = os.fsencode(root)
for parent, directories, files in os.walk(top):
    for path in [parent, *(parent + b"/" + name for name in files + directories)]:
        if path == parent and parent != top:
            continue
        status = os.lstat(path)
        values = {{
            "%LF": f"0x200000402:{{status.st_ino:#x}}:0x0", "%LP": "0", "%Lc": "1", "%Lo": "[0]",
            "%Lp": "flash",
            "%y": letters[status.st_mode >> 12], "%n": status.st_nlink, "%U": status.st_uid,
            "%G": status.st_gid, "%s": status.st_size, "%b": status.st_blocks,
            "%A@": status.st_atime_ns // 10**9, "%T@": status.st_mtime_ns // 10**9,
            "%C@": status.st_ctime_ns // 10**9, "%W@": 0,
        }}
        line = form.replace("\\\\t", "\\t").replace("\\\\n", "\\n")
        for directive, value in values.items():
            line = line.replace(directive, str(value))
        sys.stdout.buffer.write(line.encode().replace(b"%p", path))
sys.exit({code})
"""


def _scripted(tmp_path: Path, root: bytes, code: int = 0) -> bytes:
    """Run the script with an lfs that prints as the real one does."""
    lfs = tmp_path / "bin" / "lfs"
    lfs.parent.mkdir(exist_ok=True)
    lfs.write_text(LFS.format(python=sys.executable, code=code))
    lfs.chmod(0o755)
    environment = {**os.environ, "PATH": f"{lfs.parent}:{os.environ['PATH']}"}
    argv = ["sh", "-c", page_script("lfs find", root)]
    return subprocess.run(argv, capture_output=True, check=False, env=environment).stdout


@pytest.mark.system
def test_a_real_tree_of_lfs_becomes_what_lstat_says(root: bytes, tmp_path: Path) -> None:
    manifest, rows = imported(tmp_path, _scripted(tmp_path, root), IndexSource.LFS_FIND, root=root)
    twin = true_rows(root)
    same = ("parent", "name", "uid", "gid", "size_bytes", "allocated_bytes", "nlink", "type")
    assert only(rows, *same) == only(twin, *same)
    assert [row["id"][8:12] for row in rows] == [row["id"][12:] for row in twin]
    assert manifest.complete
    assert manifest.started_ns is not None


@pytest.mark.system
def test_a_script_whose_lfs_failed_prints_no_end(root: bytes, tmp_path: Path) -> None:
    first, second = (_scripted(tmp_path, root, code) for code in (13, 0))
    assert first.split()[3] != second.split()[3]  # a new token every time
    manifest, rows = imported(tmp_path, first, IndexSource.LFS_FIND, root=root)
    assert (len(rows), manifest.complete) == (len(true_rows(root)), False)


names = st.binary(min_size=1, max_size=12).filter(lambda n: b"\0" not in n and b"/" not in n)


@pytest.mark.calibration
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(names.filter(lambda n: n not in (b".", b"..")), min_size=1, max_size=5))
def test_with_a_token_any_name_comes_back(
    tmp_path_factory: pytest.TempPathFactory, names: set[bytes]
) -> None:
    records = [PFL.replace(b"/t/pfl", b"/" + name) for name in names]
    _, rows = imported(tmp_path_factory.mktemp("t"), _with_token(records), IndexSource.LFS_FIND)
    assert sorted(only(rows, "name")) == sorted((name,) for name in names)
