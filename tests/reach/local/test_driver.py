"""The local driver as a whole, on hosts made by hand: telemetry, settings, and paths that hang."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.reach.hosts import HOSTS, driver_on, touch_of
from tests.support import loopback, silent_fuse
from tests.support.codes import raises
from tests.support.narrow import instance, present

from trimtab.base.error import NoAnswer, RefusedError, ToolError, UsageError
from trimtab.base.filesystem import BlockDevice
from trimtab.base.snapshot import NotAvailable, Setting, TargetSnapshot
from trimtab.reach import bounded
from trimtab.reach.host import (
    CpuTimes,
    DeviceBytes,
    Host,
    busy_fraction,
    read_bytes_of,
    read_cpu_times,
    read_device_bytes,
)
from trimtab.reach.local_driver import LocalDriver
from trimtab.reach.touch import PathState, StatvfsSpace

AT = datetime(2026, 11, 20, tzinfo=UTC)
SPACE = StatvfsSpace(4096, 4096, 1000, 400, 350, 100, 60, 0)


def _snapshot(
    name: str, path: str, device: str | None = None, space: StatvfsSpace | None = None
) -> TargetSnapshot:
    state = touch_of(device)(path)._replace(space=space)
    return driver_on(name, path, touch=lambda _path: state).snapshot(AT).targets[0]


def test_an_nvme_partition() -> None:
    one = _snapshot("nvme-partition", "/", "259:2")
    assert one.target.server == "nvme-partition"
    expected = {
        **{"errors_total": 3, "discard_granularity_bytes": 512, "read_only": False},
        "bytes_written_total": 781923840 * 512,
        "bytes_read_total": 98234112 * 512,
        "bytes_discarded_total": 1893421056 * 512,
        **{"allocator_family": None, "degraded": None},
    }
    assert {name: one.value(name) for name in expected} == expected
    assert one.labelled("wbt_latency_s") == {"nvme0n1": 0.002}
    read_only = _snapshot("nvme-partition", "/", "259:2", SPACE._replace(flags=1))
    assert read_only.value("read_only") is True


def test_a_raid_with_a_drive_missing() -> None:
    one = _snapshot("raid6-lvm", "/scratch", "253:3")
    assert one.value("degraded", "md127") is True
    assert one.labelled("wbt_latency_s") == {f"nvme{i}n1": 0.002 for i in range(4)}
    assert present(one.reading("errors_total")).reason == "xfs does not count its errors"
    assert len([r for r in one.readings if r.name == "drive_percentage_used"]) == 4


def test_a_lustre_client_shows_its_space_and_no_devices() -> None:
    state = touch_of("0:50")("/lustre")._replace(space=SPACE)
    driver = driver_on("clients", "/lustre", touch=lambda _path: state)
    snapshot = driver.snapshot(AT)
    (one,) = snapshot.targets
    assert snapshot.complete
    names = ("capacity_bytes", "used_bytes", "available_bytes", "bytes_written_total")
    assert [one.value(name) for name in names] == [4096000, 4096 * 600, 4096 * 350, None]
    assert one.fullness() == pytest.approx(600 / 950)
    assert "trim" not in driver.capabilities
    driver = driver_on("clients", "/lustre", touch=touch_of())
    assert driver.placement("/lustre/f") == ("/lustre",)
    assert driver.placement("/home/f") == NotAvailable("/home/f is on another file system")
    # A file system without inodes has no count of them.
    space = SPACE._replace(inodes=0, inodes_free=0)
    assert _snapshot("clients", "/btrfs", "0:58", space).value("inodes_total") is None


def test_a_path_that_stops_answering_leaves_the_rest() -> None:
    answers = [True, False]

    def touch(path: str) -> PathState:
        if not answers.pop(0):
            raise NoAnswer(f"{path} did not answer in 10 s")
        return touch_of("259:2")(path)._replace(space=SPACE)

    snapshot = driver_on("nvme-partition", "/", touch=touch).snapshot(AT)
    assert not snapshot.complete
    (one,) = snapshot.targets
    assert present(one.reading("used_bytes")).reason == "/ did not answer in 10 s"
    assert one.fullness() is None
    assert one.value("bytes_written_total") is not None


def test_cpu_time_between_two_snapshots(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    shutil.copy(HOSTS / "clients/proc/self/mountinfo", tmp_path / "proc/self")
    stat = tmp_path / "proc/stat"
    stat.write_text("cpu  100 0 50 800 50 0 0 0 20 0\n")
    driver = driver_on(tmp_path, "/tmp")
    assert driver.snapshot(AT).targets[0].value("server_cpu_fraction") is None
    stat.write_text("cpu  130 0 70 820 80 0 0 0 90 0\n")
    assert driver.snapshot(AT).targets[0].value("server_cpu_fraction") == 0.5
    for text in ("", "cpu0 1 2 3 4 5", "cpu  a b c d e f", "intr 5"):
        stat.write_text(text)
        assert isinstance(read_cpu_times(Host(str(tmp_path))), NotAvailable)
    for before, now, busy in (
        (CpuTimes(0, 0), CpuTimes(5, 10), 0.5),
        (CpuTimes(10, 10), CpuTimes(9, 20), 0.0),
        (CpuTimes(0, 0), CpuTimes(11, 10), 1.0),
    ):
        assert busy_fraction(before, now) == busy
    assert isinstance(busy_fraction(CpuTimes(5, 10), CpuTimes(5, 10)), NotAvailable)


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
    driver = driver_on("nvme-multipath", "/scratch", "259:1")
    moved = driver.drive_bytes()
    assert list(moved) == ["nvme0n1"]
    assert moved["nvme0n1"].written_bytes == 2 * 781923840 * 512
    assert driver.snapshot(AT).targets[0].value("bytes_read_total") == 2 * 98234112 * 512


def test_drives_that_do_not_all_count_give_no_sum(tmp_path: Path) -> None:
    machine = shutil.copytree(HOSTS / "raid6-lvm", tmp_path / "machine", symlinks=True)
    driver = driver_on(machine, "/scratch", "253:3")
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
        # And when it is told not to count.
        driver = LocalDriver(str(scratch.mount_point))
        scratch.device.set_queue("iostats", 0)
        one = present(driver.snapshot(AT).targets[0].reading("bytes_written_total"))
        assert one.reason == f"{scratch.device.name} counts nothing: queue/iostats is 0"


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


def test_settings_of_every_layer() -> None:
    settings = driver_on("raid6-lvm", "/scratch", "253:3").settings("/scratch")
    for name, value, place in (
        ("block/nvme2n1/queue/wbt_lat_usec", "2000", "nvme2n1/queue/wbt_lat_usec"),
        ("md/md127/stripe_cache_size", "256", "md127/md/stripe_cache_size"),
        ("block/nvme0n1/queue/scheduler", "none", "nvme0n1/queue/scheduler"),
    ):
        assert settings[name] == Setting(name, value, f"/sys/class/block/{place}")
    # A stacked device has no throttling of its own: not available, not 0.
    assert isinstance(settings["block/dm-3/queue/wbt_lat_usec"], NotAvailable)
    assert not any("nvme0n1p1" in name for name in settings)
    # ext4 has its own.
    settings = driver_on("nvme-partition", "/", "259:2").settings("/")
    assert isinstance(settings["ext4/nvme0n1p2/mb_stats"], Setting)
    assert isinstance(settings["ext4/nvme0n1p2/mb_max_linear_groups"], NotAvailable)
    # What is behind a loop device is another file system's.
    names = driver_on("loop-on-flash", "/mnt/with space", "7:4").settings("/mnt/with space")
    assert any(name.startswith("block/loop4/") for name in names)
    assert not any(name.startswith("block/nvme0n1/") for name in names)


@pytest.fixture
def raid(tmp_path: Path) -> LocalDriver:
    """The RAID machine, as a copy that may be written to."""
    root = tmp_path / "host"
    shutil.copytree(HOSTS / "raid6-lvm", root, symlinks=True)
    return driver_on(root, "/scratch", "253:3")


def test_a_write_is_read_back(raid: LocalDriver) -> None:
    name = "md/md127/stripe_cache_size"
    setting = raid.set("/scratch", name, "8192")
    assert setting == Setting(name, "8192", "/sys/class/block/md127/md/stripe_cache_size")
    assert raid.settings("/scratch")[name] == setting
    # One that is not there is not available, and unknown names are listed.
    assert isinstance(raid.set("/scratch", "block/dm-3/queue/wbt_lat_usec", "0"), NotAvailable)
    with pytest.raises(UsageError) as caught:
        raid.set("/scratch", "block/nvme0n1/queue/wbt", "0")
    assert "block/nvme0n1/queue/wbt_lat_usec" in (caught.value.hint or "")


@pytest.mark.parametrize("value", ["0", "00", "0x0", " 0 ", "0b0"])
def test_discard_is_never_switched_off(value: str, raid: LocalDriver) -> None:
    name = "block/nvme0n1/queue/discard_max_bytes"
    before = raid.settings("/scratch")[name]
    with raises(RefusedError, "setting-value-harmful"):
        raid.set("/scratch", name, value)
    assert raid.settings("/scratch")[name] == before


@pytest.mark.parametrize(
    "name",
    [
        *(
            f"block/nvme0n1/queue/{it}"
            for it in ("write_cache", "rotational", "discard_granularity")
        ),
        *("md/md127/level", "mount/options"),
    ],
)
def test_what_guards_data_is_read_only(name: str, raid: LocalDriver) -> None:
    with raises(RefusedError, "setting-read-only"):
        raid.set("/scratch", name, "1")


@pytest.mark.parametrize("value", ["", "1\n2", "1\0", "\t"])
def test_a_value_is_one_line(value: str, raid: LocalDriver) -> None:
    with raises(UsageError, "setting-value-invalid"):
        raid.set("/scratch", "md/md127/stripe_cache_size", value)


def test_a_value_that_does_not_stick_is_an_error(
    raid: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Host, "write_text", lambda self, path, value: None)
    with raises(ToolError, "setting-not-kept", "reads '2000'"):
        raid.set("/scratch", "block/nvme0n1/queue/wbt_lat_usec", "7")


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_a_real_kernels_settings(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path) as scratch:
        driver = LocalDriver(str(scratch.mount_point))
        target = driver.targets()[0].name
        prefix = f"block/{scratch.device.name}/queue"
        for name, value in (
            (f"{prefix}/wbt_lat_usec", "0"),
            (f"{prefix}/wbt_lat_usec", "2000"),
            (f"{prefix}/read_ahead_kb", "4096"),
            (f"{prefix}/scheduler", "mq-deadline"),
            (f"{prefix}/scheduler", "none"),
            (f"ext4/{scratch.device.name}/mb_stats", "1"),
        ):
            setting = instance(Setting, driver.set(target, name, value))
            assert setting.value == value
            assert driver.settings(target)[name] == setting
        default = instance(Setting, driver.set(target, f"{prefix}/wbt_lat_usec", "-1"))
        assert int(default.value) > 0
        with pytest.raises(UsageError, match="refuses"):
            driver.set(target, f"{prefix}/scheduler", "no-such-scheduler")
        with pytest.raises(RefusedError):
            driver.set(target, f"{prefix}/discard_max_bytes", "0")
        assert int(scratch.device.read_queue("discard_max_bytes")) > 0
