"""Roots with what a plain directory lacks: projects, ACLs, FUSE, idmaps, leases, replays.

And a root that has nothing left, neither an inode nor a block: what is set aside for a run of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import signal
import struct
import subprocess
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.purge.run.core_world import CoreWorld, outcomes_of
from tests.purge.run.world import FILE_BYTES
from tests.support import loopback
from tests.support.children import begun, code_of_child
from tests.support.narrow import present
from tests.support.polling import eventually

from trimtab.base.error import RefusedError
from trimtab.purge.root_facts import canary, root_facts
from trimtab.purge.run.situation import StopReason
from trimtab.purge.run.surroundings import give_back, set_aside

pytestmark = pytest.mark.system

GET_ATTRIBUTES, SET_ATTRIBUTES = 0x801C581F, 0x401C5820
"""``FS_IOC_FSGETXATTR`` and ``FS_IOC_FSSETXATTR``."""
INHERIT = 0x200
FILES = 21
NAME = ".quarantine"


@contextlib.contextmanager
def mounted(
    directory: Path,
    fs: loopback.FileSystem,
    *,
    files: int = FILES,
    ext4_mib: int = 64,
    ext4_options: tuple[str, ...] = (),
) -> Iterator[CoreWorld]:
    """Give a world, not made yet, on a file system of its own."""
    reason = loopback.why_no_loop_devices(fs)
    if reason is not None:
        pytest.skip(reason)
    size = ext4_mib * loopback.MIB if fs == "ext4" else loopback.XFS_MINIMUM_BYTES
    options = ext4_options if fs == "ext4" else ()
    with loopback.mounted(directory, fs=fs, size_bytes=size, mkfs_options=options) as scratch:
        world = CoreWorld(directory, files, target=0.001)
        world.tree.mkdir()
        with loopback.bound(scratch.mount_point, world.tree):
            yield world


def outcomes(world: CoreWorld, ask: str = "delete") -> Counter[str]:
    """Return what became of all rows, by the core alone."""
    return Counter(outcomes_of(getattr(world.removal(), ask)(0, world.files)))


def set_project(path: Path, number: int, *, inherit: bool) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        words = bytearray(28)
        fcntl.ioctl(file, GET_ATTRIBUTES, words)
        flags, extent, extents, _, cow_extent, pad = struct.unpack("=5I8s", words)
        flags = flags | INHERIT if inherit else flags & ~INHERIT
        words = struct.pack("=5I8s", flags, extent, extents, number, cow_extent, pad)
        fcntl.ioctl(file, SET_ATTRIBUTES, words)
    finally:
        os.close(file)


def test_files_of_projects_with_quotas_go_and_come_back(tmp_path):
    """XFS refuses (EXDEV) to rename into a directory that gives its files another project."""
    with mounted(tmp_path, "xfs") as world:
        for number in range(7):
            directory = world.tree / f"d{number}"
            directory.mkdir()
            set_project(directory, 100 + number, inherit=number != 6)
        # What is made in the root from now on is of project 7, the quarantine too.
        set_project(world.tree, 7, inherit=True)
        world.make()
        with pytest.raises(OSError, match="cross-device"):
            world.paths[0].rename(world.tree / "d1" / "moved")
        # The project of its directory is not its own: it could not be put back there.
        set_project(world.paths[7], 999, inherit=False)
        world.write_candidates()
        assert outcomes(world) == {"deleted": FILES - 1, "cannot_return": 1}
        assert world.there() == {7}


def acl(*entries: tuple[int, int, int]) -> bytes:
    """Return an ACL as the kernel takes it: a version, then tag, rights and id of each entry."""
    return struct.pack("=I", 2) + b"".join(struct.pack("=HHI", *entry) for entry in entries)


@pytest.mark.parametrize("fs", ["ext4", "xfs"])
def test_a_default_acl_lets_nobody_into_the_quarantine(tmp_path, fs):
    with mounted(tmp_path, fs) as world:
        stranger, nobody = 1234, 0xFFFFFFFF
        rights = acl(
            (1, 7, nobody), (2, 7, stranger), (4, 7, nobody), (16, 7, nobody), (32, 7, nobody)
        )
        os.setxattr(world.tree, "system.posix_acl_default", rights)
        world.make()
        removal = world.removal()
        removal.delete(0, 1)
        inside = world.tree / NAME
        assert os.getxattr(inside, "system.posix_acl_access")
        assert inside.stat().st_mode & 0o777 == 0o700

        def as_a_stranger() -> None:
            os.chdir(world.tree)  # the directories above are root's alone
            os.setgroups([])
            os.setresgid(stranger, stranger, stranger)
            os.setresuid(stranger, stranger, stranger)
            os._exit(2 * (not enters(Path("d0"))) + enters(Path(NAME)))

        assert code_of_child(begun(as_a_stranger)) == 0
        assert set(outcomes_of(removal.delete(1, FILES - 1))) == {"deleted"}
        del removal


def enters(directory: Path) -> bool:
    try:
        names = list(directory.iterdir())
    except PermissionError:
        return False
    return bool(names)


def test_a_file_under_somebody_elses_lease_stays(tmp_path):
    """To open it would break the lease and wait for its holder: up to ``lease-break-time``."""
    with mounted(tmp_path, "ext4") as world:
        world.make()
        # A lease is broken by a signal, which would end this process.
        before = signal.signal(signal.SIGIO, signal.SIG_IGN)
        file = os.open(world.paths[4], os.O_RDWR)
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            assert outcomes(world) == {"deleted": FILES - 1, "open": 1}
        finally:
            os.close(file)
            signal.signal(signal.SIGIO, before)
        assert world.there() == {4}


def test_an_image_that_a_device_has_open_stays(tmp_path):
    with mounted(tmp_path, "ext4") as world:
        world.make()
        device = subprocess.run(
            ["losetup", "--find", "--show", "--read-only", world.paths[2]],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        try:
            assert outcomes(world) == {"deleted": FILES - 1, "open": 1}
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)
        assert world.there() == {2}


@pytest.mark.parametrize("with_journal", [True, False])
def test_a_finished_plan_deletes_nothing_when_it_is_carried_out_again(tmp_path, with_journal):
    """Its names have been used again since, by files of the same size and times."""
    with mounted(tmp_path, "ext4") as world:
        world.make()
        assert world.run().reason in (StopReason.EXHAUSTED, StopReason.TARGET)
        assert world.there() == set()
        for path in world.paths:
            path.write_bytes(b"x" * FILE_BYTES)
        world.grow_old()
        if not with_journal:
            # Moved away as is said where a journal is damaged, with its head.
            shutil.rmtree(tmp_path / "journals")
        again = world.run()
        assert (again.files, again.undone_rows) == (0, 0)
        assert world.there() == set(range(FILES))
        assert set(again.outcomes) <= {"not_same", "ctime_only"}
        assert bool(again.outcomes) is not with_journal


@pytest.mark.skipif(shutil.which("bindfs") is None, reason="bindfs is not installed")
def test_on_fuse_nothing_goes_whose_use_cannot_be_told(tmp_path):
    world = CoreWorld(tmp_path, FILES)
    below = tmp_path / "below"
    below.mkdir()
    world.tree.mkdir()
    with bound_by_fuse(below, world.tree):
        world.make()
        system = present(root_facts(str(world.tree)).file_system)
        assert (system.fsid, system.uuid) == (None, None)
        assert system.is_same(system)
        # Without RENAME_NOREPLACE nothing could be put back, and a lease says nothing of who has
        # a file open behind the mount.
        result = Counter[str]()
        with contextlib.suppress(RefusedError):
            result = outcomes(world)
        assert set(result) <= {"open_unknown"}
        assert world.there() == set(range(FILES))
        assert all(stranger.exists() for stranger in world.strangers)
    with bound_by_fuse(below, world.tree):
        other = present(root_facts(str(world.tree)).file_system)
        assert not system.is_same(other), "mounted anew, it may be anything"


@contextlib.contextmanager
def bound_by_fuse(below: Path, over: Path) -> Iterator[None]:
    subprocess.run(["bindfs", below, over], check=True)
    try:
        yield
    finally:
        subprocess.run(["fusermount", "-u", over], check=True)


def test_where_case_is_folded_what_is_exempt_stays_however_it_is_written(tmp_path):
    """The kernel finds ``D0`` where the directory lists ``d0``, and so does an exemption."""
    world = CoreWorld(tmp_path, FILES)
    with loopback.folding(tmp_path, world.tree):
        world.make()
        world.open_files = True
        world.exempt_paths = (b"D0", b"d1/FILE-1")
        assert outcomes(world, "check") == {"would_delete": FILES - 4, "exempt": 4}


OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
AT_FDCWD, CLONE, EMPTY_PATH, MOVE_EMPTY, IDMAP = -100, 1, 0x1000, 4, 0x00100000


@contextlib.contextmanager
def idmapped(source: Path, over: Path, first: int, to: int, count: int) -> Iterator[None]:
    """Mount a directory once more, with its owners' numbers shifted."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number: int, *arguments: object) -> int:
        answer = libc.syscall(number, *arguments)
        if answer < 0:
            error = ctypes.get_errno()
            pytest.skip(f"no idmapped mounts here: {os.strerror(error)}")
        return answer

    holder = subprocess.Popen(["unshare", "--user", "sleep", "60"])
    try:
        namespace = user_namespace(holder.pid, f"{first} {to} {count}\n")
        tree = call(OPEN_TREE, AT_FDCWD, os.fsencode(source), CLONE | os.O_CLOEXEC)
        words = struct.pack("=QQQQ", IDMAP, 0, 0, namespace)
        call(MOUNT_SETATTR, tree, b"", EMPTY_PATH, words, len(words))
        call(MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(over), MOVE_EMPTY)
        os.close(tree)
        os.close(namespace)
        try:
            yield
        finally:
            subprocess.run(["umount", over], check=True)
    finally:
        holder.kill()
        holder.wait()


def user_namespace(process: int, mapping: str) -> int:
    """Return a descriptor of a user namespace with a mapping, once the process is in it."""
    own, theirs = Path("/proc/self/ns/user"), Path(f"/proc/{process}/ns/user")
    eventually(lambda: theirs.readlink() != own.readlink())
    for kind in ("uid", "gid"):
        Path(f"/proc/{process}/{kind}_map").write_text(mapping)
    return os.open(theirs, os.O_RDONLY)


def test_through_an_idmapped_mount_owners_are_others_and_nothing_goes(tmp_path):
    with mounted(tmp_path, "ext4") as world:
        world.make()
        for path in world.paths:
            os.chown(path, 1000, 1000)
        world.write_candidates()
        real, view = world.tree, tmp_path / "view"
        view.mkdir()
        # Files of 1000 look like those of 11000; root's have no number at all.
        with idmapped(real, view, 1000, 11_000, 1000):
            assert (view / "d0" / "file-0").stat().st_uid == 11_000
            world.tree = view
            assert canary(str(view)).trouble is not None, "root is nobody there"
            with pytest.raises((OSError, RefusedError)):
                outcomes(world)
        with idmapped(real, view, 0, 0, 1000), contextlib.suppress(OSError):
            assert set(outcomes(world, "check")) == {"changed_owner"}
        world.tree = real
        assert world.there() == set(range(FILES))
        assert outcomes(world) == {"deleted": FILES}


def fill(directory: Path, *, inodes: bool) -> None:
    """Use up every block, root's reserve too, and every inode where that is asked for."""
    if inodes:
        _until_full(map(Path.touch, (directory / f"empty-{number}" for number in range(10**6))))
    for piece in (1 << 20, 4096):
        file = os.open(directory / "blocks", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_SYNC)
        try:
            _until_full(os.write(file, b"x" * piece) for _ in range(10**6))
        finally:
            os.close(file)


def _until_full(steps: Iterator[object]) -> None:
    try:
        deque(steps, maxlen=0)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return
    raise AssertionError("it is not full yet")


SMALL: dict[str, Any] = {"ext4_mib": 32, "ext4_options": ("-N", "1000", "-m", "0")}


def filler_of(world: CoreWorld) -> Path:
    """Make the files of a world; return a directory beside them to be filled."""
    world.make()
    filler = world.tree / "filler"
    filler.mkdir()
    (filler / "blocks").touch()
    return filler


@pytest.mark.parametrize(("fs", "inodes"), [("ext4", True), ("ext4", False), ("xfs", False)])
def test_a_full_file_system_is_purged(tmp_path, fs, inodes):
    with mounted(tmp_path, fs, files=200, **SMALL) as world:
        filler, root = filler_of(world), str(world.tree)
        set_aside(root, NAME, threads=2, rows=200)
        if fs == "xfs":
            loopback.fill_to(filler, 0.9)
        fill(filler, inodes=inodes)
        # Of its own reserve ext4 gives directories blocks when nothing else is left.
        if inodes or fs == "xfs":
            with pytest.raises(OSError, match="No space left"):
                (world.tree / "one").mkdir()
            facts = canary(root)
            assert facts.no_room, facts
        assert outcomes_of(world.removal().delete(0, 50)) == ["deleted"] * 50
        # What it used is ready for the next run, which is the first to need the reserve.
        assert (world.tree / NAME / "ready-0" / "taken").exists()
        fill(filler, inodes=inodes)
        assert give_back(root, NAME)
        assert canary(root).trouble is None
        assert outcomes_of(world.removal().delete(50, 150)) == ["deleted"] * 150
        assert world.there() == set()


def test_without_a_reserve_there_is_no_room_for_a_run(tmp_path):
    """What the reserve is for: the same without it."""
    with mounted(tmp_path, "ext4", files=20, **SMALL) as world:
        fill(filler_of(world), inodes=True)
        with pytest.raises(OSError, match="No space left"):
            world.removal().delete(0, 20)
