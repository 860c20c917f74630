"""Real ext4 and xfs file systems on loop devices, for tests that need a kernel and root.

Every device is a new loop device of its own number, removed again at the end: queue settings
outlive a detach, and one of them (``discard_max_bytes`` set to 0) cannot be undone on a loop
device, so a shared device would carry one test's damage into the next.

Usage::

    pytestmark = [pytest.mark.system, loopback.needs_loop_devices()]

    def test_something(tmp_path):
        with loopback.mounted(tmp_path, fs="ext4") as scratch:
            loopback.fill_to(scratch.mount_point, 0.8)
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

FileSystem = Literal["ext4", "xfs", "btrfs"]

MIB = 1024**2
GIB = 1024**3
XFS_MINIMUM_BYTES = 300 * MIB

_LOOP_CTL_ADD = 0x4C80  # linux/loop.h
_LOOP_CTL_REMOVE = 0x4C81
_FALLOC_FL_KEEP_SIZE = 0x01  # linux/falloc.h
_FALLOC_FL_PUNCH_HOLE = 0x02
_FIRST_NUMBER = 100
_LAST_NUMBER = 900
_GONE_WITHIN_S = 10.0
_LET_GO_WITHIN_S = 120.0  # a program in a mount namespace of its own has every mount until it ends
# Every hole splits an extent, and on a full file system the blocks for the growing extent tree
# can only be those of earlier holes, free once the journal has committed them.
_HOLES_BEFORE_FIRST_COMMIT = 64
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class LoopDevice:
    """A loop device that is set up: its node, its kernel name and the file beneath it."""

    path: Path
    name: str
    backing_file: Path

    def queue(self, attribute: str) -> Path:
        """Return the path of one attribute of its queue, as ``wbt_lat_usec``."""
        return Path("/sys/block") / self.name / "queue" / attribute

    def set_queue(self, attribute: str, value: object) -> None:
        """Write one attribute of its queue; it need not be restored, the device goes away."""
        self.queue(attribute).write_text(f"{value}\n")

    def discards(self) -> int:
        """Return how many discards it has done."""
        return int((Path("/sys/block") / self.name / "stat").read_text().split()[11])

    def read_queue(self, attribute: str) -> str:
        """Return one attribute of its queue, stripped."""
        return self.queue(attribute).read_text().strip()


@dataclass(frozen=True, slots=True)
class Mounted:
    """A mounted file system and the loop device that it stands on."""

    mount_point: Path
    device: LoopDevice
    fs: FileSystem


def why_no_loop_devices(fs: FileSystem | None = None) -> str | None:
    """Return why loop devices (with that file system) cannot be used here; ``None`` if they can."""
    if os.geteuid() != 0:
        return "needs root to set up loop devices and mount"
    if not Path("/dev/loop-control").exists():
        return "this kernel has no /dev/loop-control"
    tools = ["losetup", "mount", "umount", *([f"mkfs.{fs}"] if fs else [])]
    for tool in tools:
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    if fs and fs not in Path("/proc/filesystems").read_text().split():
        return f"this kernel has no {fs}"
    return None


def needs_loop_devices(fs: FileSystem | None = None) -> pytest.MarkDecorator:
    """Return the mark that skips a test, with the reason, where loop devices cannot be used."""
    reason = why_no_loop_devices(fs)
    return pytest.mark.skipif(reason is not None, reason=reason or "")


@contextmanager
def loop_device(
    size_bytes: int,
    directory: Path,
    *,
    rotational: int | None = 0,
    direct_io: bool = False,
    discard: bool = True,
) -> Iterator[LoopDevice]:
    """Give a new loop device over a sparse file in ``directory``; both are gone afterwards.

    Parameters
    ----------
    size_bytes
        Size of the device; the file beneath is sparse.
    directory
        Where the file is made. On ext4, xfs and tmpfs the device passes discards on as holes.
    rotational
        Written to ``queue/rotational``: 0 looks like flash, 1 like a disk, ``None`` leaves what
        the kernel took from the device beneath.
    direct_io
        Whether the loop bypasses the page cache of its file (``losetup --direct-io``).
    discard
        False writes 0 to ``discard_max_bytes``, so that the device takes no discard.
    """
    backing_file = directory / f"loop-{os.getpid()}-{time.monotonic_ns()}.img"
    with ExitStack() as cleanup:
        cleanup.callback(backing_file.unlink, missing_ok=True)
        with backing_file.open("wb") as file:
            file.truncate(size_bytes)
        number = _add_loop_device()
        cleanup.callback(_remove_loop_device, number)
        device = LoopDevice(Path(f"/dev/loop{number}"), f"loop{number}", backing_file)
        option = "--direct-io=on" if direct_io else "--direct-io=off"
        _run("losetup", option, str(device.path), str(backing_file))
        if rotational is not None:
            device.set_queue("rotational", rotational)
        if not discard:
            device.set_queue("discard_max_bytes", 0)
        yield device


@contextmanager
def mounted(
    directory: Path,
    *,
    fs: FileSystem = "ext4",
    size_bytes: int = 512 * MIB,
    options: str = "",
    mkfs_options: tuple[str, ...] = (),
    rotational: int | None = 0,
    direct_io: bool = False,
    discard: bool = True,
) -> Iterator[Mounted]:
    """Give a new file system, mounted under ``directory``; everything is gone afterwards.

    Parameters
    ----------
    directory
        Usually ``tmp_path``; holds the backing file and the mount point.
    fs
        ``ext4``, ``xfs`` or ``btrfs``; xfs needs at least 300 MB.
    options
        Of ``mount -o``, as ``discard`` or ``ro``.
    mkfs_options
        Handed to mkfs before the device.
    rotational, direct_io, discard
        As for `loop_device`.
    """
    with (
        loop_device(
            size_bytes, directory, rotational=rotational, direct_io=direct_io, discard=discard
        ) as device,
        mount_point_of_all(directory / f"mnt-{time.monotonic_ns()}") as mount_point,
        ExitStack() as cleanup,
    ):
        # mkfs.ext4 -E nodiscard, and -K of the others: the file is new, nothing is to be discarded.
        quiet = (
            ("-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0")
            if fs == "ext4"
            else ("-q", "-f", "-K")
        )
        _run(f"mkfs.{fs}", *quiet, *mkfs_options, str(device.path))
        _run("mount", "-t", fs, *(("-o", options) if options else ()), device.path, mount_point)
        cleanup.callback(unmount, mount_point)
        yield Mounted(mount_point, device, fs)


@contextmanager
def mount_point_of_all(place: Path) -> Iterator[Path]:
    """Give a directory in which an unmount holds in every mount namespace that was made meanwhile.

    Programs of other tests that run in a namespace of their own have what is mounted when they
    begin, and would hold it, device and all, until they end. In a shared mount, an unmount reaches
    the namespaces whose mounts are slaves: ``unshare --propagation slave``.
    """
    place.mkdir()
    _run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place)
    try:
        _run("mount", "--make-shared", place)
        yield place
    finally:
        unmount(place)
        place.rmdir()


@contextmanager
def folding(directory: Path, over: Path) -> Iterator[None]:
    """Mount a file system that finds a name in any case, and lists it in lower case.

    NTFS, since that needs nothing of the kernel: ext4 and XFS fold only where it was built so.
    """
    if shutil.which("lowntfs-3g") is None:
        pytest.skip("ntfs-3g is not installed")
    if (reason := why_no_loop_devices()) is not None:
        pytest.skip(reason)
    over.mkdir(exist_ok=True)
    with loop_device(16 * MIB, directory) as device:
        _run("mkntfs", "-F", "-Q", "-q", device.path)
        _run("lowntfs-3g", "-o", "ignore_case,permissions", device.path, over)
        try:
            yield
        finally:
            unmount(over)


def fill_to(mount_point: Path, fraction: float) -> Path:
    """Allocate one file so that used / (used + available), as ``df`` prints it, is ``fraction``.

    Nothing is written: the blocks are reserved with fallocate, in well under a second. Returns
    the file; delete it to free the space again.
    """
    filler = mount_point / "filler"
    with filler.open("ab") as file:
        for _ in range(4):  # metadata of the file itself takes blocks too: approach the goal
            missing = _missing_bytes(mount_point, fraction)
            if missing <= 0:
                break
            size = os.fstat(file.fileno()).st_size
            os.posix_fallocate(file.fileno(), size, missing)
            os.fsync(file.fileno())
    return filler


def fragment_ext4(mount_point: Path, *, hole_bytes: int = 64 * 1024) -> Path:
    """Leave an ext4 with half of its space free, in free extents of ``hole_bytes``.

    The recipe: one file takes all free space with fallocate (nothing is written), then every
    second piece of ``hole_bytes`` is punched out of it. The free space is then thousands of
    equal holes in every group. A request for more than a hole (a 1 MiB write, or fallocate) finds
    no group by power of two, none by average fragment, none after it was trimmed to an eighth,
    none in a linear scan of the groups that have enough free blocks in all, and is satisfied
    hole by hole by the last criterion: each of these failed walks is counted as a useless loop
    of its criterion. Takes a tenth of a second for 1 GiB. Returns the file.

    Notes
    -----
    On Linux 6.18 32 MiB in 1 MiB writes then cost about 370 useless loops each of
    ``cr_goal_fast`` and ``cr_best_avail`` on a file system of 1 GiB. Below 16 groups (2 GiB) the
    kernel scans groups linearly (``optimize_scan: 0``) and the lists of ``mb_structs_summary``
    stay empty; make the file system larger to test what reads them.
    `ext4_allocate_large` then makes the counters grow. The counters only count while
    ``/sys/fs/ext4/DEVICE/mb_stats`` is 1. Punched blocks become free when the journal commits,
    which the closing ``sync`` brings about.
    """
    comb = mount_point / "comb"
    with comb.open("wb") as file, _no_reserved_clusters(mount_point):
        descriptor = file.fileno()
        size = _allocate_everything(descriptor, mount_point)
        os.fsync(descriptor)
        for count, offset in enumerate(range(0, size - hole_bytes, 2 * hole_bytes)):
            _punch(descriptor, offset, hole_bytes)
            if count == _HOLES_BEFORE_FIRST_COMMIT:
                os.fsync(descriptor)
        os.fsync(descriptor)
    _sync(mount_point)
    return comb


def ext4_allocate_large(mount_point: Path, total_bytes: int = 32 * MIB) -> Path:
    """Write a new file in 1 MiB writes, flushed: what makes a fragmented ext4's loops grow."""
    path = mount_point / f"large-{time.monotonic_ns()}"
    with path.open("wb") as file:
        for _ in range(total_bytes // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())
    return path


def unmount(mount_point: Path) -> None:
    """Unmount; a process that still holds it delays this, and in the end it is detached lazily."""
    deadline = time.monotonic() + _GONE_WITHIN_S
    while os.path.ismount(mount_point):
        done = subprocess.run(["umount", str(mount_point)], check=False, capture_output=True)
        if done.returncode == 0:
            continue  # what was mounted over something else leaves that behind: look again
        if time.monotonic() > deadline:
            _run("umount", "--lazy", str(mount_point))
            return
        time.sleep(0.05)


def unmount_everywhere(device: LoopDevice, mount_point: Path) -> None:
    """Unmount, and wait until the kernel has let go of the file system, so that it can be repaired.

    A program that was started in a mount namespace of its own meanwhile has the mount there too;
    until it ends, the next mount would be of the same file system, read-only or cut as it was.
    """
    _run("umount", mount_point)  # one that was cut answers no stat: it does not look like a mount
    deadline = time.monotonic() + _LET_GO_WITHIN_S
    while any(Path("/sys/fs").glob(f"*/{device.name}")):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{device.path} is still mounted in another mount namespace")
        time.sleep(0.05)


@contextmanager
def bound(source: Path, over: Path) -> Iterator[None]:
    """Mount ``source`` over ``over`` as well, and unmount it from there again."""
    _run("mount", "--bind", source, over)
    try:
        yield
    finally:
        _run("umount", over)


def _add_loop_device() -> int:
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        for number in range(_FIRST_NUMBER + os.getpid() % 400, _LAST_NUMBER):
            try:
                return fcntl.ioctl(control, _LOOP_CTL_ADD, number)
            except OSError as error:
                if error.errno != errno.EEXIST:
                    raise
    finally:
        os.close(control)
    raise RuntimeError("no free loop device number")


def _remove_loop_device(number: int) -> None:
    """Detach and remove; the kernel detaches lazily, so both are tried until they hold."""
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        deadline = time.monotonic() + _LET_GO_WITHIN_S
        while True:
            if (Path("/sys/block") / f"loop{number}" / "loop").exists():
                subprocess.run(["losetup", "-d", f"/dev/loop{number}"], check=False)
            try:
                fcntl.ioctl(control, _LOOP_CTL_REMOVE, number)
                return
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)
    finally:
        os.close(control)


def _missing_bytes(mount_point: Path, fraction: float) -> int:
    _sync(mount_point)
    status = os.statvfs(mount_point)
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    available = status.f_bavail * status.f_frsize
    return int(fraction * (used + available) - used) // status.f_frsize * status.f_frsize


def _allocate_everything(descriptor: int, mount_point: Path) -> int:
    """Fallocate until nothing is left, in ever smaller pieces; returns the bytes allocated."""
    size = 0
    piece = GIB
    while piece >= 4096:
        status = os.fstatvfs(descriptor)
        if status.f_bfree == 0:
            break
        try:
            os.posix_fallocate(descriptor, size, piece)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            size = _allocated_end(descriptor, size)
            piece //= 2
        else:
            size += piece
    return size


@contextmanager
def _no_reserved_clusters(mount_point: Path) -> Iterator[None]:
    """Let everything be allocated: the blocks that ext4 keeps back would stay as large extents."""
    device = mount_point.stat().st_dev
    link = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    reserved = Path("/sys/fs/ext4") / link.name / "reserved_clusters"
    before = reserved.read_text()
    reserved.write_text("0\n")
    try:
        yield
    finally:
        reserved.write_text(before)


def _allocated_end(descriptor: int, before: int) -> int:
    """Return where the file ends: a fallocate that met ENOSPC keeps what it got."""
    return max(before, os.fstat(descriptor).st_size)


def _punch(descriptor: int, offset: int, length: int) -> None:
    mode = _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE
    result = _libc.fallocate(descriptor, mode, ctypes.c_int64(offset), ctypes.c_int64(length))
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _sync(mount_point: Path) -> None:
    descriptor = os.open(mount_point, os.O_RDONLY)
    try:
        if _libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


def _run(*argv: object) -> None:
    done = subprocess.run(
        [str(word) for word in argv], check=False, capture_output=True, text=True, timeout=120
    )
    if done.returncode != 0:
        raise RuntimeError(f"{argv[0]} ended with {done.returncode}: {done.stderr.strip()}")
