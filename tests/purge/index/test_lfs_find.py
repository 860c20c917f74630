"""lfs find: what was recorded, line feeds in names, and lines that pretend to be records."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.purge.index.imports import SYSTEM, imported, only, page_script, reasons
from tests.purge.index.trees import hostile_tree, true_rows
from tests.support.codes import raises

from trimtab.base.error import DataError
from trimtab.purge.index.manifest import IndexSource, Lack, TimeTrust

TOKEN = b"0123456789abcdef0123456789abcdef"


def record(values: str, path: bytes) -> bytes:
    """Return one record of the full format, as it was before pools were asked for."""
    fields = [value.encode() for value in values.split(" ")]
    return b"\t".join([*fields, b"/scratch/t/" + path]) + b"\n"


# What Lustre 2.17 printed for these directives of these files, put together.
PFL = record(
    "0x200000402:0x153:0x0 f 2 0 0 0 73400320 143360 1795190788 1795190789 1795190790 1795190788"
    " 4 [0][2,3,1,0]",
    b"pfl",
)
DOM = record(
    "0x200000402:0x155:0x0 f 1 0 0 0 262144 512 1795190789 1795190789 1795190789 1795190789"
    " 1152921504606846978 ",
    b"dom",
)
LINK = record(
    "0x200000402:0x15c:0x0 l 1 0 0 0 3 0 1795190790 1795190790 1795190790 1795190790"
    " 4 [0][2,3,1,0]",
    b"lnk",
)
STRIPED = record(
    "0x200000402:0x160:0x0 d 2 0 0 0 4096 8 1795190790 1795190790 1795190790 1795190790 2 [0,1]",
    b"striped",
)
NAME = record(
    "0x200000402:0x161:0x0 f 1 0 0 0 0 0 1795190790 1795190790 1795190790 1795190790 1 [?]",
    b"nl\nname",
)
ALL = PFL + DOM + LINK + STRIPED


def _with_token(records: list[bytes], token: bytes = TOKEN) -> bytes:
    body = b"".join(token + b"\t" + record for record in records)
    head = b"trimtab-list 1 started=5 token=" + token + b"\n"
    return head + body + token + b"\ttrimtab-end ended=1795190800\n"


def test_recorded_values_are_read(tmp_path: Path) -> None:
    manifest, rows = imported(tmp_path, ALL, IndexSource.LFS_FIND)
    dom, link, pfl, striped = rows
    assert pfl["id"].hex() == "00000002000004020000015300000000"
    assert pfl["id_kind"] == "fid"
    assert (pfl["parent"], pfl["name"]) == (b"t", b"pfl")
    assert (pfl["nlink"], pfl["size_bytes"], pfl["allocated_bytes"]) == (2, 73400320, 143360 * 512)
    assert pfl["project"] == 0
    assert pfl["btime_ns"] == 1795190788 * 10**9
    assert pfl["last_use_s"] == 1795190790
    assert (pfl["stripe_count"], pfl["osts"]) == (4, [0, 2, 3, 1, 0])
    assert (dom["stripe_count"], dom["osts"]) == (None, None)
    assert (link["type"], link["osts"]) == ("l", None)  # that would be its target's
    assert (striped["type"], striped["osts"]) == ("d", None)  # those would be MDTs
    assert manifest.times is TimeTrust.SECONDS
    assert manifest.time_resolution_ns == 10**9
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
        b"a\tb",
        b"a\tf",
        b"\tf\t1",
        b"\tf\t1\t1\t1",
        b"\t\t",
        b"\t" * 15,
        b"\tf" + b"\t1" * 6,
        b"a\t\t/scratch/x",
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
    assert {row["name"] for row in rows} <= {b"dom", b"pfl", b"nl\nname"}
    assert {b"dom", b"nl\nname"} <= {row["name"] for row in rows}
    assert all(row["pool"] in (None, b"flash", pool) for row in rows)


def test_without_a_token_a_line_feed_costs_the_record(tmp_path: Path) -> None:
    manifest, rows = imported(tmp_path, PFL + NAME + DOM, IndexSource.LFS_FIND)
    assert only(rows, "name") == [(b"dom",), (b"pfl",)]
    assert manifest.refused == 1
    assert manifest.refused_examples[0].record == 2
    assert "line feed" in reasons(manifest)[0]
    assert not manifest.complete


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
    assert manifest.refused == 0
    assert manifest.complete
    assert manifest.can_delete
    assert manifest.ended_ns == 1795190801 * 10**9 - 1


def test_a_forged_record_without_a_token_bars_the_deletion(tmp_path: Path) -> None:
    hostile = DOM.replace(b"/t/dom", b"/t/a\n" + PFL.replace(b"/t/pfl", b"/victim")[:-1])
    told = dict(filesystem=SYSTEM, started_ns=1, complete=True)
    manifest, rows = imported(tmp_path, hostile, IndexSource.LFS_FIND, told=told)
    assert (b"victim",) in only(rows, "name")  # it cannot be told from a real one
    assert not manifest.can_delete


def test_a_file_that_was_gone_is_no_trouble(tmp_path: Path) -> None:
    gone = DOM[DOM.index(b"\t") :]
    content = _with_token([PFL, gone])
    manifest, rows = imported(tmp_path, content, IndexSource.LFS_FIND)
    assert only(rows, "name") == [(b"pfl",)]
    assert manifest.vanished == 1
    assert manifest.complete


def test_the_suggested_format_of_files_is_known(tmp_path: Path) -> None:
    line = b"0x200000402:0x153:0x0\t7\t8\t9\t10\t16\t1\t2\t3\t4\t1\t2\t[2,0]\t/scratch/f\n"
    manifest, rows = imported(tmp_path, line, IndexSource.LFS_FIND)
    columns = ("uid", "gid", "project", "size_bytes", "allocated_bytes", "nlink", "osts", "type")
    assert only(rows, *columns) == [(7, 8, 9, 10, 8192, 1, [2, 0], "f")]
    assert Lack.TYPE in manifest.lacking


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"0x153", b"0x15z"),
        (b"0x200000402", b"0x0"),
        (b"\t0\t73400320", b"\tx\t73400320"),
        (b"\t0\t73400320", b"\t-1\t73400320"),
        (b"73400320\t", b"\t"),
        (b"1795190789\t", b"1795190789.x\t"),
    ],
)
def test_a_value_that_is_not_what_it_should_be_costs_the_record(
    tmp_path: Path, old: bytes, new: bytes
) -> None:
    content = _with_token([DOM, PFL.replace(old, new, 1)])
    manifest, rows = imported(tmp_path, content, IndexSource.LFS_FIND)
    assert only(rows, "name") == [(b"dom",)]
    assert manifest.refused == 1
    assert not manifest.complete


@pytest.mark.system
def test_a_list_that_was_cut_off_anywhere_is_incomplete(tmp_path: Path) -> None:
    whole = _with_token([PFL, NAME, DOM])
    first = whole.index(b"\n") + 1
    for length in range(first, len(whole), 7):
        place = tmp_path / str(length)
        place.mkdir()
        try:
            manifest, rows = imported(place, whole[:length], IndexSource.LFS_FIND)
        except DataError:
            continue
        assert not manifest.complete
        assert set(only(rows, "name")) <= {(b"pfl",), (b"nl\nname",), (b"nl",), (b"dom",)}


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
def test_a_real_tree_becomes_what_lstat_says_whatever_its_names(tmp_path: Path) -> None:
    root = hostile_tree(tmp_path / "my tree")
    manifest, rows = imported(tmp_path, _scripted(tmp_path, root), IndexSource.LFS_FIND, root=root)
    twin = true_rows(root)
    same = ("parent", "name", "uid", "gid", "size_bytes", "allocated_bytes", "nlink", "type")
    assert only(rows, *same) == only(twin, *same)
    assert [row["id"][8:12] for row in rows] == [row["id"][12:] for row in twin]
    assert manifest.complete
    assert manifest.started_ns is not None


@pytest.mark.system
def test_a_script_whose_lfs_failed_prints_no_end(tmp_path: Path) -> None:
    root = hostile_tree(tmp_path / "tree")
    first, second = (_scripted(tmp_path, root, code) for code in (13, 0))
    assert first.split()[3] != second.split()[3]  # a new token every time
    manifest, rows = imported(tmp_path, first, IndexSource.LFS_FIND, root=root)
    assert len(rows) == len(true_rows(root))
    assert not manifest.complete


@pytest.mark.parametrize("content", [b"hello\n", b"\n\n", b"\xff" * 100 + b"\n", b"/scratch/a\n"])
def test_what_is_no_list_is_refused_as_a_whole(tmp_path: Path, content: bytes) -> None:
    with raises(DataError, "format-unknown"):
        imported(tmp_path, content, IndexSource.LFS_FIND)


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
