"""Collects the facts about a root for the guards of a run, and checks exempt paths.

Failures are facts too. No links are followed: a link in the root's path, or in place of a file that
must be root's, is a fault. The root is accessed from this process, so a run hangs when its file
system does, and may be killed at any moment. File systems are identified with system calls that
Python lacks.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import stat
import struct
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from trimtab.base.error import Message, RefusedError, TrimtabError, visible
from trimtab.base.filesystem import Mount, find_mount, parse_mountinfo
from trimtab.base.interruption import shielded
from trimtab.base.trusted_file import opened, trusted_directory
from trimtab.purge.fullness import Usage
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.purge_policy import Exemption, Policy
from trimtab.purge.run.situation import (
    SWITCH_UNREADABLE,
    SWITCH_WITHOUT_DIRECTORY,
    AllowList,
    CanaryFacts,
    RootFacts,
)
from trimtab.reach.touch import open_directory

_GET_FS_UUID: Final = 0x80111500
"""``FS_IOC_GETFSUUID`` (Linux 6.9): a length, and up to 16 bytes."""
_XFS_GEOMETRY: Final = 0x80705864
"""``XFS_IOC_FSGEOMETRY_V1``: 112 bytes, UUID at offset 64; on all kernels."""
_AT_EMPTY_PATH: Final = 0x1000
_STATX_MNT_ID_UNIQUE: Final = 0x4000
_STATX_BIRTH: Final = 0x800
_STATX_BYTES: Final = 256
_BIRTH_AT: Final = 80
_MOUNT_AT: Final = 144
_LUSTRE_ROOT_INODE: Final = 0x200000007000001
"""Inode number of the FID ``[0x200000007:0x1:0x0]`` (``cl_fid_build_ino`` of ``lustre_fid.h``)."""


def meaningful_fsid(fsid: int, device: int) -> int | None:
    """Return ``f_fsid`` if it identifies the file system; otherwise ``None``.

    FUSE and NFS leave it 0. XFS, F2FS and FAT use the device number, which identifies the device
    but not the file system.
    """
    major, minor = os.major(device), os.minor(device)
    encoded = (minor & 0xFF) | (major << 8) | ((minor & ~0xFF) << 12)
    return None if fsid & 0xFFFFFFFF in (0, encoded & 0xFFFFFFFF) and not fsid >> 32 else fsid


def file_system_uuid(directory: int) -> str | None:
    """Return the UUID of an open directory's file system; ``None`` if it reports none."""
    for number, size, start in ((_GET_FS_UUID, 17, 1), (_XFS_GEOMETRY, 112, 64)):
        answer = bytearray(size)
        try:
            fcntl.ioctl(directory, number, answer)
        except OSError:
            continue
        value = bytes(answer[start : start + 16])
        if len(value) == 16 and any(value):
            return str(uuid.UUID(bytes=value))
    return None


def mount_number(directory: int) -> int | None:
    """Return the mount number in ``/proc/self/mountinfo`` of an open directory."""
    text = Path(f"/proc/self/fdinfo/{directory}").read_text("ascii")
    numbers = [line.split(":")[1] for line in text.splitlines() if line.startswith("mnt_id:")]
    return int(numbers[0]) if numbers else None


def mount_identity(directory: int) -> str | None:
    """Return the boot and mount of a directory; ``None`` if the kernel does not report them.

    Since Linux 6.8 mount numbers are unique within a boot; before, they are reused, so the device
    number is added.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
    unique = _unique_mount(directory)
    if unique is not None:
        return f"{boot} {unique}"
    number = mount_number(directory)
    return None if number is None else f"{boot} {number} {os.fstat(directory).st_dev}"


def lustre_made_ns(mount: Mount) -> int | None:
    """Return when the root of a mounted Lustre was created, in ns since 1970, if known.

    ``None`` also if only a part is mounted. The root has the same FID in every Lustre, hence the
    same inode number.
    """
    try:
        with opened(mount.mount_point, flags=os.O_RDONLY | os.O_DIRECTORY) as top:
            is_root = os.fstat(top).st_ino == _LUSTRE_ROOT_INODE
            answer = _statx(top, _STATX_BIRTH) if is_root else None
    except OSError:
        return None
    if answer is None:
        return None
    seconds, nanoseconds = struct.unpack_from("=qI", answer, _BIRTH_AT)
    return seconds * 10**9 + nanoseconds or None


def _unique_mount(directory: int) -> int | None:
    answer = _statx(directory, _STATX_MNT_ID_UNIQUE)
    return None if answer is None else struct.unpack_from("=Q", answer, _MOUNT_AT)[0]


def _statx(descriptor: int, wanted: int) -> bytes | None:
    """Return the result of ``statx``; ``None`` if the wanted field is missing."""
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        call = ctypes.CDLL(None, use_errno=True).statx
    except (AttributeError, OSError):
        return None
    if call(descriptor, b"", _AT_EMPTY_PATH, wanted, answer) != 0:
        return None
    (mask,) = struct.unpack_from("=I", answer.raw, 0)
    return answer.raw if mask & wanted else None


CANARY_PREFIX: Final = ".trimtab-canary-"
_CANARY: Final = re.compile(rf"{re.escape(CANARY_PREFIX)}[0-9a-f]{{16}}")
_KILLED_AFTER_S: Final = 600.0
"""Age of a leftover canary, in seconds.

A canary exists for milliseconds unless the file system hangs.
"""
_NOBODY: Final = 65534
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ATIME_WORDS: Final = ("noatime", "relatime", "strictatime", "nodiratime", "lazytime")
_LIST_MAX_BYTES: Final = 1 << 20
_JOURNAL_FREE_MIN_BYTES: Final = 64 * 1024**2
"""The journal of a plan of 10^7 files takes about 10 MB."""


def allow_list(path: Path, *, owner: int = 0) -> AllowList:
    """Return the roots in the allow-list: one absolute path per line, ``#`` for comments.

    The file and every directory above it must belong to root and be writable only by root; others
    may read it.
    """
    shown = visible(path)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with trusted_directory(path.parent, "the allow-list", owner=owner) as held:
            file = os.open(path.name, flags, dir_fd=held)
            with os.fdopen(file, "rb") as stream:
                state = os.fstat(file)
                text = stream.read(_LIST_MAX_BYTES + 1) if stat.S_ISREG(state.st_mode) else b""
    except TrimtabError as error:
        return AllowList(error.message)
    except OSError as error:
        return AllowList(f"the allow-list {shown} cannot be read: {error.strerror}")
    if not stat.S_ISREG(state.st_mode) or state.st_uid != owner or state.st_mode & 0o022:
        return AllowList(f"the allow-list {shown} is not a file that only user {owner} can write")
    if len(text) > _LIST_MAX_BYTES:
        return AllowList(f"the allow-list {shown} is too large")
    lines = (line.strip() for line in text.split(b"\n"))
    return AllowList(None, frozenset(line for line in lines if line and not line.startswith(b"#")))


def kill_switch(path: Path) -> Message | None:
    """Return why a run must stop; ``None`` if the switch is not pulled.

    A switch that cannot be checked counts as pulled, and so does a missing directory, in which
    no one could pull it.
    """
    shown = visible(path)
    try:
        path.parent.stat()
        path.lstat()
    except FileNotFoundError as error:
        if error.filename == os.fspath(path):
            return None
        missing = visible(path.parent)
        return Message(
            SWITCH_WITHOUT_DIRECTORY,
            f"the kill switch's directory {missing} is missing: the switch could not be pulled",
        )
    except OSError as error:
        text = f"the kill switch {shown} cannot be checked: {error.strerror}"
        return Message(SWITCH_UNREADABLE, text)
    return Message("switch-pulled", f"the kill switch {shown} is pulled")


def root_facts(
    root: str, *, mountinfo: str | None = None, keep: Callable[[int], None] | None = None
) -> RootFacts:
    """Return the facts about the root's path.

    Parameters
    ----------
    mountinfo
        Text of ``/proc/self/mountinfo``; read if ``None``.
    keep
        Receives the descriptor to which the facts apply, and must close it. Later operations
        beneath the root use it instead of the path, which may lead elsewhere by then.
    """
    shown = visible(root)
    if not root.startswith("/") or os.path.realpath(root) != root:
        return RootFacts(f"{shown} is not an absolute path without links")
    try:
        with contextlib.ExitStack() as stack:
            directory = os.open(root, _DIRECTORY)
            stack.callback(os.close, directory)
            facts = _facts(root, directory, mountinfo)
            if keep is not None and facts.trouble is None:
                stack.pop_all()
                keep(directory)
            return facts
    except OSError as error:
        return RootFacts(f"{shown} cannot be opened as a directory: {error.strerror}")


def _facts(root: str, directory: int, mountinfo: str | None) -> RootFacts:
    state, system, number = os.fstat(directory), os.statvfs(directory), mount_number(directory)
    text = mountinfo or Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    device = f"{os.major(state.st_dev)}:{os.minor(state.st_dev)}"
    mounts = parse_mountinfo(text)
    mount = find_mount(mounts, root, device)
    if mountinfo is None:
        # The mount of the descriptor; the path may lead elsewhere by the time the table is read.
        mount = next((line for line in mounts if line.mount_id == number), mount)
    if mount is None:
        return RootFacts(f"the mount table has no mount for {visible(root)}")
    return RootFacts(
        None,
        FileSystemIdentity(
            mount.fs_type,
            _name(mount),
            meaningful_fsid(system.f_fsid, state.st_dev),
            state.st_dev,
            file_system_uuid(directory),
            mount_identity(directory),
            made_ns=lustre_made_ns(mount) if mount.fs_type == "lustre" else None,
            root_inode=state.st_ino,
            root_path=_path_within(mount, root),
        ),
        read_only=mount.read_only,
        atime_settings=atime_settings(mount),
    )


def atime_settings(mount: Mount) -> dict[str, str]:
    """Return the mount's settings for recording reads."""
    words = [word for word in _ATIME_WORDS if word in mount.all_options]
    return {"mount options": " ".join(words) or "strictatime"}


def usage(root: str | int) -> Usage:
    """Return the usage of the file system of a root or its descriptor, as in ``df``."""
    system = os.statvfs(root)
    used = system.f_blocks - system.f_bfree
    return Usage(used * system.f_frsize, system.f_bavail * system.f_frsize)


def keeps_deleted(root: RootFacts) -> str | None:
    """Return why the file system of a root keeps the space of deleted files.

    ``None`` if it does not.

    Snapshots and shared extents are not checked: they show when usage does not fall.
    """
    if root.file_system is not None and root.file_system.kind in ("overlay", "overlayfs"):
        return "the root is an overlay: files deleted in lower layers stay on their disk"
    return None


def journal_trouble(directory: Path, root: str) -> str | None:
    """Return why a directory is unsuitable for journals; ``None`` if it is suitable."""
    shown = visible(directory)
    try:
        top = Path(root).stat()
        place = Path(os.path.realpath(directory))
        for above in (place, *place.parents):
            if above.exists() and os.path.samestat(above.stat(), top):
                return f"the journals' directory {shown} is beneath the purged root"
        while not place.exists():
            place = place.parent
        system = os.statvfs(place)
    except OSError as error:
        return f"the journals' directory {shown} cannot be accessed: {error.strerror}"
    if system.f_bavail * system.f_frsize < _JOURNAL_FREE_MIN_BYTES:
        return f"no space for a journal in {shown}"
    return None


def canary(root: str | int, *, clock: Callable[[], float] = time.time) -> CanaryFacts:
    """Create a file of another user in that user's directory, remove both, and return the result.

    A squashed root cannot chown a file, and a process without root rights cannot enter the
    directory: in both cases all deletions would fail, or worse, some of them.

    Notes
    -----
    The file's time is the server's on NFS and this host's on a local file system. A Lustre client
    sends its own, so the servers' clocks must be read separately.
    """
    name = f"{CANARY_PREFIX}{secrets.token_hex(8)}"
    before_s = clock()
    try:
        # A signal between creation and removal would leave it behind, and look like a missing
        # right.
        with shielded():
            at_s = _fly(root, name)
            _remove_killed(root, at_s)
    except OSError as error:
        return CanaryFacts(
            f"a canary file of another user failed: {error.strerror}",
            no_room=error.errno in (errno.ENOSPC, errno.EDQUOT),
        )
    except _Canary as error:
        return CanaryFacts(str(error))
    return CanaryFacts(None, at_s, before_s, clock())


class _Canary(Exception):
    """A fault of the canary."""


def _fly(root: str | int, name: str) -> float:
    with opened(root) as top:
        os.mkdir(name, 0o700, dir_fd=top)
        try:
            with opened(name, top) as cage:
                os.fchown(cage, _NOBODY, _NOBODY)
                return _live(cage, os.fstat(top).st_dev)
        finally:
            os.rmdir(name, dir_fd=top)


def _remove_killed(root: str | int, now_s: float) -> None:
    """Remove old, empty canaries of killed processes.

    If their directory has anything else, its owner put it there, and it stays.
    """
    with os.scandir(root) as entries:
        names = [entry.name for entry in entries if _CANARY.fullmatch(entry.name)]
    with opened(root) as top:
        for name in names:
            with contextlib.suppress(OSError):
                _remove_cage(top, name, now_s)


def _remove_cage(top: int, name: str, now_s: float) -> None:
    with opened(name, top) as cage:
        state = os.fstat(cage)
        if state.st_uid not in (0, _NOBODY) or now_s - state.st_mtime < _KILLED_AFTER_S:
            return
        if os.listdir(cage) == ["canary"]:  # noqa: PTH208 (a descriptor has no path)
            inside = os.stat("canary", dir_fd=cage, follow_symlinks=False)
            if not stat.S_ISREG(inside.st_mode) or inside.st_size or inside.st_nlink != 1:
                return
            os.unlink("canary", dir_fd=cage)
    os.rmdir(name, dir_fd=top)


def _live(cage: int, device: int) -> float:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with opened("canary", cage, flags) as file:
        try:
            os.fchown(file, _NOBODY, _NOBODY)
            os.utime(file)
            state = os.fstat(file)
        finally:
            os.unlink("canary", dir_fd=cage)
    if state.st_uid != _NOBODY:
        raise _Canary("a canary file could not be given to another user: root is squashed")
    if state.st_dev != device:
        raise _Canary("a directory beneath the root is on another file system than the root")
    if os.listdir(cage):
        raise _Canary("a canary file still exists after its removal")
    return state.st_mtime_ns / 1e9


def _path_within(mount: Mount, root: str) -> str:
    """Return the path of a root from the top of its file system, whichever part is mounted."""
    beneath = os.path.relpath(root, mount.mount_point)
    return visible(os.path.normpath(f"/{mount.root}/{beneath}").replace("//", "/"))


def _name(mount: Mount) -> str:
    """Return the name of a file system; for Lustre without the servers, which may change."""
    if mount.fs_type != "lustre":
        return mount.source
    return mount.source.rpartition(":/")[2].partition("/")[0]


PathKind = Literal["directory", "file", "link", "missing"]


@dataclass(frozen=True, slots=True)
class FoundPath:
    """The entry that a name in a directory resolves to.

    Attributes
    ----------
    kind
        Links are not followed; anything below a file is ``missing``.
    listed
        The name that the directory lists, if it differs in bytes because of case folding or Unicode
        normalisation. Empty if it is not listed at all, as with ``.zfs``.
    """

    kind: PathKind
    listed: bytes | None = None


Look = Callable[[bytes, Collection[bytes]], Mapping[bytes, FoundPath]]
"""Resolves names in a directory that is given relative to the root."""

_SHOWN: Final = 5
_UNLISTED: Final = "exempt-path-unlisted"


def path_troubles(
    policy: Policy, look: Look, *, now_s: int, planned: Policy | None = None
) -> Iterator[Message]:
    """Yield why exempt paths in force protect less than they state.

    Parameters
    ----------
    look
        Called for every directory on the way, from the root down.
    now_s
        Seconds since 1970.
    planned
        Policy of the plan being carried out: its exempt paths existed then, and may be gone now.
    """
    exempt = [
        (exemption, exemption.value.split(b"/"))
        for exemption in policy.exemptions
        if exemption.is_in_force(now_s) and isinstance(exemption.value, bytes) and exemption.value
    ]
    names = defaultdict[bytes, set[bytes]](set)
    for _, parts in exempt:
        for count, part in enumerate(parts):
            names[b"/".join(parts[:count])].add(part)
    looked = cache(lambda directory: look(directory, names[directory]))
    may_be_gone = set() if planned is None else planned.exempt_paths(now_s)
    for exemption, parts in exempt:
        trouble = _trouble(exemption, parts, looked, policy.root)
        unlisted = trouble is not None and trouble.code == _UNLISTED
        if trouble is not None and (unlisted or exemption.value not in may_be_gone):
            yield trouble


def require_exempt_paths(
    policy: Policy, look: Look, *, now_s: int, planned: Policy | None = None
) -> None:
    """Refuse to continue if an exempt path in force is missing or not listed under its name.

    A missing path protects nothing. A scan never follows links, so an index has one path per file,
    made of the names that directories list. An exemption that leads through a link, or that the
    kernel resolves in another case or Unicode form, matches no such path, and the files it points
    to would be deleted.

    Raises
    ------
    RefusedError
        With all such paths.
    """
    troubles = list(path_troubles(policy, look, now_s=now_s, planned=planned))
    if troubles:
        raise RefusedError(
            "; ".join(first_troubles(troubles)),
            code=troubles[0].code,
            hint="write the path as the scan lists it, or remove the exemption",
        )


def first_troubles(troubles: Sequence[str]) -> tuple[str, ...]:
    """Return the first few troubles and the number of the others, for a message."""
    more = len(troubles) - _SHOWN
    return (*troubles[:_SHOWN], f"and {more} more") if more > 0 else tuple(troubles)


def look_beneath(root: str | os.PathLike[str]) -> Look:
    """Return a `Look` for names beneath a root; it follows no links.

    It accesses the file system, which may hang. A directory is listed until all names are found,
    because no other portable way shows how a file system compares names (ext4 decides per
    directory, XFS and ZFS at creation, CIFS and FUSE by their server).
    """
    top = os.fsencode(root)

    def look(directory: bytes, names: Collection[bytes]) -> dict[bytes, FoundPath]:
        above = os.path.join(top, directory)  # noqa: PTH118 (bytes)
        states = {name: state for name in names if (state := _state(above, name)) is not None}
        unlisted = _unlisted(above, {name: state.st_ino for name, state in states.items()})
        return {name: FoundPath(_kind(states.get(name)), unlisted.get(name)) for name in names}

    return look


def _state(directory: bytes, name: bytes) -> os.stat_result | None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return os.lstat(os.path.join(directory, name))  # noqa: PTH118 (bytes)
    return None


def _kind(state: os.stat_result | None) -> PathKind:
    if state is None:
        return "missing"
    if stat.S_ISLNK(state.st_mode):
        return "link"
    return "directory" if stat.S_ISDIR(state.st_mode) else "file"


def _unlisted(directory: bytes, inodes: Mapping[bytes, int]) -> dict[bytes, bytes]:
    """Return the names that a directory does not list, each with the name it lists instead."""
    left, others = dict(inodes), dict[int, bytes]()
    if left:
        descriptor = open_directory(directory)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    name = os.fsencode(entry.name)
                    left.pop(name, None)
                    if not left:
                        break
                    if entry.inode() in left.values():
                        others[entry.inode()] = name
        finally:
            os.close(descriptor)
    return {name: others.get(inode, b"") for name, inode in left.items()}


def _trouble(
    exemption: Exemption,
    parts: Sequence[bytes],
    look: Callable[[bytes], Mapping[bytes, FoundPath]],
    root: str,
) -> Message | None:
    for count, name in enumerate(parts):
        entry = look(b"/".join(parts[:count]))[name]
        shown = visible(b"/".join(parts[: count + 1]))
        if entry.kind == "missing":
            text = f"exempt {exemption.shown} does not exist: nothing is exempt"
            return Message("exempt-path-missing", text)
        if entry.listed is not None:
            return Message(_UNLISTED, _as_listed(exemption, parts, count, entry.listed, root))
        if entry.kind == "link":
            return Message(
                "exempt-path-link",
                f"exempt {exemption.shown} leads through the link {shown}: nothing is exempt",
            )
    return None


def _as_listed(
    exemption: Exemption, parts: Sequence[bytes], place: int, listed: bytes, root: str
) -> str:
    """Return the message that a directory lists another name, and what to write instead.

    Non-ASCII names are given in bytes, because two forms of one letter look the same.
    """
    here, name = visible(parts[place]), visible(listed)
    if not listed:
        return (
            f"exempt {exemption.shown} is in no scan, because its directory does not list {here}: "
            "nothing is exempt"
        )
    if not listed.isascii():
        path = b"/".join([os.fsencode(root), *parts[:place], listed, *parts[place + 1 :]])
        return (
            f"exempt {exemption.shown} exempts nothing, because the directory lists {here} with "
            f'other bytes: write path_hex = "{path.hex()}"'
        )
    return (
        f"exempt {exemption.shown} exempts nothing, because the directory lists {here} as {name}: "
        f"write {name}"
    )
