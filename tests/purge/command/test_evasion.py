"""Files kept alive on a real ext4, and ordinary use beside them, from scan to what is said."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support import loopback
from tests.support.command import Ended, trimtab
from tests.support.documents import misfits

FILES = 1100
DAY_S = 86400
OLD_S = 200 * DAY_S
TOUCHED, READ, RENEWED, FUTURE, UNPACKED, LEFT = range(1001, 1007)
pytestmark = [pytest.mark.system]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Make a tree of old files, keep some of them alive, scan in between, and ask."""
    reason = loopback.why_no_loop_devices("ext4")
    if reason is not None:
        pytest.skip(reason)
    private = tmp_path_factory.mktemp("evasion")
    indexes = [private / f"index-{number}" for number in range(4)]
    options = ("-I", "256", "-N", "20000")  # birth times stand in large inodes only
    with loopback.mounted(private, size_bytes=64 * 2**20, mkfs_options=options) as mounted:
        root = mounted.mount_point
        for uid in (TOUCHED, READ, RENEWED, LEFT):
            _make_files(root, uid)
        _age(mounted)
        _scan(root, indexes[0])
        _change_rights(root / str(RENEWED), 0o640)
        _scan(root, indexes[1])
        _change_rights(root / str(RENEWED), 0o600)
        subprocess.run(["touch", *(root / str(TOUCHED)).iterdir()], check=True)
        _read(root / str(READ))
        _make_files(root, FUTURE, count=3)
        subprocess.run(["touch", "-d", "2040-01-01", root / str(FUTURE) / "0"], check=True)
        _unpack(root, private)
        _scan(root, indexes[2])
        earlier = ("--earlier", indexes[1], "--earlier", indexes[0])
        found: dict[str, Any] = {"signs": _asked("--index", indexes[2], *earlier, "--json")}
        found["text"] = _asked("--index", indexes[2], *earlier)
        found["before"] = _asked("--index", indexes[0], "--json")
        # A backup reads everybody's files; whoever read their own before is not seen any more.
        _age(mounted, names=(READ,))
        for uid in (READ, LEFT):
            _read(root / str(uid))
        _scan(root, indexes[3])
        found["backup"] = _asked("--index", indexes[3], "--json")
        found["indexes"] = indexes
        return found


def _make_files(root: Path, uid: int, count: int = FILES) -> None:
    top = root / str(uid)
    top.mkdir()
    for number in range(count):
        (top / str(number)).write_bytes(b"x")
        os.chown(top / str(number), uid, uid)


def _age(
    mounted: loopback.Mounted, names: tuple[int, ...] = (TOUCHED, READ, RENEWED, LEFT)
) -> None:
    """Write all four times into the inodes: nobody can set a birth or a change from above."""
    root = mounted.mount_point
    inodes = [one.inode() for name in names for one in os.scandir(root / str(name))]
    loopback.unmount(root)
    at = time.strftime("%Y%m%d%H%M%S", time.gmtime(time.time() - OLD_S))
    script = "".join(
        f"set_inode_field <{inode}> {field} {at}\n"
        for inode in inodes
        for field in ("crtime", "ctime", "mtime", "atime")
    )
    device = str(mounted.device.path)
    debugfs = ["debugfs", "-w", "-f", "-", device]
    subprocess.run(debugfs, input=script, text=True, capture_output=True, check=True)
    subprocess.run(["mount", "-t", "ext4", device, root], check=True)


def _change_rights(top: Path, mode: int) -> None:
    for one in top.iterdir():
        one.chmod(mode)


def _read(top: Path) -> None:
    for one in top.iterdir():
        one.read_bytes()


def _unpack(root: Path, private: Path) -> None:
    """Unpack an archive of old files, as its owner would, with the times that tar sets."""
    old = private / "old"
    old.mkdir()
    at_s = time.time() - OLD_S
    for number in range(FILES):
        (old / str(number)).write_bytes(b"y")
        os.utime(old / str(number), (at_s, at_s))
    archive = private / "old.tar"
    subprocess.run(["tar", "-C", private, "-cf", archive, "old"], check=True)
    top = root / str(UNPACKED)
    top.mkdir()
    subprocess.run(["tar", "-C", top, "-xf", archive], check=True)
    subprocess.run(["tar", "-C", top, "-xmf", archive, "--transform", "s/old/new/"], check=True)
    subprocess.run(["chown", "-R", str(UNPACKED), top], check=True)


def _purge(*arguments: object) -> Ended:
    ended = trimtab("purge", *arguments, store=Path(os.devnull))
    assert ended.code == 0, ended.stderr
    return ended


def _scan(root: Path, index: Path) -> None:
    _purge("scan", root, "--index", index, "--json")


def _asked(*arguments: object) -> Ended:
    return _purge("evasion", *arguments)


def _signs(ended: Ended) -> dict[tuple[str, int], dict[str, Any]]:
    return {(one["kind"], one["uid"]): one for one in ended.document["signs"]}


def test_each_way_to_keep_files_alive_is_seen_and_nothing_else(seen):
    signs = _signs(seen["signs"])
    assert {key: one["files"] for key, one in signs.items()} == {
        ("touched", TOUCHED): FILES,
        ("read together", READ): FILES,
        ("renewed", RENEWED): FILES,
        ("future", FUTURE): 1,
    }
    assert all(sign["may_be"] and sign["words"] for sign in signs.values())
    assert signs["future", FUTURE]["last"].startswith("2040-01-01")


def test_before_anybody_did_anything_there_is_nothing(seen):
    document = seen["before"].document
    assert (document["signs"], list(document["passed_over"])) == ([], ["renewed"])


def test_a_backup_that_reads_everybodys_files_is_not_held_against_them(seen):
    assert ("read together", READ) not in _signs(seen["backup"])
    assert ("read together", LEFT) not in _signs(seen["backup"])


def test_the_question_beside_a_sign_lists_its_files(seen):
    for (_, uid), one in _signs(seen["signs"]).items():
        asked = _purge("query", "--index", seen["indexes"][2], one["query"], "--json")
        paths = {row["path"] for row in asked.document["rows"]}
        assert len(paths) == one["files"]
        assert all(path.startswith(f"{uid}/") for path in paths)


def test_the_page_says_that_it_proves_nothing_and_the_document_fits_its_schema(seen):
    text = " ".join(seen["text"].stdout.split())
    assert text.count("It may be") == 4
    for words in ("4 signs", "no plan or run uses it", "trimtab purge query --index"):
        assert words in text
    assert misfits(seen["signs"].document, "purge-evasion") == []
