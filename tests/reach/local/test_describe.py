"""What stands beneath a path: on hosts made by hand, and on this machine's loop devices."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.reach.hosts import HOSTS, Touch, host, no_tools, touch_of
from tests.support import loopback
from tests.support.codes import raises
from tests.support.narrow import present

from trimtab.base.error import NoAnswer, ToolError, UsageError
from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.reach.host import Host
from trimtab.reach.path_description import active_choice, describe, pcie_bytes_per_s
from trimtab.reach.touch import PathFailure, PathState


def _describe(
    machine: str | Path, path: str = "/", device: str | None = None, *, touch: Touch | None = None
) -> PathDescription:
    on = host(machine) if isinstance(machine, str) else Host(str(machine))
    return describe(path, host=on, touch=touch or touch_of(device), execute=no_tools)


def _mounting(root: Path, line: str) -> Path:
    """Return a machine that has one mount: that of its root."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(f"{line}\n")
    return root


def _names(description: PathDescription) -> list[str]:
    return [device.name for device in description.devices]


def _device(description: PathDescription, name: str) -> BlockDevice:
    return next(device for device in description.devices if device.name == name)


def test_a_partition_has_its_disks_queue() -> None:
    found = _describe("nvme-partition", "/home/x", "259:2")
    assert (found.kind, found.fs_type, found.mount_point) == ("local", "ext4", "/")
    assert _names(found) == ["nvme0n1p2", "nvme0n1"]
    partition, disk = found.devices
    assert (partition.kind, disk.kind) == ("partition", "disk")
    assert partition.beneath == ("nvme0n1",)
    assert partition.size_bytes == 15362990366720
    assert partition.writeback_throttling_s == disk.writeback_throttling_s == 0.002
    assert disk.model == "SAMSUNG MZWLJ15THALA-00007"
    assert disk.transport == "pcie"
    assert disk.scheduler == "none"
    assert disk.discard_granularity_bytes == 512
    assert found.is_flash is True
    assert found.fs_uuid == "5b1f0c9e-6c1f-4e0e-9d1e-0a6f0c2d7b11"
    assert found.notes == ()
    # The link of a drive is speed times width.
    assert disk.link_bytes_per_s == pytest.approx(16e9 * 4 * 128 / 130 / 8)


def test_root_and_others_know_a_path_by_the_same_name(tmp_path: Path) -> None:
    """Without udev the UUID comes from the kernel, which tells everybody; blkid is for root."""
    machine = shutil.copytree(HOSTS / "nvme-partition", tmp_path / "machine", symlinks=True)
    for place in ("dev/disk", "run/udev"):
        shutil.rmtree(machine / place, ignore_errors=True)
    uuid = "11111111-2222-4333-8444-555555555555"
    state = touch_of("259:2")("/")._replace(fs_uuid=uuid)
    found = _describe(machine, touch=lambda path: state)
    assert (found.fs_uuid, found.identity) == (uuid, f"{uuid}:/")


@pytest.mark.parametrize("path", ["/proc", "/proc/self/fd"])
def test_files_that_the_kernel_makes_up_are_refused(path: str) -> None:
    with raises(UsageError, "stores-nothing"):
        describe(path, touch=touch_of(None), execute=no_tools)


@pytest.mark.parametrize(
    ("drive", "port", "giga"),
    [
        (("16.0 GT/s PCIe", 4), ("16.0 GT/s PCIe", 4), 7.877),
        (("32.0 GT/s PCIe", 4), ("16.0 GT/s PCIe", 8), 7.877),  # the slot is older
        (("8.0 GT/s PCIe", 4), ("32.0 GT/s PCIe", 2), 1.969),
        (("16.0 GT/s PCIe", 4), None, 7.877),  # a virtual machine shows no port
        (("16.0 GT/s PCIe", 4), ("Unknown", 255), 7.877),
        (("Unknown", 4), ("16.0 GT/s PCIe", 4), None),
        (None, ("16.0 GT/s PCIe", 4), None),
    ],
)
def test_the_best_link_is_what_both_ends_have(
    drive: tuple[str, int] | None, port: tuple[str, int] | None, giga: float | None, tmp_path: Path
) -> None:
    machine = shutil.copytree(HOSTS / "nvme-partition", tmp_path / "machine", symlinks=True)
    place = machine / "sys/devices/pci0000:80/0000:80:01.0/0000:80:00.0"
    for end, at in ((drive, place), (port, place.parent)):
        if end is not None:
            (at / "max_link_speed").write_text(f"{end[0]}\n")
            (at / "max_link_width").write_text(f"{end[1]}\n")
    found = _describe(machine, "/", "259:2")
    best = found.drives[0].link_max_bytes_per_s
    assert best is None if giga is None else best == pytest.approx(giga * 1e9, rel=1e-3)
    assert found.drives[0].link_bytes_per_s == pytest.approx(16e9 * 4 * 128 / 130 / 8)


@pytest.mark.parametrize(
    ("speed", "width", "giga"),
    [
        ("2.5 GT/s PCIe", 1, 0.25),
        ("5.0 GT/s PCIe", 4, 2.0),
        ("8.0 GT/s PCIe", 4, 3.938),
        ("32.0 GT/s PCIe", 4, 15.754),
        ("64.0 GT/s PCIe", 4, 29.5),
        ("Unknown", 4, None),
        ("16.0 GT/s PCIe", 0, None),
        ("128.0 GT/s PCIe", 4, None),
    ],
)
def test_link_rates(speed: str, width: int, giga: float | None) -> None:
    rate = pcie_bytes_per_s(speed, width)
    assert rate is None if giga is None else rate == pytest.approx(giga * 1e9, rel=1e-3)


def test_raid_and_lvm_down_to_the_drives() -> None:
    found = _describe("raid6-lvm", "/scratch/x", "253:3")
    assert found.mount_point == "/scratch"
    assert _names(found)[:2] == ["dm-3", "md127"]
    assert [device.kind for device in found.devices[:3]] == ["device-mapper", "md", "partition"]
    assert [drive.name for drive in found.drives] == [f"nvme{i}n1" for i in range(4)]
    raid = _device(found, "md127")
    assert (raid.label, _device(found, "dm-3").label) == ("raid6", "vg0-scratch")
    assert (raid.writeback_throttling_s, found.is_flash) == (None, True)
    assert found.fs_uuid == "8c1f2a44-90b2-4c59-8a7a-4a1a29f1d001"
    assert "discard" in found.options


def test_disks_behind_multipath_and_encryption() -> None:
    found = _describe("crypt-on-multipath-disks")
    assert [(device.name, device.kind) for device in found.devices] == [
        *(("dm-1", "device-mapper"), ("dm-0", "dm-multipath"), ("sda", "disk"), ("sdb", "disk")),
    ]
    assert [drive.name for drive in found.drives] == ["dm-0"]
    assert found.is_flash is False
    disk = _device(found, "sda")
    # The adapter's PCIe link is shared: it is no drive's own.
    assert (disk.transport, disk.link_bytes_per_s, disk.scheduler) == ("sas", None, "mq-deadline")


def test_a_dual_port_drive_is_one_drive_with_two_paths() -> None:
    found = _describe("nvme-multipath", "/scratch", "259:1")
    assert _names(found) == ["nvme0n1", "nvme0c0n1", "nvme0c1n1"]
    head = found.devices[0]
    assert head.kind == "nvme-multipath"
    assert head.beneath == ("nvme0c0n1", "nvme0c1n1")
    assert head.model == "SAMSUNG MZWLJ15THALA-00007"
    assert [drive.name for drive in found.drives] == ["nvme0n1"]
    assert all(leg.link_bytes_per_s and leg.transport == "pcie" for leg in found.devices[1:])


def test_a_loop_device_leads_to_what_holds_its_file() -> None:
    found = _describe("loop-on-flash", "/mnt/with space/x", "7:4")
    assert _names(found) == ["loop4", "nvme0n1"]
    loop = found.devices[0]
    assert loop.backing_file == "/data/images/my disk.img"
    assert loop.direct_to_backing is True
    assert found.notes == ("udev has no UUID for the file system",)
    # The backing drive is flash, the loop device says that it rotates: the loop device counts.
    assert _device(found, "nvme0n1").rotational is False
    assert [device.name for device in found.own_devices] == ["loop4"]
    assert found.is_flash is False


@pytest.mark.parametrize(
    ("path", "note"),
    [
        ("/mnt/deleted", "loop5: its backing file /data/gone.img was deleted"),
        ("/mnt/memory", "loop6: beneath its backing file /dev/shm/in-memory.img: no block device"),
    ],
)
def test_what_is_behind_a_loop_and_cannot_be_seen_is_noted(path: str, note: str) -> None:
    found = _describe("loop-on-flash", path)
    assert any(line.startswith(note) for line in found.notes)


@pytest.mark.parametrize(
    ("name", "path", "devices"),
    [("cycle", "/", ["dm-0", "dm-1"]), ("loop-on-flash", "/mnt/itself", ["loop7"])],
)
def test_a_device_that_is_made_of_itself_ends(name: str, path: str, devices: list[str]) -> None:
    assert _names(_describe(name, path)) == devices


@pytest.mark.parametrize(
    ("path", "kind", "note"),
    [
        ("/lustre/x", "lustre", "a Lustre client of 10.0.0.1@tcp:10.0.0.2@tcp:/scratch"),
        ("/mnt/ost3", "lustre", "a Lustre server's mount of the target on /dev/nvme3n1"),
        ("/home", "network", "nfs4 from nas:/export/home"),
        ("/merged", "opaque", "an overlay: writes go to /upper/dir"),
        ("/sshfs", "network", "fuse.sshfs from user@host:/"),
        ("/s3", "opaque", "fuse.s3fs: a user process"),
        ("/tmp", "memory", "tmpfs is held in memory"),
        ("/tank", "opaque", "zfs manages its drives itself"),
        ("/btrfs", "opaque", "no block device is visible under /btrfs"),
        ("/gpfs", "network", "gpfs from gpfs0"),
    ],
)
def test_what_cannot_be_seen_into_says_so(path: str, kind: str, note: str) -> None:
    found = _describe("clients", path)
    assert found.kind == kind
    assert found.devices == ()
    assert found.is_flash is None
    assert found.notes[0].startswith(note)


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
@pytest.mark.parametrize("rotational", [0, 1])
@pytest.mark.parametrize("direct_io", [False, True])
def test_a_real_loop_device(rotational: int, direct_io: bool, tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, rotational=rotational, direct_io=direct_io) as scratch:
        (scratch.mount_point / "deep").mkdir()
        (tmp_path / "link").symlink_to(scratch.mount_point / "deep")
        found = describe(str(tmp_path / "link"))
        assert found.real_path == str(scratch.mount_point / "deep")
        assert found.mount_point == str(scratch.mount_point)
        loop = found.devices[0]
        assert (loop.name, loop.kind) == (scratch.device.name, "loop")
        assert loop.backing_file == str(scratch.device.backing_file)
        assert loop.size_bytes == 512 * loopback.MIB
        assert found.is_flash is (rotational == 0)
        assert len(present(found.fs_uuid)) == 36
        direct = Path(f"/sys/block/{loop.name}/loop/dio").read_text().strip() == "1"
        assert loop.direct_to_backing is direct
        # The device beneath is the one that the backing file's own stat names.
        major_minor = describe(str(tmp_path)).device_number
        beneath = Path(f"/sys/dev/block/{major_minor}")
        if beneath.exists():
            assert loop.beneath == (beneath.resolve().name,)


def test_a_lustre_clients_source_is_kept() -> None:
    found = _describe("clients", "/lustre/a/b")
    assert (found.source, found.mount_point) == ("10.0.0.1@tcp:10.0.0.2@tcp:/scratch", "/lustre")
    assert found.identity == "10.0.0.1@tcp:10.0.0.2@tcp:/scratch:/lustre"


def test_24_drives_are_walked_once_each(tmp_path: Path) -> None:
    sys, virtual = tmp_path / "sys", "devices/virtual/block/md0"
    slaves = sys / virtual / "slaves"
    slaves.mkdir(parents=True)
    (sys / virtual / "md").mkdir()
    (sys / "dev/block").mkdir(parents=True)
    (sys / "dev/block/9:0").symlink_to(f"../../{virtual}")
    for number in range(24):
        drive = sys / f"devices/pci/nvme{number}n1"
        (drive / "device").mkdir(parents=True)
        (slaves / drive.name).symlink_to(f"../../../../pci/{drive.name}")
    found = _describe(_mounting(tmp_path, "9 1 9:0 / / rw - xfs /dev/md0 rw"))
    assert (len(found.drives), len(found.devices), found.is_flash) == (24, 25, None)


@pytest.mark.parametrize(
    ("members", "note"),
    [
        (("sda", "sdb", "sdc"), "this btrfs spans 3 devices: sdb is inspected, sda, sdc not"),
        (("sdb",), None),
        (("sdx",), "whether this btrfs spans more devices than sdb is unknown"),
        (None, "whether this btrfs spans more devices than sdb is unknown"),
    ],
)
def test_a_btrfs_on_several_devices_says_so(
    members: tuple[str, ...] | None, note: str | None, tmp_path: Path
) -> None:
    for name in ("sda", "sdb", "sdc"):
        (tmp_path / "sys/class/block" / name).mkdir(parents=True)
    own = "8c1f2a44-90b2-4c59-8a7a-4a1a29f1d001/devices"
    for place in () if members is None else ("features", *(f"{own}/{name}" for name in members)):
        (tmp_path / "sys/fs/btrfs" / place).mkdir(parents=True)
    found = _describe(_mounting(tmp_path, "40 1 0:58 / / rw - btrfs /dev/sdb rw,ssd"))
    assert _names(found) == ["sdb"]
    assert [line for line in found.notes if "btrfs" in line] == ([] if note is None else [note])


@pytest.mark.parametrize(
    ("failure", "symlink", "error", "message"),
    [
        (None, False, UsageError, "/x does not exist"),
        (PathFailure("stat", "ENOENT", "No such file"), True, UsageError, "/x is a dangling link"),
        (PathFailure("lstat", "EACCES", "denied"), False, UsageError, "no permission for /x"),
        (PathFailure("stat", "EIO", "I/O error"), False, ToolError, "I/O error on /x"),
    ],
)
def test_a_path_that_is_not_there(
    failure: PathFailure | None, symlink: bool, error: type[Exception], message: str
) -> None:
    state = PathState("/x", exists=False, symlink=symlink, failure=failure)
    with pytest.raises(error, match=message):
        _describe("clients", "/x", touch=lambda _path: state)


def test_a_file_system_that_does_not_answer_and_a_host_without_a_mount_table(
    tmp_path: Path,
) -> None:
    def hangs(path: str) -> PathState:
        raise NoAnswer(f"{path} did not answer in 10 s")

    with pytest.raises(NoAnswer):
        _describe("clients", "/lustre", touch=hangs)
    with raises(ToolError, "mount-table-unreadable"):
        _describe(tmp_path)


def test_the_active_scheduler() -> None:
    for text, choice in (
        *(("[none] mq-deadline", "none"), ("none [bfq]\n", "bfq"), ("none", "none")),
        *((None, None), ("", None)),
    ):
        assert active_choice(text) == choice
