"""The loop device helpers leave nothing behind, also when a test fails in their midst."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support import loopback

pytestmark = [pytest.mark.system, loopback.needs_loop_devices("ext4")]


def _used_fraction(mount_point: Path) -> float:
    status = os.statvfs(mount_point)
    used = status.f_blocks - status.f_bfree
    return used / (used + status.f_bavail)


@pytest.mark.parametrize("fs", ["ext4", "xfs"])
def test_a_mounted_file_system_goes_away_when_its_test_fails(
    fs: loopback.FileSystem, tmp_path: Path
) -> None:
    if reason := loopback.why_no_loop_devices(fs):
        pytest.skip(reason)
    with pytest.raises(KeyError), loopback.mounted(tmp_path, fs=fs) as scratch:  # noqa: PT012
        assert scratch.mount_point.is_mount()
        assert scratch.device.read_queue("rotational") == "0"
        (scratch.mount_point / "left").write_bytes(b"x")
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    assert not scratch.device.path.exists()
    assert not Path("/sys/block", scratch.device.name).exists()


def test_a_failed_mkfs_leaves_no_device(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="mkfs"),
        loopback.mounted(tmp_path, mkfs_options=("-b", "777")),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
    backing_files = [path.read_text() for path in Path("/sys/block").glob("*/loop/backing_file")]
    assert not [path for path in backing_files if str(tmp_path) in path]


def test_a_device_without_discard_does_not_spoil_the_next(tmp_path: Path) -> None:
    with loopback.loop_device(64 * loopback.MIB, tmp_path, discard=False) as device:
        assert device.read_queue("discard_max_bytes") == "0"
    with loopback.loop_device(64 * loopback.MIB, tmp_path) as device:
        assert int(device.read_queue("discard_max_bytes")) > 0


def test_a_fragmented_ext4_makes_useless_loops_grow(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, size_bytes=loopback.GIB) as scratch:
        name = scratch.device.name
        Path(f"/sys/fs/ext4/{name}/mb_stats").write_text("1\n")
        loopback.fragment_ext4(scratch.mount_point)
        statistics = Path(f"/proc/fs/ext4/{name}/mb_stats")
        before = _useless(statistics.read_text())
        loopback.ext4_allocate_large(scratch.mount_point)
        assert _useless(statistics.read_text()) > before + 100
        assert 0.4 < _used_fraction(scratch.mount_point) < 0.65


def _useless(text: str) -> int:
    return sum(int(line.split(":")[1]) for line in text.splitlines() if "useless_loops" in line)
