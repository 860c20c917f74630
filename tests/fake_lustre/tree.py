"""The files and links of a host, as the collector finds them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import lru_cache

from . import ldiskfs
from .lfs import mgs_nid
from .state import FakeDrive, FakeLustre, FakeServer, FakeTarget
from .values import time_text

_SECTOR_BYTES = 512
_PCI = "/sys/devices/pci0000:40"


def files(state: FakeLustre, host: str | None) -> dict[str, str]:
    """Return path to text of a host; the client has those that tell of its mount and machine."""
    name = state.client if host is None else host
    server = next((one for one in state.servers if one.name == name), None)
    found = _machine(state, host, server)
    if server is not None:
        for number, target in enumerate(state.served_by(server.name)):
            found.update(_target_files(state, target, number))
        found.update(server.files)
    return found


def links(state: FakeLustre, host: str | None) -> dict[str, str]:
    """Return path to where each link leads, relative as the kernel makes them."""
    name = state.client if host is None else host
    found = {"/lib": "usr/lib"}
    for number, target in enumerate(state.served_by(name or "")):
        for path, real in _target_links(target, number):
            found[path] = _relative(path, real)
    return found


@lru_cache(maxsize=65536)
def _relative(path: str, real: str) -> str:
    return posixpath.relpath(real, posixpath.dirname(path))


# -- the machine --


def _machine(state: FakeLustre, host: str | None, server: FakeServer | None) -> dict[str, str]:
    mounts = list(_mounts(state, host, server))
    info = ["22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw"]
    for number, (source, point, options) in enumerate(mounts):
        info.append(
            f"{60 + number} 22 0:{44 + number} / {point} rw shared:{20 + number} - "
            f"lustre {source} {options}"
        )
    plain = ["/dev/sda2 / ext4 rw,relatime 0 0"]
    plain += [f"{source} {point} lustre {options} 0 0" for source, point, options in mounts]
    jiffies = (server.jiffies if server else [4000, 0, 3000, 900000, 100, 0, 50, 0, 0, 0]) or [0]
    row = " ".join(map(str, jiffies))
    up = time_text(state, "@UP@")
    return {
        "/proc/mounts": _lines(plain),
        "/proc/self/mountinfo": _lines(info),
        "/proc/stat": f"cpu  {row}\ncpu0 {row}\nctxt 1\nbtime 1795190370\n",
        "/proc/uptime": f"{up} {up}\n",
        "/proc/sys/kernel/hostname": f"{server.name if server else state.client_name}\n",
        "/proc/sys/kernel/random/boot_id": "3f1c9c1e-6f0e-4a57-9a5e-2b7e1d5e8a11\n",
        "/proc/sys/kernel/osrelease": f"{state.kernel}\n",
        "/etc/fstab": "/dev/sda2 / ext4 defaults 0 1\n",
        "/run/systemd/system/session-1.scope": "",
        "/etc/cron.d/0hourly": "01 * * * * root run-parts /etc/cron.hourly\n",
        "/usr/lib/systemd/system/fstrim.service": _FSTRIM_SERVICE,
    }


_FSTRIM_SERVICE = """\
[Unit]
Description=Discard unused blocks on filesystems from /etc/fstab

[Service]
Type=oneshot
ExecStart=/usr/sbin/fstrim --listed-in /etc/fstab:/proc/self/mountinfo --verbose --quiet-unsupported
"""


def _mounts(
    state: FakeLustre, host: str | None, server: FakeServer | None
) -> Iterator[tuple[str, str, str]]:
    """Yield source, place and options of every Lustre mount."""
    for target in state.served_by(server.name) if server else ():
        mgs = "mgs" if target.name == "MDT0000" else f"mgsnode={mgs_nid(state)}"
        attributes = "user_xattr," if target.kind == "MDT" else ""
        more = f",{target.mount_options}" if target.mount_options else ""
        # A target whose journal is aborted still says rw, as recorded.
        yield (
            mntdev(target),
            target.mount_point,
            f"rw,svname={state.file_system}-{target.name},{mgs},osd=osd-{target.osd},{attributes}"
            f"errors=remount-ro{more}",
        )
    if state.is_client(host):
        yield (
            f"{mgs_nid(state)}:/{state.file_system}",
            state.mount,
            "rw,flock,checksum,encrypt,lazystatfs,lruresize,nolock,statfs_project,"
            "nosync_on_close,nouser_fid2path,nouser_xattr,verbose",
        )


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


# -- block devices --


def mntdev(target: FakeTarget) -> str:
    """Return what a target's OSD stands on: a device, or a dataset of ZFS."""
    if target.osd == "zfs":
        return f"{target.name.lower()}pool/{target.name.lower()}"
    return f"/dev/{target.device}"


def directory_of(target: FakeTarget, number: int) -> str:
    """Return where the device of a target stands in ``/sys/devices``."""
    if not target.drives:
        return f"{_PCI}/0000:40:{number + 2:02x}.0/virtio{number + 1}/block/{target.device}"
    if target.device.startswith("md"):
        return f"/sys/devices/virtual/block/{target.device}"
    return drive_directory(target.drives[0])


def drive_directory(drive: FakeDrive) -> str:
    """Return where an NVMe drive stands in ``/sys/devices``."""
    number = _number(drive.name)
    function = f"{_PCI}/0000:40:01.{number % 8}/0000:{0x41 + number:02x}:00.0"
    return f"{function}/nvme/nvme{number}/{drive.name}"


def _number(name: str) -> int:
    return int(name.removeprefix("nvme").split("n")[0])


def _target_files(state: FakeLustre, target: FakeTarget, number: int) -> Iterator[tuple[str, str]]:
    flushes = tuple(int(part) for part in state.kernel.split("-")[0].split(".")[:2]) >= (5, 5)
    directory = directory_of(target, number)
    yield f"/dev/{target.device}", ""
    if not target.drives or target.device.startswith("md"):
        yield from _block(directory, _device_number(target, number), target.capacity_bytes)
        yield f"{directory}/stat", _stat(target, flushes=flushes)
        yield from _queue(directory, target, own=not target.drives)
    if not target.drives:
        parent = posixpath.dirname(posixpath.dirname(directory))
        yield f"{parent}/vendor", "0x1af4\n"
    elif target.device.startswith("md"):
        lost = sum(drive.dead for drive in target.drives)
        yield f"{directory}/md/level", "raid6\n"
        yield f"{directory}/md/degraded", f"{lost}\n"
        yield f"{directory}/md/array_state", "clean\n"
        yield f"{directory}/md/sync_action", "idle\n"
        yield f"{directory}/md/raid_disks", f"{len(target.drives)}\n"
        yield f"{directory}/md/stripe_cache_size", "256\n"
        yield f"{directory}/md/group_thread_count", "4\n"
    for drive in target.drives:
        if not drive.dead:
            yield from _drive_files(target, drive, flushes=flushes)
    if target.osd == "ldiskfs":
        for name, text in ldiskfs.settings(state, target).items():
            yield f"/sys/fs/ldiskfs/{target.device}/{name}", text
        for name, text in ldiskfs.statistics(state, target).items():
            yield f"/proc/fs/ldiskfs/{target.device}/{name}", text


def _block(directory: str, number: str, size_bytes: int) -> Iterator[tuple[str, str]]:
    yield f"{directory}/dev", f"{number}\n"
    yield f"{directory}/size", f"{size_bytes // _SECTOR_BYTES}\n"


def _stat(one: FakeTarget | FakeDrive, *, flushes: bool) -> str:
    reads, writes = one.read_bytes >> 20, one.written_bytes >> 20
    discards, kib = (one.discard_ops, one.discarded_kib) if isinstance(one, FakeTarget) else (0, 0)
    numbers = [reads, 0, one.read_bytes // _SECTOR_BYTES, reads, writes, 0]
    numbers += [one.written_bytes // _SECTOR_BYTES, writes, 0, reads + writes, reads + writes]
    numbers += [discards, 0, kib * 2, discards]
    numbers += [5, 1] if flushes else []
    return " ".join(f"{number:8d}" for number in numbers) + "\n"


def _queue(directory: str, target: FakeTarget, *, own: bool) -> Iterator[tuple[str, str]]:
    values = {
        "discard_granularity": str(target.discard_granularity),
        "discard_max_bytes": "2147483136" if target.discard_granularity else "0",
        "iostats": "1",
        "logical_block_size": "512",
        "max_sectors_kb": "1280",
        "nr_requests": "256",
        "physical_block_size": "512" if own else "4096",
        "read_ahead_kb": "128",
        "rotational": str(int(target.rotational)),
        "scheduler": "[none] mq-deadline" if own else "none",
        "write_cache": "write back",
    }
    if own and target.wbt_us is not None:
        values["wbt_lat_usec"] = str(target.wbt_us)
    for name, value in values.items():
        yield f"{directory}/queue/{name}", f"{value}\n"


def _drive_files(
    target: FakeTarget, drive: FakeDrive, *, flushes: bool
) -> Iterator[tuple[str, str]]:
    directory = drive_directory(drive)
    controller = posixpath.dirname(directory)
    function = posixpath.dirname(posixpath.dirname(controller))
    yield f"/dev/{drive.name}", ""
    yield from _block(directory, f"259:{_number(drive.name)}", drive.size_bytes)
    yield f"{directory}/stat", _stat(drive, flushes=flushes)
    yield from _queue(directory, target, own=True)
    yield f"{controller}/model", f"{drive.model:<40s}\n"
    yield f"{controller}/firmware_rev", "MPK76H5Q\n"
    yield f"{controller}/state", "live\n"
    yield f"{controller}/transport", "pcie\n"
    yield f"{function}/vendor", "0x144d\n"
    yield f"{function}/current_link_speed", "16.0 GT/s PCIe\n"
    yield f"{function}/current_link_width", "4\n"
    yield f"{function}/max_link_speed", "16.0 GT/s PCIe\n"
    yield f"{function}/max_link_width", "4\n"


def _device_number(target: FakeTarget, number: int) -> str:
    if target.device.startswith("md"):
        return f"9:{target.device.removeprefix('md')}"
    return f"254:{16 * (number + 1)}"


def _target_links(target: FakeTarget, number: int) -> Iterator[tuple[str, str]]:
    """Yield link and where it leads, both from the root."""
    directory = directory_of(target, number)
    if not target.drives or target.device.startswith("md"):
        yield f"/sys/class/block/{target.device}", directory
        yield f"/sys/dev/block/{_device_number(target, number)}", directory
    if not target.drives:
        yield f"{directory}/device", posixpath.dirname(posixpath.dirname(directory))
    for drive in target.drives:
        if drive.dead:
            continue
        own = drive_directory(drive)
        controller = posixpath.dirname(own)
        yield f"/sys/class/block/{drive.name}", own
        yield f"/sys/dev/block/259:{_number(drive.name)}", own
        yield f"{own}/device", controller
        yield f"{controller}/device", posixpath.dirname(posixpath.dirname(controller))
        yield f"/sys/class/nvme/{posixpath.basename(controller)}", controller
        if target.device.startswith("md"):
            yield f"{directory}/slaves/{drive.name}", own
