"""Whether reads extend life: declared, tried on real mounts, and reads that leave no atime."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import loopback

from trimtab.base.filesystem import parse_mountinfo
from trimtab.base.site import Servers, Site
from trimtab.purge.rules_in_force import ReadRecording
from trimtab.purge.site_facts import (
    COPIES,
    _moved,
    bound_files,
    lower_layers,
    mount_tables,
    read_recording,
    untraced_mounts,
)
from trimtab.reach.local_driver import LocalDriver

pytestmark = [pytest.mark.system, loopback.needs_loop_devices("ext4")]


OLD_S = 1_600_000_000


def asked(path: Path, **others: Any) -> ReadRecording:
    """Return whether reads count, as the driver of the path's own host finds it."""
    said: dict[str, Any] = {"reads_recorded": True, **others}
    site = Site("scratch", "local", str(path), **said)
    return read_recording(site, LocalDriver(str(path)), now_s=time.time())


def mount(*words: object) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with loopback.mounted(tmp_path_factory.mktemp("reads")) as found:
        yield found.mount_point


def test_nothing_is_tried_where_nothing_is_declared(scratch: Path) -> None:
    before = list(scratch.iterdir())
    result = asked(scratch, reads_recorded=False)
    assert not result.counts
    assert "does not declare" in result.reason
    assert list(scratch.iterdir()) == before


@pytest.mark.parametrize(
    ("option", "clients", "unrecorded", "unchecked"),
    [
        ("relatime", (), (), ()),
        ("strictatime", (), (), ()),
        ("noatime", (), ("this host",), ()),  # a declaration is not believed
        ("strictatime", ("login1",), (), ("login1",)),  # it cannot be asked
    ],
)
def test_reads_count_where_a_file_on_every_client_shows_it(
    scratch: Path, option: str, clients: tuple[str, ...], unrecorded: object, unchecked: object
) -> None:
    mount("-o", f"remount,{option}", scratch)
    result = asked(scratch, servers=Servers(clients=clients))
    assert (result.unrecorded, result.unchecked) == (unrecorded, unchecked)
    assert result.counts == (not unrecorded and not unchecked)
    assert not list(scratch.glob(".trimtab-*"))


def test_a_path_that_is_not_there_is_not_checked() -> None:
    site = Site("scratch", "local", "/nowhere/at/all", reads_recorded=True)
    assert read_recording(site, LocalDriver("/"), now_s=time.time()).unchecked == ("this host",)


def test_an_answer_that_is_no_number_is_none() -> None:
    assert _moved(None, "/x", lambda client, argv: "words", 5) is None
    assert _moved(None, "/x", lambda client, argv: "6\n", 5) is True
    assert _moved(None, "/x", lambda client, argv: "5\n", 5) is False


def test_where_copies_share_blocks_reads_do_not_count(tmp_path):
    reason = loopback.why_no_loop_devices("xfs")
    if reason is not None:
        pytest.skip(reason)
    size = loopback.XFS_MINIMUM_BYTES
    with loopback.mounted(tmp_path, fs="xfs", size_bytes=size) as disk:
        top = disk.mount_point
        (top / "file").write_bytes(b"x" * 8192)
        os.utime(top / "file", (OLD_S, OLD_S))
        subprocess.run(["cp", "--reflink=auto", top / "file", top / "copy"], check=True)
        assert int((top / "file").stat().st_atime) == OLD_S, "this is what it is about"
        result = asked(top)
        assert (result.counts, result.unrecorded) == (False, (COPIES,))
        assert "reflink" in result.reason
        assert asked(top, reads_without_atime=True).counts
        assert not list(top.glob(".trimtab-*"))
    plain = ("-m", "reflink=0")
    with loopback.mounted(tmp_path, fs="xfs", size_bytes=size, mkfs_options=plain) as disk:
        assert asked(disk.mount_point).counts


@pytest.fixture
def root(tmp_path):
    """Give an ext4 that records reads, with a file that nobody has read for years."""
    with loopback.mounted(tmp_path, size_bytes=32 * loopback.MIB, options="strictatime") as disk:
        (disk.mount_point / "user" / "deep").mkdir(parents=True)
        file = disk.mount_point / "user" / "file"
        file.write_text("x")
        os.utime(file, (OLD_S, OLD_S))
        yield disk.mount_point


def test_an_overlay_over_a_directory_of_the_root_is_seen(root, tmp_path):
    places = [tmp_path / name for name in ("upper", "work", "merged")]
    for place in places:
        place.mkdir()
    upper, work, merged = places
    assert asked(root).counts
    options = f"lowerdir={root / 'user'},upperdir={upper},workdir={work}"
    mount("-t", "overlay", "none", "-o", options, merged)
    try:
        assert (merged / "file").read_text() == "x"
        assert int((root / "user" / "file").stat().st_atime) == OLD_S, "this is what it is about"
        result = asked(root)
        assert (result.counts, result.unrecorded) == (False, (f"the overlay at {merged}",))
        assert asked(root, reads_without_atime=True).counts
    finally:
        subprocess.run(["umount", merged], check=True)
    assert asked(root).counts


def test_a_file_that_is_bound_elsewhere_is_used_without_being_read(root, tmp_path):
    (tmp_path / "over").touch()
    with loopback.bound(root / "user" / "file", tmp_path / "over"):
        result = asked(root)
        assert result.unrecorded == (f"the file that is bound over {tmp_path / 'over'}",)
        # It is no trouble for another root of the same file system.
        assert asked(root / "user" / "deep").counts
    (tmp_path / "directory").mkdir()
    with loopback.bound(root / "user", tmp_path / "directory"):
        assert asked(root).counts, "what is read through a directory that is bound moves atime"
        mount("-o", "remount,bind,noatime", tmp_path / "directory")
        unrecorded = asked(root).unrecorded
        assert unrecorded == (f"the mount with noatime at {tmp_path / 'directory'}",)


def test_a_file_that_is_bound_is_in_use_and_a_directory_is_not(root, tmp_path):
    """The lease is granted all the same: a mount holds nothing open."""
    (tmp_path / "over").touch()
    (tmp_path / "directory").mkdir()
    with (
        loopback.bound(root / "user" / "file", tmp_path / "over"),
        loopback.bound(root / "user", tmp_path / "directory"),
    ):
        assert bound_files(str(root), mount_tables()) == (b"user/file",)
        assert bound_files(str(root / "user"), mount_tables()) == (b"file",)
        assert bound_files(str(root / "user" / "deep"), mount_tables()) == ()
    assert bound_files(str(root), mount_tables()) == ()
    assert bound_files(str(root), {}) == ()


def test_mounts_of_other_namespaces_are_seen(root, tmp_path):
    (tmp_path / "over").touch()
    script = f"mount --bind {root / 'user' / 'file'} {tmp_path / 'over'} && echo ready && read line"
    process = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert len(mount_tables()) > 1
        assert asked(root).unrecorded == (f"the file that is bound over {tmp_path / 'over'}",)
    finally:
        process.communicate(b"\n", timeout=30)
    assert asked(root).counts


LINES = r"""1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 8:2 / /scratch rw,relatime - ext4 /dev/sdb1 rw
3 1 8:2 /sub /other rw,relatime - ext4 /dev/sdb1 rw
4 1 0:50 / /a rw - overlay none rw,lowerdir=/scratch/a\134:b:/x,upperdir=/u
5 1 0:51 / /b rw - overlay none rw,lowerdir=/usr:/opt,upperdir=/scratch/u
6 1 0:52 / /c rw - overlay none rw,lowerdir+=/other/deep,lowerdir+=/opt
7 1 0:53 / /d rw - overlay none rw,lowerdir=l/ABC
8 1 8:2 /away/f /e rw,noatime - ext4 /dev/sdb1 rw
"""


def test_layers_are_looked_for_wherever_the_file_system_is_mounted():
    table = parse_mountinfo(LINES)
    layers = {
        mount.mount_point: lower_layers(mount) for mount in table if mount.fs_type == "overlay"
    }
    assert layers["/a"] == ("/scratch/a:b", "/x")
    assert layers["/c"] == ("/other/deep", "/opt")

    def seen(root: str) -> list[str]:
        words = untraced_mounts(root, {"/proc/self": table}, lambda _path: False)
        return [text.rpartition(" ")[2] for text in words]

    assert seen("/scratch") == ["/a", "/c", "/d", "/e"]
    assert seen("/scratch/sub") == ["/c", "/d"]  # the same directory as /other
    assert seen("/other") == ["/c", "/d"]
    assert seen("/scratch/away") == ["/d", "/e"]
    assert untraced_mounts("/scratch", {}, lambda _path: True) == ()
