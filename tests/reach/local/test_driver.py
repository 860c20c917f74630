"""The local driver as a whole: what it says of hosts made by hand, and of paths that hang."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.reach.hosts import HOSTS, host, no_tools, touch_of
from tests.support import loopback, silent_fuse
from tests.support.narrow import instance, present

from trimtab.base.error import NoAnswer
from trimtab.base.filesystem import BlockDevice
from trimtab.base.snapshot import NotAvailable, TargetSnapshot
from trimtab.reach import bounded
from trimtab.reach.host import Host
from trimtab.reach.local.counter import (
    CpuTimes,
    DeviceBytes,
    busy_fraction,
    read_bytes_of,
    read_cpu_times,
    read_device_bytes,
)
from trimtab.reach.local.local_driver import LocalDriver
from trimtab.reach.touch import PathState, StatvfsSpace

AT = datetime(2026, 11, 20, tzinfo=UTC)
SPACE = StatvfsSpace(4096, 4096, 1000, 400, 350, 100, 60, 0)


def _snapshot(name: str, path: str, device: str | None = None) -> TargetSnapshot:
    driver = LocalDriver(path, host=host(name), touch=touch_of(device), execute=no_tools)
    return driver.snapshot(AT).targets[0]


def test_an_nvme_partition() -> None:
    one = _snapshot("nvme-partition", "/", "259:2")
    assert one.target.server == "nvme-partition"
    assert one.value("errors_total") == 3
    assert one.value("bytes_written_total") == 781923840 * 512
    assert one.value("bytes_read_total") == 98234112 * 512
    assert one.value("bytes_discarded_total") == 1893421056 * 512
    assert one.value("discard_granularity_bytes") == 512
    assert one.labelled("wbt_latency_s") == {"nvme0n1": 0.002}
    assert one.value("read_only") is False
    assert one.value("allocator_family") is None
    assert one.value("degraded") is None


def test_a_raid_with_a_drive_missing() -> None:
    one = _snapshot("raid6-lvm", "/scratch", "253:3")
    assert one.value("degraded", "md127") is True
    assert one.labelled("wbt_latency_s") == {f"nvme{i}n1": 0.002 for i in range(4)}
    reading = present(one.reading("errors_total"))
    assert reading.reason == "xfs does not count its errors"
    assert len([r for r in one.readings if r.name == "drive_percentage_used"]) == 4


def test_a_lustre_client_shows_its_space_and_no_devices() -> None:
    def touch(path: str) -> PathState:
        return PathState(path, exists=True, real_path=path, device="0:50", space=SPACE)

    driver = LocalDriver("/lustre", host=host("clients"), touch=touch, execute=no_tools)
    snapshot = driver.snapshot(AT)
    one = snapshot.targets[0]
    assert snapshot.complete
    assert one.number("capacity_bytes") == 4096 * 1000
    assert one.number("used_bytes") == 4096 * 600
    assert one.number("available_bytes") == 4096 * 350
    assert one.fullness() == pytest.approx(600 / 950)
    assert one.value("bytes_written_total") is None
    assert "trim" not in driver.capabilities


def test_a_path_that_stops_answering_leaves_the_rest() -> None:
    answers = [True, False]

    def touch(path: str) -> PathState:
        if not answers.pop(0):
            raise NoAnswer(f"{path} did not answer in 10 s")
        return PathState(path, exists=True, real_path=path, device="259:2", space=SPACE)

    driver = LocalDriver("/", host=host("nvme-partition"), touch=touch, execute=no_tools)
    snapshot = driver.snapshot(AT)
    assert not snapshot.complete
    one = snapshot.targets[0]
    used = present(one.reading("used_bytes"))
    assert used.reason == "/ did not answer in 10 s"
    assert one.fullness() is None
    assert one.value("bytes_written_total") is not None


def test_a_remount_read_only_is_seen() -> None:
    def touch(path: str) -> PathState:
        space = StatvfsSpace(4096, 4096, 1000, 400, 350, 100, 60, flags=1)
        return PathState(path, exists=True, real_path=path, device="259:2", space=space)

    driver = LocalDriver("/", host=host("nvme-partition"), touch=touch, execute=no_tools)
    assert driver.snapshot(AT).targets[0].value("read_only") is True


def test_a_file_system_without_inodes_has_no_count_of_them() -> None:
    def touch(path: str) -> PathState:
        space = StatvfsSpace(4096, 4096, 1000, 400, 350, 0, 0, flags=0)
        return PathState(path, exists=True, real_path=path, device="0:58", space=space)

    driver = LocalDriver("/btrfs", host=host("clients"), touch=touch, execute=no_tools)
    assert driver.snapshot(AT).targets[0].value("inodes_total") is None


def test_placement_is_on_this_file_system_or_not() -> None:
    driver = LocalDriver("/lustre", host=host("clients"), touch=touch_of(), execute=no_tools)
    here, there = driver.placement("/lustre/f"), driver.placement("/home/f")
    assert not isinstance(here, NotAvailable)
    assert here == ("/lustre",)
    assert there == NotAvailable("/home/f is on another file system")


def test_cpu_time_between_two_snapshots(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    table = (HOSTS / "clients/proc/self/mountinfo").read_text()
    (tmp_path / "proc/self/mountinfo").write_text(table)
    stat = tmp_path / "proc/stat"
    stat.write_text("cpu  100 0 50 800 50 0 0 0 20 0\n")
    driver = LocalDriver("/tmp", host=Host(str(tmp_path)), touch=touch_of(), execute=no_tools)
    assert driver.snapshot(AT).targets[0].value("server_cpu_fraction") is None
    stat.write_text("cpu  130 0 70 820 80 0 0 0 90 0\n")
    assert driver.snapshot(AT).targets[0].value("server_cpu_fraction") == 0.5


@pytest.mark.parametrize(
    ("before", "now", "busy"),
    [
        (CpuTimes(0, 0), CpuTimes(5, 10), 0.5),
        (CpuTimes(10, 10), CpuTimes(9, 20), 0.0),
        (CpuTimes(0, 0), CpuTimes(11, 10), 1.0),
        (CpuTimes(5, 10), CpuTimes(5, 10), None),
    ],
)
def test_busy_fraction(before: CpuTimes, now: CpuTimes, busy: float | None) -> None:
    answer = busy_fraction(before, now)
    assert (None if isinstance(answer, NotAvailable) else answer) == busy


@pytest.mark.parametrize("text", ["", "cpu0 1 2 3 4 5", "cpu  a b c d e f", "intr 5"])
def test_a_strange_proc_stat(text: str, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text(text)
    assert isinstance(read_cpu_times(Host(str(tmp_path))), NotAvailable)


@pytest.mark.parametrize(
    ("text", "known"), [("1 2 3", False), ("a " * 17, False), ("1 0 " * 6, True), ("7 " * 17, True)]
)
def test_device_counters(text: str, known: bool, tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/block/sda"
    folder.mkdir(parents=True)
    (folder / "stat").write_text(text)
    answer = read_device_bytes(Host(str(tmp_path)), "sda")
    assert isinstance(answer, NotAvailable) is not known
    if not isinstance(answer, NotAvailable):
        # A kernel before 4.18 writes 11 or 12 fields, without discards.
        assert isinstance(answer.discarded_bytes, NotAvailable) is (len(text.split()) < 15)


def _device(root: Path, name: str, *, read: int, iostats: str | None = None) -> BlockDevice:
    """Make a device that read so many sectors, wrote twice and discarded thrice as many."""
    folder = root / "sys/class/block" / name
    (folder / "queue").mkdir(parents=True)
    counts = [0] * 17
    counts[2], counts[6], counts[13] = read, 2 * read, 3 * read
    (folder / "stat").write_text(" ".join(map(str, counts)))
    if iostats is not None:
        (folder / "queue/iostats").write_text(iostats)
    return BlockDevice(name, "disk")


def test_a_device_that_is_told_not_to_count_has_no_counters(tmp_path: Path) -> None:
    _device(tmp_path, "nvme0n1", read=7, iostats="0\n")
    reason = NotAvailable("nvme0n1 counts nothing: queue/iostats is 0")
    assert read_device_bytes(Host(str(tmp_path)), "nvme0n1") == reason
    _device(tmp_path, "nvme1n1", read=7, iostats="1\n")
    assert isinstance(read_device_bytes(Host(str(tmp_path)), "nvme1n1"), DeviceBytes)


@pytest.mark.parametrize(
    ("head", "head_counts", "legs", "leg_counts", "read"),
    [
        (0, "1", (5, 6), "1", 11),  # before Linux 6.4
        (0, "0", (5, 6), "1", 11),
        (11, "1", (5, 6), "1", 11),  # from 6.4 on
        (20, "1", (5, 6), "1", 20),  # a path was attached anew and began at 0
        (11, "1", (5, 6), "0", 11),
        (0, "1", (5, 6), "0", None),
        (0, "0", (0, 0), "0", None),
    ],
)
def test_a_multipath_drive_counts_on_itself_or_on_its_paths(
    head: int, head_counts: str, legs: tuple[int, ...], leg_counts: str, read: int | None,
    tmp_path: Path,
) -> None:  # fmt: skip
    _device(tmp_path, "nvme0n1", read=head, iostats=head_counts)
    names = tuple(f"nvme0c{i}n1" for i in range(len(legs)))
    for name, count in zip(names, legs, strict=True):
        _device(tmp_path, name, read=count, iostats=leg_counts)
    answer = read_device_bytes(Host(str(tmp_path)), "nvme0n1", names)
    if read is None:
        assert isinstance(answer, NotAvailable)
    else:
        assert answer == DeviceBytes(512 * read, 1024 * read, 1536 * read)


def test_the_paths_of_a_multipath_drive_are_counted() -> None:
    driver = LocalDriver(
        "/scratch", host=host("nvme-multipath"), touch=touch_of("259:1"), execute=no_tools
    )
    moved = driver.drive_bytes()
    assert list(moved) == ["nvme0n1"]
    assert moved["nvme0n1"].written_bytes == 2 * 781923840 * 512
    assert driver.snapshot(AT).targets[0].value("bytes_read_total") == 2 * 98234112 * 512


def test_drives_that_do_not_all_count_give_no_sum(tmp_path: Path) -> None:
    machine = shutil.copytree(HOSTS / "raid6-lvm", tmp_path / "machine", symlinks=True)
    driver = LocalDriver(
        "/scratch", host=Host(str(machine)), touch=touch_of("253:3"), execute=no_tools
    )
    assert len(driver.drive_bytes()) == 4
    (machine / "sys/class/block/nvme2n1/queue/iostats").write_text("0\n")
    assert driver.drive_bytes() == {}


def test_a_partition_counts_when_its_disk_does(tmp_path: Path) -> None:
    machine = Host(str(tmp_path))
    disk = _device(tmp_path, "sda", read=7)
    assert isinstance(read_bytes_of(machine, disk, (disk,)), DeviceBytes)
    (tmp_path / "sys/class/block/sda/queue/iostats").write_text("0")
    part = tmp_path / "sys/class/block/sda/sda1"
    part.mkdir()
    (part / "partition").write_text("1")
    (part / "stat").write_text("7 " * 17)
    (tmp_path / "sys/class/block/sda1").symlink_to("sda/sda1")
    partition = BlockDevice("sda1", "partition", beneath=("sda",))
    answer = read_bytes_of(machine, partition, (partition, disk))
    assert answer == NotAvailable("sda1 counts nothing: queue/iostats is 0")


def test_a_partition_of_a_multipath_drive_that_counts_nothing(tmp_path: Path) -> None:
    head = replace(
        _device(tmp_path, "nvme0n1", read=0), kind="nvme-multipath", beneath=("nvme0c0n1",)
    )
    leg = _device(tmp_path, "nvme0c0n1", read=9)
    part = replace(_device(tmp_path, "nvme0n1p1", read=0), kind="partition", beneath=("nvme0n1",))
    answer = instance(NotAvailable, read_bytes_of(Host(str(tmp_path)), part, (part, head, leg)))
    assert "only the paths of nvme0n1 count" in answer.reason


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_a_real_device_that_is_told_not_to_count(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path) as scratch:
        driver = LocalDriver(str(scratch.mount_point))
        scratch.device.set_queue("iostats", 0)
        one = present(driver.snapshot(AT).targets[0].reading("bytes_written_total"))
        assert one.reason == f"{scratch.device.name} counts nothing: queue/iostats is 0"


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_the_counters_of_a_real_device(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path) as scratch:
        before = read_device_bytes(Host(), scratch.device.name)
        with (scratch.mount_point / "f").open("wb") as file:
            file.write(os.urandom(5 * loopback.MIB))
            file.flush()
            os.fsync(file.fileno())
        after = read_device_bytes(Host(), scratch.device.name)
        assert not isinstance(before, NotAvailable)
        assert not isinstance(after, NotAvailable)
        assert after.written_bytes - before.written_bytes >= 5 * loopback.MIB
        assert after.discarded_bytes == before.discarded_bytes == 0


@pytest.mark.system
@pytest.mark.skipif(silent_fuse.why_not() is not None, reason=silent_fuse.why_not() or "")
def test_a_mount_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """Opening the driver on a dead mount ends at the deadline; its neighbour is served."""
    dead = tmp_path / "dead"
    dead.mkdir()

    def touch(path: str) -> PathState:
        return bounded.describe(path, deadline_s=1.0)

    with silent_fuse.silent_mount(dead):
        with pytest.raises(NoAnswer, match="did not answer in 1 s"):
            LocalDriver(str(dead), touch=touch)
        with pytest.raises(NoAnswer):
            LocalDriver(str(dead / "below"), touch=touch)
        assert LocalDriver(str(tmp_path)).snapshot(AT).complete
