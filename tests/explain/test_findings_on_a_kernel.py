"""What a kernel shows of a file system that gave up, and whether a finding comes of it."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support import loopback

from trimtab.explain.drive_finding import ObservedTarget
from trimtab.explain.finding_table import find_all
from trimtab.reach.local_driver import LocalDriver

pytestmark = [pytest.mark.system, loopback.needs_loop_devices("ext4")]

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, linux/ext4.h
_NO_LOG_FLUSH = 2


def _findings(mount: loopback.Mounted) -> list[str]:
    driver = LocalDriver(str(mount.mount_point))
    now = driver.snapshot(datetime.now(UTC)).targets[0]
    return [finding.id for finding in find_all([ObservedTarget(driver.description, now)])]


def _abort(mount: loopback.Mounted) -> None:
    subprocess.run(["mount", "-o", "remount,abort", str(mount.mount_point)], check=True)


def _error(mount: loopback.Mounted) -> None:
    Path(f"/sys/fs/ext4/{mount.device.name}/trigger_fs_error").write_text("a test\n")


def _shut_down(mount: loopback.Mounted) -> None:
    directory = os.open(mount.mount_point, os.O_RDONLY)
    try:
        fcntl.ioctl(directory, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
    finally:
        os.close(directory)


@pytest.mark.parametrize("give_up", [_abort, _error])
def test_a_file_system_that_gave_up_is_found(
    give_up: Callable[[loopback.Mounted], None], tmp_path: Path
) -> None:
    with loopback.mounted(tmp_path, options="errors=remount-ro") as mount:
        mount.device.set_queue("wbt_lat_usec", 0)
        assert _findings(mount) == []
        give_up(mount)
        with pytest.raises(OSError, match="Read-only"):
            (mount.mount_point / "file").write_text("x")
        assert _findings(mount)[:2] == ["file-system-errors", "gone-read-only"]


def test_a_file_system_that_was_shut_down_is_found(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path) as mount:
        mount.device.set_queue("wbt_lat_usec", 0)
        _shut_down(mount)
        with pytest.raises(OSError, match="Input/output error"):
            (mount.mount_point / "file").write_text("x")
        if "shutdown" not in LocalDriver(str(mount.mount_point)).description.options:
            pytest.skip("this kernel does not show that a file system was shut down")
        assert _findings(mount) == ["gone-read-only"]


def test_what_a_person_made_read_only_is_no_finding(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path) as mount:
        mount.device.set_queue("wbt_lat_usec", 0)
        loopback.fill_to(mount.mount_point, 0.9)
        assert _findings(mount) == ["fullness-over-limit"]
        subprocess.run(["mount", "-o", "remount,ro", str(mount.mount_point)], check=True)
        assert _findings(mount) == []
