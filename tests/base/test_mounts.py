from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.narrow import present

from trimtab.base.filesystem import Mount, family_of, find_mount, kind_of, parse_mountinfo, unescape

TABLE = r"""22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro
23 22 0:21 / /proc rw,nosuid shared:2 master:3 - proc proc rw
30 22 8:17 / /data rw,noatime - xfs /dev/sdb1 rw,attr2
31 30 8:33 / /data/deep rw - ext4 /dev/sdc1 rw
32 22 8:49 / /da rw - ext4 /dev/sdd1 rw
33 22 8:17 /sub /mnt/bind\040here ro,relatime - xfs /dev/sdb1 rw,attr2
"""


def _at(path: str, table: str = TABLE, device: str | None = None) -> int | None:
    mount = find_mount(parse_mountinfo(table), path, device)
    return None if mount is None else mount.mount_id


def test_every_field_is_read() -> None:
    assert parse_mountinfo(TABLE)[-1] == Mount(
        mount_id=33,
        parent_id=22,
        device_number="8:17",
        root="/sub",
        mount_point="/mnt/bind here",
        options=("ro", "relatime"),
        fs_type="xfs",
        source="/dev/sdb1",
        super_options=("rw", "attr2"),
    )


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/", 22),
        ("/data", 30),
        ("/data/x", 30),
        ("/data/deep", 31),
        ("/data/deeper", 30),
        ("/da/x", 32),
        ("/dat", 22),
        ("/mnt/bind here/x", 33),
        ("/proc/self", 23),
    ],
)
def test_the_mount_of_a_path(path: str, mount: int) -> None:
    assert _at(path) == mount


def test_a_later_mount_on_the_same_point_is_on_top() -> None:
    table = TABLE + "40 30 8:65 / /data rw - ext4 /dev/sde1 rw\n"
    assert _at("/data/x", table) == 40


def test_a_mount_above_hides_what_was_mounted_below() -> None:
    # Over /data, whose /data/deep can then be reached no more.
    table = TABLE + "40 30 8:65 / /data rw - ext4 /dev/sde1 rw\n"
    assert _at("/data/deep/x", table) == 40


def test_a_new_root_covers_everything_before_it() -> None:
    table = (
        TABLE + "50 22 8:81 / / rw - ext4 /dev/sdf1 rw\n51 50 8:97 / /data rw - xfs /dev/sdg rw\n"
    )
    assert _at("/proc", table) == 50
    assert _at("/data/deep", table) == 51


def test_the_device_number_settles_a_race() -> None:
    assert _at("/data/deep/x", device="8:33") == 31
    assert _at("/data/deep/x", device="8:17") == 30
    assert _at("/data/deep/x", device="8:2") == 22


def test_an_unknown_device_number_is_passed_over() -> None:
    """Subvolumes of btrfs have numbers that no line of the table has."""
    assert _at("/data/x", device="0:99") == 30


def test_a_table_without_a_root_in_a_container() -> None:
    table = "700 600 0:90 / / rw - overlay overlay rw\n701 700 8:17 / /data rw - xfs /dev/sdb1 rw\n"
    assert _at("/data", table) == 701
    assert _at("/x", table) == 700
    assert _at("/x", "") is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "rubbish",
        "1 2 3",
        "a b 8:1 / / rw - ext4 x rw",
        "22 1 8:2 / / rw - ext4",
        "22 1 8:2 / / rw",
    ],
)
def test_a_line_that_is_none_is_left_out(line: str) -> None:
    assert parse_mountinfo(line + "\n" + TABLE) == parse_mountinfo(TABLE)


@pytest.mark.parametrize("character", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_only_a_line_feed_ends_a_line(character: str) -> None:
    line = f"40 22 8:65 / /a{character}b rw - ext4 /dev/sde1 rw\n"
    assert _at(f"/a{character}b/x", TABLE + line) == 40


@given(st.text(st.characters(min_codepoint=1, max_codepoint=0x2FF, exclude_characters="/")))
def test_escapes_round_trip(name: str) -> None:
    raw = name.encode("utf-8", "surrogateescape")
    escaped = "".join(f"\\{byte:03o}" if byte in b" \t\n\\#" else chr(byte) for byte in raw).encode(
        "latin-1"
    )
    assert unescape(escaped.decode("utf-8", "surrogateescape")) == name


def test_undecodable_names_survive() -> None:
    path = unescape(b"/mnt/a\xff\\040b".decode("utf-8", "surrogateescape"))
    assert os.fsencode(path) == b"/mnt/a\xff b"


@pytest.mark.parametrize(
    ("fs_type", "kind"),
    [
        ("ext4", "local"),
        ("xfs", "local"),
        ("lustre", "lustre"),
        ("nfs4", "network"),
        ("cifs", "network"),
        ("beegfs", "network"),
        ("mmfs", "network"),
        ("dvs", "network"),
        ("gfs2", "local"),
        ("lustre_lite", "lustre"),
        ("tmpfs", "memory"),
        ("overlay", "opaque"),
        ("fuse.sshfs", "network"),
        ("fuse.s3fs", "opaque"),
        ("fuseblk", "opaque"),
        ("zfs", "opaque"),
        ("proc", "opaque"),
        ("never-heard-of", "opaque"),
    ],
)
def test_kinds(fs_type: str, kind: str) -> None:
    assert kind_of(fs_type) == kind


@pytest.mark.parametrize(
    ("fs_type", "family"),
    [
        ("xfs", "local"),
        ("gfs2", "shared-disk"),
        ("lustre", "lustre"),
        ("gpfs", "parallel"),
        ("fuse.glusterfs", "parallel"),
        ("nfs", "network"),
        ("fuse", "user-space"),
        ("fuse.", "user-space"),
        ("fuse.ext4", "user-space"),
        ("fuseblk", "unknown"),
        ("", "unknown"),
    ],
)
def test_families(fs_type: str, family: str) -> None:
    assert family_of(fs_type) == family


def test_this_machines_own_table_agrees_with_stat() -> None:
    mounts = parse_mountinfo(Path("/proc/self/mountinfo").read_text())
    for path in ("/", "/proc/self", "/sys/kernel", "/dev"):
        device = Path(path).stat().st_dev
        mount = present(find_mount(mounts, os.path.realpath(path)))
        assert mount.device_number == f"{os.major(device)}:{os.minor(device)}"


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("seed", range(6))
def test_stacked_and_hidden_mounts_agree_with_the_kernel(seed: int, tmp_path: Path) -> None:
    """Mount at random over one another, then ask stat which file system each path is on."""
    random = Random(seed)
    names = ["a", "a/b", "a/b/c", "a/b c", "d"]

    def make_directories() -> list[Path]:
        for name in names:
            (tmp_path / name).mkdir(parents=True, exist_ok=True)
        return [tmp_path, *(tmp_path / name for name in names)]

    try:
        for _ in range(7):
            over = random.choice(make_directories()[1:])
            if random.random() < 0.3:
                argv = ["mount", "--bind", str(tmp_path / random.choice(names)), str(over)]
            else:
                argv = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(over)]
            subprocess.run(argv, check=True)
            mounts = parse_mountinfo(Path("/proc/self/mountinfo").read_text())
            for path in make_directories():
                found = find_mount(mounts, str(path))
                device = path.stat().st_dev
                assert present(found).device_number == f"{os.major(device)}:{os.minor(device)}", (
                    path
                )
    finally:
        _unmount_all_under(tmp_path)


def _unmount_all_under(directory: Path) -> None:
    """Unmount from the latest back: a mount that another one hides is reached when that is gone."""
    inside: list[str] = []
    for _ in range(200):
        mounts = parse_mountinfo(Path("/proc/self/mountinfo").read_text())
        inside = [m.mount_point for m in mounts if m.mount_point.startswith(f"{directory}/")]
        if not inside:
            return
        subprocess.run(["umount", "--lazy", inside[-1]], check=True)
    raise AssertionError(f"mounts are left: {inside}")
