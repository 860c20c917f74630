"""How trim happens, on hosts made by hand; trimming itself on loop devices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.reach.hosts import driver_on, no_tools, recorded
from tests.support import loopback
from tests.support.codes import raises
from tests.support.narrow import instance, present

from trimtab.base.error import RefusedError
from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.base.snapshot import NotAvailable, TrimPractice
from trimtab.reach.host import Host
from trimtab.reach.local_driver import LocalDriver
from trimtab.reach.trim import (
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
        ("ActiveState=active\nLastTriggerUSec=Mon 2026-11-16 00:00:12 CST\n", True, None),
        ("LastTriggerUSec=n/a\nActiveState=inactive\n", False, None),
        ("ActiveState=failed\nLastTriggerUSec=\n", False, None),
    ],
)
def test_systemctl_show(text: str, active: bool, last: datetime | None) -> None:
    is_active, last_run = parse_timer(text)
    assert is_active is active
    assert (None if isinstance(last_run, NotAvailable) else last_run) == last


def test_when_a_timer_last_ran_is_known_where_systemd_runs(tmp_path: Path) -> None:
    """In a container ``systemctl is-enabled`` says enabled all the same, and the host's may run."""
    timer = read_timer(Host(str(tmp_path)), no_tools)
    assert "systemd does not run here" in instance(NotAvailable, timer.active).reason
    assert isinstance(timer.last_run, NotAvailable)
    stamp = "var/lib/systemd/timers/stamp-fstrim.timer"
    machine = _machine(tmp_path, run__systemd__system__x="", **{stamp.replace("/", "__"): ""})
    os.utime(tmp_path / stamp, (AT.timestamp(), AT.timestamp()))
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


def test_an_fstab_with_a_space_and_one_that_cannot_be_read(tmp_path: Path) -> None:
    machine = _machine(tmp_path, etc__fstab="/dev/sdb /my\\040scratch xfs rw 0 0\n")
    assert isinstance(timer_covers(machine, _description("/my scratch")), str)
    machine = _machine(tmp_path, **{UNIT: LISTED})
    (tmp_path / "etc/fstab").unlink()
    (tmp_path / "etc/fstab").mkdir()
    answer = instance(NotAvailable, timer_covers(machine, _description()))
    assert "/etc/fstab" in answer.reason  # it is not taken for none


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


def test_a_timer_is_a_mechanism_for_the_mounts_that_it_covers(tmp_path: Path) -> None:
    for fstab, covered in (("/dev/sda /", False), ("/dev/sdb /scratch", True)):
        machine = _machine(tmp_path, etc__fstab=f"{fstab} ext4 rw 0 1\n")
        timer = Timer(active=True, last_run=AT)
        practice = trim_practice(machine, _description(), timer=timer, discarded_bytes=7)
        assert (practice.timer_active, practice.has_mechanism) == (covered, covered)
        assert practice.discarded_bytes == 7
        assert covered or "/scratch is not" in practice.reasons["timer_active"]


def test_a_host_made_by_hand_end_to_end() -> None:
    driver = driver_on("nvme-partition", "/", "259:2")
    practice = driver.trim_practice("/")
    assert not isinstance(practice, NotAvailable)
    assert practice.discarded_bytes == 1893421056 * 512
    assert practice.trimmed_since_mount is None
    assert "last_trim_minblks" in practice.reasons["trimmed_since_mount"]
    assert practice.timer_active is None
    assert isinstance(driver.trim("/"), NotAvailable)


def test_what_fstrim_is_given_and_prints() -> None:
    # The command ends its options before the path.
    assert fstrim_command("-x", 0, None) == ("fstrim", "-v", "--", "-x")
    assert fstrim_command("/s", 5, 7) == ("fstrim", "-v", "-o", "5", "-l", "7", "--", "/s")
    for text, trimmed in (
        ("/scratch: 1.5 GiB (1663283200 bytes) trimmed\n", 1663283200),
        ("/scratch: 0 B (0 bytes) trimmed\n", 0),
        ("/a (9 bytes) trimmed/b: 1 MiB (1048576 bytes) trimmed", 1048576),
    ):
        assert parse_fstrim(text) == trimmed
    for text in ("/scratch: 0 B (dry run) trimmed\n", ""):
        assert isinstance(parse_fstrim(text), NotAvailable)


def test_recorded_fstrim_outputs() -> None:
    found = {
        name: parse_fstrim(recorded(f"block/fstrim_{name}")) for name in ("ost0", "ost0_again")
    }
    assert found == {"ost0": 3950903296, "ost0_again": 0}
    assert isinstance(parse_fstrim(recorded("block/fstrim_n_ost0")), NotAvailable)


def test_a_path_without_devices_has_no_practice() -> None:
    driver = driver_on("clients", "/lustre")
    assert isinstance(driver.trim_practice("/lustre"), NotAvailable)
    assert isinstance(driver.trim("/lustre"), NotAvailable)


@contextmanager
def _mounted(tmp_path: Path, **options: Any) -> Iterator[tuple[loopback.Mounted, LocalDriver, str]]:
    """Yield a real ext4, its driver, and the name of its target."""
    with loopback.mounted(tmp_path, **options) as scratch:
        driver = LocalDriver(str(scratch.mount_point))
        yield scratch, driver, driver.targets()[0].name


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_what_is_not_the_mount_any_more_is_not_trimmed(tmp_path: Path) -> None:
    """On a mere directory fstrim would trim the file system that the directory lies in."""
    with _mounted(tmp_path) as (scratch, driver, target), loopback.mounted(tmp_path) as other:
        with (
            loopback.bound(other.mount_point, scratch.mount_point),
            pytest.raises(RefusedError),
        ):
            driver.trim(target)
        loopback.unmount(scratch.mount_point)
        with raises(RefusedError, "mount-changed"):
            driver.trim(target)
        snapshot = driver.snapshot(AT)
        assert not snapshot.complete
        assert present(snapshot.targets[0].reading("used_bytes")).value is None


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_a_device_without_discard_is_not_available(tmp_path: Path) -> None:
    with _mounted(tmp_path, discard=False) as (_, driver, target):
        assert "not supported" in instance(NotAvailable, driver.trim(target)).reason
        assert driver.description.devices[0].discard_max_bytes == 0


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
@pytest.mark.parametrize("counts", [True, False])
def test_trim_is_on_record_afterwards_whether_the_device_counts_or_not(
    counts: bool, tmp_path: Path
) -> None:
    with _mounted(tmp_path, options="discard") as (scratch, driver, target):
        if not counts:
            scratch.device.set_queue("iostats", 0)
        before = instance(TrimPractice, driver.trim_practice(target))
        assert (before.trimmed_since_mount, before.mount_option) == (False, "discard")
        assert before.discarded_bytes == (0 if counts else None)
        driver.trim(target)
        after = instance(TrimPractice, driver.trim_practice(target))
        assert after.trimmed_since_mount is True
        if counts:
            assert present(after.discarded_bytes) > 100 * loopback.MIB
        else:
            assert after.discarded_bytes is None
            assert "iostats" in after.reasons["discarded_bytes"]
