"""Importing a list: whole or not at all, what a person says of it, and what the pages say."""

from __future__ import annotations

import fcntl
import gzip
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.purge.index.imports import LATER, PAGE, SYSTEM, imported, load_verified, only
from tests.support.codes import raises
from tests.support.counts import repetitions, seeded

from trimtab.base.error import DataError, RefusedError, UnreadableError, UsageError
from trimtab.purge.index import printf_list, shard
from trimtab.purge.index.index_query import By, ask
from trimtab.purge.index.list_import import ListDescription, import_index, import_list
from trimtab.purge.index.manifest import IndexSource, Lack
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.index.table_list import UNITS, names_of, parse_map

RECORD = (
    b"1\t2\tf\t1\t3\t4\t5\t8\t1700000000.5000000000\t2.0000000000\t3.0000000000\t\t/scratch/%06d\0"
)
CHILD = """
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from trimtab.purge.index import shard
from trimtab.purge.index.list_import import ListDescription, import_list
from trimtab.purge.index.manifest import IndexSource
shard.ShardWriter.__init__.__defaults__ = (100, *shard.ShardWriter.__init__.__defaults__[1:])
write_shard, written = shard.ShardWriter._write, []
def until_killed(writer):
    write_shard(writer)
    written.append(True)
    if len(sys.argv) > 3 and len(written) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
shard.ShardWriter._write = until_killed
print("begun", flush=True)
described = ListDescription(IndexSource.GNU_FIND, b"/scratch")
import_list(Path(sys.argv[1]), Path(sys.argv[2]), described, now=datetime.now(UTC))
print("ended", flush=True)
"""


def _list(rows: int) -> bytes:
    body = b"".join(RECORD % number for number in range(rows))
    return b"trimtab-list 1 started=5\0" + body + b"trimtab-end ended=6\0"


@pytest.mark.system
@pytest.mark.parametrize("imports", repetitions(gate=2, soak=100))
def test_an_import_that_is_killed_leaves_nothing_or_everything(
    tmp_path: Path, imports: int
) -> None:
    file, rows = tmp_path / "list", 1500
    file.write_bytes(_list(rows))
    chance = seeded("import killed")
    argv = [sys.executable, "-c", CHILD, str(file)]
    whole_s = _timed([*argv, str(tmp_path / "first")])
    for number in range(imports):
        index = tmp_path / f"index {number}"
        shards = str(chance.randint(1, 15))
        killed = subprocess.run([*argv, str(index), shards], check=False, stdout=subprocess.DEVNULL)
        assert killed.returncode == -signal.SIGKILL
        with pytest.raises(UnreadableError):
            load_manifest(index)
        while True:
            child = subprocess.Popen([*argv, str(index)], stdout=subprocess.PIPE)
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(chance.uniform(0, whole_s))
            child.send_signal(signal.SIGKILL)
            rest, _ = child.communicate()  # closes the pipe
            if index.exists():
                assert load_verified(index).rows == rows
                assert load_manifest(index).complete
                break
            assert b"ended" not in rest
            with pytest.raises(UnreadableError):
                load_manifest(index)
            whole_s *= 1.5  # in the end it comes through, over what the killed ones left
        assert list(tmp_path.glob(".index*")) == []


def _timed(argv: list[str]) -> float:
    child = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    begun = time.monotonic()
    child.communicate()
    assert child.returncode == 0
    return time.monotonic() - begun


def test_two_imports_do_not_write_the_same_index(tmp_path: Path) -> None:
    work = tmp_path / ".index.importing"
    work.mkdir()
    descriptor = os.open(work, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with raises(RefusedError, "import-running"):
            imported(tmp_path, _list(1), IndexSource.GNU_FIND)
        assert work.exists()
    finally:
        os.close(descriptor)
    assert len(imported(tmp_path, _list(1), IndexSource.GNU_FIND)[1]) == 1


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    (index / "precious").write_text("x")
    with raises(RefusedError, "index-present"):
        imported(tmp_path, _list(1), IndexSource.GNU_FIND)
    (index / "precious").unlink()
    imported(tmp_path, _list(1), IndexSource.GNU_FIND)  # an empty directory may be taken
    assert index.stat().st_mode & 0o777 == 0o700
    index.rename(tmp_path / "elsewhere")
    index.symlink_to("elsewhere")
    with pytest.raises(RefusedError):
        imported(tmp_path, _list(1), IndexSource.GNU_FIND)


def test_a_compressed_list_is_read(tmp_path: Path) -> None:
    manifest, rows = imported(tmp_path, gzip.compress(_list(3)), IndexSource.GNU_FIND)
    assert only(rows, "name") == [(b"000000",), (b"000001",), (b"000002",)]
    assert manifest.complete


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9, 0.999])
def test_a_compressed_list_that_was_cut_off_is_incomplete(tmp_path: Path, part: float) -> None:
    packed = gzip.compress(_list(20_000))
    manifest, rows = imported(tmp_path, packed[: int(len(packed) * part)], IndexSource.GNU_FIND)
    assert not manifest.complete
    assert manifest.refused
    assert len(rows) <= 20_000


def test_zstd_is_named(tmp_path: Path) -> None:
    with raises(UsageError, "compression-unknown"):
        imported(tmp_path, b"\x28\xb5\x2f\xfd....", IndexSource.GNU_FIND)


def test_a_list_that_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    with raises(UnreadableError, "unreadable-file"):
        described = ListDescription(IndexSource.MFU, b"/")
        import_list(tmp_path / "none", tmp_path / "index", described, now=LATER)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("root", [b"", b"scratch", b"/scratch/../etc", b"/a\0b", b".."])
def test_a_root_is_absolute(tmp_path: Path, root: bytes) -> None:
    with raises(UsageError, "path-relative"):
        imported(tmp_path, _list(1), IndexSource.GNU_FIND, root=root)


def test_what_a_person_says_is_kept_and_told_apart(tmp_path: Path) -> None:
    told = {"filesystem": SYSTEM, "started_ns": 3, "ended_ns": 9, "complete": True}
    manifest, _ = imported(tmp_path, RECORD % 0, IndexSource.GNU_FIND, told=told)
    assert (manifest.started_ns, manifest.ended_ns, manifest.can_delete) == (3, 9, True)
    assert any("was declared complete at the import" in note for note in manifest.notes)


def test_what_nobody_says_is_not_made_up(tmp_path: Path) -> None:
    manifest, _ = imported(tmp_path, RECORD % 0, IndexSource.GNU_FIND)
    assert (manifest.started_ns, manifest.complete) == (None, False)
    assert manifest.ended_ns == (tmp_path / "list").stat().st_mtime_ns
    assert len(manifest.obstacles) == 3


@pytest.mark.parametrize(
    ("started", "ended", "said"),
    [(b"5", b"4", "before it begins"), (b"5", b"99999999999", "future")],
)
def test_a_list_was_made_in_the_past(
    tmp_path: Path, started: bytes, ended: bytes, said: str
) -> None:
    head, end = b"trimtab-list 1 started=" + started, b"trimtab-end ended=" + ended
    content, now = b"%b\0%b%b\0" % (head, RECORD % 0, end), datetime(2026, 11, 22, tzinfo=UTC)
    with pytest.raises(DataError, match=said):
        imported(tmp_path, content, IndexSource.GNU_FIND, now=now)


def test_times_in_another_unit_are_noticed(tmp_path: Path) -> None:
    content = b"path,uid,size,t\na,1,2,1700000000\n"
    mapping = ["path=path,uid=uid,size_bytes=size,mtime_ns=t:ns"]
    manifest, _ = imported(tmp_path, content, IndexSource.CSV, column_map=mapping)
    assert any("another unit" in note for note in manifest.notes)


@pytest.mark.system
def test_progress_is_told(tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(_list(250_000))
    seen: list[int] = []
    described = ListDescription(IndexSource.GNU_FIND, b"/scratch")
    manifest = import_list(
        tmp_path / "list", tmp_path / "index", described, now=LATER, progress=seen.append
    )
    assert manifest.rows == 250_000
    assert seen == sorted(seen)
    assert len(seen) == 2


NAMED = ("path=p,uid=who:name,gid=team:name,size_bytes=s",)
LINE = "alice:x:1234:1:comment with : and more:/:/bin/sh\n"


def test_names_come_from_files_or_from_this_host_where_a_column_holds_them(tmp_path):
    users, groups = tmp_path / "passwd", tmp_path / "group"
    users.write_text(LINE + "\n")
    groups.write_text("team:x:77:alice\n")
    given = names_of(NAMED, users, groups)
    assert (given.users, given.groups) == ({"alice": 1234}, {"team": 77})
    assert names_of(NAMED).users["root"] == 0
    assert names_of(("path=p,uid=u,size_bytes=s",), users=tmp_path / "nowhere").users == {}


@pytest.mark.parametrize("text", ["alice\n", "alice:x:many:1\n", "alice:x:\n", "alice:x:-1:1\n"])
def test_a_file_of_names_that_is_none(tmp_path, text):
    users = tmp_path / "passwd"
    users.write_text(LINE + text)
    with raises(DataError, "account-malformed"):
        names_of(NAMED, users=users)
    with pytest.raises(UnreadableError):
        names_of(NAMED, users=tmp_path / "nowhere")


@pytest.mark.system
def test_a_real_list_of_find_drives_a_plan_once_its_facts_are_told(tmp_path):
    tree, file = tmp_path / "tree", tmp_path / "list"
    tree.mkdir()
    (tree / "a file").write_text("x")
    fields = r"%i\t%n\t%U\t%G\t%s\t%b\t%A@\t%T@\t%C@\t%p\0"
    result = subprocess.run(["find", tree, "-printf", fields], capture_output=True, check=True)
    file.write_bytes(result.stdout)
    described = ListDescription(IndexSource.GNU_FIND, os.fsencode(tree))
    manifest = import_index(file, tmp_path / "bare", described)
    assert (manifest.source, manifest.can_delete) == (IndexSource.GNU_FIND, False)
    told = replace(described, complete=True)
    began = "2026-01-01T00:00:00Z"
    whole = import_index(file, tmp_path / "whole", told, mounted=True, started=began)
    assert whole.obstacles == ()
    assert whole.filesystem is not None
    assert whole.filesystem.fsid == os.statvfs(tree).f_fsid
    assert Lack.IDENTITY not in whole.lacking
    with pytest.raises(UsageError):
        import_index(file, tmp_path / "other", described, started="soon")
    assert not (tmp_path / "other").exists()


IMPORT = PAGE.read_text()
INDEX = PAGE.with_name("purge-index.md").read_text()


def test_the_scripts_are_those_of_the_program() -> None:
    assert f" -printf '{printf_list.GNU_FULL}' &&\n" in IMPORT
    assert f'--printf "$token\\t{printf_list.LFS_FULL}" &&\n' in IMPORT
    assert printf_list.GNU_SHORT in IMPORT


def test_every_format_and_target_stands_there() -> None:
    for source in set(IndexSource) - {IndexSource.SCAN}:
        assert f"`{source.value}`" in IMPORT
    for target, units in UNITS.items():
        row = next(line for line in IMPORT.splitlines() if f"`{target}`" in line and "| `" in line)
        for unit in units:
            assert f"`{unit}`" in row


@pytest.mark.parametrize("text", re.findall(r"--map (\S+=\S+,\S+) \\\n  --map (\S+)", IMPORT))
def test_the_map_of_the_page_is_one(text: tuple[str, str]) -> None:
    assert len(parse_map(text)) == "".join(text).count("=") >= 11


def test_every_column_stands_there() -> None:
    for column in shard.columns():
        assert INDEX.count(f"`{column}`") >= 2


def test_the_questions_of_the_page_are_answered(tmp_path: Path) -> None:
    statements = re.search(r"```sql\n(.*?)```", INDEX, re.DOTALL)
    assert statements is not None
    result = [one for one in statements[1].split(";") if one.strip()]
    assert len(result) == 3
    content = b"path,uid,size,t\nprojects/old/a,0,5,5\n"
    mapping = ["path=path,uid=uid,size_bytes=size,mtime_ns=t:s,atime_ns=t:s,ctime_ns=t:s"]
    imported(tmp_path, content, IndexSource.CSV, column_map=mapping)
    for statement in result:
        assert ask(tmp_path / "index", statement).frame.height == 1
    for by in By:
        assert by.value in INDEX.split("\n\n")[1] + INDEX.split("\n\n")[3]
