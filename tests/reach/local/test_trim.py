"""How trim happens, on hosts made by hand; trimming itself on loop devices."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.reach.hosts import host, no_tools, real_data, touch_of
from tests.support import loopback
from tests.support.narrow import instance

from trimtab.base.error import RefusedError
from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.host import Host
from trimtab.reach.local.local_driver import LocalDriver
from trimtab.reach.local.path_description import describe
from trimtab.reach.local.trim import (
    Timer,
    cron_files,
    fstrim_command,
    mount_option,
    parse_fstrim,
    parse_timer,
    read_timer,
    timer_covers,
    trim_practice,
    trimmed_since_mount,
)
from trimtab.reach.touch import PathState

AT = datetime(2026, 11, 16, 0, 0, 12, tzinfo=UTC)


def _description(mount_point: str = "/scratch", **changes: object) -> PathDescription:
    base = PathDescription(
        path=mount_point,
        real_path=mount_point,
        mount_point=mount_point,
        kind="local",
        fs_type="ext4",
        source="/dev/sdb",
        options=("rw", "relatime"),
        devices=(BlockDevice("sdb", "disk", discard_granularity_bytes=4096),),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def _machine(tmp_path: Path, **files: str) -> Host:
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Host(str(tmp_path))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("rw", "discard"), "discard"),
        (("rw", "discard=async"), "discard=async"),
        (("rw", "fstrim=1024"), "fstrim=1024"),
        (("rw", "nodiscard", "nofstrim"), None),
        (("rw", "discard=off"), None),
        ((), None),
    ],
)
def test_mount_options_that_trim(options: tuple[str, ...], found: str | None) -> None:
    assert mount_option(options) == found


@pytest.mark.parametrize(
    ("text", "active", "last"),
    [
        ("ActiveState=active\nLastTriggerUSec=Mon 2026-11-16 00:00:12 UTC\n", True, AT),
        ("LastTriggerUSec=n/a\nActiveState=inactive\n", False, None),
        ("ActiveState=failed\nLastTriggerUSec=\n", False, None),
    ],
)
def test_systemctl_show(text: str, active: bool, last: datetime | None) -> None:
    is_active, last_run = parse_timer(text)
    assert is_active is active
    assert (None if isinstance(last_run, NotAvailable) else last_run) == last


def test_a_time_in_an_unknown_zone_is_no_time() -> None:
    _, last = parse_timer("ActiveState=active\nLastTriggerUSec=Mon 2026-11-16 00:00:12 CST\n")
    assert isinstance(last, NotAvailable)


def test_without_systemd_its_timers_are_not_known(tmp_path: Path) -> None:
    """In a container ``systemctl is-enabled`` says enabled all the same, and the host's may run."""
    timer = read_timer(Host(str(tmp_path)), no_tools)
    assert isinstance(timer.active, NotAvailable)
    assert "systemd does not run here" in timer.active.reason
    assert isinstance(timer.last_run, NotAvailable)


def test_the_stamp_file_says_when_the_timer_last_ran(tmp_path: Path) -> None:
    machine = _machine(tmp_path, run__systemd__system__x="")
    stamp = tmp_path / "var/lib/systemd/timers/stamp-fstrim.timer"
    stamp.parent.mkdir(parents=True)
    stamp.touch()
    os.utime(stamp, (AT.timestamp(), AT.timestamp()))
    assert read_timer(machine, no_tools).last_run == AT


UNIT = "usr__lib__systemd__system__fstrim.service"
LISTED = "[Service]\nExecStart=/sbin/fstrim --listed-in /etc/fstab:/proc/self/mountinfo --verbose\n"


@pytest.mark.parametrize(
    ("files", "covered"),
    [
        ({UNIT: LISTED, "etc__fstab": "/dev/sdb /scratch xfs defaults 0 0\n"}, True),
        ({UNIT: LISTED, "etc__fstab": "/dev/sdb /scratch/ xfs defaults 0 0\n"}, True),
        ({UNIT: LISTED, "etc__fstab": "# /dev/sdb /scratch xfs\n/dev/sda / ext4 rw\n"}, False),
        ({UNIT: LISTED, "etc__fstab": "/dev/sdb /scratch xfs rw,X-fstrim.notrim 0 0\n"}, False),
        ({UNIT: LISTED, "etc__fstab": "# nothing\n\n"}, True),
        ({UNIT: LISTED}, True),
        ({UNIT: "[Service]\nExecStart=/sbin/fstrim -av\n", "etc__fstab": "/dev/sda / x\n"}, False),
        ({UNIT: "[Service]\nExecStart=/sbin/fstrim -a\n", "etc__fstab": "/dev/sda / x\n"}, True),
        ({UNIT: "[Service]\nExecStart=/sbin/fstrim -Av\n", "etc__fstab": "/dev/sda / x\n"}, False),
        ({"etc__fstab": "/dev/sda / ext4 rw\n"}, False),
    ],
)
def test_what_the_timer_goes_through(files: dict[str, str], covered: bool, tmp_path: Path) -> None:
    answer = timer_covers(_machine(tmp_path, **files), _description())
    assert isinstance(answer, NotAvailable) is not covered


def test_an_fstab_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    machine = _machine(tmp_path, **{UNIT: LISTED})
    (tmp_path / "etc" / "fstab").mkdir(parents=True)
    answer = instance(NotAvailable, timer_covers(machine, _description()))
    assert "/etc/fstab" in answer.reason


def test_a_mount_point_with_a_space_in_fstab(tmp_path: Path) -> None:
    machine = _machine(tmp_path, etc__fstab="/dev/sdb /my\\040scratch xfs rw 0 0\n")
    assert isinstance(timer_covers(machine, _description("/my scratch")), str)


def test_cron_lines_that_trim(tmp_path: Path) -> None:
    machine = _machine(
        tmp_path,
        etc__crontab="0 3 * * * root /sbin/fstrim -v /scratch\n",
        etc__cron_d__x="",
        **{
            "etc__cron.d__scratch": "# 0 3 * * * root fstrim /scratch\n",
            "etc__cron.weekly__fstrim": "#!/bin/sh\nexec fstrim-all\n",
            "etc__cron.daily__man-db": "#!/bin/sh\nmandb\n",
        },
    )
    assert cron_files(machine) == ("/etc/crontab", "/etc/cron.weekly/fstrim")


@pytest.mark.parametrize(
    ("fs_type", "blocks", "granularity", "discarded", "answer"),
    [
        ("ext4", "1", 4096, 100, True),
        ("ext4", "1", 4096, 0, True),  # it knows, whatever the device's counter says
        ("ext4", "1", 512, None, True),
        ("ext4", "0", 4096, None, False),
        ("ext4", "0", 512, None, None),
        ("xfs", None, 4096, None, None),
        ("ext4", "0", 4096, 100, False),
        ("ext4", "0", 512, 100, None),
        ("ext4", "0", 512, 0, False),
        ("ext4", None, 4096, 100, None),
        ("xfs", None, 4096, 100, None),
        ("xfs", None, 4096, 0, False),
    ],
)
def test_what_ext4_remembers(
    fs_type: str,
    blocks: str | None,
    granularity: int,
    discarded: int | None,
    answer: bool | None,
    tmp_path: Path,
) -> None:
    files = {} if blocks is None else {"sys__fs__ext4__sdb__last_trim_minblks": f"{blocks}\n"}
    device = BlockDevice("sdb", "disk", discard_granularity_bytes=granularity)
    trimmed, source = trimmed_since_mount(
        _machine(tmp_path, **files),
        _description(fs_type=fs_type, devices=(device,)),
        NotAvailable("sdb counts nothing") if discarded is None else discarded,
    )
    if answer is not None:
        assert source.endswith("/stat" if blocks is None or (granularity == 512 and blocks == "0")
                               else "/last_trim_minblks")  # fmt: skip
    assert (None if isinstance(trimmed, NotAvailable) else trimmed) is answer


def test_a_timer_that_passes_the_mount_by_is_no_mechanism(tmp_path: Path) -> None:
    machine = _machine(tmp_path, etc__fstab="/dev/sda / ext4 rw 0 1\n")
    practice = trim_practice(
        machine, _description(), timer=Timer(active=True, last_run=AT), discarded_bytes=7
    )
    assert practice.timer_active is False
    assert "/scratch is not" in practice.reasons["timer_active"]
    assert not practice.has_mechanism


def test_an_active_timer_that_covers_the_mount(tmp_path: Path) -> None:
    machine = _machine(tmp_path, etc__fstab="/dev/sdb /scratch ext4 rw 0 1\n")
    practice = trim_practice(
        machine, _description(), timer=Timer(active=True, last_run=AT), discarded_bytes=7
    )
    assert practice.timer_active is True
    assert practice.has_mechanism
    assert practice.discarded_bytes == 7


def test_a_host_made_by_hand_end_to_end() -> None:
    driver = LocalDriver(
        "/", host=host("nvme-partition"), touch=touch_of("259:2"), execute=no_tools
    )
    practice = driver.trim_practice("/")
    assert not isinstance(practice, NotAvailable)
    assert practice.discarded_bytes == 1893421056 * 512
    assert practice.trimmed_since_mount is None
    assert "last_trim_minblks" in practice.reasons["trimmed_since_mount"]
    assert practice.timer_active is None
    assert isinstance(driver.trim("/"), NotAvailable)


def test_the_command_ends_its_options_before_the_path() -> None:
    assert fstrim_command("-x", 0, None) == ("fstrim", "-v", "--", "-x")
    assert fstrim_command("/s", 5, 7) == ("fstrim", "-v", "-o", "5", "-l", "7", "--", "/s")


@pytest.mark.parametrize(
    ("text", "trimmed"),
    [
        ("/scratch: 1.5 GiB (1663283200 bytes) trimmed\n", 1663283200),
        ("/scratch: 0 B (0 bytes) trimmed\n", 0),
        ("/a (9 bytes) trimmed/b: 1 MiB (1048576 bytes) trimmed", 1048576),
        ("/scratch: 0 B (dry run) trimmed\n", None),
        ("", None),
    ],
)
def test_what_fstrim_prints(text: str, trimmed: int | None) -> None:
    answer = parse_fstrim(text)
    if trimmed is None:
        assert isinstance(answer, NotAvailable)
    else:
        assert answer == trimmed


def test_recorded_fstrim_outputs() -> None:
    found = {
        path.name: parse_fstrim(path.read_text())
        for path in real_data("lustre-2.17/block").glob("fstrim_*ost*.out")
    }
    assert found["fstrim_ost0.out"] == 3950903296
    assert found["fstrim_ost0_again.out"] == 0
    assert isinstance(found["fstrim_n_ost0.out"], NotAvailable)


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_a_directory_that_is_no_mount_point_any_more_is_not_trimmed(tmp_path: Path) -> None:
    """On a mere directory fstrim would trim the file system that the directory lies in."""
    with loopback.mounted(tmp_path) as scratch:
        driver = LocalDriver(str(scratch.mount_point))
        target = driver.targets()[0].name
        loopback.unmount(scratch.mount_point)
        with pytest.raises(RefusedError) as caught:
            driver.trim(target)
        assert caught.value.code == "mount-changed"
        snapshot = driver.snapshot(AT)
        assert not snapshot.complete
        assert snapshot.targets[0].reading("used_bytes") is not None
        assert snapshot.targets[0].value("used_bytes") is None


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_a_mount_over_it_is_not_trimmed_in_its_place(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path) as scratch, loopback.mounted(tmp_path) as other:
        driver = LocalDriver(str(scratch.mount_point))
        with (
            loopback.bound(other.mount_point, scratch.mount_point),
            pytest.raises(RefusedError),
        ):
            driver.trim(str(scratch.mount_point))


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_a_device_without_discard_is_not_available(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, discard=False) as scratch:
        driver = LocalDriver(str(scratch.mount_point))
        answer = instance(NotAvailable, driver.trim(driver.targets()[0].name))
        assert "not supported" in answer.reason
        assert driver.description.devices[0].discard_max_bytes == 0


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_trim_is_on_record_afterwards(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path) as scratch:
        driver = LocalDriver(str(scratch.mount_point))
        target = driver.targets()[0].name
        before = driver.trim_practice(target)
        driver.trim(target)
        after = driver.trim_practice(target)
        assert not isinstance(before, NotAvailable)
        assert not isinstance(after, NotAvailable)
        assert (before.trimmed_since_mount, before.discarded_bytes) == (False, 0)
        assert after.trimmed_since_mount is True
        assert (after.discarded_bytes or 0) > 100 * loopback.MIB


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_trim_is_on_record_though_the_device_counts_nothing(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path) as scratch:
        scratch.device.set_queue("iostats", 0)
        driver = LocalDriver(str(scratch.mount_point))
        target = driver.targets()[0].name
        driver.trim(target)
        practice = driver.trim_practice(target)
        assert not isinstance(practice, NotAvailable)
        assert practice.discarded_bytes is None
        assert "iostats" in practice.reasons["discarded_bytes"]
        assert practice.trimmed_since_mount is True


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_the_discard_mount_option_is_seen(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, options="discard") as scratch:
        driver = LocalDriver(str(scratch.mount_point))
        practice = driver.trim_practice(driver.targets()[0].name)
        assert not isinstance(practice, NotAvailable)
        assert practice.mount_option == "discard"


def test_a_path_without_devices_has_no_practice() -> None:
    driver = LocalDriver("/lustre", host=host("clients"), touch=touch_of(), execute=no_tools)
    assert isinstance(driver.trim_practice("/lustre"), NotAvailable)
    assert isinstance(driver.trim("/lustre"), NotAvailable)


def test_describe_takes_the_state_that_touch_gives() -> None:
    state = PathState("/x", exists=True, kind="directory", real_path="/scratch/x", device="253:3")
    found = describe("/x", host=host("raid6-lvm"), touch=lambda _path: state, execute=no_tools)
    assert found.mount_point == "/scratch"
