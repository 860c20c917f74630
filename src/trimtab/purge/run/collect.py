"""The facts of this machine that guards judge. Whatever goes wrong here is a fact too.

Nothing is followed on the way: a link at the root's path, or in place of a file that has to be
root's, is a trouble and not a way. The root itself is touched in this process: a run hangs where
its file system does, and may be killed there at any moment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trimtab.errors import TrimtabError
from trimtab.launch.interruption import shielded
from trimtab.message import Message
from trimtab.model.mounts import Mount, find_mount, parse_mountinfo
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.run.identity import (
    file_system_uuid,
    lustre_made_ns,
    meaningful_fsid,
    mount_identity,
    mount_number,
)
from trimtab.purge.run.situation import (
    SWITCH_UNREADABLE,
    SWITCH_WITHOUT_DIRECTORY,
    AllowList,
    CanaryFacts,
    RootFacts,
)
from trimtab.record.trusted import opened, trusted_directory
from trimtab.visible import visible

CANARY_PREFIX: Final = ".trimtab-canary-"
_CANARY: Final = re.compile(rf"{re.escape(CANARY_PREFIX)}[0-9a-f]{{16}}")
_KILLED_AFTER_S: Final = 600.0
"""A canary lives for milliseconds, on a file system that hangs for as long as that."""
_NOBODY: Final = 65534
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ATIME_WORDS: Final = ("noatime", "relatime", "strictatime", "nodiratime", "lazytime")
_LIST_MAX_BYTES: Final = 1 << 20
_JOURNAL_FREE_MIN_BYTES: Final = 64 * 1024**2
"""A plan of 10^7 files is journalled in about 10 MB."""


def allow_list(path: Path, *, owner: int = 0) -> AllowList:
    """Return the roots that a file allows to be purged: one absolute path a line, ``#`` for words.

    The file and every directory above it have to be root's and closed to others' writing; others
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
    """Return why a run has to stop; ``None``: nobody pulled the switch.

    A switch that cannot be asked for counts as pulled, also where its directory is missing:
    nobody could pull it then.
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
            f"the directory {missing} of the kill switch is not there: nobody could pull it",
        )
    except OSError as error:
        text = f"the kill switch {shown} cannot be asked for: {error.strerror}"
        return Message(SWITCH_UNREADABLE, text)
    return Message("switch-pulled", f"the kill switch {shown} is pulled")


def root_facts(
    root: str, *, mountinfo: str | None = None, keep: Callable[[int], None] | None = None
) -> RootFacts:
    """Return what is at the root's path now.

    Parameters
    ----------
    mountinfo
        The text of ``/proc/self/mountinfo``, which is read where it is not given.
    keep
        Handed the descriptor that the facts are of, and closes it: what is done beneath the root
        after a look at it is done by that and not by the path, which may lead elsewhere by then.
    """
    shown = visible(root)
    if not root.startswith("/") or os.path.realpath(root) != root:
        return RootFacts(f"{shown} is no absolute path without links")
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
        # What the descriptor is on, not what the path leads to by the time the table is read.
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
    """Return how reads are recorded through a mount."""
    words = [word for word in _ATIME_WORDS if word in mount.all_options]
    return {"mount options": " ".join(words) or "strictatime"}


def usage(root: str | int) -> Usage:
    """Return how full the file system of a root, or of its descriptor, is, as ``df`` counts."""
    system = os.statvfs(root)
    used = system.f_blocks - system.f_bfree
    return Usage(used * system.f_frsize, system.f_bavail * system.f_frsize)


def keeps_deleted(root: RootFacts) -> str | None:
    """Return what on the file system of a root keeps the space of deleted files; ``None``: nothing.

    Snapshots and shared extents are not among it: they show when use does not fall.
    """
    if root.file_system is not None and root.file_system.kind in ("overlay", "overlayfs"):
        return "the root is an overlay: what is deleted of its lower layers stays on their disk"
    return None


def journal_trouble(directory: Path, root: str) -> str | None:
    """Return why a directory is no place for journals; ``None``: it is one."""
    shown = visible(directory)
    try:
        top = Path(root).stat()
        place = Path(os.path.realpath(directory))
        for above in (place, *place.parents):
            if above.exists() and os.path.samestat(above.stat(), top):
                return f"the journals' directory {shown} lies beneath the root that is purged"
        while not place.exists():
            place = place.parent
        system = os.statvfs(place)
    except OSError as error:
        return f"the journals' directory {shown} cannot be looked at: {error.strerror}"
    if system.f_bavail * system.f_frsize < _JOURNAL_FREE_MIN_BYTES:
        return f"there is no room for a journal in {shown}"
    return None


def canary(root: str | int, *, clock: Callable[[], float] = time.time) -> CanaryFacts:
    """Make a file of another user in a directory of that user's, remove both, and say how it went.

    A squashed root cannot give a file away, a process without its rights cannot enter the
    directory: either way every deletion would fail, or worse, some would.

    Notes
    -----
    The time of the file is the server's on NFS and this host's on a local file system. A Lustre
    client sends its own: there the servers' clocks have to be asked for by themselves.
    """
    name = f"{CANARY_PREFIX}{secrets.token_hex(8)}"
    before_s = clock()
    try:
        # A signal between making and removing would leave it behind, and look like a missing right.
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
    """What was wrong with it."""


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
    """Remove canaries whose process was killed: empty, in directories of theirs, and not of now.

    Nothing else can be in such a directory but by its owner's hand; then it stays.
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
        raise _Canary("a canary file could not be given to another user: root is squashed here")
    if state.st_dev != device:
        raise _Canary("a directory beneath the root is on another file system than the root")
    if os.listdir(cage):
        raise _Canary("a canary file was removed and is still there")
    return state.st_mtime_ns / 1e9


def _path_within(mount: Mount, root: str) -> str:
    """Return the path of a root from the top of its file system, whatever of it is mounted."""
    beneath = os.path.relpath(root, mount.mount_point)
    return visible(os.path.normpath(f"/{mount.root}/{beneath}").replace("//", "/"))


def _name(mount: Mount) -> str:
    """Return the name of a file system; of Lustre without the servers, which may change."""
    if mount.fs_type != "lustre":
        return mount.source
    return mount.source.rpartition(":/")[2].partition("/")[0]
