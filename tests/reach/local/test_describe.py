"""What stands beneath a path: on hosts made by hand, and on this machine's loop devices."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.reach.hosts import HOSTS, host, no_tools, touch_of
from tests.support import loopback
from tests.support.codes import raises
from tests.support.narrow import present

from trimtab.base.error import NoAnswer, ToolError, UsageError
from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.reach.host import Host
from trimtab.reach.local.block_device import active_choice, pcie_bytes_per_s
from trimtab.reach.local.path_description import describe
from trimtab.reach.touch import PathFailure, PathState


def _describe(name: str, path: str = "/", device: str | None = None) -> PathDescription:
    return describe(path, host=host(name), touch=touch_of(device), execute=no_tools)


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


def test_root_and_others_know_a_path_by_the_same_name(tmp_path: Path) -> None:
    """Without udev the UUID comes from the kernel, which tells everybody; blkid is for root."""
    machine = shutil.copytree(HOSTS / "nvme-partition", tmp_path / "machine", symlinks=True)
    for place in ("dev/disk", "run/udev"):
        shutil.rmtree(machine / place, ignore_errors=True)
    uuid = "11111111-2222-4333-8444-555555555555"
    state = touch_of("259:2")("/")._replace(fs_uuid=uuid)
    found = describe("/", host=Host(str(machine)), touch=lambda path: state, execute=no_tools)
    assert (found.fs_uuid, found.identity) == (uuid, f"{uuid}:/")


@pytest.mark.parametrize("path", ["/proc", "/proc/self/fd"])
def test_files_that_the_kernel_makes_up_are_refused(path: str) -> None:
    with raises(UsageError, "stores-nothing"):
        describe(path, touch=touch_of(None), execute=no_tools)


def test_the_link_of_a_drive_is_speed_times_width() -> None:
    found = _describe("nvme-partition")
    assert found.drives[0].link_bytes_per_s == pytest.approx(16e9 * 4 * 128 / 130 / 8)


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
    found = describe("/", host=Host(str(machine)), touch=touch_of("259:2"), execute=no_tools)
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
    assert _names(found)[:2] == ["dm-3", "md127"]
    assert [device.kind for device in found.devices[:3]] == ["device-mapper", "md", "partition"]
    assert [drive.name for drive in found.drives] == [f"nvme{i}n1" for i in range(4)]
    assert _device(found, "md127").label == "raid6"
    assert _device(found, "dm-3").label == "vg0-scratch"
    assert _device(found, "md127").writeback_throttling_s is None
    assert found.is_flash is True
    assert found.fs_uuid == "8c1f2a44-90b2-4c59-8a7a-4a1a29f1d001"
    assert "discard" in found.options


def test_a_dual_port_drive_is_one_drive_with_two_paths() -> None:
    found = _describe("nvme-multipath", "/scratch", "259:1")
    assert _names(found) == ["nvme0n1", "nvme0c0n1", "nvme0c1n1"]
    head = found.devices[0]
    assert head.kind == "nvme-multipath"
    assert head.beneath == ("nvme0c0n1", "nvme0c1n1")
    assert head.model == "SAMSUNG MZWLJ15THALA-00007"
    assert [drive.name for drive in found.drives] == ["nvme0n1"]
    assert all(leg.link_bytes_per_s and leg.transport == "pcie" for leg in found.devices[1:])


def test_disks_behind_multipath_and_encryption() -> None:
    found = _describe("crypt-on-multipath-disks")
    assert _names(found) == ["dm-1", "dm-0", "sda", "sdb"]
    assert [device.kind for device in found.devices] == [
        "device-mapper",
        "dm-multipath",
        "disk",
        "disk",
    ]
    assert [drive.name for drive in found.drives] == ["dm-0"]
    assert found.is_flash is False
    assert _device(found, "sda").transport == "sas"
    # The adapter's PCIe link is shared: it is no drive's own.
    assert _device(found, "sda").link_bytes_per_s is None
    assert _device(found, "sda").scheduler == "mq-deadline"


def test_a_loop_device_leads_to_what_holds_its_file() -> None:
    found = _describe("loop-on-flash", "/mnt/with space/x", "7:4")
    assert _names(found) == ["loop4", "nvme0n1"]
    loop = found.devices[0]
    assert loop.backing_file == "/data/images/my disk.img"
    assert loop.direct_to_backing is True
    assert found.notes == ("udev has no UUID for the file system",)


def test_a_loop_device_says_itself_whether_it_is_flash() -> None:
    """The backing drive is flash, the loop device says that it rotates: the loop device counts."""
    found = _describe("loop-on-flash", "/mnt/with space", "7:4")
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
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("9 1 9:0 / / rw - xfs /dev/md0 rw\n")
    found = describe("/", host=Host(str(tmp_path)), touch=touch_of(), execute=no_tools)
    assert len(found.drives) == 24
    assert len(found.devices) == 25
    assert found.is_flash is None


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
    (tmp_path / "proc/self").mkdir(parents=True)
    table = "40 1 0:58 / / rw - btrfs /dev/sdb rw,ssd\n"
    (tmp_path / "proc/self/mountinfo").write_text(table)
    (tmp_path / "sys/fs/btrfs/features").mkdir(parents=True)
    for name in members or ():
        (tmp_path / "sys/fs/btrfs/8c1f2a44-90b2-4c59-8a7a-4a1a29f1d001/devices" / name).mkdir(
            parents=True
        )
    if members is None:
        shutil.rmtree(tmp_path / "sys/fs")
    found = describe("/", host=Host(str(tmp_path)), touch=touch_of(), execute=no_tools)
    assert _names(found) == ["sdb"]
    assert [line for line in found.notes if "btrfs" in line] == ([] if note is None else [note])


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (PathState("/x", exists=False), UsageError, "/x does not exist"),
        (
            PathState(
                "/x",
                exists=False,
                symlink=True,
                failure=PathFailure("stat", "ENOENT", "No such file or directory"),
            ),
            UsageError,
            "/x is a dangling link",
        ),
        (
            PathState("/x", exists=False, failure=PathFailure("lstat", "EACCES", "denied")),
            UsageError,
            "no permission for /x",
        ),
        (
            PathState("/x", exists=False, failure=PathFailure("stat", "EIO", "I/O error")),
            ToolError,
            "I/O error on /x",
        ),
    ],
)
def test_a_path_that_is_not_there(state: PathState, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        describe("/x", host=host("clients"), touch=lambda _path: state, execute=no_tools)


def test_a_file_system_that_does_not_answer() -> None:
    def hangs(path: str) -> PathState:
        raise NoAnswer(f"{path} did not answer in 10 s")

    with pytest.raises(NoAnswer):
        describe("/lustre", host=host("clients"), touch=hangs, execute=no_tools)


def test_no_mount_table(tmp_path: Path) -> None:
    with raises(ToolError, "mount-table-unreadable"):
        describe("/", host=Host(str(tmp_path)), touch=touch_of(), execute=no_tools)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("[none] mq-deadline", "none"),
        ("none [bfq]\n", "bfq"),
        ("none", "none"),
        (None, None),
        ("", None),
    ],
)
def test_the_active_scheduler(text: str | None, choice: str | None) -> None:
    assert active_choice(text) == choice


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
