"""A collected server answers as the server itself: the same code on both gives the same."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.reach.hosts import HOSTS, host, no_tools
from tests.reach.lustre.test_collector import on
from tests.support.codes import raises
from tests.support.narrow import instance

from trimtab.base.error import RefusedError, ToolError
from trimtab.base.filesystem import BlockDevice, kind_of
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.block_allocator import Ext4, read_free_space, read_statistics
from trimtab.reach.host import DeviceBytes, Host, read_bytes_of, read_cpu_times
from trimtab.reach.local_driver import read_settings
from trimtab.reach.local_telemetry import read_drive
from trimtab.reach.lustre.read_table import server_request
from trimtab.reach.lustre.server_answer import (
    CollectedHost,
    CommandAnswer,
    ServerAnswer,
    parse_answer,
    program,
)
from trimtab.reach.path_description import describe_mount, devices_beneath, mount_table
from trimtab.reach.process import execute
from trimtab.reach.touch import StatvfsSpace
from trimtab.reach.trim import cron_files, read_timer, timer_covers, trimmed_since_mount

SPACE = StatvfsSpace(4096, 4096, 3_700_000_000, 1_000_000, 900_000, 100, 60, 0)
REQUEST: Mapping[str, Any] = {
    **server_request(deadline_s=20, sudo=None),
    "commands": [],
    "files": [
        *server_request(deadline_s=20, sudo=None)["files"],
        *("/sys/fs/ext4/*/*", "/proc/fs/ext4/*/mb_stats", "/proc/fs/ext4/*/mb_alloc_stats"),
        "/proc/fs/ext4/*/mb_structs_summary",
        "/var/lib/systemd/timers/stamp-fstrim.timer",
        "/run/systemd/system/fstrim.service",
    ],
    "directories": [
        *server_request(deadline_s=20, sudo=None)["directories"],
        *("/var/spool/cron", "/var/spool/cron/crontabs"),
    ],
}
MACHINES = sorted(path.name for path in HOSTS.iterdir() if path.is_dir())


def collected(root: str | Path, request: Mapping[str, Any] = REQUEST) -> CollectedHost:
    with tempfile.TemporaryDirectory() as place:
        tree = Path(root)
        if root != "/":  # a machine's root is made beside its tree
            tree = shutil.copytree(root, Path(place) / "tree", symlinks=True)
        result = execute(on("/" if root == "/" else tree), timeout_s=60, stdin=program(request))
    answer = parse_answer("server", result)
    assert answer.problem is None
    assert "" not in answer.skipped
    return CollectedHost(answer=answer, request=request)


def facts(host: Host | CollectedHost) -> dict[str, dict[str, Any]]:
    """Return all that is read of a host: of each mount by its number, and of the host itself."""
    mounts = mount_table(host)
    read: dict[str, dict[str, Any]] = {
        "": {"cron": cron_files(host), "cpu": type(read_cpu_times(host))}
    }
    for mount in mounts:
        paths = {"path": mount.mount_point, "real_path": mount.mount_point}
        description = describe_mount(host, mount, execute=no_tools, **paths)
        of_mount: dict[str, Any] = {
            "mount": mount,
            "devices": devices_beneath(host, mounts, mount),
            "description": replace(description, notes=()),
            "notes": description.notes,
        }
        if kind_of(mount.fs_type) == "local":
            ext4 = Ext4(mount.source.rpartition("/")[2])
            of_mount |= {
                "settings": read_settings(host, description, ext4),
                "statistics": read_statistics(host, ext4),
                "free space": read_free_space(host, ext4, space=SPACE, device_bytes=10**12),
                "bytes": [
                    read_bytes_of(host, device, description.devices)
                    for device in description.devices
                ],
                "timer": timer_covers(host, description),
                "trimmed": trimmed_since_mount(host, description, 0)[0],
            }
        read[f"{mount.mount_point} {mount.source}"] = of_mount
    return read


def same(real: Host, copy: CollectedHost) -> int:
    """Assert that all that reads a host reads the same from both; return how many devices."""
    expected, collected_facts = facts(real), facts(copy)
    for name, of_mount in expected.items():
        # Only this very host may ask blkid; all others say that udev does not know.
        assert not of_mount.pop("notes", ()) or collected_facts[name]["notes"]
        collected_facts[name].pop("notes", None)
    assert collected_facts == expected
    return sum(len(of_mount["description"].devices) for name, of_mount in expected.items() if name)


def lies_within(value: Any, before: Any, after: Any) -> bool:
    """Return whether a value lies between two others that were read before and after it.

    Counters only grow. What is computed from several may move both ways, and is a float or the
    reason why there is none.
    """
    if type(before) is type(after) is int:
        return type(value) is int and before <= value <= after
    if isinstance(before, float) or isinstance(after, float):
        return isinstance(value, float | NotAvailable)
    if is_dataclass(before) and type(before) is type(value) is type(after):
        names = [field.name for field in fields(before)]
        parts = ([getattr(of, name) for name in names] for of in (value, before, after))
        return all(map(lies_within, *parts))
    if isinstance(before, list | tuple) and len(before) == len(after):
        return len(value) == len(before) and all(map(lies_within, value, before, after))
    return value in (before, after)


@pytest.mark.system
@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_reads_the_same_when_collected(name: str) -> None:
    seen = same(host(name), collected(HOSTS / name))
    assert seen > 0 or name == "clients"


@pytest.mark.system
def test_this_machine_reads_the_same_when_collected() -> None:
    """Others use the machine meanwhile: its counters move, and mounts come and go."""
    before, copy, after = facts(Host()), facts(collected("/")), facts(Host())
    lasting = before.keys() & after.keys()
    assert lasting <= copy.keys()
    assert len(lasting) > 1
    for name in lasting:
        for fact, value in copy[name].items():
            if fact == "notes":
                continue
            bounds = before[name][fact], after[name][fact]
            assert lies_within(value, *bounds), (name, fact, value, *bounds)


@pytest.mark.parametrize(
    ("value", "within"),
    [
        (DeviceBytes(5, 7, 0), True),
        (DeviceBytes(3, 7, 0), False),
        (DeviceBytes(5, 9, 0), False),
        (NotAvailable("off"), False),
    ],
)
def test_a_counter_lies_between_two_readings(value: object, within: bool) -> None:
    before, after = DeviceBytes(4, 7, 0), DeviceBytes(6, 8, 0)
    assert lies_within([value], [before], [after]) is within


@pytest.mark.system
@pytest.mark.parametrize("name", MACHINES)
def test_every_file_of_a_machine_reads_the_same_or_says_that_it_was_not_collected(
    name: str,
) -> None:
    real, copy = host(name), collected(HOSTS / name)
    paths = 0
    for directory, _, names in os.walk(HOSTS / name):
        for one in names:
            path = f"/{Path(directory, one).relative_to(HOSTS / name)}"
            text = copy.read_text(path)
            assert text == real.read_text(path) or text == NotAvailable(
                f"{path} was not collected"
            ), path
            paths += isinstance(text, str)
        path = f"/{Path(directory).relative_to(HOSTS / name)}".replace("/.", "/")
        missing = f"{path.rstrip('/')}/nothing-of-this-name"
        assert isinstance(copy.read_text(missing), NotAvailable)
        assert not copy.exists(missing)
    assert paths > 0


@pytest.mark.system
def test_links_are_followed_anywhere_and_a_machine_that_is_gone_reads_the_same(
    tmp_path: Path,
) -> None:
    root = shutil.copytree(HOSTS / "raid6-lvm", tmp_path / "machine", symlinks=True)
    copy, real = collected(root), host("raid6-lvm")
    shutil.rmtree(root)
    same(real, copy)
    block = "/sys/class/block"
    for path in (
        *(f"{block}/dm-3", f"{block}/dm-3/slaves/md127", f"{block}/nvme0n1p1/../queue"),
        *(f"{block}/nvme0n1/device", "/sys/dev/block/253:3", "/sys/dev/block/99:99"),
        f"{block}/nothing",
    ):
        assert copy.resolve(path) == real.resolve(path), path
        assert copy.exists(path) == real.exists(path), path
    assert copy.read_number(f"{block}/dm-3/slaves/md127/md/degraded") == 1
    scheduler = f"{block}/nvme0n1p1/../queue/scheduler"
    assert copy.read_text(scheduler) == real.read_text(scheduler)


ANSWER = ServerAnswer(
    "oss1",
    host="oss1",
    files={"/proc/uptime": "1 2\n\n", "/sys/fs/ldiskfs/vdb/errors_count": "3\n"},
    links={"/dev/mapper/a": None, "/dev/mapper/b": "/dev/dm-1"},
    directories={"/run/systemd/system": ()},
    times={"/var/lib/systemd/timers/stamp-fstrim.timer": 5.0},
    skipped={"/proc/secret": "no permission to read /proc/secret"},
    whole=True,
)
ASKED = {
    "files": ["/proc/uptime", "/proc/missing", "/sys/fs/ldiskfs/*/errors_count", "/proc/secret"],
    "links": ["/dev/mapper/*"],
    "directories": ["/run/systemd/system", "/etc/cron.d"],
}
HOST = CollectedHost(answer=ANSWER, request=ASKED)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/proc/missing", "/proc/missing does not exist"),
        ("/sys/fs/ldiskfs/vdc/errors_count", "/sys/fs/ldiskfs/vdc/errors_count does not exist"),
        ("/sys/fs/ldiskfs/a/b/errors_count", "was not collected"),
        ("/proc/stat", "/proc/stat was not collected"),
        ("/sys/class/block/sda/size", "was not collected"),  # no block devices were asked for
        ("/run/systemd/system/x", "/run/systemd/system/x does not exist"),
        ("/etc/cron.d/x", "does not exist"),  # the directory was looked for and is not there
        ("/proc/secret", "no permission to read /proc/secret"),
        ("/dev/mapper/a", "/dev/mapper/a does not exist"),
    ],
)
def test_absent_unasked_and_unread_are_told_apart(path: str, reason: str) -> None:
    for answer in (HOST.read_text(path), HOST.list_directory(path), HOST.modified_at_s(path)):
        assert isinstance(answer, NotAvailable)
        assert reason in answer.reason
    assert HOST.exists(path) == (path == "/proc/secret")


def test_values() -> None:
    assert HOST.read_text("/proc/uptime") == "1 2"
    assert HOST.read_number("/sys/fs/ldiskfs/vdb/errors_count") == 3
    assert HOST.list_directory("/run/systemd/system") == ()
    assert HOST.exists("/run/systemd/system")
    assert HOST.exists("/sys/fs/ldiskfs/vdb")
    assert HOST.resolve("/dev/mapper/b") == "/dev/dm-1"
    assert HOST.modified_at_s("/var/lib/systemd/timers/stamp-fstrim.timer") == 5.0
    assert HOST.read_text("/proc/uptime", limit_bytes=3) == NotAvailable(
        "/proc/uptime is longer than 3 bytes"
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            replace(ANSWER, skipped={"": "files after /proc/x were not read in time"}),
            "was not collected: files after /proc/x",
        ),
        (
            ServerAnswer("oss1", problem="no answer: ssh ended with exit code 255"),
            "no answer: ssh ended",
        ),
    ],
    ids=["not read in time", "no answer"],
)
def test_what_the_reader_did_not_come_to_may_exist(answer: ServerAnswer, told: str) -> None:
    unread = CollectedHost(answer=answer, request=ASKED)
    assert told in instance(NotAvailable, unread.read_text("/proc/missing")).reason
    assert not unread.exists("/proc/missing")


def test_nothing_of_it_can_be_written_or_found_here() -> None:
    with pytest.raises(RefusedError):
        HOST.write_text("/proc/uptime", "1")
    with pytest.raises(RefusedError):
        HOST.path("/proc/uptime")
    with raises(RefusedError, "file-never-read"):
        HOST.read_text("/proc/fs/ldiskfs/vdb/mb_groups")


def _command(argv: str, stdout: str = "", **values: Any) -> CommandAnswer:
    ended: dict[str, Any] = {"stderr": "", "exit_code": 0, "signal": None, "timed_out": False}
    ended |= {"truncated": False, "elapsed_s": 0.1, "first_line": None, "error": None, **values}
    return CommandAnswer("x", tuple(argv.split()), stdout, **ended)


SMART = '{"percent_used": 7, "media_errors": 1, "data_units_written": 4000000}'
TOOLS = CollectedHost(
    answer=replace(
        ANSWER,
        commands=(
            _command("sudo -n nvme smart-log -o json /dev/nvme0n1", SMART),
            _command("sudo -n nvme ocp smart-add-log -o json /dev/nvme0n1", "no", exit_code=1),
            _command(
                "systemctl show fstrim.timer -p ActiveState -p LastTriggerUSec",
                "ActiveState=active\nLastTriggerUSec=Mon 2026-11-16 00:12:11 UTC\n",
            ),
            _command("lctl dl", error="No such file or directory", exit_code=None),
            _command("slow", timed_out=True, exit_code=None),
        ),
        skipped={"sudo -n nvme smart-log -o json /dev/nvme1n1": "x was not started in time"},
    ),
    request={**ASKED, "sudo": ["sudo", "-n"], "commands": [{}]},
)


def test_commands_that_were_late_or_not_run_there_are_so_here() -> None:
    for argv, message in (
        ("lctl dl", "lctl dl could not be started: No such file or directory"),
        ("blkid /dev/sda", "blkid /dev/sda was not collected from oss1"),
    ):
        with pytest.raises(ToolError, match=message):
            TOOLS.execute(argv.split(), timeout_s=5)
    result = TOOLS.execute(["slow"], timeout_s=5)
    assert result.timed_out
    assert result.problem is not None


def test_what_asks_tools_is_answered_by_what_they_said_there() -> None:
    drive = BlockDevice("nvme0n1", "disk", transport="pcie")
    health = {one.name: one for one in read_drive(TOOLS, drive, TOOLS.execute)}
    assert health["drive_percentage_used"].value == 0.07
    assert health["drive_media_errors_total"].value == 1
    assert health["drive_write_amplification"].reason
    timer = read_timer(TOOLS, TOOLS.execute)
    assert timer.active is True
    assert str(timer.last_run) == "2026-11-16 00:12:11+00:00"
    late = read_drive(TOOLS, replace(drive, name="nvme1n1"), TOOLS.execute)
    assert {one.reason for one in late} == {"x was not started in time"}
